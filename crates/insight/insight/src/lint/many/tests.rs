#![expect(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;

/// Some 1,500 tokens that never change.
fn rules() -> String {
    (0..100)
        .map(|n| format!("Rule {n}: members who come in by door {n} sign the book.\n"))
        .collect()
}

fn tool(name: &str) -> Value {
    json!({"type": "function", "function": {"name": name, "description": format!("{name} does {name}. {}", "It takes care. ".repeat(30)), "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}})
}

fn chat(system: &str, question: &str) -> Value {
    json!({"model": "gpt-5", "messages": [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
    ]})
}

fn lint(requests: &[Value]) -> Vec<Finding> {
    let hosted = Rules::bundled().unwrap();
    let mut linter = Linter::new(Some(&hosted));
    for (line, request) in (1..).zip(requests) {
        linter.add(PromptDoc::from_value(request).unwrap(), &format!("line {line}"));
    }
    linter.finish()
}

fn ids(requests: &[Value]) -> Vec<&'static str> {
    lint(requests).iter().map(|finding| finding.rule.id()).collect()
}

/// Requests that begin alike and ask other questions.
fn asked(make: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..6).map(make).collect()
}

#[test]
fn clean_requests_have_no_findings() {
    let system = rules();
    assert_eq!(ids(&[chat(&system, "Who may vote?")]), [""; 0]);
    assert_eq!(ids(&asked(|n| chat(&system, &format!("What is rule {n}?")))), [""; 0]);
}

#[test]
fn tpl001_a_time_at_the_top() {
    let found = lint(&[chat(&format!("The current time is 10:42:07 UTC.\n{}", rules()), "Why?")]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, Rule::VolatileTime);
    assert_eq!((found[0].path.as_str(), found[0].character), ("messages[0].content", Some(20)));
    assert!(found[0].message.starts_with("\"10:42:07 UTC\" looks like a time of day, in front of"));
    // At the end of the prompt it costs nothing.
    assert_eq!(ids(&[chat(&rules(), "The current time is 10:42:07 UTC. Why?")]), [""; 0]);
    assert_eq!(
        ids(&[chat(&format!("{}The current time is 10:42:07 UTC.", rules()), "Why?")]),
        [""; 0]
    );
    // Seen to change, it needs no words beside it.
    let plain = |n| chat(&format!("[10:4{n}:07]\n{}", rules()), "Why?");
    let found = lint(&asked(plain));
    assert_eq!(
        found.iter().map(|f| (f.rule, f.requests)).collect::<Vec<_>>(),
        [(Rule::VolatileTime, 5)]
    );
}

#[test]
fn tpl002_an_id_at_the_top() {
    let system = |id: &str| format!("session id: {id}\n{}", rules());
    assert_eq!(ids(&[chat(&system("3f2b8c1e-aaaa-4bbb-8ccc-0123456789ab"), "Why?")]), ["TPL002"]);
    let one = |n| chat(&format!("<{n}f2b8c1e-aaaa-4bbb-8ccc-0123456789ab>\n{}", rules()), "Why?");
    assert_eq!(ids(&asked(one)), ["TPL002"]);
    let same =
        |n| chat(&format!("<af2b8c1e-aaaa-4bbb-8ccc-0123456789ab>\n{}", rules()), &format!("{n}?"));
    assert_eq!(ids(&asked(same)), [""; 0]);
}

#[test]
fn tpl003_a_user_in_the_shared_part() {
    let system = |name: &str| format!("Current user: {name}\n{}", rules());
    assert_eq!(ids(&[chat(&system("Mia Li"), "Why?")]), ["TPL003"]);
    assert_eq!(ids(&[chat(&rules(), "I am Mia Li, why?")]), [""; 0]);
    let names = ["Mia Li", "Omar Rossi", "Noah Kim", "Ava Silva", "Ivan Lopez", "Lei Patel"];
    let found = lint(&asked(|n| chat(&system(names[n]), "Why?")));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].message.contains("; it changed between requests 5 times"),
        "{}",
        found[0].message
    );
}

#[test]
fn tpl004_tools_in_another_order() {
    let with = |tools: Vec<Value>, n: usize| {
        let mut body = chat(&rules(), &format!("What is {n}?"));
        body["tools"] = json!(tools);
        body
    };
    let names = ["book", "cancel", "search"];
    let turned = |n: usize| (0..3).map(|at| tool(names[(at + n) % 3])).collect::<Vec<_>>();
    assert_eq!(ids(&asked(|n| with(turned(n), n))), ["TPL004"]);
    assert_eq!(ids(&asked(|n| with(turned(0), n))), [""; 0]);
}

#[test]
fn tpl005_keys_in_another_order() {
    let body = |turned: bool, n: usize| {
        let mut body = chat(&rules(), &format!("What is {n}?"));
        let own = tool("book")["function"].clone();
        let function = if turned {
            json!({"parameters": own["parameters"], "description": own["description"], "name": own["name"]})
        } else {
            own
        };
        body["tools"] = json!([{"type": "function", "function": function}, tool("search")]);
        body
    };
    let found = lint(&asked(|n| body(n % 2 == 1, n)));
    assert!(
        found.iter().any(|f| f.rule == Rule::UnsortedJson && f.severity == Severity::Warning),
        "{found:#?}"
    );
    // In one request it is only a note.
    let found = lint(&[body(true, 0)]);
    assert_eq!(
        found.iter().map(|f| (f.rule, f.severity)).collect::<Vec<_>>(),
        [(Rule::UnsortedJson, Severity::Note)]
    );
    assert_eq!(ids(&asked(|n| body(false, n))), [""; 0]);
}

#[test]
fn tpl006_a_start_below_the_minimum() {
    assert_eq!(ids(&[chat("Be kind.", "Why?")]), ["TPL006"]);
    // A model that no provider is known for has no minimum.
    let mut unknown = chat("Be kind.", "Why?");
    unknown["model"] = json!("smollm2");
    assert_eq!(ids(&[unknown]), [""; 0]);
}

/// A request to a provider that needs markers: blocks of the system prompt with or without one, and messages.
fn marked(blocks: &[Option<&str>], messages: Value) -> Value {
    let blocks: Vec<_> = blocks
        .iter()
        .enumerate()
        .map(|(n, ttl)| {
            let mut block = json!({"type": "text", "text": format!("Part {n}.\n{}", rules())});
            match *ttl {
                None => {}
                Some("") => block["cache_control"] = json!({"type": "ephemeral"}),
                Some(ttl) => block["cache_control"] = json!({"type": "ephemeral", "ttl": ttl}),
            }
            block
        })
        .collect();
    json!({"model": "claude-sonnet-4-5", "system": blocks, "messages": messages})
}

fn why() -> Value {
    json!([{"role": "user", "content": "Why?"}])
}

#[test]
fn tpl007_much_text_behind_the_last_marker() {
    let found = lint(&[marked(&[Some(""), None], why())]);
    assert_eq!(
        found.iter().map(|f| (f.rule, f.path.as_str())).collect::<Vec<_>>(),
        [(Rule::AfterLastMarker, "system[1].text")]
    );
    assert_eq!(ids(&[marked(&[None, Some("")], why())]), [""; 0]);
}

#[test]
fn tpl008_more_markers_than_are_taken() {
    let found = lint(&[marked(&[Some(""); 5], why())]);
    assert_eq!(found[0].rule, Rule::TooManyMarkers);
    assert_eq!(
        (found[0].severity, found[0].path.as_str()),
        (Severity::Error, "system[4].cache_control")
    );
    assert_eq!(ids(&[marked(&[Some(""); 4], why())]), [""; 0]);
}

#[test]
fn tpl009_a_longer_lifetime_behind_a_shorter() {
    assert_eq!(ids(&[marked(&[Some("5m"), Some("1h")], why())]), ["TPL009"]);
    assert_eq!(ids(&[marked(&[Some("1h"), Some("5m")], why())]), [""; 0]);
}

#[test]
fn tpl010_further_than_the_provider_looks_back() {
    let talk = |turns: usize| {
        let mut messages: Vec<_> = (0..turns)
            .map(|n| json!({"role": if n % 2 == 0 { "user" } else { "assistant" }, "content": [{"type": "text", "text": format!("turn {n}")}]}))
            .collect();
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": "Why?", "cache_control": {"type": "ephemeral"}}]}));
        json!(messages)
    };
    assert_eq!(ids(&[marked(&[Some("")], talk(24))]), ["TPL010"]);
    assert_eq!(ids(&[marked(&[Some("")], talk(18))]), [""; 0]);
}

#[test]
fn tpl011_what_stays_behind_what_does_not() {
    let topics = ["chess and cards", "the garden", "boats", "the library", "cooking", "music"];
    let one = |n: usize| {
        chat(&format!("This week the club is about {}.\n{}", topics[n], rules()), "Why?")
    };
    let found = lint(&asked(one));
    assert_eq!(
        found.iter().map(|f| f.rule).collect::<Vec<_>>(),
        [Rule::StableBehindVolatile],
        "{found:#?}"
    );
    assert!(found[0].message.contains("tokens behind it were the same"));
    let last =
        |n: usize| chat(&rules(), &format!("This week the club is about {}. Why?", topics[n]));
    assert_eq!(ids(&asked(last)), [""; 0]);
}

#[test]
fn tpl012_no_marker_where_one_is_needed() {
    assert_eq!(ids(&[marked(&[None], why())]), ["TPL012"]);
    assert_eq!(ids(&[marked(&[Some("")], why())]), [""; 0]);
    // The provider places one itself.
    let mut automatic = marked(&[None], why());
    automatic["cache_control"] = json!({"type": "ephemeral"});
    assert_eq!(ids(&[automatic]), [""; 0]);
    // Nothing to mark.
    let short = json!({"model": "claude-sonnet-4-5", "system": "Be kind.", "messages": why()});
    assert_eq!(ids(&[short]), ["TPL006"]);
}

#[test]
fn tpl013_white_space_that_drifts() {
    let one = |n: usize| chat(&format!("The rules:{}\n{}", " ".repeat(n), rules()), "Why?");
    assert_eq!(ids(&asked(one)), ["TPL013"]);
    let same = |n: usize| chat(&format!("The rules:  \n{}", rules()), &format!("Why {n}?"));
    assert_eq!(ids(&asked(same)), [""; 0]);
}

#[test]
fn findings_of_one_kind_are_one() {
    let one = |n: usize| chat(&format!("The current time is 10:4{n}:07 UTC.\n{}", rules()), "Why?");
    let found = lint(&asked(one));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].requests, found[0].at.as_str()), (6, "line 1"));
}
