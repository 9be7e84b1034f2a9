//! A real Postgres server with pgvector, shared by two caches as two processes would, and what happens when it dies, is
//! slow, or holds what it shouldn't.
#![cfg(feature = "postgres")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub,
    dead_code
)]

mod erasure;
mod faults;
#[path = "../redis/port.rs"]
mod port;
#[path = "../redis/proxy.rs"]
mod proxy;
mod server;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapri_cache::exact::{Key, SystemClock};
use tapri_cache::semantic::cache::{Candidate, Decision, Look};
use tapri_cache::semantic::evidence::labels_needed;
use tapri_cache::semantic::scope::Asked;
use tapri_cache::semantic::store::postgres::{Postgres, PostgresConfig};
use tapri_cache::semantic::store::{Label, Owner, StoredQuestion, Verdict, Wanted};
use tapri_cache::semantic::{
    FlatIndex, Guard, Index, Keeper, SemanticCache, SemanticMode, SemanticPolicy, Shared,
};
use tapri_embed::letters::Letters;
use tapri_embed::{Embedder, vector};

use crate::server::Server;

/// Waits as long as a busy machine needs, and asks the store each time.
pub fn patient() -> PostgresConfig {
    let long = Duration::from_secs(60);
    PostgresConfig { timeout: long, write_timeout: long, rest: Duration::ZERO }
}

pub fn cache(url: &str, config: PostgresConfig) -> SemanticCache {
    let policy = SemanticPolicy {
        mode: SemanticMode::Serve,
        budget: 0.5,
        entries: 3,
        ..SemanticPolicy::default()
    };
    let policies = HashMap::from([("/r".to_owned(), policy)]);
    let embedder = Embedder::checked(Letters::sound()).unwrap();
    let store = Postgres::new(url, config).unwrap();
    SemanticCache::shared(embedder, store, policies, Arc::new(SystemClock), 1).unwrap()
}

pub fn asked(question: &str) -> Asked {
    Asked { question: question.to_owned(), scope: Key::from_bytes([1; 32]) }
}

pub fn owner() -> Owner {
    Owner { tenant: "acme".to_owned(), route: "/r".to_owned(), ..Owner::default() }
}

pub const STORED: &str = "How do I cancel my plan?";
pub const NEAR: &str = "How can I cancel my plan?";

/// Keeps a question under the answer of this number, and waits until it is there.
pub fn keep(cache: &SemanticCache, question: &str, answer: u8, owner: Owner) {
    let look = cache.look(&asked(question), "/r").unwrap();
    assert!(cache.keep(&asked(question), &look, Key::from_bytes([answer; 32]), owner));
    cache.refresh().unwrap();
}

pub fn look(cache: &SemanticCache, question: &str) -> Look {
    cache.look(&asked(question), "/r").unwrap()
}

pub fn shadowed(look: &Look) -> &Candidate {
    let Decision::Shadow(candidate) = &look.decision else { panic!("{look:?}") };
    candidate
}

pub fn label(look: &Look, entry: u64, verdict: Verdict) -> Label {
    assert!(!look.vector.is_empty());
    Label {
        entry,
        owner: owner(),
        similarity: 0.99,
        verdict,
        by: "text",
        served: false,
        at: 0,
        stored: [STORED.to_owned(), "one answer".to_owned()],
        asked: [NEAR.to_owned(), "another".to_owned()],
    }
}

/// Bounded by time, since a server comes back when it can.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(120), "waited two minutes for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn random(seed: &mut u64, width: usize) -> Vec<f32> {
    let mut v: Vec<f32> = (0..width)
        .map(|_| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (*seed >> 40) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    vector::normalise(&mut v);
    v
}

/// The same nearest rows as the index in memory, with the same cosines; other scopes, encoders and what was removed
/// are not among them.
#[test]
fn it_finds_what_the_flat_scan_finds() {
    let server = Server::start();
    let mut store = Postgres::new(&server.url(), patient()).unwrap();
    let mut seed = 7;
    let mut flat = FlatIndex::new();
    let mut rows = Vec::new();
    for n in 0..300_u32 {
        let mut answer = [0; 32];
        answer[..4].copy_from_slice(&n.to_be_bytes());
        let (scope, encoder) = match n % 10 {
            0 => (2, "e"),
            1 => (1, "other"),
            _ => (1, "e"),
        };
        let question = StoredQuestion {
            scope: Key::from_bytes([scope; 32]),
            answer: Key::from_bytes(answer),
            question: format!("Question {n}?"),
            vector: random(&mut seed, 384),
            owner: owner(),
            created: 1000 + u64::from(n),
        };
        store.keep(question.id(), &question, encoder, 0).unwrap();
        if n % 10 > 1 {
            flat.insert(question.id(), &question.vector);
            rows.push(question);
        }
    }
    let compare = |store: &Postgres, flat: &FlatIndex, seed: &mut u64| {
        for at in 0..20 {
            // One that is there, and one between two that are.
            let mut query = rows[at * 7].vector.clone();
            if at % 2 == 1 {
                let other = random(seed, 384);
                query.iter_mut().zip(&other).for_each(|(x, y)| *x += y);
                vector::normalise(&mut query);
            }
            let scope = Key::from_bytes([1; 32]);
            let wanted = Wanted { scope, encoder: "e", vector: &query, count: 5 };
            let found = store.nearest(&wanted).unwrap();
            let near = flat.nearest(&query, 5);
            assert_eq!(found.rows.len(), near.len());
            for (found, near) in found.rows.iter().zip(&near) {
                assert_eq!(found.id, near.id);
                assert_eq!(found.similarity.to_bits(), near.similarity.to_bits());
            }
            assert!(found.corrupt.is_empty());
        }
    };
    compare(&store, &flat, &mut seed);
    for question in rows.iter().step_by(3) {
        store.remove(question.id()).unwrap();
        flat.remove(question.id());
    }
    compare(&store, &flat, &mut seed);
}

#[test]
fn two_processes_share_questions_labels_and_what_stops_them() {
    let server = Server::start();
    let (one, two) = (cache(&server.url(), patient()), cache(&server.url(), patient()));
    until("the tables are there", || one.refresh().is_ok());
    keep(&one, STORED, 1, owner());
    let there = look(&two, NEAR);
    assert_eq!(&*shadowed(&there).question, STORED);
    // Guards and circumstances hold as they do in memory.
    let guarded = look(&two, "How do I renew my plan?");
    assert_eq!(guarded.decision, Decision::Nothing);
    assert!(guarded.nearest.unwrap().objections.iter().any(|it| it.guard == Guard::Content));
    let elsewhere = Asked { scope: Key::from_bytes([2; 32]), ..asked(NEAR) };
    assert_eq!(two.look(&elsewhere, "/r").unwrap().nearest, None);
    // Labels of one count for the other when it reads them.
    let candidate = shadowed(&there).clone();
    for _ in 0..labels_needed(0.5) {
        two.learn(label(&there, candidate.id, Verdict::Same), there.epoch);
    }
    two.refresh().unwrap();
    one.refresh().unwrap();
    for cache in [&one, &two] {
        let look = look(cache, NEAR);
        assert!(matches!(look.decision, Decision::Serve { .. }), "{look:?}");
    }
    // One that nobody knows of stops the other at its very next look, before it has read anything.
    for _ in 0..3 {
        two.learn(label(&there, candidate.id, Verdict::Unsettled), there.epoch);
    }
    two.refresh().unwrap();
    shadowed(&look(&one, NEAR));
    // A person settles them, through the store alone, and both serve again.
    let mut person = Postgres::new(&server.url(), patient()).unwrap();
    let waiting = person.unsettled(9).unwrap();
    assert_eq!(waiting.len(), 3);
    for pair in waiting {
        assert!(person.settle(pair.id, Verdict::Same).unwrap().is_some());
        assert!(person.settle(pair.id, Verdict::Wrong).unwrap().is_none());
    }
    for cache in [&one, &two] {
        until("it has read that", || matches!(look(cache, NEAR).decision, Decision::Serve { .. }));
    }
    // A wrong answer is gone for both.
    one.learn(label(&there, candidate.id, Verdict::Wrong), there.epoch);
    one.refresh().unwrap();
    assert_eq!(server.questions(), 0);
    assert_eq!(look(&two, NEAR).nearest, None);
    let counts = two.counts();
    assert_eq!((counts.errors, counts.dropped), (0, 0), "{counts:?}");
}

#[test]
fn the_oldest_of_a_scope_make_room() {
    let server = Server::start();
    let cache = cache(&server.url(), patient());
    until("the tables are there", || cache.refresh().is_ok());
    let questions = ["What is tea?", "Who sells soap?", "Why is it late?", "Where is it?"];
    for (number, question) in questions.iter().enumerate() {
        keep(&cache, question, number as u8, owner());
        // The time of each is its own.
        let now = cache.look(&asked(question), "/r").unwrap();
        assert!(now.nearest.is_some());
        server.sql("UPDATE tapri_semantic_counts SET alarms = alarms + 1");
    }
    assert_eq!(server.questions(), 3);
    // A call that is answered anew takes its own place.
    keep(&cache, questions[3], 3, owner());
    assert_eq!(server.questions(), 3);
}
