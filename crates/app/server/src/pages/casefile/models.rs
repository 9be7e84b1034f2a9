//! The models that questions may be answered by.

use std::sync::Arc;

use tapri_api::{ApiError, TemplateUse};
use tapri_casefile::Layout;
use tapri_pipeline::ModelCard;

use crate::routes::App;
use crate::tenants::caller::Caller;

/// The models that a tenant's questions may be answered by: those that answer, and not the sentence encoder.
pub(super) fn models(app: &App, caller: &Caller) -> Vec<Arc<ModelCard>> {
    let is_encoder = |card: &ModelCard| card.upstream == "embedded" && card.vocabulary.is_none();
    let mut models = app.pipeline().models();
    models.retain(|card| !is_encoder(card) && caller.may_use(&card.id));
    models
}

/// The model that answers: the case's own, else the first that the tenant may use.
pub(super) fn model(
    app: &App,
    caller: &Caller,
    chosen: Option<&str>,
) -> Result<Arc<ModelCard>, ApiError> {
    if let Some(name) = chosen {
        return app.pipeline().model(Some(name));
    }
    models(app, caller).into_iter().next().ok_or_else(|| {
        ApiError::new(tapri_api::ErrorKind::NotFound, "No model can be asked here")
            .hint("Have the operator allow this tenant a route to one")
    })
}

/// A model without a chat template was not tuned to answer: it gets plain text.
pub(super) fn layout(card: &ModelCard) -> Layout {
    match card.template {
        Some(TemplateUse::ChatMlFallback) => Layout::Completion,
        Some(TemplateUse::Own) | None => Layout::Chat,
    }
}
