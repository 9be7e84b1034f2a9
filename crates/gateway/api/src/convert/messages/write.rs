//! To messages.

use serde_json::{Map, Value, json};

use crate::convert::chat::write::{drop_mark, set};
use crate::convert::neutral::{
    Block, Dropped, Life, Mark, Neutral, Output, Piece, Source, Speaker, Thinking, Turn, unsaid,
};
use crate::{ApiError, Format, ToolChoice};

const TO: Format = Format::Messages;

/// The limit of an answer where the caller gave none: Anthropic's API asks for one, and every model of today has it.
const MAX_TOKENS: u64 = 8192;

/// The most markers that a request may have.
const MAX_MARKS: usize = 4;

pub(crate) fn body(
    neutral: &Neutral,
    dropped: &mut Vec<Dropped>,
) -> Result<Map<String, Value>, ApiError> {
    if neutral.verbosity.is_some() {
        let names = ["verbosity", "text.verbosity", "verbosity"];
        return Err(unsaid(neutral.field(names), TO));
    }
    if neutral.logprobs.is_some() {
        let names = ["logprobs", "top_logprobs", "logprobs"];
        return Err(unsaid(neutral.field(names), TO));
    }
    // OpenAI's reaches to 2, Anthropic's to 1.
    if neutral.temperature.as_ref().and_then(Value::as_f64).is_some_and(|it| it > 1.0) {
        return Err(unsaid("temperature", TO));
    }
    let mut marks = Marks::new(neutral, dropped);
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    put("model", neutral.model.clone().map(Value::from));
    if neutral.max_tokens.is_none() {
        let why = "is set to 8192, since the upstream's API asks for a limit";
        let field = neutral.field(["max_completion_tokens", "max_output_tokens", "max_tokens"]);
        marks.dropped.push(Dropped { field: field.into(), why });
    }
    put("max_tokens", Some(neutral.max_tokens.unwrap_or(MAX_TOKENS).into()));
    put("cache_control", neutral.mark.filter(|_| marks.takes("prompt_cache_options")).map(control));
    let tools: Vec<Value> = neutral
        .tools
        .iter()
        .map(|tool| {
            let empty = || json!({ "type": "object", "properties": {} });
            let schema = tool.schema.clone().unwrap_or_else(empty);
            let mut it = json!({ "name": tool.name, "input_schema": schema });
            set(&mut it, "description", tool.description.clone().map(Value::from));
            set(&mut it, "strict", tool.strict.filter(|strict| *strict).map(Value::from));
            set(&mut it, "cache_control", marks.of(tool.mark, &tool.path));
            it
        })
        .collect();
    let system = neutral
        .system
        .iter()
        .map(|piece| block(piece, &mut marks))
        .collect::<Result<Vec<_>, _>>()?;
    put("system", (!system.is_empty()).then(|| system.into()));
    let mut messages = Vec::new();
    for turn in &neutral.turns {
        let role = match turn.speaker {
            Speaker::System => "system",
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        };
        let content = self::content(turn, &mut marks)?;
        // A turn of nothing but thinking that can't be sent back is none.
        if !content.is_empty() {
            messages.push(json!({ "role": role, "content": content }));
        }
    }
    put("messages", Some(messages.into()));
    put("tools", (!tools.is_empty()).then(|| tools.into()));
    put("tool_choice", choice(neutral));
    put("temperature", neutral.temperature.clone());
    put("top_p", neutral.top_p.clone());
    put("top_k", neutral.top_k.clone());
    put("stop_sequences", (!neutral.stop.is_empty()).then(|| neutral.stop.clone().into()));
    put("stream", neutral.stream.then_some(Value::Bool(true)));
    put("metadata", neutral.user.as_ref().map(|user| json!({ "user_id": user })));
    if neutral.cache_key.is_some() {
        let why = "has no place in the upstream's API";
        marks.dropped.push(Dropped { field: "prompt_cache_key".into(), why });
    }
    let (thinking, effort) = thinking(neutral)?;
    put("thinking", thinking);
    let mut config = json!({});
    set(&mut config, "effort", effort.map(Value::from));
    set(
        &mut config,
        "format",
        match &neutral.output {
            None => None,
            Some(Output::Schema { schema, .. }) => {
                Some(json!({ "type": "json_schema", "schema": schema }))
            }
            Some(Output::Object) => {
                let names = ["response_format", "text.format", "output_config.format"];
                return Err(unsaid(neutral.field(names), TO));
            }
        },
    );
    put("output_config", config.as_object().is_some_and(|it| !it.is_empty()).then_some(config));
    Ok(body)
}

fn thinking(neutral: &Neutral) -> Result<(Option<Value>, Option<String>), ApiError> {
    Ok(match &neutral.thinking {
        None => (None, None),
        Some(Thinking::Off) => (Some(json!({ "type": "disabled" })), None),
        Some(Thinking::Adaptive) => (Some(json!({ "type": "adaptive" })), None),
        // OpenAI's least but none has no word here.
        Some(Thinking::Effort(word)) if word == "minimal" => {
            let names = ["reasoning_effort", "reasoning.effort", "output_config.effort"];
            return Err(unsaid(neutral.field(names), TO));
        }
        Some(Thinking::Effort(word)) => (Some(json!({ "type": "adaptive" })), Some(word.clone())),
        Some(Thinking::Budget(tokens, word)) => {
            (Some(json!({ "type": "enabled", "budget_tokens": tokens })), word.clone())
        }
    })
}

fn choice(neutral: &Neutral) -> Option<Value> {
    let one = neutral.parallel == Some(false) && !neutral.tools.is_empty();
    let mut choice = match &neutral.tool_choice {
        None if one => json!({ "type": "auto" }),
        None => return None,
        Some(ToolChoice::Auto) => json!({ "type": "auto" }),
        Some(ToolChoice::None) => return Some(json!({ "type": "none" })),
        Some(ToolChoice::Required) => json!({ "type": "any" }),
        Some(ToolChoice::Named(name)) => json!({ "type": "tool", "name": name }),
    };
    set(&mut choice, "disable_parallel_tool_use", one.then_some(Value::Bool(true)));
    Some(choice)
}

/// The markers that are written: at most as many as Anthropic's API takes. The last of the request are kept, since
/// each covers what stands before it.
struct Marks<'a> {
    over: usize,
    dropped: &'a mut Vec<Dropped>,
}

impl<'a> Marks<'a> {
    fn new(neutral: &Neutral, dropped: &'a mut Vec<Dropped>) -> Self {
        let of = |pieces: &[Piece]| -> usize { pieces.iter().map(marks_of).sum() };
        let all = usize::from(neutral.mark.is_some())
            + neutral.tools.iter().filter(|tool| tool.mark.is_some()).count()
            + of(&neutral.system)
            + neutral.turns.iter().map(|turn| of(&turn.pieces)).sum::<usize>();
        Marks { over: all.saturating_sub(MAX_MARKS), dropped }
    }

    fn of(&mut self, mark: Option<Mark>, path: &str) -> Option<Value> {
        mark.filter(|_| self.takes(path)).map(control)
    }

    fn takes(&mut self, path: &str) -> bool {
        if self.over == 0 {
            return true;
        }
        self.over -= 1;
        let why = "is one marker more than the upstream's API takes";
        self.dropped.push(Dropped { field: format!("{path}.prompt_cache_breakpoint"), why });
        false
    }
}

fn marks_of(piece: &Piece) -> usize {
    let inner = match &piece.block {
        Block::Result { content, .. } => content.iter().map(marks_of).sum(),
        _ => 0,
    };
    usize::from(piece.mark.is_some()) + inner
}

fn content(turn: &Turn, marks: &mut Marks<'_>) -> Result<Vec<Value>, ApiError> {
    let mut content = Vec::new();
    for piece in &turn.pieces {
        if let Block::Thinking { signature: None, .. } = &piece.block {
            // Anthropic takes back only what it signed; such thinking is not part of the prompt elsewhere either.
            let why = "has no signature, and can't be sent back";
            marks.dropped.push(Dropped { field: piece.path.clone(), why });
            continue;
        }
        content.push(block(piece, marks)?);
    }
    Ok(content)
}

fn block(piece: &Piece, marks: &mut Marks<'_>) -> Result<Value, ApiError> {
    let mut block = match &piece.block {
        Block::Text(text) | Block::Refusal(text) => json!({ "type": "text", "text": text }),
        Block::Image { source, detail } => {
            if detail.as_ref().is_some_and(|detail| detail != "auto") {
                let why = "has no place in the upstream's API";
                marks.dropped.push(Dropped { field: format!("{}.detail", piece.path), why });
            }
            json!({ "type": "image", "source": self::source(source) })
        }
        Block::File { name, source } => {
            let mut document = json!({ "type": "document", "source": self::source(source) });
            set(&mut document, "title", name.clone().map(Value::from));
            document
        }
        Block::Call { id, name, arguments } => {
            let input = match serde_json::from_str::<Value>(arguments) {
                Ok(input @ Value::Object(_)) => input,
                _ if arguments.trim().is_empty() => json!({}),
                _ => return Err(unsaid(&format!("{}.function.arguments", piece.path), TO)),
            };
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        }
        Block::Result { id, content, is_error } => {
            let content = content
                .iter()
                .map(|piece| self::block(piece, marks))
                .collect::<Result<Vec<_>, _>>()?;
            let mut result = json!({ "type": "tool_result", "tool_use_id": id });
            set(&mut result, "content", (!content.is_empty()).then(|| content.into()));
            set(&mut result, "is_error", is_error.then_some(Value::Bool(true)));
            result
        }
        Block::Thinking { text, signature } => {
            if piece.mark.is_some() {
                drop_mark(&piece.path, marks.dropped);
            }
            return Ok(json!({ "type": "thinking", "thinking": text, "signature": signature }));
        }
        Block::Redacted(data) => {
            return Ok(json!({ "type": "redacted_thinking", "data": data }));
        }
    };
    set(&mut block, "cache_control", marks.of(piece.mark, &piece.path));
    Ok(block)
}

fn source(source: &Source) -> Value {
    match source {
        Source::Url(url) => json!({ "type": "url", "url": url }),
        Source::Base64 { media, data } => {
            json!({ "type": "base64", "media_type": media, "data": data })
        }
    }
}

/// Anthropic's marker.
fn control(mark: Mark) -> Value {
    let mut control = json!({ "type": "ephemeral" });
    let ttl = mark.life.map(|life| match life {
        Life::Short => "5m",
        Life::Long => "1h",
    });
    set(&mut control, "ttl", ttl.map(Value::from));
    control
}
