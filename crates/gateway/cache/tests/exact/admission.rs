//! Which answers are stored (complaint 9: cut, empty and refused answers were replayed for days).

use serde_json::{Value, json};
use tapri_api::{CallEvent, Delta, FinishReason, Logprob, Piece, Says, Token, TokenLogprobs};
use tapri_cache::exact::ExactPolicy;

use crate::play::*;

fn with_tools() -> Value {
    json!({"model": "m", "messages": [], "tools": [
        {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]})
}

fn calls(name: &str, arguments: &[&str]) -> Vec<CallEvent> {
    let mut events =
        vec![admitted(), says(Says::ToolCall { index: 0, id: "c1".into(), name: name.into() })];
    events.extend(
        arguments.iter().map(|json| says(Says::ToolArguments { index: 0, json: (*json).into() })),
    );
    events.push(finished(FinishReason::ToolCalls));
    events
}

fn ends(says_before: Vec<Says>, reason: FinishReason) -> Vec<CallEvent> {
    let mut events = vec![admitted()];
    events.extend(says_before.into_iter().map(says));
    events.push(finished(reason));
    events
}

/// Why an answer is rejected; `None` where it is stored.
async fn rejected(body: &Value, events: Vec<CallEvent>) -> Option<&'static str> {
    let cache = always();
    let call = request(body);
    answered(&cache, &call, events).await;
    let stats = cache.stats();
    let why = stats.rejected.iter().find(|(_, count)| **count > 0).map(|(why, _)| *why);
    assert_eq!(stats.stored, u64::from(why.is_none()));
    assert_eq!(stored(&cache, &call).await.is_some(), why.is_none(), "as counted");
    why
}

#[tokio::test]
async fn only_whole_answers_that_the_model_meant_to_give_are_stored() {
    let plain = json!({"model": "m", "messages": []});
    let text = || Says::Text("An answer".into());
    let end = |reason| Says::End { reason, matched_stop: None };
    let expected: Vec<(&str, Value, Vec<CallEvent>, Option<&str>)> = vec![
        ("an answer", plain.clone(), answer("Yes"), None),
        ("cut", plain.clone(), ends(vec![text()], FinishReason::Length), Some("length")),
        (
            "cut, as one of its answers says",
            plain.clone(),
            ends(vec![text(), end(FinishReason::Length)], FinishReason::Stop),
            Some("length"),
        ),
        (
            "filtered",
            plain.clone(),
            ends(vec![text()], FinishReason::ContentFilter),
            Some("refused"),
        ),
        (
            "refused",
            plain.clone(),
            ends(vec![Says::Refusal("No".into())], FinishReason::Stop),
            Some("refused"),
        ),
        ("paused", plain.clone(), ends(vec![text()], FinishReason::Pause), Some("paused")),
        ("no choices at all", plain.clone(), ends(vec![], FinishReason::Stop), Some("empty")),
        (
            "white space",
            plain.clone(),
            ends(vec![Says::Text(" \n".into())], FinishReason::Stop),
            Some("empty"),
        ),
        (
            "thoughts alone",
            plain.clone(),
            ends(vec![Says::Thinking("hm".into())], FinishReason::Stop),
            Some("empty"),
        ),
        ("one of two answers", json!({"messages": [], "n": 2}), answer("Yes"), Some("empty")),
        (
            "an error in the middle",
            plain.clone(),
            vec![admitted(), token("Ye"), failed()],
            Some("failed"),
        ),
        ("an error at once", plain.clone(), vec![failed()], Some("failed")),
        ("a call of a tool", with_tools(), calls("weather", &["{\"city\":", "\"Pune\"}"]), None),
        ("one without arguments", with_tools(), calls("weather", &[]), None),
        ("of a tool that wasn't given", with_tools(), calls("sing", &["{}"]), Some("tool_call")),
        (
            "with half its arguments",
            with_tools(),
            calls("weather", &["{\"city\":"]),
            Some("tool_call"),
        ),
    ];
    for (what, body, events, why) in expected {
        assert_eq!(rejected(&body, events).await, why, "{what}");
    }
}

#[tokio::test]
async fn two_answers_are_both_needed() {
    let both = |choice| Delta { choice, says: Says::Text("x".into()) };
    let piece = CallEvent::Piece(Piece { raw: None, deltas: vec![both(0), both(1)] });
    let events = vec![admitted(), piece, finished(FinishReason::Stop)];
    assert_eq!(rejected(&json!({"messages": [], "n": 2}), events).await, None);
}

#[tokio::test]
async fn a_logprob_that_json_has_no_word_for() {
    let chosen = Logprob { id: 1, bytes: b"x".to_vec(), logprob: f32::NEG_INFINITY };
    let logprobs = Some(TokenLogprobs { chosen, top: Vec::new() });
    let token = CallEvent::Token(Token { id: 1, text: "x".into(), logprobs });
    let events = vec![admitted(), token, finished(FinishReason::Stop)];
    assert_eq!(rejected(&json!({"messages": []}), events).await, Some("not_a_number"));
}

#[tokio::test]
async fn an_answer_longer_than_the_route_keeps() {
    let (cache, _) = cache(ExactPolicy { max_entry_bytes: 500, ..ExactPolicy::default() });
    let call = ask("Tell me all");
    let seen = answered(&cache, &call, answer(&"long ".repeat(200))).await;
    assert_eq!(seen.len(), 3, "the client gets all of it");
    assert_eq!(cache.stats().rejected["too_large"], 1);
    assert_eq!(stored(&cache, &call).await, None);
}

#[tokio::test]
async fn deterministic_routes_keep_what_says_it_is() {
    let mode = tapri_cache::exact::Mode::Deterministic;
    let (cache, _) = cache(ExactPolicy { mode, ..ExactPolicy::default() });
    for (body, keeps) in [
        (json!({"messages": []}), false),
        (json!({"messages": [], "temperature": 0.7}), false),
        (json!({"messages": [], "temperature": 0}), true),
        (json!({"messages": [], "temperature": 0.0, "top_p": 1}), true),
        (json!({"messages": [], "seed": 7}), true),
        (json!({"messages": [], "seed": null}), false),
    ] {
        let look = look(&cache, &request(&body)).await;
        assert_eq!(matches!(look, tapri_cache::exact::Look::Lead(_)), keeps, "{body}");
    }
}
