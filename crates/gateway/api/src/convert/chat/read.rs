//! From chat completions.

use serde_json::{Map, Value};

use super::write::FAILED;
use crate::convert::neutral::{
    Block, Life, Mark, Neutral, Output, Piece, Source, Speaker, Thinking, Tool, Turn, unknown,
};
use crate::convert::read::{count, life, mark, number, object, objects, rest, strings, text};
use crate::openai::fields::{Fields, wrong};
use crate::openai::options;
use crate::{ApiError, Format, ToolChoice};

/// Fields that affect no answer: how it is sent, whose it is, what is done with it, how soon it comes.
const HARMLESS: [&str; 9] = [
    "stream_options",
    "store",
    "metadata",
    "service_tier",
    "prediction",
    "cache_salt",
    "prompt_cache_retention",
    "logprobs",
    "conversation",
];

pub(crate) fn request(body: &Map<String, Value>) -> Result<Neutral, ApiError> {
    let mut fields = Fields::of(body.clone());
    let mut neutral = Neutral {
        from: Some(Format::Chat),
        model: fields.string("model")?,
        stream: fields.boolean("stream")?.unwrap_or(false),
        max_tokens: options::max_tokens(&mut fields, &["max_completion_tokens", "max_tokens"])?
            .map(|tokens| tokens as u64),
        temperature: number(&mut fields, "temperature")?,
        top_p: number(&mut fields, "top_p")?,
        top_k: number(&mut fields, "top_k")?.filter(|k| k.as_i64().is_none_or(|k| k > 0)),
        stop: strings(&mut fields, "stop")?,
        verbosity: fields.take("verbosity").filter(|word| word != "medium"),
        cache_key: fields.take("prompt_cache_key"),
        ..Neutral::default()
    };
    neutral.user = fields.string("user")?.or(fields.string("safety_identifier")?);
    neutral.thinking = fields.string("reasoning_effort")?.map(thinking);
    if fields.boolean("logprobs")?.unwrap_or(false) {
        neutral.logprobs = Some(count(&mut fields, "top_logprobs")?.unwrap_or(0));
    }
    neutral.mark = whole(&mut fields)?;
    neutral.output = output(&mut fields)?;
    neutral.tools = tools(&mut fields)?;
    neutral.tool_choice = choice(&mut fields)?;
    neutral.parallel = fields.boolean("parallel_tool_calls")?.filter(|parallel| !parallel);
    messages(&mut fields, &mut neutral)?;
    // One answer of text is what everyone gives.
    let is_one = |name: &str, value: &Value| match name {
        "n" => value.as_u64() == Some(1),
        "modalities" => *value == serde_json::json!(["text"]),
        _ => false,
    };
    for name in ["n", "modalities"] {
        if fields.get(name).is_some_and(|value| is_one(name, value)) {
            fields.take(name);
        }
    }
    rest(&mut neutral, &mut fields, &HARMLESS);
    Ok(neutral)
}

pub(crate) fn thinking(word: String) -> Thinking {
    if word == "none" { Thinking::Off } else { Thinking::Effort(word) }
}

/// `prompt_cache_options`, where it asks for a marker of the provider's own choice; its other fields are OpenAI's affair.
pub(crate) fn whole(fields: &mut Fields) -> Result<Option<Mark>, ApiError> {
    let Some(value) = fields.take("prompt_cache_options") else { return Ok(None) };
    let mut options = Fields::at("prompt_cache_options".into(), value)?;
    match options.string("mode")?.as_deref() {
        Some("implicit") => Ok(Some(Mark { life: life(&mut options)? })),
        _ => Ok(None),
    }
}

fn output(fields: &mut Fields) -> Result<Option<Output>, ApiError> {
    let Some(value) = fields.take("response_format") else { return Ok(None) };
    let mut format = Fields::at("response_format".into(), value)?;
    let kind = text(&mut format, "type", "`text`, `json_object` or `json_schema`")?;
    match kind.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Output::Object)),
        "json_schema" => {
            let mut outer = object(&mut format, "json_schema", "the schema")?;
            schema(&mut outer).map(Some)
        }
        _ => Err(unknown("response_format.type", "`text`, `json_object` or `json_schema`")),
    }
}

/// A schema with its name.
pub(crate) fn schema(fields: &mut Fields) -> Result<Output, ApiError> {
    let schema = fields.require("schema", "a JSON schema")?;
    if !schema.is_object() {
        return Err(wrong(&fields.path("schema"), "a JSON schema", &schema));
    }
    let (name, strict) = (fields.string("name")?, fields.boolean("strict")?);
    Ok(Output::Schema { schema, name, strict })
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let Some(list) = fields.take("tools") else { return Ok(Vec::new()) };
    objects("tools", list)?
        .into_iter()
        .map(|mut tool| {
            let path = tool.path("");
            let path = path.trim_end_matches('.').to_owned();
            if tool.string("type")?.is_some_and(|kind| kind != "function") {
                return Err(unknown(&tool.path("type"), "tools of the type `function`"));
            }
            let outer = mark(&mut tool)?;
            let mut function = object(&mut tool, "function", "the function")?;
            Ok(Tool {
                mark: mark(&mut function)?.or(outer),
                ..function_of(&mut function, "parameters", path)?
            })
        })
        .collect()
}

/// A function's name, description, schema and strictness.
pub(crate) fn function_of(
    fields: &mut Fields,
    schema: &str,
    path: String,
) -> Result<Tool, ApiError> {
    Ok(Tool {
        name: text(fields, "name", "the function's name")?,
        description: fields.string("description")?,
        schema: fields.take(schema),
        strict: fields.boolean("strict")?,
        mark: None,
        path,
    })
}

fn choice(fields: &mut Fields) -> Result<Option<ToolChoice>, ApiError> {
    choice_of(fields, |choice| {
        let mut function = object(choice, "function", "the function's name")?;
        text(&mut function, "name", "the function's name")
    })
}

/// OpenAI's choice of a tool: a word, or an object with the function's name where the format has it.
pub(crate) fn choice_of(
    fields: &mut Fields,
    name: impl FnOnce(&mut Fields) -> Result<String, ApiError>,
) -> Result<Option<ToolChoice>, ApiError> {
    match fields.take("tool_choice") {
        None => Ok(None),
        Some(Value::String(word)) => word_of(&word).map(Some),
        Some(value) => {
            let mut choice = Fields::at("tool_choice".into(), value)?;
            if choice.string("type")?.is_some_and(|kind| kind != "function") {
                return Err(unknown("tool_choice.type", "the type `function`, or a word"));
            }
            Ok(Some(ToolChoice::Named(name(&mut choice)?)))
        }
    }
}

/// OpenAI's words for a choice.
fn word_of(word: &str) -> Result<ToolChoice, ApiError> {
    match word {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Required),
        _ => Err(unknown("tool_choice", "`auto`, `none`, `required`, or a function's name")),
    }
}

fn messages(fields: &mut Fields, neutral: &mut Neutral) -> Result<(), ApiError> {
    let list = fields.require("messages", "the conversation as a list of messages")?;
    for mut message in objects("messages", list)? {
        let path = message.path("").trim_end_matches('.').to_owned();
        let role = text(&mut message, "role", "`system`, `user`, `assistant` or `tool`")?;
        if message.has("name") {
            return Err(unknown(
                &message.path("name"),
                "the text of the message for a speaker's name",
            ));
        }
        if let Some(name) = ["audio", "function_call"].iter().find(|name| message.has(name)) {
            return Err(unknown(&message.path(name), "text and `tool_calls`"));
        }
        let outer = mark(&mut message)?;
        match role.as_str() {
            "system" | "developer" => {
                let pieces = content(&mut message, outer, true, &mut neutral.lost)?;
                if neutral.turns.is_empty() {
                    neutral.system.extend(pieces);
                } else {
                    neutral.turns.push(Turn { speaker: Speaker::System, pieces, path });
                }
            }
            "user" => {
                let pieces = content(&mut message, outer, true, &mut neutral.lost)?;
                said_by_user(neutral, pieces, path, false);
            }
            "tool" => {
                let id = text(&mut message, "tool_call_id", "the id of the call that it answers")?;
                let mut content = content(&mut message, outer, false, &mut neutral.lost)?;
                let is_error = failed(&mut content);
                let block = Block::Result { id, content, is_error };
                let piece = Piece { block, mark: None, path: path.clone() };
                said_by_user(neutral, vec![piece], path, true);
            }
            "assistant" => {
                let pieces = assistant(&mut message, outer, &mut neutral.lost)?;
                neutral.turns.push(Turn { speaker: Speaker::Assistant, pieces, path });
            }
            _ => {
                let known = "`system`, `developer`, `user`, `assistant` or `tool`";
                return Err(unknown(&message.path("role"), known));
            }
        }
    }
    Ok(())
}

/// Takes off the word for a failure that [`FAILED`] is. Whether a caller wrote it or this gateway, it means the same.
pub(crate) fn failed(content: &mut Vec<Piece>) -> bool {
    let Some(Piece { block: Block::Text(text), mark, .. }) = content.first_mut() else {
        return false;
    };
    let Some(rest) = text.strip_prefix(FAILED) else { return false };
    *text = rest.to_owned();
    if text.is_empty() && mark.is_none() {
        content.remove(0);
    }
    true
}

/// What tools gave back, and what the user says to it, are one turn of the user.
pub(crate) fn said_by_user(neutral: &mut Neutral, pieces: Vec<Piece>, path: String, result: bool) {
    let is_result = |piece: &Piece| matches!(piece.block, Block::Result { .. });
    match neutral.turns.last_mut() {
        Some(turn)
            if turn.speaker == Speaker::User
                && !turn.pieces.is_empty()
                && turn.pieces.iter().all(is_result)
                && (result || turn.path != path) =>
        {
            turn.pieces.extend(pieces);
        }
        _ => neutral.turns.push(Turn { speaker: Speaker::User, pieces, path }),
    }
}

/// The content of a message; a marker of the whole message is that of its last part.
fn content(
    message: &mut Fields,
    outer: Option<Mark>,
    required: bool,
    lost: &mut Vec<String>,
) -> Result<Vec<Piece>, ApiError> {
    let path = message.path("content");
    let mut pieces = match message.take("content") {
        None if required => {
            message.require("content", "the text of the message")?;
            Vec::new()
        }
        None => Vec::new(),
        Some(Value::String(words)) => vec![Piece { block: Block::Text(words), mark: None, path }],
        Some(list) => objects(&path, list)?.into_iter().map(part).collect::<Result<_, _>>()?,
    };
    match (pieces.last_mut(), outer) {
        (Some(last), Some(_)) if last.mark.is_some() => lost.push(message.path("cache_control")),
        (Some(last), Some(mark)) => last.mark = Some(mark),
        (None, Some(_)) => lost.push(message.path("cache_control")),
        (_, None) => {}
    }
    Ok(pieces)
}

fn part(mut part: Fields) -> Result<Piece, ApiError> {
    let path = part.path("").trim_end_matches('.').to_owned();
    let mark = mark(&mut part)?;
    let kind = text(&mut part, "type", "`text`, `image_url` or `file`")?;
    let block = match kind.as_str() {
        "text" => Block::Text(text(&mut part, "text", "the text of the part")?),
        "refusal" => Block::Refusal(text(&mut part, "refusal", "the words of the refusal")?),
        "image_url" => {
            let mut image = object(&mut part, "image_url", "the image's `url`")?;
            let url = text(&mut image, "url", "the image's address or its data")?;
            Block::Image { source: Source::of_url(&url), detail: image.string("detail")? }
        }
        "file" => {
            let mut file = object(&mut part, "file", "the file's `file_data`")?;
            if file.has("file_id") {
                return Err(unknown(
                    &file.path("file_id"),
                    "`file_data`: another provider doesn't have the file",
                ));
            }
            let data = text(&mut file, "file_data", "the file as a `data:` URL")?;
            Block::File { name: file.string("filename")?, source: Source::of_url(&data) }
        }
        _ => {
            return Err(unknown(
                &part.path("type"),
                "parts of the types `text`, `image_url` and `file`",
            ));
        }
    };
    Ok(Piece { block, mark, path })
}

fn assistant(
    message: &mut Fields,
    outer: Option<Mark>,
    lost: &mut Vec<String>,
) -> Result<Vec<Piece>, ApiError> {
    let mut pieces = thoughts(message)?;
    let said = content(message, outer, false, lost)?;
    let calls_path = message.path("tool_calls");
    let calls = message.take("tool_calls").filter(|it| !it.as_array().is_some_and(Vec::is_empty));
    // An empty text before calls is what SDKs write for none.
    let empty = |piece: &Piece| piece.block == Block::Text(String::new()) && piece.mark.is_none();
    pieces.extend(said.into_iter().filter(|piece| calls.is_none() || !empty(piece)));
    if let Some(words) = message.string("refusal")? {
        let path = message.path("refusal");
        pieces.push(Piece { block: Block::Refusal(words), mark: None, path });
    }
    for mut call in calls.map_or(Ok(Vec::new()), |list| objects(&calls_path, list))? {
        let path = call.path("").trim_end_matches('.').to_owned();
        let mark = mark(&mut call)?;
        if call.string("type")?.is_some_and(|kind| kind != "function") {
            return Err(unknown(&call.path("type"), "calls of the type `function`"));
        }
        let id = text(&mut call, "id", "the call's id")?;
        let mut function = object(&mut call, "function", "the function that was called")?;
        let name = text(&mut function, "name", "the function's name")?;
        let arguments = function.string("arguments")?.unwrap_or_default();
        pieces.push(Piece { block: Block::Call { id, name, arguments }, mark, path });
    }
    if pieces.is_empty() {
        message.require("content", "the text of the message")?;
    }
    Ok(pieces)
}

/// `thinking_blocks` with their signatures; else `reasoning_content`, which has none.
fn thoughts(message: &mut Fields) -> Result<Vec<Piece>, ApiError> {
    let plain_path = message.path("reasoning_content");
    let plain = message.string("reasoning_content")?;
    let path = message.path("thinking_blocks");
    let Some(list) = message.take("thinking_blocks") else {
        let plain = plain.filter(|text| !text.is_empty());
        return Ok(plain
            .map(|text| Piece {
                block: Block::Thinking { text, signature: None },
                mark: None,
                path: plain_path,
            })
            .into_iter()
            .collect());
    };
    objects(&path, list)?
        .into_iter()
        .map(|mut block| {
            let path = block.path("").trim_end_matches('.').to_owned();
            let kind = text(&mut block, "type", "`thinking` or `redacted_thinking`")?;
            let block = match kind.as_str() {
                "redacted_thinking" => Block::Redacted(text(&mut block, "data", "its data")?),
                _ => Block::Thinking {
                    text: text(&mut block, "thinking", "its text")?,
                    signature: block.string("signature")?.filter(|it| !it.is_empty()),
                },
            };
            Ok(Piece { block, mark: None, path })
        })
        .collect()
}

/// How long OpenAI keeps what is marked.
pub(crate) fn ttl(life: Life) -> &'static str {
    match life {
        Life::Short => "30m",
        Life::Long => "12h",
    }
}
