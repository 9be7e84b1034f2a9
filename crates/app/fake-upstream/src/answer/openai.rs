//! Chat completions, completions and embeddings.

use serde_json::{Value, json};

use super::{Answer, CREATED, Frame, usage};

fn tool_calls(answer: &Answer<'_>) -> Vec<Value> {
    answer
        .script
        .tool_calls
        .iter()
        .enumerate()
        .map(|(n, call)| {
            json!({
                "id": format!("call_{}_{n}", answer.number), "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            })
        })
        .collect()
}

fn with_usage(mut body: Value, usage: Option<Value>) -> Value {
    if let Some(usage) = usage {
        body["usage"] = usage;
    }
    body
}

pub(super) fn chat_body(answer: &Answer<'_>) -> Value {
    let choices: Vec<Value> = (0..answer.choices)
        .map(|index| {
            let text = answer.words().concat();
            let mut message = json!({"role": "assistant", "content": text, "refusal": null});
            if let Some(thinking) = &answer.script.thinking {
                message["reasoning_content"] = thinking.as_str().into();
            }
            if !answer.script.tool_calls.is_empty() {
                if text.is_empty() {
                    message["content"] = Value::Null;
                }
                message["tool_calls"] = tool_calls(answer).into();
            }
            json!({"index": index, "message": message, "logprobs": null, "finish_reason": answer.finish()})
        })
        .collect();
    let body = json!({
        "id": answer.id("chatcmpl-"), "object": "chat.completion", "created": CREATED, "model": answer.model,
        "choices": choices, "system_fingerprint": "fp_fake", "service_tier": "default",
    });
    with_usage(body, usage::chat(answer))
}

pub(super) fn chat_frames(answer: &Answer<'_>) -> Vec<Frame> {
    let chunk = |choices: Value| {
        let mut chunk = json!({
            "id": answer.id("chatcmpl-"), "object": "chat.completion.chunk", "created": CREATED,
            "model": answer.model, "system_fingerprint": "fp_fake", "choices": choices,
        });
        if answer.wants_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let delta = |index: usize, delta: Value, finish: Value| {
        Frame::unnamed(&chunk(json!([
            {"index": index, "delta": delta, "logprobs": null, "finish_reason": finish}
        ])))
    };
    let mut frames = Vec::new();
    for index in 0..answer.choices {
        frames.push(delta(index, json!({"role": "assistant", "content": ""}), Value::Null));
        if let Some(thinking) = &answer.script.thinking {
            frames.push(delta(index, json!({"reasoning_content": thinking}), Value::Null));
        }
    }
    for word in answer.words() {
        for index in 0..answer.choices {
            frames.push(delta(index, json!({"content": word}), Value::Null));
        }
    }
    for (n, call) in tool_calls(answer).into_iter().enumerate() {
        let arguments = call["function"]["arguments"].as_str().unwrap_or("").to_owned();
        let mut begin = call;
        begin["index"] = n.into();
        begin["function"]["arguments"] = "".into();
        frames.push(delta(0, json!({"tool_calls": [begin]}), Value::Null));
        // In halves, as arguments come in parts.
        let mut half = arguments.len() / 2;
        while !arguments.is_char_boundary(half) {
            half += 1;
        }
        for part in [&arguments[..half], &arguments[half..]] {
            let more = json!({"tool_calls": [{"index": n, "function": {"arguments": part}}]});
            frames.push(delta(0, more, Value::Null));
        }
    }
    for index in 0..answer.choices {
        frames.push(delta(index, json!({}), answer.finish().into()));
    }
    end(answer, chunk(json!([])), &mut frames);
    frames
}

/// The end of a stream: the usage in a chunk without choices, where it is asked for, and the last word.
fn end(answer: &Answer<'_>, mut last: Value, frames: &mut Vec<Frame>) {
    if answer.wants_usage
        && let Some(usage) = usage::chat(answer)
    {
        last["usage"] = usage;
        frames.push(Frame::unnamed(&last));
    }
    frames.push(Frame { event: None, data: "[DONE]".to_owned() });
}

pub(super) fn completion_body(answer: &Answer<'_>) -> Value {
    let choices: Vec<Value> = (0..answer.choices)
        .map(|index| {
            json!({"index": index, "text": answer.words().concat(), "logprobs": null,
                   "finish_reason": answer.finish()})
        })
        .collect();
    let body = json!({
        "id": answer.id("cmpl-"), "object": "text_completion", "created": CREATED, "model": answer.model,
        "choices": choices,
    });
    with_usage(body, usage::chat(answer))
}

pub(super) fn completion_frames(answer: &Answer<'_>) -> Vec<Frame> {
    let chunk = |choices: Value| {
        json!({"id": answer.id("cmpl-"), "object": "text_completion", "created": CREATED,
               "model": answer.model, "choices": choices})
    };
    let mut frames = Vec::new();
    for word in answer.words() {
        for index in 0..answer.choices {
            frames.push(Frame::unnamed(&chunk(json!([
                {"index": index, "text": word, "logprobs": null, "finish_reason": null}
            ]))));
        }
    }
    for index in 0..answer.choices {
        frames.push(Frame::unnamed(&chunk(json!([
            {"index": index, "text": "", "logprobs": null, "finish_reason": answer.finish()}
        ]))));
    }
    end(answer, chunk(json!([])), &mut frames);
    frames
}

/// Vectors that depend on the number of the input alone, or on its text.
pub(super) fn embeddings(answer: &Answer<'_>) -> Value {
    let data: Vec<Value> = answer
        .inputs
        .iter()
        .enumerate()
        .map(|(index, text)| {
            let vector = if answer.script.letters { letters(text) } else { numbered(index) };
            json!({"object": "embedding", "index": index, "embedding": vector})
        })
        .collect();
    let prompt = answer.found.prompt;
    json!({
        "object": "list", "model": answer.model, "data": data,
        "usage": {"prompt_tokens": prompt, "total_tokens": prompt},
    })
}

/// Of length 1.
fn numbered(index: usize) -> Vec<f64> {
    let angle = index as f64 * 0.7;
    let mut vector = vec![0.0; 8];
    (vector[0], vector[1]) = (angle.cos(), angle.sin());
    vector
}

/// How often each pair of letters is in a text: crude, but near texts are near.
fn letters(text: &str) -> Vec<f64> {
    let letters: Vec<usize> = text
        .bytes()
        .filter(u8::is_ascii_alphabetic)
        .map(|byte| usize::from(byte.to_ascii_lowercase() - b'a'))
        .collect();
    let mut vector = vec![0.0; 26 * 26];
    letters.windows(2).for_each(|pair| vector[pair[0] * 26 + pair[1]] += 1.0);
    vector
}
