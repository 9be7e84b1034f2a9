//! How a model's calls look, and whether its template shows tools.

use serde_json::{Map, json};
use tapri_engine::{Engine, TokenId};
use tapri_text::{RenderInput, ZonedDateTime};

use super::{hermes, llama};

/// The form of calls in a model's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Hermes and Qwen.
    Hermes,
    /// Llama 3.
    Llama,
}

/// What a model's template and vocabulary say about tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// How it writes calls.
    pub(crate) form: Form,
    /// Whether its template shows tools; otherwise instructions do.
    pub(crate) native: bool,
    /// Markers that are control tokens, whose text an answer doesn't show.
    controls: Vec<(TokenId, &'static str)>,
}

/// What other forms of call between Hermes' markers hold; nothing here reads those.
const OTHER_FORMS: [&str; 3] = ["<function=", "<arg_key>", "<parameter="];

impl Dialect {
    /// Asks the template by showing it a tool.
    pub(crate) fn of(engine: &Engine) -> Self {
        let form = if shows_tools(engine) { form(engine) } else { None };
        let controls = [hermes::OPEN, hermes::CLOSE, llama::TAG]
            .into_iter()
            .filter_map(|marker| {
                let token = engine.tokenizer().token(marker)?;
                engine.tokenizer().is_control(token).then_some((token, marker))
            })
            .collect();
        Dialect { form: form.unwrap_or(Form::Hermes), native: form.is_some(), controls }
    }

    /// The text of a marker that is a control token.
    pub(crate) fn control(&self, token: TokenId) -> Option<&'static str> {
        self.controls.iter().find(|(id, _)| *id == token).map(|(_, marker)| *marker)
    }

    /// Whether a marker is a control token.
    pub(super) fn is_control(&self, marker: &str) -> bool {
        self.controls.iter().any(|(_, control)| *control == marker)
    }
}

/// A name that no template has.
const PROBE: &str = "tapri_probe_of_tools";

fn shows_tools(engine: &Engine) -> bool {
    let tool = json!({
        "type": "function",
        "function": { "name": PROBE, "description": "", "parameters": { "type": "object", "properties": {} } }
    });
    let rendered = engine.template().render(&RenderInput {
        messages: &[json!({ "role": "user", "content": "x" })],
        tools: &[tool],
        add_generation_prompt: true,
        now: &ZonedDateTime::now(),
        variables: &Map::new(),
    });
    rendered.is_ok_and(|rendered| rendered.text().contains(PROBE))
}

/// The form that a template which shows tools asks for; `None` for one that isn't known here.
fn form(engine: &Engine) -> Option<Form> {
    let source = engine.template().source();
    if OTHER_FORMS.iter().any(|mark| source.contains(mark)) {
        None
    } else if source.contains(hermes::OPEN) {
        Some(Form::Hermes)
    } else if source.contains("\"parameters\"") && engine.tokenizer().token(llama::TAG).is_some() {
        Some(Form::Llama)
    } else {
        None
    }
}
