//! Fields that change the answer and aren't supported. They are refused by name, unless they are set to what
//! they would be anyway; to drop them in silence would be to answer another question than was asked.
//!
//! Whatever is neither read nor listed here is ignored, as OpenAI does: `user`, `metadata`, `store`,
//! `service_tier`, `prompt_cache_key`, `safety_identifier`, `prediction`
//! and any field that doesn't exist.

use serde_json::Value;

use crate::ApiError;
use crate::openai::fields::Fields;

/// A field that is refused.
#[derive(Debug)]
pub struct Refused {
    /// Its name.
    pub name: &'static str,
    /// The value that changes nothing.
    pub harmless: Harmless,
    /// What to do instead.
    pub hint: &'static str,
}

/// The value of a field that changes nothing.
#[derive(Debug)]
pub enum Harmless {
    /// There is none, but for null.
    Nothing,
    /// A number.
    Number(f64),
    /// A boolean.
    Bool(bool),
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list or an object without anything in it.
    Empty,
    /// The list `["text"]`.
    TextOnly,
    /// `{"type": "text"}`.
    TextFormat,
}

impl Harmless {
    fn covers(&self, value: &Value) -> bool {
        match self {
            Harmless::Nothing => false,
            Harmless::Number(number) => value.as_f64() == Some(*number),
            Harmless::Bool(flag) => value.as_bool() == Some(*flag),
            Harmless::Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Harmless::Empty => {
                value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty)
            }
            Harmless::TextOnly => value
                .as_array()
                .is_some_and(|list| list.iter().all(|item| item.as_str() == Some("text"))),
            Harmless::TextFormat => value.get("type").and_then(Value::as_str) == Some("text"),
        }
    }
}

const fn refused(name: &'static str, harmless: Harmless, hint: &'static str) -> Refused {
    Refused { name, harmless, hint }
}

const LEAVE_OUT: &str = "Leave it out";
const CONSTRAIN: &str = "Leave it out, ask for the format in the prompt, and check the answer";
const TOOLS: &str = "Use `tools` and `tool_choice`, which have taken its place";
const CALLS: &str = "Use `tool_calls`, and messages with the role `tool` for what they gave back";

/// Refused in every request that generates.
pub const GENERATE: &[Refused] = &[
    refused("best_of", Harmless::Number(1.0), LEAVE_OUT),
    refused(
        "repeat_penalty",
        Harmless::Number(1.0),
        "Use `repetition_penalty`, which is over the whole prompt and answer",
    ),
    refused("grammar", Harmless::Nothing, CONSTRAIN),
    refused("json_schema", Harmless::Nothing, CONSTRAIN),
    refused("guided_json", Harmless::Nothing, CONSTRAIN),
    refused("guided_regex", Harmless::Nothing, CONSTRAIN),
    refused("guided_choice", Harmless::Nothing, CONSTRAIN),
    refused("guided_grammar", Harmless::Nothing, CONSTRAIN),
    refused("structured_outputs", Harmless::Nothing, CONSTRAIN),
    refused("min_tokens", Harmless::Number(0.0), LEAVE_OUT),
    refused("typical_p", Harmless::Number(1.0), LEAVE_OUT),
    refused("mirostat", Harmless::Number(0.0), LEAVE_OUT),
    refused("use_beam_search", Harmless::Bool(false), LEAVE_OUT),
    refused("bad_words", Harmless::Empty, LEAVE_OUT),
    refused("allowed_token_ids", Harmless::Empty, LEAVE_OUT),
    refused(
        "include_stop_str_in_output",
        Harmless::Bool(false),
        "Add the stop string to the answer yourself",
    ),
    refused("skip_special_tokens", Harmless::Bool(true), LEAVE_OUT),
    refused("truncate_prompt_tokens", Harmless::Nothing, "Shorten the prompt yourself"),
    refused("n_predict", Harmless::Nothing, "Use `max_tokens`"),
];

/// Refused in chat completions besides.
pub const CHAT: &[Refused] = &[
    refused("functions", Harmless::Empty, TOOLS),
    refused("function_call", Harmless::Word(&["none", "auto"]), TOOLS),
    refused("modalities", Harmless::TextOnly, "Leave it out; answers are text"),
    refused("audio", Harmless::Nothing, "Leave it out; answers are text"),
    refused("web_search_options", Harmless::Nothing, "Leave it out; nothing is searched"),
    refused("reasoning_effort", Harmless::Word(&["none"]), "Leave it out; the model decides"),
    refused(
        "verbosity",
        Harmless::Word(&["medium"]),
        "Leave it out, and ask for a length in the prompt",
    ),
    refused(
        "chat_template",
        Harmless::Nothing,
        "Leave it out, or send the laid-out prompt to /v1/completions",
    ),
    refused(
        "chat_template_kwargs",
        Harmless::Empty,
        "Leave it out, or send the laid-out prompt to /v1/completions",
    ),
    refused("add_generation_prompt", Harmless::Bool(true), "Leave it out"),
    refused(
        "continue_final_message",
        Harmless::Bool(false),
        "Leave it out, or use /v1/completions",
    ),
    refused("documents", Harmless::Empty, "Put the documents into a message"),
];

/// Refused in completions besides.
pub const COMPLETION: &[Refused] = &[
    refused("response_format", Harmless::TextFormat, CONSTRAIN),
    refused("suffix", Harmless::Word(&[""]), "Leave it out; text is only continued at its end"),
    refused("prompt_embeds", Harmless::Nothing, "Send text or token ids as `prompt`"),
];

/// Refused in a message of a conversation.
pub const MESSAGE: &[Refused] = &[
    refused("function_call", Harmless::Nothing, CALLS),
    refused("audio", Harmless::Nothing, "Send text"),
];

/// The error for the first field that is set to something that would change the answer.
pub fn check(fields: &Fields, lists: &[&[Refused]]) -> Result<(), ApiError> {
    for refused in lists.iter().flat_map(|list| list.iter()) {
        if fields.get(refused.name).is_some_and(|value| !refused.harmless.covers(value)) {
            let path = fields.path(refused.name);
            return Err(unsupported(&path, refused.hint));
        }
    }
    Ok(())
}

/// The error for a field, or a value of it, that would change the answer and isn't supported.
pub fn unsupported(path: &str, hint: &str) -> ApiError {
    ApiError::invalid(
        path,
        format!("`{path}` with this value would change the answer, and is not supported"),
    )
    .code("unsupported_field")
    .hint(hint)
}
