//! `/v1/models`.

use std::time::UNIX_EPOCH;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use tapri_api::openai::model::{ModelObject, render_list};
use tapri_pipeline::ModelCard;

use super::App;
use crate::reply;

/// `GET /v1/models`: each model under its name, and under each of its other names.
pub(super) async fn list(State(app): State<App>) -> Response<Body> {
    let models: Vec<ModelObject> = app
        .pipeline()
        .models()
        .into_iter()
        .flat_map(|card| {
            std::iter::once(&card.id)
                .chain(&card.aliases)
                .map(|name| object(&card, name))
                .collect::<Vec<_>>()
        })
        .collect();
    reply::json(render_list(&models))
}

/// `GET /v1/models/{id}`; an id may hold slashes.
pub(super) async fn one(State(app): State<App>, Path(id): Path<String>) -> Response<Body> {
    let result =
        app.pipeline().model(Some(&id)).map(|card| reply::json(object(&card, &id).render()));
    app.respond(result)
}

fn object(card: &ModelCard, name: &str) -> ModelObject {
    let created = card.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    ModelObject::new(name, created, card.context)
}
