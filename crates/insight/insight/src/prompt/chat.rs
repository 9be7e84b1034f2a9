//! A document as the messages that a chat template takes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Kind, Part, PromptDoc, Speaker};

/// What a chat template is given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Chat {
    /// The messages, with `role`, `content` and what else there is, as in OpenAI's chat completions.
    pub messages: Vec<Value>,
    /// The tools, as in OpenAI's chat completions.
    pub tools: Vec<Value>,
    /// Further variables (`chat_template_kwargs`).
    pub variables: Map<String, Value>,
}

impl PromptDoc {
    /// The messages of a conversation; `None` for a text or token ids that no template lays out.
    #[must_use]
    pub fn chat(&self) -> Option<Chat> {
        if self.turns.is_empty() || self.parts.iter().any(|part| part.kind == Kind::Tokens) {
            return None;
        }
        let mut chat = Chat::default();
        let mut turns: BTreeMap<usize, Vec<&Part>> = BTreeMap::new();
        let mut instructions: Vec<&Part> = Vec::new();
        for part in &self.parts {
            match (part.turn, part.kind) {
                (Some(turn), _) => turns.entry(turn).or_default().push(part),
                (None, Kind::Tool) => chat.tools.extend(part.value.as_deref().map(tool)),
                (None, Kind::Parameter) => {
                    if let (true, Some(Value::Object(more))) =
                        (part.path == "chat_template_kwargs", part.value.as_deref())
                    {
                        chat.variables.extend(more.clone());
                    }
                }
                (None, _) => instructions.push(part),
            }
        }
        if !instructions.is_empty() {
            let content = text(&instructions, &[Kind::System, Kind::Document]);
            chat.messages.push(json!({"role": "system", "content": content}));
        }
        for (turn, parts) in turns {
            let speaker = self.turns.get(turn).map_or(Speaker::Other, |turn| turn.speaker);
            chat.messages.push(message(speaker, &parts));
        }
        Some(chat)
    }
}

fn message(speaker: Speaker, parts: &[&Part]) -> Value {
    let role = match speaker {
        Speaker::System => "system",
        Speaker::Assistant => "assistant",
        Speaker::Tool => "tool",
        // Anthropic's results of tools come as a user's message.
        Speaker::User if parts.iter().any(|part| part.kind == Kind::ToolResult) => "tool",
        Speaker::User | Speaker::Other => "user",
    };
    let mut message = json!({"role": role});
    // Reasoning inside the text stays there: a template looks for its tags.
    let inline = |part: &Part| {
        part.offset > 0
            || parts.iter().any(|other| other.path == part.path && other.kind != part.kind)
    };
    let said: Vec<&Part> = parts
        .iter()
        .copied()
        .filter(|part| part.kind != Kind::Reasoning || inline(part))
        .filter(|part| !part.path.ends_with(".name") || part.kind == Kind::ToolCall)
        .collect();
    let kinds = [
        Kind::System,
        Kind::Text,
        Kind::ToolResult,
        Kind::Document,
        Kind::Other,
        Kind::Media,
        Kind::Reasoning,
    ];
    message["content"] = text(&said, &kinds).into();
    let apart: Vec<&Part> = parts
        .iter()
        .copied()
        .filter(|part| part.kind == Kind::Reasoning && !inline(part))
        .collect();
    if !apart.is_empty() {
        message["reasoning_content"] = text(&apart, &[Kind::Reasoning]).into();
    }
    let calls: Vec<Value> = parts
        .windows(2)
        .filter(|pair| {
            pair.iter().all(|part| part.kind == Kind::ToolCall) && pair[0].path.ends_with(".name")
        })
        .map(|pair| {
            let text = || Value::from(&*pair[1].text);
            // A template takes the arguments as a structure, and a string where they are none.
            let arguments = match &pair[1].value {
                Some(value) => (**value).clone(),
                None => serde_json::from_str(&pair[1].text).unwrap_or_else(|_| text()),
            };
            json!({"type": "function", "function": {"name": &*pair[0].text, "arguments": arguments}})
        })
        .collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn text(parts: &[&Part], kinds: &[Kind]) -> String {
    parts.iter().filter(|part| kinds.contains(&part.kind)).map(|part| &*part.text).collect()
}

/// A tool in OpenAI's form, from either.
fn tool(tool: &Value) -> Value {
    match (tool.get("input_schema"), tool.get("name")) {
        (Some(schema), Some(name)) => {
            let description = tool.get("description").cloned().unwrap_or_default();
            let function = json!({"name": name, "description": description, "parameters": schema});
            json!({"type": "function", "function": function})
        }
        _ => tool.clone(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_either_form_becomes_messages() {
        let doc = |value: Value| PromptDoc::from_value(&value).unwrap().chat().unwrap();
        let chat = doc(json!({
            "tools": [{"name": "t", "description": "d", "input_schema": {"type": "object"}}],
            "system": "S",
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "i", "name": "t", "input": {"a": 1}},
                ]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "i", "content": "r"}]},
            ],
        }));
        assert_eq!(
            chat.messages,
            [
                json!({"role": "system", "content": "S"}),
                json!({"role": "user", "content": "q"}),
                json!({"role": "assistant", "content": "I look.", "reasoning_content": "hm", "tool_calls": [
                    {"type": "function", "function": {"name": "t", "arguments": {"a": 1}}},
                ]}),
                json!({"role": "tool", "content": "r"}),
            ]
        );
        assert_eq!(chat.tools[0]["function"]["parameters"], json!({"type": "object"}));
        let chat = doc(json!({"messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "<think>so</think>yes"},
        ]}));
        assert_eq!(chat.messages[1]["content"], "<think>so</think>yes");
        assert!(PromptDoc::from_value(&json!({"prompt": "text"})).unwrap().chat().is_none());
    }
}
