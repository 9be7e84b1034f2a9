//! `/v1/models`.

use std::time::UNIX_EPOCH;

use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::{HeaderMap, Response};
use tapri_api::openai::model::{ModelObject, render_list};
use tapri_pipeline::ModelCard;

use super::App;
use crate::reply;
use crate::tenants::caller::Caller;

/// `GET /v1/models`: each model under its name, and under each of its other names, if the tenant may use it.
pub(super) async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Response<Body> {
    let models: Vec<ModelObject> = app
        .pipeline()
        .models()
        .into_iter()
        .flat_map(|card| {
            let names = std::iter::once(&card.id).chain(&card.aliases);
            let may_use = names.filter(|name| caller.may_use(name));
            may_use.map(|name| object(&card, name)).collect::<Vec<_>>()
        })
        .collect();
    reply::json(render_list(&models))
}

/// `GET /v1/models/{id}`; an id may hold slashes.
pub(super) async fn one(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Response<Body> {
    // One that it may not use reads like one that isn't there: both are not allowed.
    let allowed = caller.route(&HeaderMap::new(), Some(&id));
    let result = allowed
        .and_then(|_| app.pipeline().model(Some(&id)))
        .map(|card| reply::json(object(&card, &id).render()));
    app.respond(result)
}

fn object(card: &ModelCard, name: &str) -> ModelObject {
    let created = card.since.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    ModelObject::new(name, created, card.context)
}
