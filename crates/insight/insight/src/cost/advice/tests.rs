#![expect(clippy::unwrap_used)]

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::cost::calls::Piece;
use crate::prices::{Format, Lifetime, file};

/// A token costs 1 for a million, 0.1 from the cache, 1.25 and 2 written.
fn hosted() -> PriceBook {
    let text = "name='h'\ncurrency='USD'\ninput=1\ncached_input='0.1'\noutput=5\nminimum=1024\n\
                write={'5m'='1.25','1h'=2}\nlong=[{above=200000,input=2,output=10}]\n";
    file::read("h.toml", text, Format::Toml).unwrap()
}

/// A call whose prompt begins with these parts, each so many tokens.
fn call(parts: &[(&str, u64)], second: i64, answer: u64) -> SeenCall {
    let mut before = 7u64;
    let mut pieces = Vec::new();
    let mut prints = Vec::new();
    for (text, tokens) in parts {
        let own = text.bytes().fold(1u64, |n, b| n.wrapping_mul(131).wrapping_add(u64::from(b)));
        before = before.wrapping_mul(0x0100_0000_01b3) ^ own;
        pieces.push(Piece { print: before, tokens: *tokens });
        prints.push((own, *tokens));
    }
    SeenCall {
        name: format!("call at {second}"),
        at: Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second),
        tenant: "t".into(),
        model: "m".into(),
        ready: Duration::ZERO,
        prompt: parts.iter().map(|(_, tokens)| tokens).sum(),
        answer,
        estimated: false,
        pieces,
        parts: prints,
    }
}

fn group(calls: &[SeenCall]) -> Group {
    let mut gathering = Gathering::new(hosted());
    for call in calls {
        gathering.add(call);
    }
    gathering.finish().groups.into_iter().next().unwrap()
}

/// The questions of one case file, so many seconds apart.
fn questions(gap: i64) -> Vec<SeenCall> {
    let question = |n: i64| format!("question {n}");
    (0..20).map(|n| call(&[("file", 32_000), (&question(n), 200)], n * gap, 500)).collect()
}

#[test]
fn a_marker_where_calls_come_soon() {
    let group = group(&questions(60));
    assert_eq!((group.calls, group.starts.len()), (20, 1));
    let start = &group.starts[0];
    assert_eq!((start.tokens, start.longest, start.calls), (32_000, 32_000, 20));
    assert_eq!(start.gaps, Some((Duration::from_secs(60), Duration::from_secs(60))));
    assert_eq!(start.best, Policy::Kept(Lifetime::FiveMinutes));
    // 32,000 tokens, 20 times; written once and read 19 times.
    assert_eq!(start.cost(Policy::Nothing).unwrap().to_string(), "USD 0.6400");
    assert_eq!(start.cost(start.best).unwrap().to_string(), "USD 0.1008");
    assert_eq!(group.without.amount - group.best.amount, start.saved());
    assert_eq!(group.unhelpful, []);
}

#[test]
fn a_longer_lifetime_where_they_come_later() {
    let group = group(&questions(1_200));
    assert_eq!(group.starts[0].best, Policy::Kept(Lifetime::Hour));
    assert_eq!(group.unhelpful, []);
}

#[test]
fn one_long_gap_is_bridged_by_a_longer_lifetime() {
    let mut calls = questions(60);
    for call in &mut calls[10..] {
        call.at += SignedDuration::from_mins(6);
    }
    let group = group(&calls);
    let start = &group.starts[0];
    let cost = |name: &str| start.policies.iter().find(|(p, _)| p.name() == name).unwrap().1.amount;
    // For 32,000 tokens: 2 + 19 * 0.1 against 2 * 1.25 + 18 * 0.1, and 1 + 11 touches on top of the first way.
    assert_eq!(start.best, Policy::Kept(Lifetime::Hour));
    assert_eq!(cost("1h"), Decimal::new(32 * 39, 4));
    assert_eq!(cost("5m"), Decimal::new(32 * 43, 4));
    assert_eq!(cost("5m_touched"), Decimal::new(32 * 435, 5));
}

#[test]
fn touches_where_gaps_are_longer_than_any_lifetime() {
    let group = group(&questions(7_200));
    let start = &group.starts[0];
    assert_eq!(start.best.name(), "1h_touched");
    // A write, 19 gaps with 2 touches and a use, 19 touches in vain at the end.
    assert_eq!(start.cost(start.best).unwrap().amount, Decimal::new(32 * (20 + 19 * 3 + 19), 4));
    assert_eq!(start.unhelpful, None);
}

#[test]
fn long_gaps() {
    let group = group(&questions(40_000));
    assert_eq!(group.starts[0].best, Policy::Nothing);
    let why = Unhelpful::LongGaps {
        gap: Duration::from_secs(40_000),
        lifetime: Duration::from_secs(3_600),
    };
    assert_eq!(group.starts[0].unhelpful, Some(why.clone()));
    assert_eq!(group.unhelpful, [why]);
}

#[test]
fn one_question_to_a_document() {
    let of = |n: i64| {
        call(&[("instructions", 1_200), (&format!("file {n}"), 32_000), ("why?", 200)], n, 500)
    };
    let calls: Vec<_> = (0..20).map(of).collect();
    let group = group(&calls);
    assert_eq!(group.unhelpful, [Unhelpful::OneQuestion]);
    // The instructions are worth a marker all the same.
    assert_eq!(group.starts[0].tokens, 1_200);
    assert_eq!(group.starts[0].best, Policy::Kept(Lifetime::FiveMinutes));
    // And a document that is asked about twice is not this.
    assert_eq!(self::group(&questions(60)[..2]).unhelpful, []);
}

#[test]
fn short_prompts() {
    let calls: Vec<_> =
        (0..20).map(|n| call(&[("hello", 800), (&n.to_string(), 100)], n, 50)).collect();
    let found = group(&calls);
    assert_eq!(found.unhelpful, [Unhelpful::ShortPrompt { tokens: 900, minimum: 1024 }]);
    assert_eq!(found.starts[0].best, Policy::Nothing);
    assert!(matches!(found.starts[0].unhelpful, Some(Unhelpful::ShortPrompt { tokens: 800, .. })));
    let calls: Vec<_> =
        (0..20).map(|n| call(&[("hello", 1_100), (&n.to_string(), 100)], n, 50)).collect();
    assert_eq!(group(&calls).unhelpful, []);
}

#[test]
fn a_changing_top() {
    let of = |n: i64| {
        call(&[(&format!("it is {n}"), 20), ("rules", 5_000), (&format!("q {n}"), 60)], n, 50)
    };
    let calls: Vec<_> = (0..20).map(of).collect();
    assert_eq!(group(&calls).unhelpful, [Unhelpful::ChangingTop]);
    let of = |n: i64| {
        call(&[("rules", 5_000), (&format!("it is {n}"), 20), (&format!("q {n}"), 60)], n, 50)
    };
    assert_eq!(group(&(0..20).map(of).collect::<Vec<_>>()).unhelpful, []);
}

#[test]
fn unshared_starts() {
    let of = |n: i64| call(&[(&format!("all of it is new {n}"), 5_000)], n, 50);
    let found = group(&(0..20).map(of).collect::<Vec<_>>());
    assert_eq!(found.unhelpful, [Unhelpful::UnsharedStarts]);
    assert!(found.starts.is_empty());
    assert_eq!(found.without, found.best);
}

#[test]
fn long_answers_make_the_bill() {
    let mut calls = questions(60);
    for call in &mut calls {
        call.answer = 80_000;
    }
    assert_eq!(group(&calls).unhelpful, [Unhelpful::LongAnswers { most: 7 }]);
}

#[test]
fn a_conversation_is_one_start() {
    let turns: Vec<_> = (0..10).map(|n| format!("turn {n}")).collect();
    let of = |n: usize| {
        let mut parts = vec![("instructions", 2_000)];
        parts.extend(turns[..=n].iter().map(|turn| (turn.as_str(), 300)));
        call(&parts, i64::try_from(n).unwrap() * 30, 100)
    };
    let group = group(&(0..10).map(of).collect::<Vec<_>>());
    assert_eq!(group.starts.len(), 1);
    let start = &group.starts[0];
    assert_eq!((start.tokens, start.longest, start.calls), (2_300, 4_700, 10));
    assert_eq!(start.best, Policy::Kept(Lifetime::FiveMinutes));
    // By hand: each of 2,000 + 9 * 300 tokens is written once, and read by every later call that has it.
    let read: u64 = 2_300 * 9 + (1..9).map(|turn| 300 * (9 - turn)).sum::<u64>();
    let by_hand = Decimal::from(4_700 * 125 + read * 10) / Decimal::from(100_000_000);
    assert_eq!(start.cost(start.best).unwrap().amount, by_hand.normalize());
}

#[test]
fn tenants_and_models_apart_and_long_prompts_dearer() {
    let mut calls = questions(60);
    for call in &mut calls[10..] {
        call.tenant = "u".into();
        call.pieces[0].print ^= 1;
    }
    let mut gathering = Gathering::new(hosted());
    calls.iter().for_each(|call| gathering.add(call));
    assert_eq!(gathering.finish().groups.len(), 2);

    let long: Vec<_> =
        (0..3).map(|n| call(&[("file", 300_000), (&n.to_string(), 200)], n, 0)).collect();
    let group = group(&long);
    // At 2 for a million, and 2.5 and 0.2 with a marker.
    assert_eq!(group.starts[0].cost(Policy::Nothing).unwrap().to_string(), "USD 1.8000");
    assert_eq!(group.starts[0].cost(group.starts[0].best).unwrap().to_string(), "USD 0.8700");
}

#[test]
fn models_without_prices_are_counted() {
    let text = "name='b'\ncurrency='USD'\n[models.other]\ninput=1\noutput=1\n";
    let mut gathering = Gathering::new(file::read("b.toml", text, Format::Toml).unwrap());
    questions(1).iter().for_each(|call| gathering.add(call));
    let advice = gathering.finish();
    assert!(advice.groups.is_empty());
    assert_eq!(advice.unpriced["m"], 20);
}

#[test]
fn a_crowd_is_counted() {
    let mut calls = questions(1);
    for call in &mut calls {
        call.ready = Duration::from_secs(3);
    }
    assert_eq!(group(&calls).starts[0].crowded, 19);
}
