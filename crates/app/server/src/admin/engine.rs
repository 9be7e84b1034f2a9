//! `/admin/engine`: which call of the embedded engine holds what. For a person who looks for a call that doesn't come
//! forward, or for memory that doesn't come back.

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};
use tapri_api::{ApiError, ErrorKind};
use tapri_pipeline::{BackendStats, Holding, Holdings};

use crate::reply;
use crate::routes::App;

/// `GET /admin/engine`. No text, no tokens, no scopes. The engine answers between two steps.
pub(super) async fn holdings(State(app): State<App>) -> Response<Body> {
    let pipeline = app.pipeline();
    let shown = pipeline.holdings().await.and_then(|shown| {
        shown.ok_or_else(|| {
            ApiError::new(ErrorKind::NotFound, "No engine runs in this process").code("no_engine")
        })
    });
    let stats = pipeline.stats().unwrap_or_default();
    app.respond(shown.map(|(held, tenants)| reply::json(body(&held, &tenants, &stats).to_string())))
}

fn body(held: &Holdings, tenants: &[String], stats: &BackendStats) -> Value {
    let of_state = |state| held.calls.iter().filter(|call| call.state == state).count();
    json!({
        "running": of_state("running"),
        "joining": of_state("joining"),
        "waiting": of_state("waiting"),
        "kv_blocks": {
            "total": stats.blocks_total,
            "in_use": held.blocks_in_use,
            "held": held.blocks_held,
            "pinned": stats.blocks_pinned,
            "leaked": held.blocks_leaked,
            "bytes_each": stats.block_bytes,
        },
        "calls_lost": held.calls_lost,
        "calls": held.calls.iter().map(|call| one(call, tenants)).collect::<Vec<_>>(),
    })
}

fn one(call: &Holding, tenants: &[String]) -> Value {
    json!({
        "id": call.id,
        "tenant": call.scope.and_then(|scope| tenants.get(scope)),
        "state": call.state,
        "age_seconds": call.age.as_secs_f64(),
        "prompt_tokens": call.prompt_tokens,
        "computed_tokens": call.computed,
        "answer_tokens": call.answer_tokens,
        "kv_blocks": call.blocks,
        "kv_blocks_alone": call.alone,
        "kv_blocks_promised": call.promised,
        "waits_for": call.waits_for,
        "preemptions": call.preemptions,
        "cancelled": call.cancelled,
    })
}
