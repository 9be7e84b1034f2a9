//! What an upstream of the same format sent is passed on as it came, unless it must not be.

use serde_json::{Value, json};
use tapri_api::decode::{Decoder, Options};
use tapri_api::encode::{Encoder, Head};
use tapri_api::{CallEvent, FinishReason, Format, Says, Usage};

use super::{body, came, end, events, finish, finished, head, raw, stream};

const CHUNKS: [&str; 3] = [
    r#"{"id":"chatcmpl-up","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"obfuscation":"x"}"#,
    r#"{"id":"chatcmpl-up","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{"content":"Hi","new_field":1}}]}"#,
    r#"{"id":"chatcmpl-up","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
];
const USAGE: &str = r#"{"id":"chatcmpl-up","object":"chat.completion.chunk","created":5,"model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":1,"total_tokens":11,"prompt_tokens_details":{"cached_tokens":4,"audio_tokens":0}}}"#;

fn decoded(format: Format, lines: &[&str]) -> Vec<CallEvent> {
    let mut decoder = Decoder::new(format, Options::default());
    let mut events: Vec<CallEvent> =
        lines.iter().flat_map(|line| decoder.event(None, line).unwrap()).collect();
    events.extend(decoder.end());
    events
}

fn chat() -> Vec<CallEvent> {
    decoded(Format::Chat, &[&CHUNKS[..], &[USAGE, "[DONE]"]].concat())
}

#[test]
fn chunks_byte_for_byte() {
    let head = Head { include_usage: true, ..head(Format::Chat) };
    let expected: String =
        CHUNKS.iter().chain([&USAGE, &"[DONE]"]).map(|data| format!("data: {data}\n\n")).collect();
    assert_eq!(stream(head, &chat()), expected);
}

#[test]
fn the_usage_is_sent_only_to_who_asked() {
    let streamed = stream(head(Format::Chat), &chat());
    assert!(!streamed.contains("usage") && streamed.ends_with("data: [DONE]\n\n"), "{streamed}");
}

#[test]
fn an_upstream_that_said_no_usage_chunk_gets_one_of_the_counts() {
    let mut events = chat();
    let Some(CallEvent::Finished(finish)) = events.last_mut() else { panic!() };
    finish.raw = None;
    let head = Head { include_usage: true, ..head(Format::Chat) };
    assert!(stream(head, &events).contains(r#""usage":{"prompt_tokens":10"#));
}

#[test]
fn a_body_byte_for_byte() {
    let text = "{ \"id\": \"m\", \"content\" : [] , \"new\": 1 }";
    let events = [
        came(Format::Messages, None, text, true, vec![end(FinishReason::Stop)]),
        finished(FinishReason::Stop),
    ];
    assert_eq!(body(head(Format::Messages), &events), text);
}

const MESSAGE: [&str; 6] = [
    r#"{"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"c","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_read_input_tokens":7,"output_tokens":1}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":2}}"#,
    r#"{"type":"message_stop"}"#,
];

#[test]
fn a_message_s_events_byte_for_byte() {
    let streamed = stream(head(Format::Messages), &decoded(Format::Messages, &MESSAGE));
    let sent = events(&streamed);
    assert_eq!(sent.iter().map(|(_, data)| *data).collect::<Vec<_>>(), MESSAGE);
    assert_eq!(sent[0].0, Some("message_start"));
    assert_eq!(sent[5].0, Some("message_stop"));
}

#[test]
fn a_note_goes_into_the_last_of_them() {
    let note = json!({ "reason": "x" });
    let mut encoder = Encoder::stream(Head { explain: true, ..head(Format::Messages) });
    encoder.note(note.clone());
    let streamed: String = decoded(Format::Messages, &MESSAGE)
        .iter()
        .filter_map(|event| encoder.event(event))
        .collect();
    let sent = events(&streamed);
    assert_eq!(sent.len(), 6);
    let delta: Value = serde_json::from_str(sent[4].1).unwrap();
    assert_eq!((&delta["type"], &delta["tapri"]), (&json!("message_delta"), &note));
    assert_eq!(sent[5].1, MESSAGE[5]);

    let mut encoder = Encoder::whole(Head { explain: true, ..head(Format::Chat) });
    encoder.event(&came(Format::Chat, None, r#"{"id":"a"}"#, true, Vec::new()));
    encoder.note(note.clone());
    let whole = encoder.event(&finished(FinishReason::Stop)).unwrap();
    assert_eq!(whole, r#"{"id":"a","tapri":{"reason":"x"}}"#);
}

#[test]
fn a_replay_has_the_id_and_the_time_of_the_call_it_answers() {
    let replayed = |format| Head { replayed: true, ..head(format) };
    let streamed = stream(replayed(Format::Chat), &chat());
    assert!(!streamed.contains("chatcmpl-up") && !streamed.contains("\"created\":5"), "{streamed}");
    assert!(streamed.contains(r#""new_field":1"#) && streamed.contains(r#""obfuscation":"x""#));
    let id = &head(Format::Chat).id;
    assert_eq!(streamed.matches(id.as_str()).count(), 3, "in every chunk");

    let streamed = stream(replayed(Format::Messages), &decoded(Format::Messages, &MESSAGE));
    assert!(!streamed.contains("msg_up") && streamed.contains(&head(Format::Messages).id));

    let completed = r#"{"type":"response.completed","sequence_number":1,"response":{"id":"resp_up","created_at":5,"status":"completed","output":[{"id":"msg_1","type":"message"}]}}"#;
    let events = decoded(Format::Responses, &[completed]);
    let streamed = stream(replayed(Format::Responses), &events);
    let data: Value = serde_json::from_str(super::events(&streamed)[0].1).unwrap();
    assert_eq!(data["response"]["id"], head(Format::Responses).id);
    assert_eq!(data["response"]["created_at"], 1_700_000_000);
    assert_eq!(data["response"]["output"][0]["id"], "msg_1", "an item is the same item");
}

#[test]
fn a_replay_says_the_usage_to_who_asked_whoever_was_first() {
    let asked = Head { replayed: true, include_usage: true, ..head(Format::Chat) };
    let streamed = stream(asked, &chat());
    assert_eq!(streamed.matches(r#""usage":null"#).count(), 3, "{streamed}");
    assert_eq!(streamed.matches(r#""usage":{"#).count(), 1, "{streamed}");
}

#[test]
fn hidden_hits_are_taken_out() {
    let hidden = |format| Head { hide_cached: true, include_usage: true, ..head(format) };
    let streamed = stream(hidden(Format::Chat), &chat());
    assert!(!streamed.contains("cached") && streamed.contains(r#""prompt_tokens":10"#));
    let streamed = stream(hidden(Format::Messages), &decoded(Format::Messages, &MESSAGE));
    assert!(!streamed.contains("cache_"), "{streamed}");
    assert!(streamed.contains(r#""input_tokens":10"#), "the whole prompt: {streamed}");
    let text = r#"{"id":"a","timings":{"cache_n":4},"usage":{"prompt_tokens":9,"prompt_cache_hit_tokens":4}}"#;
    let events = [came(Format::Chat, None, text, true, Vec::new()), finished(FinishReason::Stop)];
    assert_eq!(body(hidden(Format::Chat), &events), r#"{"id":"a","usage":{"prompt_tokens":9}}"#);
}

#[test]
fn usage_details_that_nobody_here_knows_stay_with_their_format() {
    // Streamed by the upstream, one body for the caller.
    let whole: Value = serde_json::from_str(&body(head(Format::Chat), &chat())).unwrap();
    assert_eq!(
        whole["usage"]["prompt_tokens_details"],
        json!({"cached_tokens": 4, "audio_tokens": 0})
    );
    // Another format gets what it has words for.
    let message: Value = serde_json::from_str(&body(head(Format::Messages), &chat())).unwrap();
    let expected = json!({"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 1});
    assert_eq!(message["usage"], expected);
}

#[test]
fn a_chunk_of_another_format_is_never_passed_on() {
    let events = [
        came(Format::Messages, Some("x"), "{\"secret\":1}", false, vec![Says::Text("Hi".into())]),
        CallEvent::Finished(tapri_api::Finish {
            raw: Some(Box::new(raw(Format::Messages, None, "{\"secret\":1}", false))),
            ..finish(FinishReason::Stop, Usage::default())
        }),
    ];
    for format in [Format::Chat, Format::Responses] {
        let head = Head { include_usage: true, ..head(format) };
        let streamed = stream(head, &events);
        assert!(!streamed.contains("secret") && streamed.contains("Hi"), "{streamed}");
    }
}
