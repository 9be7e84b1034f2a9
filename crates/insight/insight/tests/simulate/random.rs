//! Random traces: conversations that grow, branch and come back.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use tapri_insight::simulate::{Scope, Trace};

pub const BLOCK: u64 = 4;

/// One call: from which earlier call it goes on, how many of its blocks it keeps, how many new ones follow, and how many
/// tokens stand behind the last full block.
#[derive(Debug, Clone)]
pub struct Step {
    from: prop::sample::Index,
    keep: prop::sample::Index,
    new: usize,
    rest: u64,
    list_rest: bool,
    scope: u32,
}

pub fn steps(calls: usize, blocks: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        0..=blocks,
        // Often nothing: those prompts end with a block and are computed anew at their last token.
        prop_oneof![Just(0), 1..BLOCK],
        any::<bool>(),
        prop_oneof![9 => Just(0u32), 1 => Just(1)],
    )
        .prop_map(|(from, keep, new, rest, list_rest, scope)| Step {
            from,
            keep,
            new,
            rest,
            list_rest,
            scope,
        });
    prop::collection::vec(step, 1..calls)
}

/// The trace, and each call as (scope, ids of full blocks, tokens).
pub fn trace(steps: &[Step]) -> (Trace, Vec<(u32, Vec<u64>, u64)>) {
    let mut trace = Trace::new(NonZeroU32::new(BLOCK as u32).unwrap());
    let mut calls: Vec<(u32, Vec<u64>, u64)> = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let mut ids = Vec::new();
        if !calls.is_empty() {
            let (_, earlier, _) = step.from.get(&calls);
            let keep = step.keep.index(earlier.len() + 1);
            ids.extend_from_slice(&earlier[..keep]);
        }
        ids.extend((0..step.new).map(|new| (number * 100 + new) as u64));
        let mut tokens = ids.len() as u64 * BLOCK + step.rest;
        if tokens == 0 {
            tokens = 1;
        }
        let mut listed = ids.clone();
        if step.list_rest && !tokens.is_multiple_of(BLOCK) {
            listed.push(10_000 + tokens % BLOCK);
        }
        let at = Duration::from_secs(10 * number as u64);
        trace.push(Scope(step.scope), at, tokens, &listed).unwrap();
        calls.push((step.scope, ids, tokens));
    }
    trace.seal();
    (trace, calls)
}
