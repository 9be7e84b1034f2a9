#![expect(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn listing(doc: &PromptDoc) -> Vec<String> {
    doc.parts
        .iter()
        .map(|part| format!("{:?} {}+{} {}", part.kind, part.path, part.offset, part.text))
        .collect()
}

#[test]
fn chat_completions_in_reading_order() {
    let doc = PromptDoc::from_value(&json!({
        "model": "gpt-5",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ]},
            {"role": "assistant", "content": null, "reasoning_content": "Look.", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "see", "arguments": "{\"a\": 1}"}},
            ]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
            {"role": "assistant", "content": "<think>so</think>A cat."},
        ],
        "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "see", "parameters": {"b": 1, "a": 2}}}],
        "prompt_cache_key": "k1",
        "user": "u1",
    }))
    .unwrap();
    assert_eq!(doc.dialect, Dialect::ChatCompletions);
    assert_eq!(
        listing(&doc),
        [
            r#"Tool tools[0]+0 {"type":"function","function":{"name":"see","parameters":{"b":1,"a":2}}}"#,
            r#"Parameter response_format+0 {"type":"json_object"}"#,
            "System messages[0].content+0 Be brief.",
            "Text messages[1].content[0].text+0 What is this?",
            r#"Media messages[1].content[1]+0 {"type":"image_url","image_url":{"url":"26 bytes, sha256 bde6da8e9d3902a8"}}"#,
            "Reasoning messages[2].reasoning_content+0 Look.",
            "Id messages[2].tool_calls[0].id+0 call_1",
            "ToolCall messages[2].tool_calls[0].function.name+0 see",
            r#"ToolCall messages[2].tool_calls[0].function.arguments+0 {"a": 1}"#,
            "Id messages[3].tool_call_id+0 call_1",
            "ToolResult messages[3].content+0 a cat",
            "Reasoning messages[4].content+0 <think>so</think>",
            "Text messages[4].content+17 A cat.",
        ]
    );
    assert_eq!(doc.parts[0].name.as_deref(), Some("see"));
    assert_eq!(doc.partitions[0].value, "k1");
    assert_eq!(doc.user.as_deref(), Some("u1"));
}

#[test]
fn anthropic_messages_with_markers_and_usage() {
    let doc = PromptDoc::from_value(&json!({
        "timestamp": "2026-11-30T09:00:00Z",
        "request": {
            "model": "claude-sonnet-5",
            "max_tokens": 10,
            "tools": [{"name": "t", "input_schema": {}, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": "q"},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "x"},
                    {"type": "tool_use", "id": "toolu_1", "name": "t", "input": {"z": 1}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "r"}]},
                ]},
            ],
            "cache_control": {"type": "ephemeral"},
            "metadata": {"user_id": "user_1_account__session_77"},
        },
        "response": {
            "id": "msg_1",
            "usage": {"input_tokens": 5, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100, "output_tokens": 1},
            "diagnostics": {"cache_miss_reason": {"type": "system_changed", "cache_missed_input_tokens": 7}},
        },
    }))
    .unwrap();
    assert_eq!(doc.dialect, Dialect::Messages);
    assert_eq!(
        listing(&doc),
        [
            r#"Tool tools[0]+0 {"name":"t","input_schema":{}}"#,
            "System system[0].text+0 S",
            "Text messages[0].content+0 q",
            "Reasoning messages[1].content[0].thinking+0 hm",
            "Id messages[1].content[1].id+0 toolu_1",
            "ToolCall messages[1].content[1].name+0 t",
            r#"ToolCall messages[1].content[1].input+0 {"z":1}"#,
            "Id messages[2].content[0].tool_use_id+0 toolu_1",
            "ToolResult messages[2].content[0].content[0].text+0 r",
        ]
    );
    assert_eq!(doc.markers[0].ttl.as_deref(), Some("1h"));
    assert_eq!((doc.markers[1].path.as_str(), doc.markers[1].part), ("system[0].cache_control", 1));
    assert_eq!(doc.automatic_marker, Some(None));
    assert_eq!(doc.id.as_deref(), Some("msg_1"));
    assert_eq!(doc.conversation.as_deref(), Some("77"));
    assert_eq!(doc.at, Some("2026-11-30T09:00:00Z".parse().unwrap()));
    let usage = doc.usage.unwrap();
    assert_eq!((usage.prompt, usage.cached, usage.written), (Some(115), Some(100), Some(10)));
    let diagnosis = doc.diagnosis.unwrap();
    assert_eq!((diagnosis.verdict.as_str(), diagnosis.missed_tokens), ("system_changed", Some(7)));
}

#[test]
fn responses_completions_and_what_logs_keep() {
    let doc = PromptDoc::from_value(&json!({
        "model": "gpt-5.6", "instructions": "I", "reasoning": {"effort": "high"},
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "o"},
        ],
        "prompt_cache_options": {"mode": "explicit"},
    }))
    .unwrap();
    assert_eq!(doc.dialect, Dialect::Responses);
    assert!(doc.explicit_only);
    assert_eq!(
        listing(&doc),
        [
            "Parameter reasoning.effort+0 high",
            "System instructions+0 I",
            "Text input[0].content[0].text+0 q",
            "Id input[1].call_id+0 c1",
            "ToolCall input[1].name+0 f",
            "ToolCall input[1].arguments+0 {}",
            "Id input[2].call_id+0 c1",
            "ToolResult input[2].output+0 o",
        ]
    );
    let line = json!({
        "timestamp": 1_760_997_683_007_063_i64, "output": "x", "session_id": "s",
        "input": "user: hé\n\nassistant: b\nc\n\nuser: d",
    });
    let doc = PromptDoc::from_value(&line).unwrap();
    assert_eq!(doc.dialect, Dialect::Text);
    assert_eq!(
        listing(&doc),
        ["Text input+0 user: hé", "Text input+8 \n\nassistant: b\nc", "Text input+24 \n\nuser: d"]
    );
    assert_eq!(doc.conversation.as_deref(), Some("s"));
    assert_eq!(doc.at.unwrap().to_string(), "2025-10-20T22:01:23.007063Z");
    let doc = PromptDoc::from_value(&json!({"model": "m", "prompt": [1, 22, 333]})).unwrap();
    assert_eq!(listing(&doc), ["Tokens prompt+0 1 22 333"]);
    let messages = json!([{"role": "user", "content": "a"}]);
    assert_eq!(listing(&PromptDoc::from_value(&messages).unwrap()), ["Text [0].content+0 a"]);
    let wrapped =
        json!({"kwargs": {"body": "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"}});
    let doc = PromptDoc::from_value(&wrapped).unwrap();
    assert_eq!(listing(&doc), ["Text messages[0].content+0 a"]);
    let litellm = json!({
        "call_type": "acompletion", "model": "m", "messages": [{"role": "user", "content": "a"}],
        "model_parameters": {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "response": {"id": "r", "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4}}},
    });
    let doc = PromptDoc::from_value(&litellm).unwrap();
    assert_eq!(doc.parts[0].path, "tools[0]");
    assert_eq!(doc.usage.unwrap().cached, Some(4));
}

#[test]
fn what_is_no_request_is_said() {
    let error = PromptDoc::from_value(&json!({"foo": 1, "bar": 2})).unwrap_err();
    assert_eq!(error.to_string(), "no request in it: no messages, input or prompt among foo, bar");
    assert!(matches!(PromptDoc::parse(b"{nope"), Err(PromptError::NotJson(_))));
    let deep = "[".repeat(100_000);
    assert!(matches!(PromptDoc::parse(deep.as_bytes()), Err(PromptError::NotJson(_))));
}

#[test]
fn a_place_in_the_canonical_text_leads_back() {
    let doc = PromptDoc::from_value(&json!({"messages": [
        {"role": "system", "content": "Sé"},
        {"role": "user", "content": "question"},
    ]}))
    .unwrap();
    let canonical = doc.canonical();
    assert_eq!(canonical.text, "\n<|system|>\nSé\n<|user|>\nquestion");
    let at = canonical.text.find("stion").unwrap();
    let spot = canonical.spot(&doc, at).unwrap();
    assert_eq!((spot.path.as_str(), spot.character), ("messages[1].content", 3));
    let spot = canonical.spot(&doc, canonical.text.find("<|user").unwrap()).unwrap();
    assert_eq!((spot.path.as_str(), spot.character), ("messages[1].content", 0));
    assert_eq!(canonical.spot(&doc, canonical.text.len()), None);
}
