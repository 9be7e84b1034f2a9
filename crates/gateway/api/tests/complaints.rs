//! What users of other gateways complain of, and that it can't happen here. Each test is named after what it shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value, json};
use tapri_api::decode::{Decoder, Options};
use tapri_api::encode::{Encoder, Head};
use tapri_api::{CallEvent, CallId, Finish, FinishReason, Format, Says, Usage};

fn decoded(format: Format, lines: &[&str]) -> Vec<CallEvent> {
    let mut decoder = Decoder::new(format, Options::default());
    let mut events: Vec<CallEvent> =
        lines.iter().flat_map(|line| decoder.event(None, line).unwrap()).collect();
    events.extend(decoder.end());
    events
}

fn finish(events: &[CallEvent]) -> &Finish {
    match events.last() {
        Some(CallEvent::Finished(finish)) => finish,
        other => panic!("no finish: {other:?}"),
    }
}

const REASONING: [&str; 5] = [
    r#"{"id":"up","created":1,"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm"}}],"usage":null}"#,
    r#"{"id":"up","created":1,"choices":[{"index":0,"delta":{"content":"Hi"}}],"usage":null}"#,
    r#"{"id":"up","created":1,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
    r#"{"id":"up","created":1,"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":8,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":3,"accepted_prediction_tokens":0}}}"#,
    "[DONE]",
];

/// BerriAI/litellm#32068 (thinking lost), #42244 (details lost), #24579 (streams of responses not stored).
#[test]
fn a_streamed_replay_keeps_the_thinking_and_the_details_of_the_usage() {
    let events = decoded(Format::Chat, &REASONING);
    let head = Head {
        include_usage: true,
        replayed: true,
        created: 7,
        ..Head::new(Format::Chat, CallId(1), "m")
    };
    let mut encoder = Encoder::stream(head.clone());
    let streamed: String = events.iter().filter_map(|event| encoder.event(event)).collect();
    let expected: String = REASONING
        .iter()
        .map(|line| format!("data: {line}\n\n"))
        .collect::<String>()
        .replace(r#""id":"up","created":1"#, &format!(r#""id":"{}","created":7"#, head.id));
    assert_eq!(streamed, expected, "but for the id and the time, byte for byte");

    // The same events as one body, and in another format.
    let mut encoder = Encoder::whole(head);
    let whole = events.iter().find_map(|event| encoder.event(event)).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["choices"][0]["message"]["reasoning_content"], "Hm");
    assert_eq!(whole["usage"]["completion_tokens_details"]["accepted_prediction_tokens"], 0);
    let mut encoder = Encoder::whole(Head::new(Format::Messages, CallId(1), "m"));
    let message = events.iter().find_map(|event| encoder.event(event)).unwrap();
    let message: Value = serde_json::from_str(&message).unwrap();
    assert_eq!(message["content"][0]["thinking"], "Hm");
}

/// BerriAI/litellm#40294 (nothing replayed), OmniRoute#12885 (cut answers), inspect_ai#4846 (filtered ones): whoever
/// stores answers can tell them from good ones, in every format.
#[test]
fn empty_cut_and_filtered_answers_are_no_good_ends() {
    let chat = |choices: &str| {
        let mut decoder = Decoder::new(Format::Chat, Options::default());
        decoder.body(&format!(r#"{{"choices":{choices}}}"#))
    };
    assert_eq!(chat("[]").unwrap_err().code.as_deref(), Some("upstream_invalid"));
    for (choice, reason) in [
        (r#"{"message":{"content":"A"},"finish_reason":"stop"}"#, FinishReason::Stop),
        (r#"{"message":{"content":"A"},"finish_reason":"length"}"#, FinishReason::Length),
        (
            r#"{"message":{"content":""},"finish_reason":"content_filter"}"#,
            FinishReason::ContentFilter,
        ),
        (r#"{"message":{"refusal":"No."},"finish_reason":"stop"}"#, FinishReason::ContentFilter),
        (r#"{"message":{"content":"A"},"finish_reason":"abort"}"#, FinishReason::ContentFilter),
    ] {
        let events = chat(&format!("[{choice}]")).unwrap();
        assert_eq!(finish(&events).reason, reason, "{choice}");
    }
    let broken = decoded(Format::Chat, &REASONING[..2]);
    assert!(matches!(broken.last(), Some(CallEvent::Failed(_))), "no last event, no answer");
    let refused = r#"{"type":"message","content":[],"stop_reason":"refusal"}"#;
    let events = Decoder::new(Format::Messages, Options::default()).body(refused).unwrap();
    assert_eq!(finish(&events).reason, FinishReason::ContentFilter);
}

/// BerriAI/litellm#14849, #11789, #9812, #6215, Aider#5516: cached tokens billed twice, or below zero.
#[test]
fn every_prompt_token_is_counted_once() {
    let told = json!({
        "input_tokens": 12, "cache_read_input_tokens": 2000, "cache_creation_input_tokens": 300,
        "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200},
        "output_tokens": 5,
    });
    let usage = Usage::from_anthropic(&told);
    let parts = usage.parts();
    let sum = usage.uncached().unwrap()
        + parts.cached.unwrap()
        + parts.written_short.unwrap()
        + parts.written_long.unwrap();
    assert_eq!(usage.prompt(), Some(sum));
    let chat = usage.to_chat(false).unwrap();
    assert_eq!(chat["prompt_tokens"], 2312);
    assert_eq!(Usage::from_openai(&chat).to_anthropic(false)["input_tokens"], 12, "and back");
    // A provider that contradicts itself.
    let wrong = json!({"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}});
    let usage = Usage::from_openai(&wrong);
    assert_eq!((usage.cached(), usage.uncached()), (Some(10), Some(0)));
}

/// BerriAI/litellm#22984, vllm#44961: what isn't told became 0, and 0 was taken for not told.
#[test]
fn told_not_told_and_zero_are_three_things() {
    let usage = |details: Value| {
        Usage::from_openai(
            &json!({"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}),
        )
    };
    let cases = [
        (usage(json!({"cached_tokens": 8})), Some(8)),
        (usage(json!({"cached_tokens": 0})), Some(0)),
        (usage(json!({"cached_tokens": null})), None),
        (usage(Value::Null), None),
    ];
    for (usage, cached) in cases {
        assert_eq!(usage.cached(), cached);
        let chat = usage.to_chat(false).unwrap();
        let said =
            chat.get("prompt_tokens_details").and_then(|details| details.get("cached_tokens"));
        assert_eq!(said.and_then(Value::as_u64), cached.map(|n| n as u64));
        let message = usage.to_anthropic(false);
        assert_eq!(message.get("cache_read_input_tokens").is_some(), cached.is_some());
    }
}

/// A stream's last event of each format has the usage with what was cached, also where the answer is another format's.
#[test]
fn every_stream_ends_with_what_was_cached() {
    let events = decoded(Format::Chat, &REASONING);
    assert!(events.iter().any(|event| matches!(event, CallEvent::Piece(piece)
        if piece.deltas.iter().any(|delta| matches!(delta.says, Says::Thinking(_))))));
    for (format, name) in [
        (Format::Chat, "cached_tokens"),
        (Format::Messages, "cache_read_input_tokens"),
        (Format::Responses, "cached_tokens"),
    ] {
        let head = Head { include_usage: true, ..Head::new(format, CallId(1), "m") };
        let mut encoder = Encoder::stream(head);
        let streamed: String = events.iter().filter_map(|event| encoder.event(event)).collect();
        assert!(streamed.contains(&format!("\"{name}\":8")), "{format:?}: {streamed}");
    }
}
