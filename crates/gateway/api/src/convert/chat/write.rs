//! To chat completions.

use serde_json::{Map, Value, json};

use super::read::ttl;
use crate::convert::neutral::{
    Block, Dropped, Mark, Neutral, Output, Piece, Source, Speaker, Thinking, Turn, unsaid,
};
use crate::{ApiError, Format, ToolChoice};

const TO: Format = Format::Chat;

pub(crate) fn body(
    neutral: &Neutral,
    dropped: &mut Vec<Dropped>,
) -> Result<Map<String, Value>, ApiError> {
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    put("model", neutral.model.clone().map(Value::from));
    let mut messages = Vec::new();
    if !neutral.system.is_empty() {
        messages.push(json!({ "role": "system", "content": parts(&neutral.system, dropped)? }));
    }
    for turn in &neutral.turns {
        self::turn(turn, &mut messages, dropped)?;
    }
    put("messages", Some(messages.into()));
    put("max_completion_tokens", neutral.max_tokens.map(Value::from));
    put("temperature", neutral.temperature.clone());
    put("top_p", neutral.top_p.clone());
    // OpenAI's own servers don't know it, and say so; vLLM's, SGLang's and llama.cpp's do.
    put("top_k", neutral.top_k.clone());
    put("stop", (!neutral.stop.is_empty()).then(|| neutral.stop.clone().into()));
    put("stream", neutral.stream.then_some(Value::Bool(true)));
    let tools: Vec<Value> = neutral
        .tools
        .iter()
        .map(|tool| {
            if tool.mark.is_some() {
                drop_mark(&tool.path, dropped);
            }
            let mut function = json!({ "name": tool.name });
            set(&mut function, "description", tool.description.clone().map(Value::from));
            set(&mut function, "parameters", tool.schema.clone());
            set(&mut function, "strict", tool.strict.map(Value::from));
            json!({ "type": "function", "function": function })
        })
        .collect();
    put("tools", (!tools.is_empty()).then(|| tools.into()));
    put("tool_choice", neutral.tool_choice.as_ref().map(choice));
    put("parallel_tool_calls", neutral.parallel.map(Value::from));
    put(
        "response_format",
        neutral.output.as_ref().map(|output| match output {
            Output::Object => json!({ "type": "json_object" }),
            Output::Schema { schema, name, strict } => json!({
                "type": "json_schema",
                "json_schema": named(schema, name.as_deref(), *strict),
            }),
        }),
    );
    put("reasoning_effort", effort(neutral.thinking.as_ref(), dropped).map(Value::from));
    put("verbosity", neutral.verbosity.clone());
    if let Some(top) = neutral.logprobs {
        put("logprobs", Some(true.into()));
        put("top_logprobs", Some(top.into()));
    }
    put("user", neutral.user.clone().map(Value::from));
    put("prompt_cache_key", neutral.cache_key.clone());
    put("prompt_cache_options", neutral.mark.map(whole));
    Ok(body)
}

/// A schema with the name that OpenAI asks for.
pub(crate) fn named(schema: &Value, name: Option<&str>, strict: Option<bool>) -> Value {
    let mut named = json!({ "name": name.unwrap_or("answer"), "schema": schema });
    set(&mut named, "strict", strict.map(Value::from));
    named
}

/// The marker whose place the provider chooses.
pub(crate) fn whole(mark: Mark) -> Value {
    let mut options = json!({ "mode": "implicit" });
    set(&mut options, "ttl", mark.life.map(|life| ttl(life).into()));
    options
}

/// OpenAI's one word for how much to think.
pub(crate) fn effort(thinking: Option<&Thinking>, dropped: &mut Vec<Dropped>) -> Option<String> {
    match thinking? {
        Thinking::Off => Some("none".into()),
        Thinking::Adaptive => None,
        Thinking::Effort(word) | Thinking::Budget(_, Some(word)) => Some(word.clone()),
        Thinking::Budget(tokens, None) => {
            let (word, why) = match tokens {
                0..=2048 => ("low", "is said as the effort `low`"),
                2049..=8192 => ("medium", "is said as the effort `medium`"),
                _ => ("high", "is said as the effort `high`"),
            };
            dropped.push(Dropped { field: "thinking.budget_tokens".into(), why });
            Some(word.into())
        }
    }
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({ "type": "function", "function": { "name": name } }),
    }
}

pub(crate) fn set(value: &mut Value, name: &str, more: Option<Value>) {
    if let (Some(fields), Some(more)) = (value.as_object_mut(), more) {
        fields.insert(name.into(), more);
    }
}

/// Names a marker that has no place.
pub(crate) fn drop_mark(path: &str, dropped: &mut Vec<Dropped>) {
    dropped.push(Dropped {
        field: format!("{path}.cache_control"),
        why: "has no place in the upstream's API",
    });
}

fn turn(
    turn: &Turn,
    messages: &mut Vec<Value>,
    dropped: &mut Vec<Dropped>,
) -> Result<(), ApiError> {
    match turn.speaker {
        Speaker::System => {
            messages.push(json!({ "role": "system", "content": parts(&turn.pieces, dropped)? }));
        }
        Speaker::Assistant => messages.push(assistant(turn, dropped)?),
        Speaker::User => {
            let mut said: Vec<Piece> = Vec::new();
            for piece in &turn.pieces {
                let Block::Result { id, content, is_error } = &piece.block else {
                    said.push(piece.clone());
                    continue;
                };
                if !said.is_empty() {
                    // OpenAI wants the results right behind the calls.
                    return Err(unsaid(&piece.path, TO));
                }
                messages.push(result(piece, id, content, *is_error, dropped)?);
            }
            if !said.is_empty() || turn.pieces.is_empty() {
                messages.push(json!({ "role": "user", "content": parts(&said, dropped)? }));
            }
        }
    }
    Ok(())
}

/// How a failure of a tool begins: OpenAI's API has no other way to say it. Read back as what it was.
pub(crate) const FAILED: &str = "Error: ";

/// What a tool gave back, as OpenAI's APIs can say it: a marker is its last part's, a failure is said in words.
pub(crate) fn given_back(
    piece: &Piece,
    content: &[Piece],
    is_error: bool,
    dropped: &mut Vec<Dropped>,
) -> Vec<Piece> {
    let mut content = content.to_vec();
    match (content.last_mut(), piece.mark) {
        (Some(last), Some(mark)) if last.mark.is_none() => last.mark = Some(mark),
        (_, Some(_)) => drop_mark(&piece.path, dropped),
        _ => {}
    }
    if is_error {
        match content.first_mut() {
            Some(Piece { block: Block::Text(text), .. }) => text.insert_str(0, FAILED),
            _ => content.insert(
                0,
                Piece { block: Block::Text(FAILED.into()), mark: None, path: piece.path.clone() },
            ),
        }
    }
    content
}

fn result(
    piece: &Piece,
    id: &str,
    content: &[Piece],
    is_error: bool,
    dropped: &mut Vec<Dropped>,
) -> Result<Value, ApiError> {
    let content = given_back(piece, content, is_error, dropped);
    if let Some(other) = content.iter().find(|it| !matches!(it.block, Block::Text(_))) {
        return Err(unsaid(&other.path, TO));
    }
    let content = match content.is_empty() {
        true => Value::from(""),
        false => parts(&content, dropped)?,
    };
    Ok(json!({ "role": "tool", "tool_call_id": id, "content": content }))
}

fn assistant(turn: &Turn, dropped: &mut Vec<Dropped>) -> Result<Value, ApiError> {
    let mut said = Vec::new();
    let mut calls: Vec<Value> = Vec::new();
    let mut thoughts: Vec<Value> = Vec::new();
    let mut plain = String::new();
    for piece in &turn.pieces {
        match &piece.block {
            Block::Call { id, name, arguments } => {
                if piece.mark.is_some() {
                    drop_mark(&piece.path, dropped);
                }
                let function = json!({ "name": name, "arguments": arguments });
                calls.push(json!({ "id": id, "type": "function", "function": function }));
            }
            // A message says first and calls then.
            _ if !calls.is_empty() => return Err(unsaid(&piece.path, TO)),
            Block::Thinking { text, signature } => {
                plain.push_str(text);
                if let Some(signature) = signature {
                    thoughts.push(
                        json!({ "type": "thinking", "thinking": text, "signature": signature }),
                    );
                }
            }
            Block::Redacted(data) => {
                thoughts.push(json!({ "type": "redacted_thinking", "data": data }));
            }
            _ => said.push(piece.clone()),
        }
    }
    let content = match said.is_empty() {
        true => Value::Null,
        false => parts(&said, dropped)?,
    };
    let mut message = json!({ "role": "assistant", "content": content });
    set(&mut message, "reasoning_content", (!plain.is_empty()).then(|| plain.into()));
    set(&mut message, "thinking_blocks", (!thoughts.is_empty()).then(|| thoughts.into()));
    set(&mut message, "tool_calls", (!calls.is_empty()).then(|| calls.into()));
    Ok(message)
}

/// A content: one text without a marker is a string, which every server reads.
fn parts(pieces: &[Piece], _: &mut Vec<Dropped>) -> Result<Value, ApiError> {
    if let [Piece { block: Block::Text(text), mark: None, .. }] = pieces {
        return Ok(text.clone().into());
    }
    pieces.iter().map(part).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn part(piece: &Piece) -> Result<Value, ApiError> {
    let mut part = match &piece.block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Refusal(text) => json!({ "type": "refusal", "refusal": text }),
        Block::Image { source, detail } => {
            let mut image = json!({ "url": source.to_url() });
            set(&mut image, "detail", detail.clone().map(Value::from));
            json!({ "type": "image_url", "image_url": image })
        }
        Block::File { name, source: source @ Source::Base64 { .. } } => {
            let mut file = json!({ "file_data": source.to_url() });
            set(&mut file, "filename", name.clone().map(Value::from));
            json!({ "type": "file", "file": file })
        }
        _ => return Err(unsaid(&piece.path, TO)),
    };
    set(&mut part, "prompt_cache_breakpoint", piece.mark.map(breakpoint));
    Ok(part)
}

/// OpenAI's marker.
pub(crate) fn breakpoint(mark: Mark) -> Value {
    let mut breakpoint = json!({ "mode": "explicit" });
    set(&mut breakpoint, "ttl", mark.life.map(|life| ttl(life).into()));
    breakpoint
}
