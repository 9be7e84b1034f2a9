//! Errors of upstreams, and answers that break off.

use tapri_api::decode::{self, Decoder, Options};
use tapri_api::{CallEvent, ErrorKind, Format};

use super::stream;

fn failed(events: &[CallEvent]) -> &tapri_api::ApiError {
    match events.last() {
        Some(CallEvent::Failed(error)) => error,
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn an_upstream_s_error_keeps_its_status_words_and_request() {
    let error = decode::error(
        Format::Messages,
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
        None,
    );
    assert_eq!((error.status(), error.kind), (529, ErrorKind::Overloaded));
    let upstream = error.upstream.as_deref().unwrap();
    assert_eq!(upstream.kind.as_deref(), Some("overloaded_error"));
    assert_eq!(upstream.request_id.as_deref(), Some("req_1"));
    assert_eq!(error.to_string(), "Overloaded");

    let error = decode::error(
        Format::Chat,
        400,
        r#"{"error":{"message":"This model's maximum context length is 10 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Some("req_2"),
    );
    assert_eq!(error.field.as_deref(), Some("messages"));
    assert_eq!(error.code.as_deref(), Some("context_length_exceeded"));
    assert_eq!(error.to_string(), "This model's maximum context length is 10 tokens.");
    assert_eq!(error.upstream.unwrap().request_id.as_deref(), Some("req_2"));
}

#[test]
fn errors_in_other_shapes() {
    let said = |status, body: &str| {
        let error = decode::error(Format::Chat, status, body, None);
        (error.status(), error.message)
    };
    let flat = r#"{"object":"error","message":"No such model","type":"NotFoundError","param":null,"code":404}"#;
    assert_eq!(said(404, flat), (404, "No such model".into()));
    assert_eq!(said(402, r#"{"error":"Pay first"}"#), (402, "Pay first".into()));
    assert_eq!(
        said(422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#),
        (422, "field required".into())
    );
    assert_eq!(said(503, "no healthy upstream\n"), (503, "no healthy upstream".into()));
    let nothing = "The upstream answered with status 502 and said nothing else";
    assert_eq!(said(502, "<html>Bad gateway</html>"), (502, nothing.into()));
    assert_eq!(said(502, ""), (502, nothing.into()));
    assert_eq!(said(200, "").0, 502, "a success is no error to pass on");
}

#[test]
fn errors_in_the_middle_of_a_stream() {
    let chunk = r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#;
    let events = stream(
        Format::Chat,
        Options::default(),
        &[
            chunk,
            r#"{"error":{"message":"The server had an error","type":"server_error","code":500}}"#,
            "[DONE]",
        ],
    );
    assert_eq!(failed(&events).status(), 500);
    assert_eq!(events.len(), 2, "nothing comes after it: {events:?}");

    let event = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(failed(&stream(Format::Messages, Options::default(), &[event])).status(), 529);

    let event = r#"{"type":"error","code":"rate_limit_exceeded","message":"Slow down","param":null,"sequence_number":3}"#;
    let events = stream(Format::Responses, Options::default(), &[event]);
    assert_eq!((failed(&events).status(), failed(&events).message.as_str()), (429, "Slow down"));
    let event = r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"It broke"},"output":[]}}"#;
    let events = stream(Format::Responses, Options::default(), &[event]);
    assert_eq!((failed(&events).status(), failed(&events).message.as_str()), (500, "It broke"));
}

#[test]
fn a_stream_without_its_last_event_has_failed() {
    let open = r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#;
    let ended = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let one = |lines: &[&str]| stream(Format::Chat, Options::default(), lines);
    assert_eq!(failed(&one(&[open])).code.as_deref(), Some("upstream_incomplete"));
    assert_eq!(failed(&one(&[open, "[DONE]"])).code.as_deref(), Some("upstream_incomplete"));
    assert!(matches!(one(&[open, ended]).last(), Some(CallEvent::Finished(_))), "its end was said");
    let two = Options { choices: 2, ..Options::default() };
    failed(&stream(Format::Chat, two, &[open, ended]));
    failed(&stream(Format::Messages, Options::default(), &[r#"{"type":"ping"}"#]));
    failed(&stream(Format::Responses, Options::default(), &[]));
}

#[test]
fn what_is_no_answer_is_an_error_that_quotes_nothing() {
    for format in [Format::Chat, Format::Completion, Format::Responses, Format::Messages] {
        for nonsense in ["secret words", "[]", "3", "{\"secret\"", "{}"] {
            let error = Decoder::new(format, Options::default()).body(nonsense).unwrap_err();
            assert_eq!((error.status(), error.code.as_deref()), (502, Some("upstream_invalid")));
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let mut decoder = Decoder::new(format, Options::default());
        assert_eq!(decoder.event(None, "<html>").unwrap_err().status(), 502);
    }
}
