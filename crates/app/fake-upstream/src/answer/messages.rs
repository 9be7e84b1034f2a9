//! Messages.

use serde_json::{Value, json};

use super::{Answer, Frame, usage};

fn stop_reason<'a>(answer: &'a Answer<'_>) -> &'a str {
    match answer.finish() {
        "stop" => "end_turn",
        "length" => "max_tokens",
        "tool_calls" => "tool_use",
        "content_filter" => "refusal",
        other => other,
    }
}

fn blocks(answer: &Answer<'_>) -> Vec<Value> {
    let mut blocks = Vec::new();
    if let Some(thinking) = &answer.script.thinking {
        blocks.push(json!({"type": "thinking", "thinking": thinking, "signature": "c2lnbmVk"}));
    }
    let text = answer.words().concat();
    if !text.is_empty() {
        blocks.push(json!({"type": "text", "text": text}));
    }
    for (n, call) in answer.script.tool_calls.iter().enumerate() {
        // Arguments that are no JSON can't be said in a body.
        let input: Value = serde_json::from_str(&call.arguments).unwrap_or(json!({}));
        blocks.push(json!({
            "type": "tool_use", "id": format!("toolu_{}_{n}", answer.number), "name": call.name, "input": input,
        }));
    }
    blocks
}

fn message(answer: &Answer<'_>, content: Vec<Value>, stop: Value, usage: Option<Value>) -> Value {
    let mut message = json!({
        "id": answer.id("msg_"), "type": "message", "role": "assistant", "model": answer.model,
        "content": content, "stop_reason": stop, "stop_sequence": null,
    });
    if let Some(usage) = usage {
        message["usage"] = usage;
    }
    message
}

pub(super) fn body(answer: &Answer<'_>) -> Value {
    let usage = usage::messages(answer, answer.answered());
    message(answer, blocks(answer), stop_reason(answer).into(), usage)
}

pub(super) fn frames(answer: &Answer<'_>) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut push = |event: Value| frames.push(Frame::typed(&event));
    let begun = message(answer, Vec::new(), Value::Null, usage::messages(answer, 1));
    push(json!({"type": "message_start", "message": begun}));
    push(json!({"type": "ping"}));
    for (index, block) in blocks(answer).into_iter().enumerate() {
        let mut begin = block.clone();
        let deltas: Vec<Value> = match block["type"].as_str() {
            Some("thinking") => {
                (begin["thinking"], begin["signature"]) = ("".into(), "".into());
                vec![
                    json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                    json!({"type": "signature_delta", "signature": block["signature"]}),
                ]
            }
            Some("text") => {
                begin["text"] = "".into();
                answer
                    .words()
                    .iter()
                    .map(|word| json!({"type": "text_delta", "text": word}))
                    .collect()
            }
            _ => {
                begin["input"] = json!({});
                vec![
                    json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
                ]
            }
        };
        push(json!({"type": "content_block_start", "index": index, "content_block": begin}));
        for delta in deltas {
            push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        push(json!({"type": "content_block_stop", "index": index}));
    }
    let mut last = json!({
        "type": "message_delta", "delta": {"stop_reason": stop_reason(answer), "stop_sequence": null},
    });
    if let Some(usage) = usage::messages(answer, answer.answered()) {
        last["usage"] = usage;
    }
    push(last);
    push(json!({"type": "message_stop"}));
    frames
}
