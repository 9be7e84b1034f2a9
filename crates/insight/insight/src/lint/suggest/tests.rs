#![expect(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn rules() -> String {
    (0..40).map(|n| format!("Rule {n}: members who come in by door {n} sign the book.\n")).collect()
}

fn chat(system: &str, question: &str) -> Value {
    json!({"model": "gpt-5", "messages": [
        {"role": "system", "content": system},
        {"role": "user", "content": question},
    ]})
}

fn better(request: &Value) -> Value {
    let mut changing = Changing::default();
    changing.see(request);
    let mut request = request.clone();
    changing.reorder(&mut request);
    request
}

#[test]
fn a_time_moves_to_the_end() {
    let before = chat(&format!("Be kind.\nThe current time is 10:42:07.\n{}", rules()), "Why?");
    let after = better(&before);
    assert_eq!(after["messages"][0]["content"], format!("Be kind.\n{}", rules()));
    assert_eq!(after["messages"][1], before["messages"][1]);
    assert_eq!(
        after["messages"][2],
        json!({"role": "system", "content": "The current time is 10:42:07.\n"})
    );
    // What is good stays as it is.
    let good = chat(&rules(), "Why?");
    assert_eq!(better(&good), good);
    assert_eq!(better(&after), after);
}

#[test]
fn hosted_instructions_and_blocks() {
    let before = json!({"model": "claude-sonnet-4-5", "system": [
        {"type": "text", "text": rules()},
        {"type": "text", "text": "Today is Monday.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": rules()},
    ], "messages": [{"role": "user", "content": "Why?"}]});
    let after = better(&before);
    // The block goes, and its marker stays on what is in front of it.
    let kept = json!({"type": "text", "text": rules(), "cache_control": {"type": "ephemeral"}});
    assert_eq!(after["system"], json!([kept, {"type": "text", "text": rules()}]));
    assert_eq!(after["messages"][0]["content"][0]["text"], "Why?");
    assert_eq!(after["messages"][0]["content"][1]["text"], "Today is Monday.");
    // Behind all that stays, it stays.
    let mut good = before.clone();
    good["system"].as_array_mut().unwrap().pop();
    assert_eq!(better(&good), good);
}

#[test]
fn instructions_that_are_others_each_time_are_left() {
    let mut changing = Changing::default();
    let texts = ["the garden", "boats", "music"]
        .map(|what| format!("It is all about {what}.\nNothing else.\n"));
    for text in &texts {
        changing.see(&chat(text, "Why?"));
    }
    // One line of two stays, and it is the shorter.
    let mut request = chat(&texts[0], "Why?");
    assert!(changing.reorder(&mut request).nothing());
    assert_eq!(request, chat(&texts[0], "Why?"));
}

#[test]
fn tools_are_sorted_and_their_marker_stays_last() {
    let before = json!({"system": "s", "tools": [
        {"name": "b", "input_schema": {}},
        {"name": "a", "input_schema": {}, "cache_control": {"type": "ephemeral"}},
    ], "messages": []});
    let after = better(&before);
    assert_eq!(
        after["tools"],
        json!([
            {"name": "a", "input_schema": {}},
            {"name": "b", "input_schema": {}, "cache_control": {"type": "ephemeral"}},
        ])
    );
}

#[test]
fn reuse_before_and_after() {
    let request = |n: usize| chat(&format!("[10:4{n}:07]\n{}", rules()), &format!("Question {n}?"));
    let mut changing = Changing::default();
    (0..8).for_each(|n| changing.see(&request(n)));
    let (mut before, mut after) = (Reuse::default(), Reuse::default());
    for n in 0..8 {
        before.add(&PromptDoc::from_value(&request(n)).unwrap());
        let mut better = request(n);
        assert_eq!(changing.reorder(&mut better).lines, 1);
        after.add(&PromptDoc::from_value(&better).unwrap());
    }
    assert_eq!(before.reused, 0);
    // Seven of eight find the rules.
    let length = rules().len() as u64 / 4;
    assert!(
        after.reused >= 7 * (length - 32) && after.reused <= 7 * (length + 16),
        "{} {length}",
        after.reused
    );
}

/// Every line of every text, in no order.
fn all_lines(value: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    match value {
        Value::String(text) => {
            lines.extend(text.split('\n').filter(|l| !l.is_empty()).map(str::to_owned))
        }
        Value::Array(items) => lines.extend(items.iter().flat_map(all_lines)),
        Value::Object(fields) => lines.extend(
            fields
                .iter()
                .filter(|(key, _)| *key != "role" && *key != "type")
                .flat_map(|(_, v)| all_lines(v)),
        ),
        _ => {}
    }
    lines.sort();
    lines
}

proptest! {
    #[test]
    fn no_text_is_lost_or_added(lines in prop::collection::vec("(Today is Monday\\.|It is 10:42:07 now\\.|[a-z ]{0,20})", 0..12), hosted in any::<bool>(), question in "[a-z]{1,9}") {
        let system = lines.join("\n");
        let request = if hosted {
            json!({"system": system, "messages": [{"role": "user", "content": question}]})
        } else {
            chat(&system, &question)
        };
        prop_assert_eq!(all_lines(&better(&request)), all_lines(&request));
    }
}
