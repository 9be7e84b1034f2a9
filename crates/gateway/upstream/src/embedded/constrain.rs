//! What a call wants of its answer's shape, as a grammar.

use tapri_api::{ApiError, Origin, OutputFormat};
use tapri_engine::{Constraint, ConstraintError, Engine, Grammar, JsonShape};

/// The grammar of an answer's text; `None` for any text.
pub(super) fn output(format: &OutputFormat) -> Option<Grammar> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(Grammar::Json(JsonShape::object().into_schema())),
        OutputFormat::JsonSchema(schema) => Some(Grammar::Json(schema.clone())),
    }
}

/// The request's field that asks for a shape.
pub(super) fn output_field(origin: &Origin) -> &'static str {
    match &*origin.route {
        "/v1/responses" => "text.format",
        "/v1/messages" => "output_config.format",
        _ => "response_format",
    }
}

/// Compiles a grammar that came from the request's `field`.
pub(super) fn compile(
    engine: &Engine,
    grammar: &Grammar,
    field: &str,
) -> Result<Constraint, ApiError> {
    engine.constrain(grammar).map_err(|error| refusal(&error, field))
}

pub(super) fn refusal(error: &ConstraintError, field: &str) -> ApiError {
    let refused = |message: String| ApiError::invalid(field, message);
    match error {
        ConstraintError::Keyword { keyword, path } => refused(format!(
            "The schema in `{field}` has the keyword `{keyword}` at {path}, which this model's answers can't be held to"
        ))
        .code("unsupported_schema")
        .hint("Leave the keyword out, and check the answer for what it says"),
        ConstraintError::Unsatisfiable(reason) => {
            refused(format!("Nothing can match the schema in `{field}`: {reason}"))
                .code("unsatisfiable_schema")
        }
        ConstraintError::NoEnd => {
            refused(format!("`{field}` can't be kept to: {error}")).code("unsupported_field")
        }
        other => refused(format!("The schema in `{field}` can't be used: {other}"))
            .code("invalid_schema"),
    }
}
