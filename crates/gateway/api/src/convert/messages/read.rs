//! From messages.

use serde_json::{Map, Value};

use crate::convert::chat::read::function_of;
use crate::convert::neutral::{
    Block, Neutral, Output, Piece, Source, Speaker, Thinking, Tool, Turn, unknown,
};
use crate::convert::read::{count, mark, number, object, objects, rest, strings, text};
use crate::openai::fields::{Fields, wrong};
use crate::{ApiError, Format, ToolChoice};

/// Fields that affect no answer.
const HARMLESS: [&str; 4] = ["service_tier", "diagnostics", "cache_salt", "conversation"];

pub(crate) fn request(body: &Map<String, Value>) -> Result<Neutral, ApiError> {
    let mut fields = Fields::of(body.clone());
    let max_tokens = count(&mut fields, "max_tokens")?;
    if max_tokens.is_none() {
        fields.require("max_tokens", "the most tokens that the answer may have")?;
    }
    let mut neutral = Neutral {
        from: Some(Format::Messages),
        model: fields.string("model")?,
        stream: fields.boolean("stream")?.unwrap_or(false),
        max_tokens,
        temperature: number(&mut fields, "temperature")?,
        top_p: number(&mut fields, "top_p")?,
        top_k: number(&mut fields, "top_k")?,
        stop: strings(&mut fields, "stop_sequences")?,
        mark: mark(&mut fields)?,
        ..Neutral::default()
    };
    if let Some(metadata) = fields.take("metadata") {
        neutral.user = Fields::at("metadata".into(), metadata)?.string("user_id")?;
    }
    neutral.system = pieces("system", fields.take("system"))?;
    settings(&mut fields, &mut neutral)?;
    neutral.tools = tools(&mut fields)?;
    choice(&mut fields, &mut neutral)?;
    let list = fields.require("messages", "the conversation as a list of messages")?;
    for mut message in objects("messages", list)? {
        let path = message.path("").trim_end_matches('.').to_owned();
        let role_path = message.path("role");
        let speaker = match text(&mut message, "role", "`user` or `assistant`")?.as_str() {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "system" => Speaker::System,
            _ => return Err(unknown(&role_path, "`user` or `assistant`")),
        };
        let content_path = message.path("content");
        let content = message.require("content", "the content of the message")?;
        let pieces = pieces(&content_path, Some(content))?;
        neutral.turns.push(Turn { speaker, pieces, path });
    }
    if neutral.turns.is_empty() {
        return Err(ApiError::invalid("messages", "`messages` is empty")
            .code("invalid_value")
            .hint("Give at least one message"));
    }
    rest(&mut neutral, &mut fields, &HARMLESS);
    Ok(neutral)
}

/// Thinking and the shape of the answer.
fn settings(fields: &mut Fields, neutral: &mut Neutral) -> Result<(), ApiError> {
    let mut effort = None;
    if let Some(config) = fields.take("output_config") {
        let mut config = Fields::at("output_config".into(), config)?;
        effort = config.string("effort")?;
        if let Some(format) = config.take("format") {
            let mut format = Fields::at("output_config.format".into(), format)?;
            if text(&mut format, "type", "`json_schema`")? != "json_schema" {
                return Err(unknown("output_config.format.type", "`json_schema`"));
            }
            let schema = format.require("schema", "a JSON schema")?;
            if !schema.is_object() {
                return Err(wrong("output_config.format.schema", "a JSON schema", &schema));
            }
            neutral.output = Some(Output::Schema { schema, name: None, strict: None });
        }
    }
    let thinking = fields.take("thinking");
    neutral.thinking = match thinking {
        None => effort.map(Thinking::Effort),
        Some(thinking) => {
            let mut thinking = Fields::at("thinking".into(), thinking)?;
            let kind = text(&mut thinking, "type", "`enabled`, `adaptive` or `disabled`")?;
            Some(match (kind.as_str(), effort) {
                ("disabled", _) => Thinking::Off,
                ("adaptive", None) => Thinking::Adaptive,
                ("adaptive", Some(effort)) => Thinking::Effort(effort),
                ("enabled", effort) => {
                    let budget = count(&mut thinking, "budget_tokens")?.unwrap_or(1024);
                    Thinking::Budget(budget, effort)
                }
                _ => return Err(unknown("thinking.type", "`enabled`, `adaptive` or `disabled`")),
            })
        }
    };
    Ok(())
}

fn tools(fields: &mut Fields) -> Result<Vec<Tool>, ApiError> {
    let Some(list) = fields.take("tools") else { return Ok(Vec::new()) };
    objects("tools", list)?
        .into_iter()
        .map(|mut tool| {
            let path = tool.path("").trim_end_matches('.').to_owned();
            if tool.string("type")?.is_some_and(|kind| kind != "custom") {
                return Err(unknown(&tool.path("type"), "tools of your own, without a type"));
            }
            let mark = mark(&mut tool)?;
            Ok(Tool { mark, ..function_of(&mut tool, "input_schema", path)? })
        })
        .collect()
}

fn choice(fields: &mut Fields, neutral: &mut Neutral) -> Result<(), ApiError> {
    let Some(value) = fields.take("tool_choice") else { return Ok(()) };
    let mut choice = Fields::at("tool_choice".into(), value)?;
    let kind = text(&mut choice, "type", "`auto`, `any`, `tool` or `none`")?;
    neutral.tool_choice = Some(match kind.as_str() {
        "auto" => ToolChoice::Auto,
        "any" => ToolChoice::Required,
        "none" => ToolChoice::None,
        "tool" => ToolChoice::Named(text(&mut choice, "name", "the tool's name")?),
        _ => return Err(unknown("tool_choice.type", "`auto`, `any`, `tool` or `none`")),
    });
    if choice.boolean("disable_parallel_tool_use")?.unwrap_or(false) {
        neutral.parallel = Some(false);
    }
    Ok(())
}

/// A text, or a list of blocks.
fn pieces(path: &str, content: Option<Value>) -> Result<Vec<Piece>, ApiError> {
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(words)) => {
            Ok(vec![Piece { block: Block::Text(words), mark: None, path: path.to_owned() }])
        }
        Some(list @ Value::Array(_)) => objects(path, list)?.into_iter().map(piece).collect(),
        Some(other) => Err(wrong(path, "a string or a list of blocks", &other)),
    }
}

fn piece(mut fields: Fields) -> Result<Piece, ApiError> {
    let path = fields.path("").trim_end_matches('.').to_owned();
    let mark = mark(&mut fields)?;
    let kind = text(&mut fields, "type", "the block's type")?;
    let block = match kind.as_str() {
        "text" => Block::Text(text(&mut fields, "text", "the text of the block")?),
        "image" => Block::Image { source: source(&mut fields)?, detail: None },
        "document" => {
            if fields.get("citations").and_then(|it| it.get("enabled")) == Some(&Value::Bool(true))
            {
                return Err(unknown(&fields.path("citations"), "documents without citations"));
            }
            if fields.has("context") {
                return Err(unknown(&fields.path("context"), "a text block for the context"));
            }
            Block::File { source: source(&mut fields)?, name: fields.string("title")? }
        }
        "thinking" => Block::Thinking {
            text: text(&mut fields, "thinking", "the thinking")?,
            signature: fields.string("signature")?.filter(|it| !it.is_empty()),
        },
        "redacted_thinking" => Block::Redacted(text(&mut fields, "data", "its data")?),
        "tool_use" => Block::Call {
            id: text(&mut fields, "id", "the call's id")?,
            name: text(&mut fields, "name", "the tool's name")?,
            arguments: fields.require("input", "the arguments as an object")?.to_string(),
        },
        "tool_result" => {
            let content_path = fields.path("content");
            Block::Result {
                id: text(&mut fields, "tool_use_id", "the id of the call that it answers")?,
                content: pieces(&content_path, fields.take("content"))?,
                is_error: fields.boolean("is_error")?.unwrap_or(false),
            }
        }
        _ => {
            let known = "blocks of the types `text`, `image`, `document`, `thinking`, `tool_use` and `tool_result`";
            return Err(unknown(&fields.path("type"), known));
        }
    };
    Ok(Piece { block, mark, path })
}

fn source(fields: &mut Fields) -> Result<Source, ApiError> {
    let mut source = object(fields, "source", "where it is")?;
    match text(&mut source, "type", "`base64` or `url`")?.as_str() {
        "base64" => Ok(Source::Base64 {
            media: text(&mut source, "media_type", "the type of the data")?,
            data: text(&mut source, "data", "the data")?,
        }),
        "url" => Ok(Source::Url(text(&mut source, "url", "the address")?)),
        _ => Err(unknown(&source.path("type"), "`base64` or `url`")),
    }
}
