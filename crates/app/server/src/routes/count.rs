//! `/v1/messages/count_tokens`.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use tapri_api::{Call, CallId, Format, Inbound, Origin};

use super::{App, generate};
use crate::tenants::caller::Caller;
use crate::{body, reply};

/// `POST /v1/messages/count_tokens`: how many tokens a message's prompt has.
pub(super) async fn count_tokens(State(app): State<App>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let count = async {
        let caller = Caller::of(&parts.extensions)?;
        let bytes = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
        let headers = generate::affecting(&parts.headers);
        let mut inbound = Inbound::read(Format::Messages, bytes, headers)?;
        let route = caller.route(&parts.headers, inbound.model.as_deref())?;
        let mut origin = Origin::of("/v1/messages/count_tokens");
        origin.tenant = caller.name().to_owned().into();
        if let Some(route) = route {
            origin.route = route.name.clone().into();
        }
        app.pipeline().model_on(inbound.model.as_deref(), &origin.route)?;
        // A message must say how long its answer may be, and a question about its prompt needn't.
        inbound.body.entry("max_tokens").or_insert_with(|| 1.into());
        let mut call = Call::request(inbound.into());
        call.origin = origin;
        call.cache = generate::cache_directives(&parts.headers);
        caller.sign(&mut call);
        let tokens = app.pipeline().count_tokens(call).await?;
        Ok(reply::json(serde_json::json!({ "input_tokens": tokens }).to_string()))
    };
    let result = count.await;
    app.respond_in(Format::Messages, CallId::random(), result)
}
