//! Chat templates: a conversation to the prompt that a model was trained on.

use std::sync::Arc;

use jiff::ZonedDateTime;
use minijinja::{
    Environment, ErrorKind, UndefinedBehavior, Value as Jinja, syntax::SyntaxConfig, value::Serde,
};
use serde_json::{Map, Value};
use tapri_gguf::Gguf;

use crate::{Rendered, TemplateError, Tokenizer, guard::Guard};

mod json;
mod source;

/// ChatML, for models without a template of their own.
const CHATML: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
(message['content'] or '') + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}\
{{ '<|im_start|>assistant\\n' }}{% endif %}";

/// What a template may spend: an instruction costs 1, and so do 64 bytes of output or of other strings, so this bounds
/// time (below a second) and memory (256 MB) alike. A conversation of 1,000 messages and 1 MB takes a fiftieth.
const FUEL: u64 = 4_000_000;

/// How deep a template may nest calls, loops and macros.
const RECURSION: usize = 200;

const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// What a prompt is made of.
#[derive(Debug, Clone, Copy)]
pub struct RenderInput<'a> {
    /// The conversation: objects with at least `role` and `content`, as in OpenAI's chat API.
    pub messages: &'a [Value],
    /// The tools that the model may call, as in OpenAI's chat API; empty for none.
    pub tools: &'a [Value],
    /// Whether the prompt ends with the beginning of the assistant's answer.
    pub add_generation_prompt: bool,
    /// The time that a template sees. Nothing else reads a clock.
    pub now: &'a ZonedDateTime,
    /// Further variables for the template (`chat_template_kwargs`), such as `enable_thinking`. They can't replace
    /// those above.
    pub variables: &'a Map<String, Value>,
}

/// A model's chat template, in the form of Jinja that Hugging Face's libraries accept.
///
/// The template comes with the model file and isn't trusted: it can read nothing but its input, and its time, memory
/// and nesting are bounded.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    guard: Guard,
    /// Texts of BOS and EOS, which templates write themselves.
    bos: String,
    eos: String,
    is_fallback: bool,
    has_tool_use: bool,
    /// All templates' text, for the choice of a marker.
    source: String,
}

impl ChatTemplate {
    /// The template of a model file, or ChatML if it has none. With ChatML and a vocabulary that doesn't know its
    /// tokens, they are plain text to the model, and a user can write them as well.
    pub fn from_gguf(gguf: &Gguf, tokenizer: &Tokenizer) -> Result<ChatTemplate, TemplateError> {
        let metadata = gguf.metadata();
        let own = metadata.find::<&str>("tokenizer.chat_template")?;
        let tool_use = metadata.find::<&str>("tokenizer.chat_template.tool_use")?;
        let mut template = Self::new(own.unwrap_or(CHATML), tokenizer)?;
        template.is_fallback = own.is_none();
        if let Some(tool_use) = tool_use {
            template.add(TOOL_USE, tool_use)?;
            template.has_tool_use = true;
        }
        Ok(template)
    }

    /// A template given as text.
    pub fn new(source: &str, tokenizer: &Tokenizer) -> Result<ChatTemplate, TemplateError> {
        let text = |token: Option<_>| {
            token.and_then(|token| tokenizer.text(token)).unwrap_or_default().to_owned()
        };
        let mut template = ChatTemplate {
            environment: environment()?,
            guard: Guard::new(Arc::clone(tokenizer.specials())),
            bos: text(tokenizer.bos()),
            eos: text(tokenizer.eos()),
            is_fallback: false,
            has_tool_use: false,
            source: String::new(),
        };
        template.add(DEFAULT, source)?;
        Ok(template)
    }

    fn add(&mut self, name: &'static str, text: &str) -> Result<(), TemplateError> {
        self.source.push_str(text);
        self.environment
            .add_template_owned(name, source::without_generation_tags(text))
            .map_err(TemplateError::Syntax)
    }

    /// Whether the model has no template and ChatML is used.
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// The text of the template, a special one for tools included.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt of a conversation, to be encoded with [`Tokenizer::encode_rendered`].
    pub fn render(&self, input: &RenderInput<'_>) -> Result<Rendered, TemplateError> {
        let mut inputs = [
            Value::Array(input.messages.to_vec()),
            Value::Array(input.tools.to_vec()),
            Value::Object(input.variables.clone()),
        ];
        let marker = self.guard.mark(&self.source, &mut inputs)?;
        let [messages, tools, variables] = inputs;
        let tools = if input.tools.is_empty() { Value::Null } else { tools };

        let own = [
            ("messages", Jinja::from(Serde(&messages))),
            ("tools", Jinja::from(Serde(&tools))),
            ("documents", Jinja::from(())),
            ("add_generation_prompt", Jinja::from(input.add_generation_prompt)),
            ("bos_token", Jinja::from(self.bos.as_str())),
            ("eos_token", Jinja::from(self.eos.as_str())),
            ("strftime_now", strftime_now(input.now.clone())),
        ];
        let mut context: Vec<(String, Jinja)> = Vec::new();
        if let Value::Object(variables) = &variables {
            context.extend(
                variables.iter().map(|(name, value)| (name.clone(), Jinja::from(Serde(value)))),
            );
        }
        context.extend(own.into_iter().map(|(name, value)| (name.to_owned(), value)));

        let name = if self.has_tool_use && !input.tools.is_empty() { TOOL_USE } else { DEFAULT };
        let template = self.environment.get_template(name).map_err(TemplateError::Render)?;
        let text = template.render(Jinja::from_pairs(context)).map_err(failure)?;
        let unmarked = Rendered::unmark(text, marker);
        Ok(unmarked)
    }
}

/// The settings that Hugging Face's libraries use for chat templates.
fn environment() -> Result<Environment<'static>, TemplateError> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(TemplateError::Syntax)?);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(RECURSION);
    environment.set_debug(false);
    environment.add_function("raise_exception", raise_exception);
    environment.add_filter("tojson", json::tojson);
    Ok(environment)
}

/// The message of a template that refuses its input.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Raised(String);

fn raise_exception(message: String) -> Result<Jinja, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception")
        .with_source(Raised(message)))
}

/// A function of the template that formats `now` as Python's `strftime` does.
fn strftime_now(now: ZonedDateTime) -> Jinja {
    Jinja::from_function(move |format: &str| {
        jiff::fmt::strtime::format(format, &now).map_err(|error| {
            minijinja::Error::new(ErrorKind::InvalidOperation, "strftime_now can't use this format")
                .with_source(error)
        })
    })
}

fn failure(error: minijinja::Error) -> TemplateError {
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return TemplateError::Raised(message.clone());
        }
        cause = inner.source();
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return TemplateError::Limit(format!("{FUEL} steps"));
    }
    if error.detail().is_some_and(|detail| detail.contains("recursion limit")) {
        return TemplateError::Limit(format!("{RECURSION} levels of nesting"));
    }
    TemplateError::Render(error)
}
