//! `/cache/pins` and `/cache/reset`: what a tenant keeps warm, and forgetting what it has cached.
//!
//! A pin is a start that stays in the KV memory: the body of a chat completion or a completion, without its answer.
//! Each tenant sees and changes its own pins alone.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Response};
use serde_json::{Value, json};
use tapri_api::{ApiError, Call, ErrorKind, Format, Inbound, Origin};
use tapri_casefile::layout::{Layout, Parts};
use tapri_pipeline::{Pin, Pinned, no_pins};

use super::App;
use super::generate::{affecting, cache_directives};
use crate::config::{Start, StartPin};
use crate::tenants::caller::Caller;
use crate::tenants::limits::Size;
use crate::{body, reply};

/// What the names of pins begin with.
pub const PREFIX: &str = "pin_";

const PATH: &str = "/cache/pins";

/// `POST /cache/pins`: computes what isn't there of a start, and pins it.
pub(super) async fn pin(State(app): State<App>, request: Request) -> Response<Body> {
    let result = make(&app, request).await;
    app.respond(result)
}

async fn make(app: &App, request: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let caller = Caller::of(&parts.extensions)?;
    let bytes = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
    let size = Size { body: bytes.len(), answer: Some(0) };
    let call = call(bytes, &parts.headers, &caller)?;
    let model = app.pipeline().model_on(call.model.as_deref(), &call.origin.route)?;
    let mut entry = caller.enter(size)?;
    entry.admitted();
    let Pinned { pin, prompt, cached } =
        app.pipeline().pin(call).await.map_err(|error| caller.may_see(error))?;
    entry.finished(prompt as u64);
    let mut shown = show(&pin, caller.name());
    let hide = app.hides_hits(&caller);
    if let Some(fields) = shown.as_object_mut() {
        fields.insert("model".into(), model.id.clone().into());
        fields.insert("prompt_tokens".into(), prompt.into());
        if !hide {
            fields.insert("cached_tokens".into(), cached.into());
        }
    }
    tracing::info!(tokens = pin.tokens, blocks = pin.blocks, "pinned");
    Ok(reply::json(shown.to_string()))
}

/// The call that a body asks for. What it says of an answer is read by whoever pins, and left.
pub(crate) fn call(
    bytes: axum::body::Bytes,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<Call, ApiError> {
    let format = format(&bytes)?;
    let inbound = Inbound::read(format, bytes, affecting(headers))?;
    let mut origin = Origin::of(PATH);
    origin.tenant = caller.name().to_owned().into();
    if let Some(route) = caller.route(headers, inbound.model.as_deref())? {
        origin.route = route.name.clone().into();
    }
    let inbound = Arc::new(inbound);
    let mut call = Call::request(Arc::clone(&inbound));
    call.salt = inbound.salt()?;
    call.origin = origin;
    call.cache = cache_directives(headers);
    caller.sign(&mut call);
    Ok(call)
}

/// Pins what is to be pinned from the start on, one after another. What can't be is said in the log, and the server serves.
pub(crate) async fn at_start(app: App, pins: Vec<StartPin>) {
    for StartPin { name, tenant, start } in pins {
        let caller = match &tenant {
            Some(tenant) => Caller::named(app.tenants(), tenant),
            None => Caller::only(app.tenants()),
        };
        let result = async {
            let caller = caller.ok_or_else(|| {
                ApiError::new(ErrorKind::NotFound, "Its tenant is not configured")
            })?;
            let call = match start {
                Start::Body(bytes) => call(bytes, &HeaderMap::new(), &caller)?,
                Start::Document(document) => {
                    let layout = Layout::of(app.pipeline().model(None)?.template);
                    let (file, instructions) = (document.text(), layout.instructions());
                    let parts = Parts { instructions, file, ..Parts::default() };
                    let mut call = Call::new(layout.prompt(&parts));
                    call.origin = Origin::of(PATH);
                    caller.sign(&mut call);
                    call
                }
            };
            app.pipeline().pin(call).await
        };
        match result.await {
            Ok(Pinned { pin, .. }) => {
                tracing::info!(tokens = pin.tokens, blocks = pin.blocks, "{name} is pinned");
            }
            Err(error) => tracing::warn!("{name} is not pinned: {}", error.message),
        }
    }
}

/// A conversation has messages; everything else is a text or token ids.
fn format(bytes: &[u8]) -> Result<Format, ApiError> {
    let fields = tapri_api::openai::fields::parse(bytes)?;
    Ok(match (fields.get("messages"), fields.get("prompt")) {
        (Some(_), _) => Format::Chat,
        (None, Some(_)) => Format::Completion,
        (None, None) => {
            return Err(ApiError::new(ErrorKind::Invalid, "The body names no start to pin")
                .code("missing_field")
                .hint(
                    "Give `messages` as to /v1/chat/completions, or `prompt` as to /v1/completions",
                ));
        }
    })
}

/// `GET /cache/pins`.
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response<Body> {
    let result = async {
        let pins = app.pipeline().pins(caller.whose()).await?.ok_or_else(no_pins)?;
        let data: Vec<Value> = pins.pins.iter().map(|pin| show(pin, caller.name())).collect();
        let list = json!({ "object": "list", "data": data, "limit_bytes": pins.limit_bytes });
        Ok(reply::json(list.to_string()))
    };
    let result = result.await;
    app.respond(result)
}

/// `DELETE /cache/pins/{id}`: its blocks stay cached as any call's, and go when room is needed.
pub(super) async fn unpin(
    State(app): State<App>,
    Path(name): Path<String>,
    Extension(caller): Extension<Caller>,
) -> Response<Body> {
    let result = async {
        let id = name.strip_prefix(PREFIX).and_then(|id| id.parse().ok());
        let gone = match id {
            Some(id) => app.pipeline().unpin(caller.whose(), id).await?,
            None => false,
        };
        if !gone {
            let shown: String = name.chars().take(40).collect();
            return Err(ApiError::new(ErrorKind::NotFound, format!("You have no pin `{shown}`"))
                .code("pin_not_found")
                .hint("GET /cache/pins lists yours"));
        }
        Ok(reply::json(json!({ "id": name, "object": "pin", "deleted": true }).to_string()))
    };
    let result = result.await;
    app.respond(result)
}

/// `POST /cache/reset`: forgets what the prefix cache holds of the caller's tenant, its pins included. Stored answers are
/// erased by the operator.
pub(super) async fn reset(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response<Body> {
    let result = async {
        let erased = app.pipeline().reset(caller.whose()).await?;
        let erased = erased.ok_or_else(|| {
            ApiError::new(ErrorKind::Invalid, "What answers here has no prefix cache of its own")
                .code("unsupported")
        })?;
        let report = json!({
            "reset": true,
            "blocks_dropped": erased.dropped,
            "blocks_in_use": erased.in_use,
            "pins_dropped": erased.pins,
        });
        Ok(reply::json(report.to_string()))
    };
    let result = result.await;
    app.respond(result)
}

/// A pin's name, as people and programs see it.
pub(crate) fn name(id: u64) -> String {
    format!("{PREFIX}{id}")
}

fn show(pin: &Pin, tenant: &str) -> Value {
    json!({
        "id": name(pin.id),
        "object": "pin",
        "tenant": tenant,
        "tokens": pin.tokens,
        "blocks": pin.blocks,
        "bytes": pin.bytes,
    })
}
