//! Messages and responses, by way of the neutral form.

use serde_json::{Value, json};

use crate::call::{
    MAX_TOP_LOGPROBS, Message, OutputFormat, Part, Role, Tool, ToolCall, ToolChoice, ToolResult,
};
use crate::convert::{self, Block, Neutral, Output, Piece, Speaker};
use crate::openai::fields::Fields;
use crate::openai::refused::unsupported;
use crate::openai::{options, tools};
use crate::{ApiError, Call, Format, Inbound};

/// Fields that would change the answer, and what to do instead.
const REFUSED: [(&str, &str); 10] = [
    ("previous_response_id", "Send the whole conversation in `input`; nothing is stored here"),
    ("conversation", "Send the whole conversation in `input`; nothing is stored here"),
    ("prompt", "Send the prompt's text in `input`; nothing is stored here"),
    ("background", "Leave it out, and use `stream`"),
    ("truncation", "Leave it out, and shorten the conversation yourself"),
    ("max_tool_calls", "Leave it out"),
    ("container", "Leave it out; nothing runs here"),
    ("mcp_servers", "Leave it out, and call the tools yourself"),
    ("context_management", "Leave it out, and shorten the conversation yourself"),
    ("stop", "Leave it out; this API has no stop strings"),
];

/// Reads a request.
pub(super) fn read(inbound: &Inbound) -> Result<Call, ApiError> {
    let neutral = convert::neutral(inbound)?;
    // What is left over is either known to matter or, as in both APIs, a name that means nothing.
    for (name, hint) in REFUSED {
        if neutral.own.contains_key(name) {
            return Err(unsupported(name, hint));
        }
    }
    if neutral.verbosity.is_some() {
        return Err(unsupported(
            "text.verbosity",
            "Leave it out, and ask for a length in the prompt",
        ));
    }
    let above_one = neutral.temperature.as_ref().and_then(Value::as_f64).is_some_and(|it| it > 1.0);
    if inbound.format == Format::Messages && above_one {
        let message = "`temperature` must be a number from 0 to 1";
        return Err(ApiError::invalid("temperature", message).code("invalid_value"));
    }
    let mut fields = Fields::of(inbound.body.clone());
    let call = Call::chat(messages(&neutral, inbound.format)?);
    // Sampling goes by the same names in every format, and so do vLLM's additions to it.
    let mut call = options::read(&mut fields, call)?.call;
    call.max_tokens = neutral.max_tokens.and_then(|tokens| usize::try_from(tokens).ok());
    call.stop.strings = options::stop_strings(&mut fields, "stop_sequences")?;
    call.logprobs = match neutral.logprobs {
        Some(top) if top > u64::from(MAX_TOP_LOGPROBS) => {
            let message =
                format!("`top_logprobs` is {top}, and at most {MAX_TOP_LOGPROBS} are told");
            return Err(ApiError::invalid("top_logprobs", message).code("invalid_value"));
        }
        top => top.and_then(|top| u32::try_from(top).ok()),
    };
    call.tools = neutral
        .tools
        .iter()
        .map(|tool| Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool
                .schema
                .clone()
                .unwrap_or_else(|| json!({ "type": "object", "properties": {} })),
            strict: tool.strict.unwrap_or(false),
        })
        .collect();
    call.tool_choice = neutral.tool_choice.clone().unwrap_or(ToolChoice::Auto);
    tools::check_choice(&call.tool_choice, &call.tools, "tool_choice")?;
    call.parallel_tool_calls = neutral.parallel.unwrap_or(true);
    call.output = match neutral.output {
        None => OutputFormat::Text,
        Some(Output::Object) => OutputFormat::JsonObject,
        Some(Output::Schema { schema, .. }) => OutputFormat::JsonSchema(schema),
    };
    Ok(call)
}

fn messages(neutral: &Neutral, format: Format) -> Result<Vec<Message>, ApiError> {
    let mut messages = Vec::new();
    if !neutral.system.is_empty() {
        messages.push(message(Role::System, texts(&neutral.system)?));
    }
    for turn in &neutral.turns {
        match turn.speaker {
            Speaker::System => messages.push(message(Role::System, texts(&turn.pieces)?)),
            Speaker::User => user(&turn.pieces, &mut messages)?,
            Speaker::Assistant => {
                let mut parts = Vec::new();
                for piece in &turn.pieces {
                    match &piece.block {
                        // What was thought before is not read again.
                        Block::Thinking { .. } | Block::Redacted(_) => {}
                        Block::Call { id, name, arguments } => {
                            let (id, name) = (id.clone(), name.clone());
                            let arguments = arguments.clone();
                            parts.push(Part::ToolCall(ToolCall { id, name, arguments }));
                        }
                        _ => parts.push(Part::Text(text(piece)?.to_owned())),
                    }
                }
                messages.push(message(Role::Assistant, parts));
            }
        }
    }
    match neutral.turns.last() {
        // Anthropic's API goes on with it, which a chat template can't say.
        Some(last) if format == Format::Messages && last.speaker == Speaker::Assistant => {
            Err(unsupported(&last.path, "End with a message of the role `user`"))
        }
        _ => Ok(messages),
    }
}

fn user(pieces: &[Piece], messages: &mut Vec<Message>) -> Result<(), ApiError> {
    let mut said = Vec::new();
    for piece in pieces {
        let Block::Result { id, content, is_error } = &piece.block else {
            said.push(Part::Text(text(piece)?.to_owned()));
            continue;
        };
        let text = content.iter().map(text).collect::<Result<Vec<_>, _>>()?.join("\n");
        let result = ToolResult { id: id.clone(), text, is_error: *is_error };
        messages.push(message(Role::Tool, vec![Part::ToolResult(result)]));
    }
    if !said.is_empty() || pieces.is_empty() {
        messages.push(message(Role::User, said));
    }
    Ok(())
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { role, parts, name: None }
}

fn texts(pieces: &[Piece]) -> Result<Vec<Part>, ApiError> {
    pieces.iter().map(|piece| Ok(Part::Text(text(piece)?.to_owned()))).collect()
}

fn text(piece: &Piece) -> Result<&str, ApiError> {
    match &piece.block {
        Block::Text(text) | Block::Refusal(text) => Ok(text),
        _ => Err(unsupported(&piece.path, "Send text; this model reads nothing else")),
    }
}
