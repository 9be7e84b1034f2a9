//! Whatever stands in a file: no panic, no endless time, no stack that overflows.

use proptest::prelude::*;
use serde_json::{Value, json};
use tapri_insight::explain::{Evidence, explain};
use tapri_insight::history::{History, Options, read};
use tapri_insight::ledger::MissReason;
use tapri_insight::prompt::PromptDoc;
use tapri_insight::rules::Rules;

/// JSON with the names that requests have, in places where they don't belong.
fn json() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "messages",
        "content",
        "role",
        "type",
        "text",
        "tools",
        "function",
        "name",
        "arguments",
        "tool_calls",
        "input",
        "system",
        "prompt",
        "model",
        "cache_control",
        "ttl",
        "usage",
        "request",
        "body",
        "response",
        "thinking",
        "source",
        "data",
        "traj",
        "timestamp",
        "id",
        "reasoning_content",
        "prompt_cache_options",
        "metadata",
        "session_id",
        "diagnostics",
    ]);
    let word = prop::sample::select(vec![
        "user",
        "assistant",
        "system",
        "tool",
        "text",
        "tool_use",
        "tool_result",
        "thinking",
        "image",
        "document",
        "claude-sonnet-5",
        "gpt-5.6",
        "ephemeral",
        "1h",
        "{\"a\":",
        "é\u{c}<think>",
        "user: a\n\nassistant: b",
        "10:41",
        "",
        "</think>",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..6).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
            )),
        ]
    })
}

/// A request around anything.
fn request() -> impl Strategy<Value = Value> {
    (json(), json(), json()).prop_map(|(messages, tools, extra)| {
        let list = |value: Value| if value.is_array() { value } else { json!([value]) };
        json!({"model": "claude-sonnet-5", "messages": list(messages), "tools": list(tools), "system": extra})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn anything_can_be_explained(old in prop_oneof![json(), request()], new in prop_oneof![json(), request()]) {
        let rules = Rules::bundled().unwrap();
        let evidence = Evidence { rules: Some(&rules), cached: Some(0), ..Evidence::default() };
        if let (Ok(old), Ok(new)) = (PromptDoc::from_value(&old), PromptDoc::from_value(&new)) {
            let found = explain(&old, &new, &evidence);
            prop_assert!(found.line(true).len() < 4096);
            prop_assert_eq!(explain(&new, &new, &Evidence::default()).is_alarm(), false);
            let canonical = new.canonical();
            let _ = canonical.spot(&new, canonical.text.len() / 2);
        }
    }

    #[test]
    fn any_bytes_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..400), text in ".{0,200}") {
        let mut history = History::new(Options::default());
        for file in [bytes.as_slice(), text.as_bytes()] {
            let _ = read(file, None, &mut |doc, at| history.add(doc, at));
            let _ = PromptDoc::parse(file);
        }
        let _ = history.finish();
    }

    #[test]
    fn any_lines_can_be_read(lines in prop::collection::vec(prop_oneof![json(), request()], 0..12)) {
        let file: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut history = History::new(Options::default());
        let _ = read(file.as_bytes(), None, &mut |doc, at| history.add(doc, at));
        let report = history.finish();
        prop_assert!(report.alarms <= report.calls);
    }
}

#[test]
fn fifty_megabytes_are_explained() {
    let line = "The signatory states agree that the water below the outlet is shared among them, in equal parts.\n";
    let text = line.repeat((50 << 20) / line.len());
    let body = |text: &str| {
        json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string()
    };
    let old = PromptDoc::parse(body(&text).as_bytes()).unwrap();
    let at = text.len() / 2 + 7;
    let edited = format!("{}[NEW]{}", &text[..at], &text[at..]);
    let new = PromptDoc::parse(body(&edited).as_bytes()).unwrap();
    let found = explain(&old, &new, &Evidence::default());
    assert_eq!(found.place.as_ref().unwrap().character, Some(at as u64));
    assert!(found.lost.count > 6_000_000, "{found:?}");
    // As many openings of JSON as there are characters.
    let braces = "{\"a\":[".repeat(1 << 20);
    let old = PromptDoc::parse(body(&format!("{braces}x{line}")).as_bytes()).unwrap();
    let new = PromptDoc::parse(body(&format!("{braces}y{line}")).as_bytes()).unwrap();
    let found = explain(&old, &new, &Evidence::default());
    assert_eq!(found.place.unwrap().character, Some(braces.len() as u64));
}

#[test]
fn a_hundred_thousand_messages_are_explained() {
    let messages = |from: usize| -> Vec<Value> {
        (from..100_000)
            .map(|number| {
                let role = if number % 2 == 0 { "user" } else { "assistant" };
                json!({"role": role, "content": format!("message {number}")})
            })
            .collect()
    };
    let old = PromptDoc::from_value(&json!({"messages": messages(0)})).unwrap();
    let new = PromptDoc::from_value(&json!({"messages": messages(50_000)})).unwrap();
    let found = explain(&old, &new, &Evidence::default());
    assert_eq!(found.reason, MissReason::TurnsShortened);
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let deep = format!("{{\"messages\": {}{}}}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(PromptDoc::parse(deep.as_bytes()).is_err());
    let mut history = History::new(Options::default());
    let scanned = read(deep.as_bytes(), None, &mut |doc, at| history.add(doc, at)).unwrap();
    assert_eq!((scanned.calls, scanned.broken.count), (0, 1));
    let schema = (0..60).fold(json!("x"), |inner, _| json!({"properties": inner}));
    let other = (0..60).fold(json!("y"), |inner, _| json!({"properties": inner}));
    let doc = |schema: Value| {
        PromptDoc::from_value(
            &json!({"tools": [{"name": "t", "parameters": schema}], "messages": []}),
        )
        .unwrap()
    };
    let found = explain(&doc(schema), &doc(other), &Evidence::default());
    assert_eq!(found.reason, MissReason::ToolEdited);
}
