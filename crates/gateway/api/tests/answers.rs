//! The wire format of answers, as snapshots; and that a stream and a body of the same events agree.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::Value;
use tapri_api::encode::{Encoder, Head};
use tapri_api::openai;
use tapri_api::{
    ApiError, CallEvent, CallId, ErrorKind, Finish, FinishReason, Format, Logprob, Timings, Token,
    TokenLogprobs, Usage,
};

fn head(format: Format, hide_cached: bool) -> Head {
    Head {
        created: 1_700_000_000,
        fingerprint: Some("fp_0123456789".into()),
        hide_cached,
        ..Head::new(format, CallId(0xabc), "tiny")
    }
}

fn token(id: u32, text: &str) -> CallEvent {
    CallEvent::Token(Token { id, text: text.into(), logprobs: None })
}

fn finished(tail: &str, usage: Usage) -> CallEvent {
    CallEvent::Finished(Finish {
        reason: FinishReason::Length,
        matched_stop: None,
        tail: tail.into(),
        usage,
        raw: None,
        timings: Timings::default(),
    })
}

fn answer() -> Vec<CallEvent> {
    let logprob = |id, bytes: &[u8], logprob| Logprob { id, bytes: bytes.to_vec(), logprob };
    vec![
        token(5, "Good"),
        token(6, ""),
        CallEvent::Token(Token {
            id: 7,
            text: " é".into(),
            logprobs: Some(TokenLogprobs {
                chosen: logprob(7, b"\xa9", -0.5),
                top: vec![
                    logprob(8, b" day", -0.25),
                    logprob(9, b" day", -3.0),
                    logprob(10, b"x", f32::NEG_INFINITY),
                ],
            }),
        }),
        finished("!", Usage::from_prompt(100, 64, 16, 3)),
    ]
}

/// The data of a stream's events, without the last `[DONE]`.
fn stream(head: Head, include_usage: bool, events: &[CallEvent]) -> Vec<String> {
    let mut encoder = Encoder::stream(Head { include_usage, ..head });
    let frames: String = events.iter().filter_map(|event| encoder.event(event)).collect();
    let mut data: Vec<String> =
        frames.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect();
    assert_eq!(data.pop().as_deref(), Some("[DONE]"));
    data
}

fn body(head: Head, events: &[CallEvent]) -> String {
    let mut encoder = Encoder::whole(head);
    events.iter().find_map(|event| encoder.event(event)).unwrap()
}

#[test]
fn chat_chunks() {
    insta::assert_snapshot!(stream(head(Format::Chat, false), true, &answer()).join("\n"));
}

#[test]
fn completion_chunks() {
    insta::assert_snapshot!(stream(head(Format::Completion, false), false, &answer()).join("\n"));
}

#[test]
fn chat_body() {
    insta::assert_snapshot!(body(head(Format::Chat, false), &answer()));
}

#[test]
fn completion_body() {
    insta::assert_snapshot!(body(head(Format::Completion, false), &answer()));
}

#[test]
fn zero_is_written_as_zero_and_hidden_is_absent() {
    let cold = [finished("", Usage::from_prompt(10, 0, 0, 0))];
    let usage = |hide| {
        serde_json::from_str::<Value>(&body(head(Format::Chat, hide), &cold)).unwrap()["usage"]
            .clone()
    };
    assert_eq!(usage(false)["prompt_tokens_details"]["cached_tokens"], 0);
    assert_eq!(usage(true).get("prompt_tokens_details"), None);
    assert_eq!(usage(true)["prompt_tokens"], 10);
}

#[test]
fn a_note_stands_in_the_body_and_in_the_last_chunk_alone() {
    let note = serde_json::json!({ "reason": "time_changed" });
    let explain =
        |include_usage| Head { explain: true, include_usage, ..head(Format::Chat, false) };
    let mut encoder = Encoder::whole(explain(false));
    encoder.note(note.clone());
    let whole = answer().iter().find_map(|event| encoder.event(event)).unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&whole).unwrap()["tapri"], note);

    for include_usage in [false, true] {
        let mut encoder = Encoder::stream(explain(include_usage));
        encoder.note(note.clone());
        let frames: String = answer().iter().filter_map(|event| encoder.event(event)).collect();
        let all: Vec<serde_json::Value> = frames
            .lines()
            .filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
            .collect();
        let (last, before) = all.split_last().unwrap();
        assert_eq!(last["tapri"], note);
        assert_eq!(last.get("usage").is_some(), include_usage);
        assert!(before.iter().all(|chunk| chunk.get("tapri").is_none()));
    }
}

#[test]
fn errors() {
    let errors = [
        ApiError::invalid("messages[0].role", "`messages[0].role` is missing")
            .code("missing_field")
            .hint("Give it"),
        ApiError::new(ErrorKind::NotFound, "The model `x` is not served here")
            .at("model")
            .code("model_not_found"),
        ApiError::new(ErrorKind::Busy, "Too many calls wait").retry_after(Duration::from_secs(2)),
        ApiError::new(ErrorKind::Internal, "It broke"),
    ];
    let lines: Vec<String> =
        errors.iter().map(|e| format!("{} {}", e.status(), openai::error::render(e))).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn models_and_tokens() {
    let model = openai::model::ModelObject::new("tiny", 1_700_000_000, Some(2048));
    let lines = [
        openai::model::render_list(std::slice::from_ref(&model)),
        model.render(),
        openai::tokenize::render(&[1, 2, 3], Some(2048)),
        openai::tokenize::render_detokenized("a \"b\""),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

proptest! {
    /// The text, the reason and the usage of a stream are those of the body.
    #[test]
    fn stream_and_body_agree(
        texts in prop::collection::vec(".{0,4}", 0..20),
        tail in ".{0,4}",
        prompt in 0usize..1000, cached in 0usize..1000, joined in 0usize..1000,
        chat in any::<bool>(), hide in any::<bool>(),
    ) {
        let mut events: Vec<CallEvent> = texts.iter().map(|text| token(1, text)).collect();
        events.push(finished(&tail, Usage::from_prompt(prompt, cached, joined, texts.len())));
        let format = if chat { Format::Chat } else { Format::Completion };
        let body: Value = serde_json::from_str(&body(head(format, hide), &events)).unwrap();
        let chunks: Vec<Value> =
            stream(head(format, hide), true, &events).iter().map(|c| serde_json::from_str(c).unwrap()).collect();
        let (last, rest) = chunks.split_last().unwrap();
        let pointer = if chat { "/choices/0/delta/content" } else { "/choices/0/text" };
        let streamed: String = rest.iter().filter_map(|c| c.pointer(pointer)?.as_str()).collect();
        let whole = body.pointer(if chat { "/choices/0/message/content" } else { "/choices/0/text" }).unwrap();
        prop_assert_eq!(streamed.as_str(), whole.as_str().unwrap());
        prop_assert_eq!(&last["usage"], &body["usage"]);
        prop_assert_eq!(rest.last().unwrap().pointer("/choices/0/finish_reason"), body.pointer("/choices/0/finish_reason"));
        prop_assert!(rest.iter().all(|c| c["usage"].is_null()));
    }
}
