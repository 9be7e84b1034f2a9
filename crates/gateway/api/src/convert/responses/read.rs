//! From responses.

use serde_json::{Map, Value};

use crate::convert::chat::read::{
    choice_of, failed, function_of, said_by_user, schema, thinking, whole,
};
use crate::convert::neutral::{
    Block, Neutral, Output, Piece, Source, Speaker, Tool, Turn, unknown,
};
use crate::convert::read::{count, mark, number, objects, rest, text};
use crate::openai::fields::{Fields, wrong};
use crate::{ApiError, Format, ToolChoice, sealed};

/// Fields that affect no answer.
const HARMLESS: [&str; 6] =
    ["store", "metadata", "service_tier", "stream_options", "cache_salt", "prompt_cache_retention"];

pub(crate) fn request(body: &Map<String, Value>) -> Result<Neutral, ApiError> {
    let mut fields = Fields::of(body.clone());
    let mut neutral = Neutral {
        from: Some(Format::Responses),
        model: fields.string("model")?,
        stream: fields.boolean("stream")?.unwrap_or(false),
        max_tokens: count(&mut fields, "max_output_tokens")?,
        temperature: number(&mut fields, "temperature")?,
        top_p: number(&mut fields, "top_p")?,
        cache_key: fields.take("prompt_cache_key"),
        mark: whole(&mut fields)?,
        ..Neutral::default()
    };
    neutral.user = fields.string("user")?.or(fields.string("safety_identifier")?);
    if let Some(words) = fields.string("instructions")?.filter(|words| !words.is_empty()) {
        let path = "instructions".to_owned();
        neutral.system.push(Piece { block: Block::Text(words), mark: None, path });
    }
    settings(&mut fields, &mut neutral)?;
    neutral.tools = tools(&mut fields)?;
    neutral.tool_choice = choice(&mut fields)?;
    neutral.parallel = fields.boolean("parallel_tool_calls")?.filter(|parallel| !parallel);
    match fields.require("input", "a text, or the conversation as a list of items")? {
        Value::String(words) => {
            let piece = Piece { block: Block::Text(words), mark: None, path: "input".into() };
            let (speaker, path) = (Speaker::User, "input".to_owned());
            neutral.turns.push(Turn { speaker, pieces: vec![piece], path });
        }
        list @ Value::Array(_) => {
            for item in objects("input", list)? {
                self::item(item, &mut neutral)?;
            }
        }
        other => return Err(wrong("input", "a string or a list of items", &other)),
    }
    if fields.get("truncation").is_some_and(|it| it == "disabled") {
        fields.take("truncation");
    }
    rest(&mut neutral, &mut fields, &HARMLESS);
    Ok(neutral)
}

/// Thinking, the shape of the answer, and logprobs.
fn settings(fields: &mut Fields, neutral: &mut Neutral) -> Result<(), ApiError> {
    if let Some(reasoning) = fields.take("reasoning") {
        let mut reasoning = Fields::at("reasoning".into(), reasoning)?;
        neutral.thinking = reasoning.string("effort")?.map(thinking);
    }
    if let Some(text_settings) = fields.take("text") {
        let mut settings = Fields::at("text".into(), text_settings)?;
        neutral.verbosity = settings.take("verbosity").filter(|word| word != "medium");
        if let Some(format) = settings.take("format") {
            let mut format = Fields::at("text.format".into(), format)?;
            let known = "`text`, `json_object` or `json_schema`";
            neutral.output = match text(&mut format, "type", known)?.as_str() {
                "text" => None,
                "json_object" => Some(Output::Object),
                "json_schema" => Some(schema(&mut format)?),
                _ => return Err(unknown("text.format.type", known)),
            };
        }
    }
    let include = fields.take("include");
    let wants = include
        .as_ref()
        .and_then(Value::as_array)
        .is_some_and(|list| list.iter().any(|it| it == "message.output_text.logprobs"));
    let top = count(fields, "top_logprobs")?;
    neutral.logprobs = (wants || top.is_some_and(|top| top > 0)).then(|| top.unwrap_or(0));
    Ok(())
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let Some(list) = fields.take("tools") else { return Ok(Vec::new()) };
    objects("tools", list)?
        .into_iter()
        .map(|mut tool| {
            let path = tool.path("").trim_end_matches('.').to_owned();
            if tool.string("type")?.is_none_or(|kind| kind != "function") {
                return Err(unknown(&tool.path("type"), "tools of the type `function`"));
            }
            function_of(&mut tool, "parameters", path)
        })
        .collect()
}

fn choice(fields: &mut Fields) -> Result<Option<ToolChoice>, ApiError> {
    choice_of(fields, |choice| text(choice, "name", "the function's name"))
}

fn item(mut item: Fields, neutral: &mut Neutral) -> Result<(), ApiError> {
    let path = item.path("").trim_end_matches('.').to_owned();
    let kind = item.string("type")?.unwrap_or_else(|| "message".into());
    let piece = |block, path: &str| Piece { block, mark: None, path: path.to_owned() };
    match kind.as_str() {
        "message" => {
            let role_path = item.path("role");
            let role = text(&mut item, "role", "`system`, `user` or `assistant`")?;
            let content_path = item.path("content");
            let content = item.require("content", "the content of the message")?;
            let pieces = content_of(&content_path, content)?;
            match role.as_str() {
                "system" | "developer" if neutral.turns.is_empty() => neutral.system.extend(pieces),
                "system" | "developer" => {
                    neutral.turns.push(Turn { speaker: Speaker::System, pieces, path });
                }
                "user" => said_by_user(neutral, pieces, path, false),
                "assistant" => said_by_model(neutral, pieces, path, true),
                _ => {
                    return Err(unknown(
                        &role_path,
                        "`system`, `developer`, `user` or `assistant`",
                    ));
                }
            }
        }
        "function_call" => {
            let block = Block::Call {
                id: text(&mut item, "call_id", "the call's id")?,
                name: text(&mut item, "name", "the function's name")?,
                arguments: item.string("arguments")?.unwrap_or_default(),
            };
            said_by_model(neutral, vec![piece(block, &path)], path, false);
        }
        "function_call_output" => {
            let id = text(&mut item, "call_id", "the id of the call that it answers")?;
            let output_path = item.path("output");
            let mut content = match item.take("output") {
                None => Vec::new(),
                Some(Value::String(words)) if words.is_empty() => Vec::new(),
                Some(output) => content_of(&output_path, output)?,
            };
            let is_error = failed(&mut content);
            let block = Block::Result { id, content, is_error };
            said_by_user(neutral, vec![piece(block, &path)], path, true);
        }
        "reasoning" => {
            let value = Value::Object(item.map().clone());
            let block = if let Some(data) = sealed::unredacted(&value) {
                Block::Redacted(data.to_owned())
            } else {
                let parts = ["summary", "content"]
                    .into_iter()
                    .filter_map(|name| value.get(name)?.as_array());
                let texts: Vec<&str> =
                    parts.flatten().filter_map(|part| part.get("text")?.as_str()).collect();
                Block::Thinking { text: texts.join("\n\n"), signature: sealed::signature(&value) }
            };
            said_by_model(neutral, vec![piece(block, &path)], path, false);
        }
        "item_reference" => {
            return Err(unknown(&path, "the item itself: nothing is stored here"));
        }
        _ => {
            let known = "items of the types `message`, `function_call`, `function_call_output` and `reasoning`";
            return Err(unknown(&item.path("type"), known));
        }
    }
    Ok(())
}

/// Thinking, words and calls that follow each other are one turn of the model; a second message is another.
fn said_by_model(neutral: &mut Neutral, pieces: Vec<Piece>, path: String, message: bool) {
    let says = |piece: &Piece| matches!(piece.block, Block::Text(_) | Block::Refusal(_));
    match neutral.turns.last_mut() {
        Some(turn)
            if turn.speaker == Speaker::Assistant && !(message && turn.pieces.iter().any(says)) =>
        {
            turn.pieces.extend(pieces);
        }
        _ => neutral.turns.push(Turn { speaker: Speaker::Assistant, pieces, path }),
    }
}

fn content_of(path: &str, content: Value) -> Result<Vec<Piece>, ApiError> {
    match content {
        Value::String(words) => {
            Ok(vec![Piece { block: Block::Text(words), mark: None, path: path.to_owned() }])
        }
        list @ Value::Array(_) => objects(path, list)?.into_iter().map(part).collect(),
        other => Err(wrong(path, "a string or a list of parts", &other)),
    }
}

fn part(mut part: Fields) -> Result<Piece, ApiError> {
    let path = part.path("").trim_end_matches('.').to_owned();
    let mark = mark(&mut part)?;
    let kind = text(&mut part, "type", "the part's type")?;
    if part.has("file_id") {
        return Err(unknown(
            &part.path("file_id"),
            "its data: another provider doesn't have the file",
        ));
    }
    let block = match kind.as_str() {
        "input_text" | "output_text" | "text" => {
            Block::Text(text(&mut part, "text", "the text of the part")?)
        }
        "refusal" => Block::Refusal(text(&mut part, "refusal", "the words of the refusal")?),
        "input_image" => {
            let url = text(&mut part, "image_url", "the image's address or its data")?;
            Block::Image { source: Source::of_url(&url), detail: part.string("detail")? }
        }
        "input_file" => {
            let source = match part.string("file_data")? {
                Some(data) => Source::of_url(&data),
                None => Source::Url(text(&mut part, "file_url", "the file's address or its data")?),
            };
            Block::File { name: part.string("filename")?, source }
        }
        _ => {
            let known =
                "parts of the types `input_text`, `input_image`, `input_file` and `output_text`";
            return Err(unknown(&part.path("type"), known));
        }
    };
    Ok(Piece { block, mark, path })
}
