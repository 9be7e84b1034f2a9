//! Requests of every format that are changed at random: read or refused with a status of the client's, never a panic,
//! whatever they are then made into. `TAPRI_TEST_FOR=1h cargo test -p tapri-api --test hostile` goes on for an hour.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/effort.rs"]
mod effort;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tapri_api::openai::{embeddings, tokenize};
use tapri_api::{ApiError, CacheDirectives, Format, Inbound, convert, lower};

const FORMATS: [Format; 5] =
    [Format::Chat, Format::Completion, Format::Responses, Format::Embeddings, Format::Messages];

/// A request with most of what its format has.
fn valid(format: Format) -> Value {
    let function = json!({"name": "get", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}});
    match format {
        Format::Chat => json!({
            "model": "m", "stream": true, "stream_options": {"include_usage": true},
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
                {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "get", "arguments": "{\"city\": 1}"}}]},
                {"role": "tool", "tool_call_id": "c", "content": "rain"}],
            "tools": [{"type": "function", "function": function}], "tool_choice": {"type": "function", "function": {"name": "get"}},
            "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
            "max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "top_k": 4, "seed": 1, "n": 2, "stop": ["x"], "logprobs": true,
            "top_logprobs": 5, "logit_bias": {"7": -1.5}, "presence_penalty": 0.1, "frequency_penalty": 0.2, "user": "u",
            "metadata": {"session_id": "s"}, "cache_salt": "s"}),
        Format::Completion => json!({
            "model": "m", "prompt": ["a", "b"], "max_tokens": 3, "temperature": 0, "logprobs": 2, "echo": false, "n": 1,
            "stop": "x", "seed": -1, "suffix": null, "best_of": 1, "logit_bias": {"1": 2}, "ignore_eos": true}),
        Format::Responses => json!({
            "model": "m", "instructions": "Be brief.", "max_output_tokens": 9, "temperature": 1, "text": {"format": {"type": "text"}},
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "function_call", "call_id": "c", "name": "get", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c", "output": "rain"}],
            "tools": [{"type": "function", "name": "get", "parameters": {"type": "object"}}], "tool_choice": "auto", "store": false}),
        Format::Embeddings => {
            json!({"model": "m", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 4})
        }
        Format::Messages => json!({
            "model": "m", "max_tokens": 9, "stream": true, "temperature": 0.3, "stop_sequences": ["x"], "metadata": {"user_id": "u"},
            "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, {"type": "tool_use", "id": "c", "name": "get", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "rain"}], "is_error": true}]}],
            "tools": [{"name": "get", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"}}),
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&[-1.0, 1e308, 1e-308, 4294967296.0][..]).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        prop::sample::select(
            &["user", "text", "function", "auto", "\u{0}", "{}", "tool_result"][..]
        )
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(KEYS), inner), 0..4).prop_map(|pairs| {
                let pairs = pairs.into_iter().map(|(key, value)| (key.to_owned(), value));
                Value::Object(pairs.collect::<Map<_, _>>())
            }),
        ]
    })
}

/// Names that mean something somewhere.
const KEYS: &[&str] = &[
    "type",
    "role",
    "content",
    "text",
    "input",
    "name",
    "id",
    "function",
    "arguments",
    "parameters",
    "tool_calls",
    "call_id",
    "output",
    "cache_control",
    "ttl",
    "schema",
    "json_schema",
    "format",
    "image_url",
    "url",
    "source",
    "data",
    "tool_use_id",
    "signature",
    "summary",
    "strict",
];

/// What is done to one place of a request.
#[derive(Debug, Clone)]
enum Change {
    Put(Value),
    Remove,
    Rename(&'static str),
    Double,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any_value().prop_map(Change::Put),
        1 => Just(Change::Remove),
        1 => prop::sample::select(KEYS).prop_map(Change::Rename),
        1 => Just(Change::Double),
    ]
}

/// Counts the places below a value.
fn places(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(|value| 1 + places(value)).sum(),
        Value::Object(map) => map.values().map(|value| 1 + places(value)).sum(),
        _ => 0,
    }
}

/// Changes the place of that number, counted down.
fn apply(value: &mut Value, number: &mut usize, change: &Change) -> bool {
    match value {
        Value::Array(list) => {
            for at in 0..list.len() {
                if *number == 0 {
                    match change {
                        Change::Put(new) => list[at] = new.clone(),
                        Change::Remove => drop(list.remove(at)),
                        Change::Rename(_) | Change::Double => list.insert(at, list[at].clone()),
                    }
                    return true;
                }
                *number -= 1;
                if apply(&mut list[at], number, change) {
                    return true;
                }
            }
        }
        Value::Object(map) => {
            for key in map.keys().cloned().collect::<Vec<_>>() {
                if *number == 0 {
                    match change {
                        Change::Put(new) => drop(map.insert(key, new.clone())),
                        Change::Remove => drop(map.remove(&key)),
                        Change::Rename(new) => {
                            let value = map.remove(&key).unwrap();
                            map.insert((*new).to_owned(), value);
                        }
                        Change::Double => {
                            let value = map[&key].clone();
                            map.insert(key, json!([value.clone(), value]));
                        }
                    }
                    return true;
                }
                *number -= 1;
                if apply(map.get_mut(&key).unwrap(), number, change) {
                    return true;
                }
            }
        }
        _ => {}
    }
    false
}

/// A refusal is the client's to mend, and says something.
fn refused(error: &ApiError) {
    assert!((400..500).contains(&error.status()) || error.status() == 501, "{error:?}");
    assert!(!error.to_string().is_empty());
}

/// All that is done with a request on its way.
fn read(format: Format, body: &[u8]) {
    let bytes = Bytes::copy_from_slice(body);
    let inbound = match Inbound::read(format, bytes, Vec::new()) {
        Ok(inbound) => inbound,
        Err(error) => return refused(&error),
    };
    let _ = (inbound.salt(), inbound.conversation(), inbound.max_tokens(), inbound.choices());
    if let Err(error) = lower(&inbound) {
        refused(&error);
    }
    if format == Format::Embeddings {
        if let Err(error) = embeddings::parse(&inbound) {
            refused(&error);
        }
        return;
    }
    for to in [Format::Chat, Format::Responses, Format::Messages] {
        match convert::request(&inbound, to) {
            Ok(converted) => assert!(!format!("{converted:?}").is_empty()),
            Err(error) => refused(&error),
        }
    }
}

#[test]
fn a_changed_request_is_read_or_refused() {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), change()), 0..5);
    let requests = (prop::sample::select(&FORMATS[..]), changes);
    effort::check(1500, &requests, |(format, changes)| {
        let mut body = valid(format);
        for (place, change) in changes {
            let count = places(&body);
            if count > 0 {
                apply(&mut body, &mut place.index(count), &change);
            }
        }
        read(format, body.to_string().as_bytes());
        Ok(())
    });
}

#[test]
fn changed_bytes_are_read_or_refused() {
    let byte = (any::<prop::sample::Index>(), any::<u8>());
    let requests = (
        prop::sample::select(&FORMATS[..]),
        prop::collection::vec(byte, 0..6),
        prop::option::of(any::<prop::sample::Index>()),
    );
    effort::check(1500, &requests, |(format, bytes, cut)| {
        let mut body = valid(format).to_string().into_bytes();
        for (index, byte) in bytes {
            let index = index.index(body.len());
            body[index] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        read(format, &body);
        for result in
            [tokenize::parse(&body).map(drop), tokenize::parse_detokenize(&body).map(drop)]
        {
            if let Err(error) = result {
                refused(&error);
            }
        }
        Ok(())
    });
}

#[test]
fn nesting_without_end_is_refused() {
    for format in FORMATS {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let deep = 100_000;
            let body = format!("{{\"messages\": {}1{}}}", open.repeat(deep), close.repeat(deep));
            read(format, body.as_bytes());
        }
    }
}

/// What stands in a header is read as far as it is understood.
#[test]
fn any_cache_control_is_read() {
    let word = prop_oneof![
        prop::sample::select(
            &[
                "no-store",
                "no-cache",
                "only-if-cached",
                "max-age=",
                "max-age=9",
                ",",
                ", ",
                "=",
                "\"",
                "\\"
            ][..]
        )
        .prop_map(str::to_owned),
        ".{0,6}",
        any::<u64>().prop_map(|n| n.to_string()),
    ];
    effort::check(500, &prop::collection::vec(word, 0..6), |words| {
        let directives = CacheDirectives::parse(&words.concat());
        prop_assert!(directives.max_age.is_none_or(|age| age.subsec_nanos() == 0));
        Ok(())
    });
}
