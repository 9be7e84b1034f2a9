//! `/tokenize` and `/detokenize`.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use tapri_api::ApiError;
use tapri_api::openai::tokenize::{self, TokenizeInput};

use super::App;
use crate::tenants::caller::Caller;
use crate::{body, reply};

/// `POST /tokenize`.
pub(super) async fn tokenize(State(app): State<App>, request: Request) -> Response<Body> {
    let result = tokens(&app, request).await;
    app.respond(result)
}

async fn tokens(app: &App, request: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
    let request = tokenize::parse(&body)?;
    let model = app.pipeline().model(request.model.as_deref())?;
    let caller = Caller::of(&parts.extensions)?;
    if let Some(answer) = app.pipeline().pass_on(caller.name(), "/tokenize", body).await? {
        return Ok(reply::json(answer));
    }
    let tokens = match request.input {
        TokenizeInput::Prompt(prompt) => app.pipeline().tokenize(prompt).await?,
        TokenizeInput::Piece(text) => app.pipeline().tokenize_piece(text).await?,
    };
    Ok(reply::json(tokenize::render(&tokens, model.context)))
}

/// `POST /detokenize`.
pub(super) async fn detokenize(State(app): State<App>, request: Request) -> Response<Body> {
    let result = text(&app, request).await;
    app.respond(result)
}

async fn text(app: &App, request: Request) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let body = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
    let request = tokenize::parse_detokenize(&body)?;
    app.pipeline().model(request.model.as_deref())?;
    let caller = Caller::of(&parts.extensions)?;
    if let Some(answer) = app.pipeline().pass_on(caller.name(), "/detokenize", body).await? {
        return Ok(reply::json(answer));
    }
    let text = app.pipeline().detokenize(request.input).await?;
    Ok(reply::json(tokenize::render_detokenized(&text)))
}
