//! Each format, written from what is said.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tapri_api::encode::{self, Encoder, Head};
use tapri_api::{
    Admission, ApiError, CallEvent, Delta, ErrorKind, FinishReason, Format, Inbound, Piece, Reuse,
    ReuseStop, Says, Token, UpstreamError, Usage,
};

use super::{body, end, events, finish, finished, head, says, stream};

fn admitted() -> CallEvent {
    let reuse = Reuse {
        prompt: 100,
        cached: 64,
        restored: 0,
        joined: 0,
        stop: ReuseStop::Complete,
        other_scope: false,
    };
    CallEvent::Admitted(Admission {
        reuse: Some(reuse),
        queued: Duration::ZERO,
        template: None,
        prompt_ids: None,
        dropped: Vec::new(),
    })
}

/// Thinking, words and two calls.
fn rich() -> Vec<CallEvent> {
    vec![
        admitted(),
        says(vec![Says::Thinking("Hm".into())]),
        says(vec![Says::Thinking("m.".into()), Says::ThinkingSignature("c2ln".into())]),
        says(vec![Says::Text("Let me".into())]),
        CallEvent::Token(Token { id: 5, text: " look.".into(), logprobs: None }),
        says(vec![Says::ToolCall { index: 0, id: "call_1".into(), name: "get".into() }]),
        says(vec![Says::ToolArguments { index: 0, json: "{\"a\":".into() }]),
        says(vec![Says::ToolArguments { index: 0, json: "1}".into() }]),
        says(vec![
            Says::ToolCall { index: 1, id: "call_2".into(), name: "now".into() },
            end(FinishReason::ToolCalls),
        ]),
        finished(FinishReason::ToolCalls),
    ]
}

#[test]
fn chat() {
    let streamed = stream(Head { include_usage: true, ..head(Format::Chat) }, &rich());
    insta::assert_snapshot!(format!("{}\n\n{streamed}", body(head(Format::Chat), &rich())));
}

#[test]
fn messages() {
    let streamed = stream(head(Format::Messages), &rich());
    insta::assert_snapshot!(format!("{}\n\n{streamed}", body(head(Format::Messages), &rich())));
}

#[test]
fn responses() {
    let request = br#"{"input":"Hi","instructions":"Be brief.","tools":[{"type":"function","name":"get"}],"temperature":0.5}"#;
    let inbound = Inbound::read(Format::Responses, request.to_vec().into(), Vec::new()).unwrap();
    let head = Head { request: Some(Arc::new(inbound)), ..head(Format::Responses) };
    let streamed = stream(head.clone(), &rich());
    insta::assert_snapshot!(format!("{}\n\n{streamed}", body(head, &rich())));
}

#[test]
fn several_answers_by_their_numbers() {
    let piece =
        |choice, says| CallEvent::Piece(Piece { raw: None, deltas: vec![Delta { choice, says }] });
    let answer = [
        piece(1, Says::Text("B".into())),
        piece(0, Says::Text("A".into())),
        piece(1, end(FinishReason::Length)),
        piece(0, end(FinishReason::Stop)),
        finished(FinishReason::Length),
    ];
    let whole: Value = serde_json::from_str(&body(head(Format::Chat), &answer)).unwrap();
    assert_eq!(whole["choices"][0]["message"]["content"], "A");
    assert_eq!(whole["choices"][0]["finish_reason"], "stop");
    assert_eq!(whole["choices"][1]["message"]["content"], "B");
    assert_eq!(whole["choices"][1]["finish_reason"], "length");
    let streamed = stream(head(Format::Chat), &answer);
    let chunks: Vec<Value> =
        events(&streamed).iter().filter_map(|(_, data)| serde_json::from_str(data).ok()).collect();
    let of = |index: u64| {
        chunks.iter().map(|it| &it["choices"][0]).filter(move |it| it["index"] == index)
    };
    for (index, text, reason) in [(0, "A", "stop"), (1, "B", "length")] {
        let said: Vec<&Value> = of(index).collect();
        assert_eq!(said[0]["delta"]["role"], "assistant", "each begins with its role");
        assert_eq!(said[1]["delta"]["content"], text);
        assert_eq!(said[2]["finish_reason"], reason);
    }
}

#[test]
fn a_refusal_in_each_format() {
    let answer = [
        says(vec![Says::Refusal("No.".into()), end(FinishReason::ContentFilter)]),
        finished(FinishReason::ContentFilter),
    ];
    let json = |format| serde_json::from_str::<Value>(&body(head(format), &answer)).unwrap();
    let chat = json(Format::Chat);
    assert_eq!(chat["choices"][0]["message"]["refusal"], "No.");
    assert_eq!(chat["choices"][0]["message"]["content"], Value::Null);
    assert_eq!(chat["choices"][0]["finish_reason"], "stop");
    let message = json(Format::Messages);
    assert_eq!(message["content"], json!([{"type": "text", "text": "No."}]));
    assert_eq!(message["stop_reason"], "refusal");
    let response = json(Format::Responses);
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0], json!({"type": "refusal", "refusal": "No."}));
}

#[test]
fn an_end_at_the_limit_and_a_stop_sequence() {
    let json = |format, reason, stop: Option<&str>| {
        let mut finish = finish(reason, Usage::from_prompt(5, 0, 0, 1));
        finish.matched_stop = stop.map(str::to_owned);
        let events = [CallEvent::Finished(finish)];
        serde_json::from_str::<Value>(&body(head(format), &events)).unwrap()
    };
    let response = json(Format::Responses, FinishReason::Length, None);
    assert_eq!(response["status"], "incomplete");
    assert_eq!(response["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(json(Format::Messages, FinishReason::Length, None)["stop_reason"], "max_tokens");
    let stopped = json(Format::Messages, FinishReason::Stop, Some("END"));
    assert_eq!(stopped["stop_reason"], "stop_sequence");
    assert_eq!(stopped["stop_sequence"], "END");
    assert_eq!(json(Format::Messages, FinishReason::Pause, None)["stop_reason"], "pause_turn");
}

#[test]
fn hidden_hits_are_in_no_format() {
    for format in [Format::Chat, Format::Messages, Format::Responses] {
        let head = Head { hide_cached: true, include_usage: true, ..head(format) };
        for text in [body(head.clone(), &rich()), stream(head, &rich())] {
            for word in ["cached", "cache_read", "cache_creation", "cache_write"] {
                assert!(!text.contains(word), "{text}");
            }
            assert!(
                text.contains("\"prompt_tokens\":100") || text.contains("\"input_tokens\":100"),
                "{text}"
            );
        }
    }
}

#[test]
fn what_is_unknown_is_absent() {
    let events = [CallEvent::Finished(finish(FinishReason::Stop, Usage::default()))];
    let json = |format| serde_json::from_str::<Value>(&body(head(format), &events)).unwrap();
    assert_eq!(json(Format::Chat).get("usage"), None);
    assert_eq!(json(Format::Messages)["usage"], json!({}));
    assert_eq!(json(Format::Responses)["usage"], Value::Null);
}

#[test]
fn errors_in_each_format() {
    let own = ApiError::invalid("max_tokens", "`max_tokens` is missing").hint("Give it");
    let overloaded = ApiError::new(ErrorKind::Overloaded, "Overloaded").upstream(UpstreamError {
        format: Format::Messages,
        status: 529,
        kind: Some("overloaded_error".into()),
        request_id: Some("req_1".into()),
    });
    let quota = ApiError::new(ErrorKind::Busy, "Too much").code("insufficient_quota").upstream(
        UpstreamError {
            format: Format::Chat,
            status: 429,
            kind: Some("insufficient_quota".into()),
            request_id: Some("req_2".into()),
        },
    );
    let mut lines = Vec::new();
    for error in [own, overloaded, quota] {
        for format in [Format::Chat, Format::Messages] {
            lines.push(format!(
                "{} {}",
                error.status(),
                encode::error(format, &error, Some("call"))
            ));
        }
        for format in [Format::Chat, Format::Messages, Format::Responses] {
            let mut encoder = Encoder::stream(head(format));
            encoder.event(&says(vec![Says::Text("A".into())]));
            lines.push(encoder.event(&CallEvent::Failed(error.clone())).unwrap());
        }
    }
    insta::assert_snapshot!(lines.join("\n"));
}
