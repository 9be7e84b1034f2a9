//! To responses.

use serde_json::{Map, Value, json};

use crate::convert::chat::write::{breakpoint, drop_mark, effort, given_back, named, set, whole};
use crate::convert::neutral::{
    Block, Dropped, Neutral, Output, Piece, Source, Speaker, Turn, unsaid,
};
use crate::{ApiError, Format, ToolChoice, sealed};

const TO: Format = Format::Responses;

pub(crate) fn body(
    neutral: &Neutral,
    dropped: &mut Vec<Dropped>,
) -> Result<Map<String, Value>, ApiError> {
    if !neutral.stop.is_empty() {
        return Err(unsaid(neutral.field(["stop", "stop", "stop_sequences"]), TO));
    }
    if neutral.top_k.is_some() {
        return Err(unsaid("top_k", TO));
    }
    let mut body = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            body.insert(name.into(), value);
        }
    };
    put("model", neutral.model.clone().map(Value::from));
    let mut input = Vec::new();
    // One text without a marker is what `instructions` are for; they have no place for a marker.
    match neutral.system.as_slice() {
        [] => {}
        [Piece { block: Block::Text(text), mark: None, .. }] => {
            put("instructions", Some(text.clone().into()));
        }
        system => input.push(json!({ "role": "system", "content": parts(system, "input_text")? })),
    }
    for turn in &neutral.turns {
        items(turn, &mut input, dropped)?;
    }
    put("input", Some(input.into()));
    put("max_output_tokens", neutral.max_tokens.map(Value::from));
    put("temperature", neutral.temperature.clone());
    put("top_p", neutral.top_p.clone());
    put("stream", neutral.stream.then_some(Value::Bool(true)));
    // What isn't stored there can't be asked for by anyone else.
    put("store", Some(false.into()));
    let tools: Vec<Value> = neutral
        .tools
        .iter()
        .map(|tool| {
            if tool.mark.is_some() {
                drop_mark(&tool.path, dropped);
            }
            let mut it = json!({ "type": "function", "name": tool.name });
            set(&mut it, "description", tool.description.clone().map(Value::from));
            set(&mut it, "parameters", tool.schema.clone());
            // Without a word OpenAI takes strictness for granted here, and not in chat completions.
            set(&mut it, "strict", Some(tool.strict.unwrap_or(false).into()));
            it
        })
        .collect();
    put("tools", (!tools.is_empty()).then(|| tools.into()));
    put("tool_choice", neutral.tool_choice.as_ref().map(choice));
    put("parallel_tool_calls", neutral.parallel.map(Value::from));
    let mut text = json!({});
    set(
        &mut text,
        "format",
        neutral.output.as_ref().map(|output| match output {
            Output::Object => json!({ "type": "json_object" }),
            Output::Schema { schema, name, strict } => {
                let mut format = named(schema, name.as_deref(), *strict);
                set(&mut format, "type", Some("json_schema".into()));
                format
            }
        }),
    );
    set(&mut text, "verbosity", neutral.verbosity.clone());
    put("text", text.as_object().is_some_and(|it| !it.is_empty()).then_some(text));
    let word = effort(neutral.thinking.as_ref(), dropped);
    put("reasoning", word.map(|word| json!({ "effort": word })));
    let mut include = Vec::new();
    if let Some(top) = neutral.logprobs {
        put("top_logprobs", Some(top.into()));
        include.push("message.output_text.logprobs");
    }
    if neutral.thinking.is_some() {
        // Without it a conversation that isn't stored loses its thinking.
        include.push("reasoning.encrypted_content");
    }
    put("include", (!include.is_empty()).then(|| include.into()));
    put("user", neutral.user.clone().map(Value::from));
    put("prompt_cache_key", neutral.cache_key.clone());
    put("prompt_cache_options", neutral.mark.map(whole));
    Ok(body)
}

fn choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Named(name) => json!({ "type": "function", "name": name }),
    }
}

fn items(turn: &Turn, input: &mut Vec<Value>, dropped: &mut Vec<Dropped>) -> Result<(), ApiError> {
    let (role, kind) = match turn.speaker {
        Speaker::System => ("system", "input_text"),
        Speaker::User => ("user", "input_text"),
        Speaker::Assistant => ("assistant", "output_text"),
    };
    let mut said: Vec<Piece> = Vec::new();
    let flush = |said: &mut Vec<Piece>, input: &mut Vec<Value>| -> Result<(), ApiError> {
        if !said.is_empty() {
            let mut message = json!({ "role": role, "content": parts(said, kind)? });
            if role == "assistant" {
                set(&mut message, "type", Some("message".into()));
            }
            input.push(message);
            said.clear();
        }
        Ok(())
    };
    for piece in &turn.pieces {
        let item = match &piece.block {
            Block::Call { id, name, arguments } => json!({
                "type": "function_call",
                "call_id": id,
                "name": name,
                "arguments": arguments,
            }),
            Block::Result { id, content, is_error } => {
                json!({
                    "type": "function_call_output",
                    "call_id": id,
                    "output": output(piece, content, *is_error, dropped)?,
                })
            }
            Block::Thinking { text, signature } => reasoning(text, signature.as_deref()),
            Block::Redacted(data) => json!({
                "type": "reasoning",
                "summary": [],
                "encrypted_content": sealed::redacted(data),
            }),
            _ => {
                said.push(piece.clone());
                continue;
            }
        };
        // A result's marker is on its content.
        if piece.mark.is_some() && !matches!(piece.block, Block::Result { .. }) {
            drop_mark(&piece.path, dropped);
        }
        flush(&mut said, input)?;
        input.push(item);
    }
    flush(&mut said, input)
}

fn reasoning(text: &str, signature: Option<&str>) -> Value {
    let summary = match text.is_empty() {
        true => json!([]),
        false => json!([{ "type": "summary_text", "text": text }]),
    };
    let mut item = json!({ "type": "reasoning", "summary": summary });
    if let Some(signature) = signature {
        let (id, encrypted) = sealed::reasoning(signature);
        set(&mut item, "encrypted_content", Some(encrypted.into()));
        set(&mut item, "id", (!id.is_empty()).then(|| id.into()));
    }
    item
}

fn output(
    piece: &Piece,
    content: &[Piece],
    is_error: bool,
    dropped: &mut Vec<Dropped>,
) -> Result<Value, ApiError> {
    let content = given_back(piece, content, is_error, dropped);
    match content.as_slice() {
        [] => Ok("".into()),
        content => parts(content, "input_text"),
    }
}

/// A content: one text without a marker is a string, except the model's own.
fn parts(pieces: &[Piece], text: &str) -> Result<Value, ApiError> {
    if let [Piece { block: Block::Text(words), mark: None, .. }] = pieces {
        return Ok(words.clone().into());
    }
    pieces.iter().map(|piece| part(piece, text)).collect::<Result<Vec<_>, _>>().map(Value::from)
}

fn part(piece: &Piece, kind: &str) -> Result<Value, ApiError> {
    let mut part = match &piece.block {
        Block::Text(words) => json!({ "type": kind, "text": words }),
        Block::Refusal(words) => json!({ "type": "refusal", "refusal": words }),
        Block::Image { source, detail } => {
            let mut image = json!({ "type": "input_image", "image_url": source.to_url() });
            set(&mut image, "detail", detail.clone().map(Value::from));
            image
        }
        Block::File { name, source } => {
            let mut file = json!({ "type": "input_file" });
            let field = if matches!(source, Source::Url(_)) { "file_url" } else { "file_data" };
            set(&mut file, field, Some(source.to_url().into()));
            set(&mut file, "filename", name.clone().map(Value::from));
            file
        }
        _ => return Err(unsaid(&piece.path, TO)),
    };
    set(&mut part, "prompt_cache_breakpoint", piece.mark.map(breakpoint));
    Ok(part)
}
