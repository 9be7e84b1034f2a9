#![expect(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn report(lines: &[serde_json::Value]) -> Report {
    let mut history = History::new(Options::default());
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    read(text.as_bytes(), None, &mut |doc, at| history.add(doc, at)).unwrap();
    history.finish()
}

fn call(session: &str, system: &str, messages: &[&str]) -> serde_json::Value {
    let mut all = vec![json!({"role": "system", "content": system})];
    for (index, text) in messages.iter().enumerate() {
        let role = if index % 2 == 0 { "user" } else { "assistant" };
        all.push(json!({"role": role, "content": text}));
    }
    json!({"session_id": session, "model": "m", "messages": all})
}

#[test]
fn a_break_is_found_behind_interleaved_conversations() {
    let rules = "Answer from the file only, and quote the page. ".repeat(30);
    let at = |time: &str| format!("It is {time}. {rules}");
    let found = report(&[
        call("a", &at("10:41:55"), &["one"]),
        call("b", &at("10:41:55"), &["another question"]),
        call("a", &at("10:41:55"), &["one", "two", "three"]),
        call("b", &at("10:42:07"), &["another question", "four", "five"]),
        call("a", &at("10:41:55"), &["one", "two", "three", "six", "seven"]),
    ]);
    assert_eq!((found.calls, found.conversations), (5, 2));
    assert_eq!((found.grew, found.new_questions, found.alarms), (2, 1, 1));
    let worst = &found.breaks[0];
    assert_eq!((worst.call.number, worst.call.at.as_str()), (4, "line 4"));
    assert_eq!(
        worst.found().unwrap().line(true),
        r#"messages[0].content, character 10: "10:42:07" was "10:41:55" (looks like a time of day)"#
    );
    assert!(worst.lost() > 300);
    assert_eq!(found.causes[0].reason, MissReason::Time);
    assert_eq!(found.causes[0].path.as_ref().unwrap().0, "messages[0].content");
}

#[test]
fn memory_is_bounded() {
    let mut history =
        History::new(Options { bytes: 20_000, recent: 4, breaks: 8, ..Options::default() });
    for number in 0..2_000 {
        let session = format!("s{}", number % 100);
        let value = call(&session, &format!("{number} {}", "text ".repeat(100)), &["q", "a", "b"]);
        history.add(PromptDoc::from_value(&value).unwrap(), "somewhere");
        assert!(history.store.bytes() <= 30_000, "{}", history.store.bytes());
    }
    let report = history.finish();
    assert_eq!((report.calls, report.breaks.len()), (2_000, 8));
}

#[test]
fn forms_are_seen_from_the_content() {
    let one = call("a", "S", &["q"]);
    let cases = [
        (one.to_string(), 1),
        (serde_json::to_string_pretty(&one).unwrap(), 1),
        (format!("{one}\n{one}\n"), 2),
        (format!("\n{{broken}}\n{one}\n"), 1),
        (json!([one, one, one]).to_string(), 3),
        (serde_json::to_string_pretty(&json!([one, one])).unwrap(), 2),
        (
            json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
                .to_string(),
            1,
        ),
        (json!([{"task_id": 1, "trial": 0, "traj": one["messages"]}]).to_string(), 0),
    ];
    for (text, calls) in cases {
        let scanned = read(text.as_bytes(), None, &mut |_, _| {}).unwrap();
        assert_eq!(scanned.calls, calls, "{text}");
    }
    assert!(matches!(read(b"[1, 2".as_slice(), None, &mut |_, _| {}), Err(ReadError::Json(_))));
}

#[test]
fn a_trajectory_is_one_call_for_each_answer() {
    let traj = json!([{"task_id": 7, "trial": 0, "traj": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "r"},
        {"role": "assistant", "content": "b"},
    ]}]);
    let mut seen = Vec::new();
    read(traj.to_string().as_bytes(), None, &mut |doc, at| {
        seen.push((doc.turns.len(), doc.conversation, at));
    })
    .unwrap();
    let name = Some("task 7, trial 0".to_owned());
    assert_eq!(
        seen,
        [
            (2, name.clone(), "element 1, message 3".to_owned()),
            (4, name, "element 1, message 5".to_owned())
        ]
    );
}

#[test]
fn a_providers_word_stands_beside_ours() {
    let mut lines = [
        call("a", "You are a clerk of the court.", &["one"]),
        call("a", "You are a judge of the court.", &["one", "two", "three"]),
    ];
    lines[1]["response"] =
        json!({"diagnostics": {"cache_miss_reason": {"type": "system_changed"}}});
    let found = report(&lines);
    assert_eq!(found.diagnosed, (1, 1, 1));
    assert_eq!(found.breaks[0].hosted.as_ref().unwrap().agrees, Some(true));
    // Where it sees what the bodies don't show, that is kept.
    lines[1] = lines[0].clone();
    lines[1]["response"] =
        json!({"diagnostics": {"cache_miss_reason": {"type": "system_changed"}}});
    let found = report(&lines);
    assert_eq!((found.alarms, found.diagnosed), (0, (1, 1, 0)));
    assert_eq!(found.breaks[0].hosted.as_ref().unwrap().agrees, Some(false));
}

#[test]
fn a_value_at_the_very_top_is_found_among_other_prompts() {
    let rules = "Answer from the file only, and quote the page. ".repeat(30);
    let other = "Translate what follows into French, and nothing else. ".repeat(30);
    let line = |system: String| json!({"messages": [{"role": "system", "content": system}, {"role": "user", "content": "q"}]});
    let found = report(&[
        line(format!("10:41:55 {rules}")),
        line(format!("Mode a. {other}")),
        line(format!("23:07:12 {rules}")),
        line(format!("Mode a. {other}")),
    ]);
    assert_eq!((found.alarms, found.grew), (1, 1));
    assert_eq!(found.breaks[0].nearest.as_ref().unwrap().call.number, 1);
    assert_eq!(found.causes[0].reason, MissReason::Time);
}
