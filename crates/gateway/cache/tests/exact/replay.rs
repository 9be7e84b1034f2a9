//! What comes back: the events that came (complaint 7: a field that the gateway didn't know was lost in the replay).

use std::time::Duration;

use serde_json::json;
use tapri_api::{
    CallEvent, Delta, Finish, FinishReason, Format, Logprob, Piece, Raw, Says, Timings, Token,
    TokenLogprobs, Usage,
};
use tapri_cache::exact::{Entry, Key, Look, Tags};

use crate::play::*;

fn everything() -> Vec<CallEvent> {
    let logprob = |id, logprob| Logprob { id, bytes: vec![0xe0, 0xa4], logprob };
    let token = Token {
        id: 7,
        text: "é\u{0}\n".into(),
        logprobs: Some(TokenLogprobs {
            chosen: logprob(7, -0.123_456_79),
            top: vec![logprob(7, -0.123_456_79), logprob(8, -1.0e-7)],
        }),
    };
    let raw = Raw {
        format: Format::Messages,
        event: Some("content_block_delta".into()),
        data: r#"{"type": "content_block_delta",  "new_field": 0.10000000000000001}"#.into(),
        whole: false,
    };
    let all = [
        Says::Text("t".into()),
        Says::Token(token.clone()),
        Says::Logprobs(json!({"z": [0.1, 1e-9], "a": null})),
        Says::Thinking("hm".into()),
        Says::ThinkingSignature("sig".into()),
        Says::RedactedThinking("###".into()),
        Says::ToolCall { index: 0, id: "c1".into(), name: "f".into() },
        Says::ToolArguments { index: 0, json: "{}".into() },
        Says::Other { field: "reasoning_content".into(), value: json!("because") },
        Says::End { reason: FinishReason::ToolCalls, matched_stop: Some("\n".into()) },
    ];
    let deltas = all.into_iter().map(|says| Delta { choice: 0, says }).collect();
    let finish = Finish {
        reason: FinishReason::ToolCalls,
        matched_stop: Some("\n".into()),
        tail: "end".into(),
        usage: Usage::from_prompt(30, 16, 2, 9).with_written(12),
        raw: Some(Box::new(raw.clone())),
        timings: Timings { total: Duration::from_secs(4), ..Timings::default() },
    };
    vec![
        admitted(),
        CallEvent::Prefill { ready: 1, total: 2 },
        CallEvent::Token(token),
        CallEvent::Piece(Piece { raw: Some(raw), deltas }),
        CallEvent::Finished(finish),
    ]
}

fn without_times(events: &[CallEvent]) -> Vec<CallEvent> {
    let said =
        |event: &&CallEvent| !matches!(event, CallEvent::Admitted(_) | CallEvent::Prefill { .. });
    events
        .iter()
        .filter(said)
        .cloned()
        .map(|event| match event {
            CallEvent::Finished(finish) => {
                CallEvent::Finished(Finish { timings: Timings::default(), ..finish })
            }
            event => event,
        })
        .collect()
}

/// Complaint 6: a key that was computed anew before storing was another one.
#[tokio::test]
async fn tools_and_response_formats_come_back_as_they_came() {
    let cache = always();
    let call = request(
        &json!({"messages": [], "tools": [{"type": "function", "function": {"name": "f"}}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"b": 1, "a": 2}}}}),
    );
    answered(&cache, &call, everything()).await;
    let Look::Hit(hit) = look(&cache, &call).await else { panic!("a hit") };
    let events = hit.events();
    assert_eq!(without_times(&events), without_times(&everything()));
    let Some(CallEvent::Admitted(admission)) = events.first() else { panic!("an admission") };
    assert_eq!(admission.reuse, None, "the prefix cache wasn't asked");
    let Some(CallEvent::Finished(finish)) = events.last() else { panic!("an end") };
    assert!(finish.timings.total < Duration::from_secs(4), "its own times");
}

fn entry() -> (Key, Vec<u8>) {
    let key = Key::from_bytes([7; 32]);
    let tags = Tags { tenant: "t".into(), sessions: vec!["s".into()], ..Tags::default() };
    (key, Entry::of(tags, &everything()).unwrap().encode(&key))
}

/// The form of an entry in stores. When this changes, `FORM` must be raised: entries of earlier versions are misses
/// then, and never answers that say something else.
#[test]
fn the_form_of_an_entry() {
    let (_, bytes) = entry();
    let content = String::from_utf8(bytes[40..].to_vec()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&content).unwrap();
    insta::assert_snapshot!(format!(
        "form {}\n{}",
        tapri_cache::exact::FORM,
        serde_json::to_string_pretty(&json).unwrap()
    ));
}

#[test]
fn an_entry_that_was_changed_is_no_entry() {
    let (key, bytes) = entry();
    assert!(Entry::decode(&key, &bytes).is_ok());
    assert!(Entry::decode(&Key::from_bytes([8; 32]), &bytes).is_err(), "another call's answer");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(Entry::decode(&key, &changed).is_err(), "byte {at}");
        assert!(Entry::decode(&key, &bytes[..at]).is_err(), "cut at {at}");
    }
}
