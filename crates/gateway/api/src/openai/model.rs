//! Answers of `/v1/models`.

use serde::Serialize;

use super::wire::json;

/// A model as OpenAI lists it, with the context length under vLLM's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelObject {
    /// The name to ask for.
    pub id: String,
    /// Always `model`.
    object: &'static str,
    /// When it began to be served, in seconds of Unix time.
    pub created: u64,
    /// Always `tapri`.
    owned_by: &'static str,
    /// Tokens that prompt and answer may have together, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_len: Option<usize>,
}

impl ModelObject {
    /// A model.
    pub fn new(id: impl Into<String>, created: u64, max_model_len: Option<usize>) -> Self {
        ModelObject { id: id.into(), object: "model", created, owned_by: "tapri", max_model_len }
    }

    /// The answer of `/v1/models/{id}`.
    pub fn render(&self) -> String {
        json(self)
    }
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: &'a [ModelObject],
}

/// The answer of `/v1/models`.
pub fn render_list(models: &[ModelObject]) -> String {
    json(&List { object: "list", data: models })
}
