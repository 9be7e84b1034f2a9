//! Responses.

use serde_json::{Value, json};

use super::{Answer, CREATED, Frame, usage};

fn envelope(answer: &Answer<'_>, status: &str, output: Vec<Value>, usage: Option<Value>) -> Value {
    json!({
        "id": answer.id("resp_"), "object": "response", "created_at": CREATED, "status": status,
        "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
        "model": answer.model, "output": output, "parallel_tool_calls": true, "temperature": 1.0,
        "tool_choice": "auto", "tools": [], "top_p": 1.0, "usage": usage,
    })
}

fn message(answer: &Answer<'_>, status: &str, content: Vec<Value>) -> Value {
    json!({"id": answer.id("msg_"), "type": "message", "status": status, "role": "assistant", "content": content})
}

fn text(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn call(answer: &Answer<'_>, n: usize, status: &str, arguments: &str) -> Value {
    let call = &answer.script.tool_calls[n];
    json!({
        "id": format!("fc_{}_{n}", answer.number), "type": "function_call", "status": status,
        "call_id": format!("call_{}_{n}", answer.number), "name": call.name, "arguments": arguments,
    })
}

fn outputs(answer: &Answer<'_>) -> Vec<Value> {
    let words = answer.words().concat();
    let mut outputs = Vec::new();
    if !words.is_empty() || answer.script.tool_calls.is_empty() {
        outputs.push(message(answer, "completed", vec![text(&words)]));
    }
    for (n, tool) in answer.script.tool_calls.iter().enumerate() {
        outputs.push(call(answer, n, "completed", &tool.arguments));
    }
    outputs
}

fn ended(answer: &Answer<'_>) -> Value {
    let usage = usage::responses(answer);
    let mut body = envelope(answer, "completed", outputs(answer), usage);
    if answer.finish() == "length" {
        body["status"] = "incomplete".into();
        body["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    body
}

pub(super) fn body(answer: &Answer<'_>) -> Value {
    ended(answer)
}

pub(super) fn frames(answer: &Answer<'_>) -> Vec<Frame> {
    let mut events: Vec<Value> = Vec::new();
    let begun = envelope(answer, "in_progress", Vec::new(), None);
    events.push(json!({"type": "response.created", "response": begun}));
    events.push(json!({"type": "response.in_progress", "response": begun}));
    let words = answer.words();
    let mut index = 0;
    if !words.is_empty() || answer.script.tool_calls.is_empty() {
        let id = answer.id("msg_");
        let all = words.concat();
        let at = |kind: &str| json!({"type": kind, "item_id": id, "output_index": index, "content_index": 0});
        let item =
            |kind: &str, item: Value| json!({"type": kind, "output_index": index, "item": item});
        events.push(item("response.output_item.added", message(answer, "in_progress", Vec::new())));
        let mut part = at("response.content_part.added");
        part["part"] = text("");
        events.push(part);
        for word in &words {
            let mut delta = at("response.output_text.delta");
            delta["delta"] = word.as_str().into();
            delta["logprobs"] = json!([]);
            events.push(delta);
        }
        let mut done = at("response.output_text.done");
        done["text"] = all.as_str().into();
        done["logprobs"] = json!([]);
        events.push(done);
        let mut part = at("response.content_part.done");
        part["part"] = text(&all);
        events.push(part);
        events.push(item(
            "response.output_item.done",
            message(answer, "completed", vec![text(&all)]),
        ));
        index += 1;
    }
    for (n, tool) in answer.script.tool_calls.iter().enumerate() {
        let item =
            |kind: &str, item: Value| json!({"type": kind, "output_index": index, "item": item});
        events.push(item("response.output_item.added", call(answer, n, "in_progress", "")));
        let id = format!("fc_{}_{n}", answer.number);
        events.push(json!({"type": "response.function_call_arguments.delta", "item_id": id,
                           "output_index": index, "delta": tool.arguments}));
        events.push(json!({"type": "response.function_call_arguments.done", "item_id": id, "name": tool.name,
                           "output_index": index, "arguments": tool.arguments}));
        events
            .push(item("response.output_item.done", call(answer, n, "completed", &tool.arguments)));
        index += 1;
    }
    let last = ended(answer);
    let kind =
        if last["status"] == "incomplete" { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": kind, "response": last}));
    events
        .iter_mut()
        .enumerate()
        .map(|(n, event)| {
            event["sequence_number"] = n.into();
            Frame::typed(event)
        })
        .collect()
}
