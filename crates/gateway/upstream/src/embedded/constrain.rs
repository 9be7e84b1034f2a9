//! What a call wants of its answer's shape, as a grammar.

use tapri_api::{ApiError, Call, Format, OutputFormat, Prompt};
use tapri_engine::{Constraint, ConstraintError, Engine, Grammar, JsonShape};

/// The grammar of an answer's text; `None` for any text.
pub(super) fn output(format: &OutputFormat) -> Option<Grammar> {
    match format {
        OutputFormat::Text => None,
        OutputFormat::JsonObject => Some(Grammar::Json(JsonShape::object().into_schema())),
        OutputFormat::JsonSchema(schema) => Some(Grammar::Json(schema.clone())),
    }
}

/// What a call's request calls the fields that a grammar comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    /// The shape of the answer's text.
    pub(super) output: &'static str,
    /// The schema of a tool, behind the tool itself.
    pub(super) arguments: &'static str,
}

impl Names {
    /// Those of a call as it came; one that was made by hand speaks OpenAI's chat.
    pub(super) fn of(call: &Call) -> Self {
        let format = match &call.prompt {
            Prompt::Request(inbound) => inbound.format,
            _ => Format::Chat,
        };
        match format {
            Format::Responses => Names { output: "text.format", arguments: "parameters" },
            Format::Messages => Names { output: "output_config.format", arguments: "input_schema" },
            _ => Names { output: "response_format", arguments: "function.parameters" },
        }
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
