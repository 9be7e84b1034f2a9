#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::prefix::rules::Rules;
use proptest::prelude::*;

fn run(reuse: &Reuse, body: &Value, places: &[Place], life: Life, now: Instant) -> Value {
    let rules = Rules::bundled().unwrap();
    let rule = rules.find(body["model"].as_str().unwrap_or("claude-sonnet-5")).unwrap();
    let plan = Inject { places: places.to_vec(), life };
    let map = body.as_object().unwrap();
    let changed = inject(map, &plan, rule, reuse, b"scope", |bytes| bytes / 4, now);
    let mut body = body.clone();
    for (field, value) in changed {
        body[field] = value;
    }
    body
}

fn fresh(body: &Value, places: &[Place], life: Life) -> Value {
    run(&Reuse::default(), body, places, life, Instant::now())
}

fn markers(value: &Value) -> Vec<Life> {
    let mut found = Vec::new();
    for field in ["tools", "system", "messages"] {
        collect(&value[field], &mut found);
    }
    found.extend(value.get("cache_control").map(Life::of));
    found
}

fn collect(value: &Value, found: &mut Vec<Life>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if name != "cache_control" {
                    collect(value, found);
                }
            }
            found.extend(map.get("cache_control").map(Life::of));
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

fn text(words: usize) -> Value {
    json!({"type": "text", "text": "word ".repeat(words)})
}

const ALL: [Place; 4] = [Place::System, Place::Tools, Place::Document, Place::Conversation];

/// Complaint 13: please inject `cache_control`.
#[test]
fn markers_are_put_where_a_route_asks_for_them() {
    let body = json!({
        "model": "claude-sonnet-5", "tools": [{"name": "t", "description": "d ".repeat(3000)}],
        "system": "law ".repeat(2000),
        "messages": [{"role": "user", "content": [text(2000), text(3)]}],
    });
    let marked = fresh(&body, &ALL, Life::Short);
    assert_eq!(marked["tools"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(marked["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    let content = &marked["messages"][0]["content"];
    assert_eq!(content[0]["cache_control"]["type"], "ephemeral");
    assert_eq!(content[1]["cache_control"]["type"], "ephemeral");
    assert_eq!(markers(&fresh(&body, &[Place::Document], Life::Short)).len(), 1);
    assert_eq!(fresh(&body, &[], Life::Short), body, "where no route asks, nothing changes");
}

#[test]
fn nothing_below_the_models_minimum() {
    let body = |model: &str, words: usize| json!({"model": model, "system": "word ".repeat(words), "messages": []});
    let count = |model, words| markers(&fresh(&body(model, words), &ALL, Life::Short)).len();
    // Tokens are bytes / 4 here: 900 words are 1,125 tokens.
    assert_eq!((count("claude-sonnet-5", 800), count("claude-sonnet-5", 1000)), (0, 1));
    assert_eq!((count("claude-haiku-4-5", 1000), count("claude-haiku-4-5", 4000)), (0, 1));
    assert_eq!(count("claude-opus-5", 500), 1);
}

#[test]
fn a_marker_that_does_not_pay_is_left_out() {
    let (reuse, clock) = (Reuse::default(), ManualClock::default());
    let ask = |n: usize, life: Life| {
        let body = json!({"model": "claude-sonnet-5", "system": format!("{n} {}", "law ".repeat(2000)), "messages": []});
        let marked = run(&reuse, &body, &[Place::System], life, clock.now());
        markers(&marked).len()
    };
    // Every prompt is new: after a few writes that nobody reads it stops.
    let new: Vec<usize> = (0..8).map(|n| ask(n, Life::Short)).collect();
    assert_eq!(new, [1, 1, 1, 0, 0, 0, 0, 0]);
    // They come back: it begins again.
    let again: Vec<usize> = (0..12).map(|_| ask(100, Life::Short)).collect();
    assert_eq!(again.last(), Some(&1), "{again:?}");
    // What lies longer back than its life has not come back.
    clock.advance(Duration::from_secs(3600));
    // An hour costs twice: one read isn't enough, so nothing is stored before starts have come back.
    let reuse = Reuse::default();
    let body = json!({"model": "claude-sonnet-5", "system": "law ".repeat(2000), "messages": []});
    let hour: Vec<usize> = (0..4)
        .map(|_| markers(&run(&reuse, &body, &[Place::System], Life::Long, clock.now())).len())
        .collect();
    assert_eq!(hour, [0, 0, 0, 1]);
}

#[test]
fn a_conversation_is_marked_at_its_end_turn_by_turn() {
    let (reuse, clock) = (Reuse::default(), ManualClock::default());
    let mut messages = vec![json!({"role": "user", "content": "law ".repeat(2000)})];
    for turn in 0..10 {
        let body = json!({"model": "claude-sonnet-5", "messages": messages});
        let marked = run(&reuse, &body, &[Place::Conversation], Life::Short, clock.now());
        assert_eq!(markers(&marked).len(), 1, "turn {turn}");
        messages.push(json!({"role": "assistant", "content": format!("Answer {turn}")}));
        messages.push(json!({"role": "user", "content": format!("Question {turn}")}));
        clock.advance(Duration::from_secs(60));
    }
}

fn block() -> impl Strategy<Value = Value> {
    (0usize..3000, prop::option::of(prop::sample::select(vec!["5m", "1h"]))).prop_map(
        |(words, ttl)| {
            let mut block = text(words);
            if let Some(ttl) = ttl {
                block["cache_control"] = json!({"type": "ephemeral", "ttl": ttl});
            }
            block
        },
    )
}

proptest! {
    /// Never more than four, never a longer life behind a shorter one, never touching what the caller marked.
    #[test]
    fn rules_hold_for_any_request(
        system in prop::collection::vec(block(), 0..3),
        turns in prop::collection::vec(prop::collection::vec(block(), 1..4), 1..4),
        long: bool, top: bool,
    ) {
        let messages: Vec<Value> = turns.iter().map(|blocks| json!({"role": "user", "content": blocks})).collect();
        let mut body = json!({"model": "claude-sonnet-5", "system": system, "messages": messages});
        if top {
            body["cache_control"] = json!({"type": "ephemeral"});
        }
        let own = markers(&body);
        let life = if long { Life::Long } else { Life::Short };
        let marked = fresh(&body, &ALL, life);
        let all = markers(&marked);
        prop_assert!(all.len() <= 4.max(own.len()));
        let sorted = |lives: &[Life]| lives.windows(2).all(|pair| pair[0] >= pair[1]);
        prop_assert!(!sorted(&own) || sorted(&all), "{own:?} became {all:?}");
        // Without the markers that were added it is the request that came.
        let mut mine = marked.clone();
        strip(&mut mine, &body);
        prop_assert_eq!(mine, body);
    }
}

/// Takes out the markers that `was` hasn't.
fn strip(value: &mut Value, was: &Value) {
    match value {
        Value::Object(map) => {
            if was.get("cache_control").is_none() {
                map.remove("cache_control");
            }
            for (name, value) in map {
                strip(value, &was[name.as_str()]);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter_mut().enumerate() {
                strip(value, &was[at]);
            }
        }
        _ => {}
    }
}
