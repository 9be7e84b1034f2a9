//! What a grammar costs: compiling it, a step of its own call, and a step of the calls beside it.
//!
//! The gaps between tokens of one free call are measured alone, beside another free call, and beside a constrained one,
//! interleaved, so that a machine that is busy with other things is so in all three.
//!
//! `cargo bench -p tapri-engine`
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::time::{Duration, Instant};

use serde_json::json;
use tapri_engine::{
    CallHandle, Constraint, Engine, EngineConfig, GenerateEvent, GenerateRequest, Grammar, Sampling,
};
use tapri_text::Special;

const TOKENS: usize = 120;
const ROUNDS: usize = 5;

fn main() {
    for model in ["smollm2", "gemma-3-270m"] {
        let engine =
            Engine::start(&tapri_registry::test_model(model), EngineConfig::default()).unwrap();
        println!("{model}: {} tokens", engine.model().vocabulary);
        let grammar = Grammar::Json(json!({
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "born": { "type": "string", "format": "date" },
                "notes": { "anyOf": [{ "type": "string" }, { "type": "null" }] }
            },
            "required": ["name", "tags", "born", "notes"],
            "additionalProperties": false
        }));
        let first = timed(|| engine.constrain(&grammar).unwrap());
        let again: Vec<Duration> =
            (0..20).map(|_| timed(|| engine.constrain(&grammar).unwrap())).collect();
        println!(
            " compile, the first {first:.1?} (the vocabulary with it), then {}",
            spread(again)
        );
        let constraint = engine.constrain(&grammar).unwrap();
        let (mut alone, mut beside_free, mut beside_held, mut held) =
            <(Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
        for _ in 0..ROUNDS {
            alone.extend(gaps(start(&engine, None)));
            let (one, other) = (start(&engine, None), start(&engine, None));
            beside_free.extend(gaps(one));
            drop(other);
            let (one, other) = (start(&engine, None), start(&engine, Some(&constraint)));
            beside_held.extend(gaps(one));
            drop(other);
            held.extend(gaps(start(&engine, Some(&constraint))));
        }
        println!(" between tokens, alone {}", spread(alone));
        println!("   beside another call {}", spread(beside_free));
        println!("  beside one that is held {}", spread(beside_held));
        println!("  held itself, alone {}", spread(held));
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    drop(work());
    start.elapsed()
}

fn start(engine: &Engine, constraint: Option<&Constraint>) -> CallHandle {
    let prompt =
        engine.tokenizer().encode_prompt("Write about a city and its people.", Special::AsText);
    let mut request = GenerateRequest { prompt, max_tokens: TOKENS, ..GenerateRequest::default() };
    request.sampling = Sampling { seed: Some(1), ..Sampling::default() };
    request.stop.ignore_eos = true;
    request.constraint = constraint.cloned();
    engine.submit(request).unwrap()
}

/// The times between a call's tokens.
fn gaps(mut call: CallHandle) -> Vec<Duration> {
    let (mut gaps, mut last) = (Vec::new(), None::<Instant>);
    while let Some(event) = call.next() {
        if matches!(event, GenerateEvent::Token(_)) {
            let now = Instant::now();
            gaps.extend(last.replace(now).map(|last| now - last));
        }
    }
    gaps
}

fn spread(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!(
        "median {:.2?}, p99 {:.2?}, most {:.2?} (n = {})",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    )
}
