//! First in, first out against a naive model; Belady's bound against every possible choice.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use tapri_insight::simulate::{Counting, Curve, Scope, Trace, belady, fifo};

use crate::random::{BLOCK, steps, trace};

/// A block by content: its scope and all ids up to it.
type Key = (u32, Vec<u64>);

struct Needs {
    blocks: Vec<Key>,
    lookup: usize,
    spare: usize,
}

fn needs(calls: &[(u32, Vec<u64>, u64)]) -> Vec<Needs> {
    calls
        .iter()
        .map(|(scope, ids, tokens)| Needs {
            blocks: (1..=ids.len()).map(|n| (*scope, ids[..n].to_vec())).collect(),
            lookup: ((tokens - 1) / BLOCK) as usize,
            spare: usize::from(tokens % BLOCK != 0),
        })
        .collect()
}

/// First in, first out, on lists.
fn naive_fifo(calls: &[Needs], capacity: usize) -> u64 {
    let mut stored: BTreeMap<Key, usize> = BTreeMap::new();
    let (mut serial, mut hits) = (0, 0);
    for call in calls {
        if call.blocks.len() + call.spare > capacity {
            continue;
        }
        let found =
            call.blocks[..call.lookup].iter().take_while(|b| stored.contains_key(*b)).count();
        let in_use: BTreeSet<&Key> = call.blocks[..found].iter().collect();
        while capacity - stored.len() < call.blocks.len() + call.spare - found {
            let oldest =
                stored.iter().filter(|(key, _)| !in_use.contains(key)).min_by_key(|(_, s)| **s);
            let (scope, ids) = oldest.unwrap().0.clone();
            stored.retain(|(s, i), _| *s != scope || !i.starts_with(&ids));
        }
        for block in call.blocks[found..].iter().rev() {
            if !stored.contains_key(block) {
                serial += 1;
                stored.insert(block.clone(), serial);
            }
        }
        hits += found as u64;
    }
    hits
}

/// The most hits that any choice of what to keep gives, for a cache that finds blocks by content: a lookup stops at the
/// first missing one.
fn best(calls: &[Needs], capacity: usize) -> u64 {
    // What may be in the cache after a call, and the most hits with it.
    let mut states: HashMap<BTreeSet<Key>, u64> = HashMap::from([(BTreeSet::new(), 0)]);
    for call in calls {
        if call.blocks.len() + call.spare > capacity {
            continue;
        }
        let mut after: HashMap<BTreeSet<Key>, u64> = HashMap::new();
        for (state, hits) in states {
            let found =
                call.blocks[..call.lookup].iter().take_while(|b| state.contains(*b)).count();
            let hits = hits + found as u64;
            let own: BTreeSet<Key> = call.blocks.iter().cloned().collect();
            let others: Vec<&Key> = state.difference(&own).collect();
            let room = capacity - call.spare - own.len();
            // Every subset of the others that fits; a smaller one than must be is never better.
            let keep = room.min(others.len());
            for choice in subsets(others.len(), keep) {
                let mut next = own.clone();
                next.extend(choice.iter().map(|&at| others[at].clone()));
                let entry = after.entry(next).or_default();
                *entry = hits.max(*entry);
            }
        }
        states = after;
    }
    states.into_values().max().unwrap()
}

fn subsets(of: usize, size: usize) -> Vec<Vec<usize>> {
    (0u32..1 << of)
        .filter(|bits| bits.count_ones() as usize == size)
        .map(|bits| (0..of).filter(|at| bits >> at & 1 == 1).collect())
        .collect()
}

/// A block that will only be computed anew is not worth keeping until then, however soon that is.
#[test]
fn what_is_computed_anew_is_not_kept_for_it() {
    let mut trace = Trace::new(NonZeroU32::new(BLOCK as u32).unwrap());
    // Prompts of one full block: their last token, so the whole block, is always computed. The fifth has a token more.
    for (id, tokens) in [(1, BLOCK), (2, BLOCK), (3, BLOCK), (1, BLOCK), (2, BLOCK + 1)] {
        trace.push(Scope(0), Duration::ZERO, tokens, &[id]).unwrap();
    }
    trace.seal();
    assert_eq!(belady(&trace, Counting::Engine, 2).blocks, 1);
    let calls: Vec<(u32, Vec<u64>, u64)> =
        [(1, BLOCK), (2, BLOCK), (3, BLOCK), (1, BLOCK), (2, BLOCK + 1)]
            .map(|(id, tokens)| (0, vec![id], tokens))
            .into();
    assert_eq!(best(&needs(&calls), 2), 1);
}

proptest! {
    #[test]
    fn first_in_first_out(steps in steps(40, 5), more in 0usize..30) {
        let (trace, calls) = trace(&steps);
        let needs = needs(&calls);
        // Also smaller than the longest call.
        for capacity in [more, trace.longest(Counting::Engine), trace.longest(Counting::Engine) + more] {
            let hits = fifo(&trace, Counting::Engine, capacity);
            prop_assert_eq!(hits.blocks, naive_fifo(&needs, capacity));
        }
    }

    #[test]
    fn no_choice_beats_belady(steps in steps(9, 2), more in 0usize..4) {
        let (trace, calls) = trace(&steps);
        let needs = needs(&calls);
        for capacity in [more + 1, trace.longest(Counting::Engine) + more] {
            let bound = belady(&trace, Counting::Engine, capacity);
            prop_assert_eq!(bound.blocks, best(&needs, capacity), "capacity {}", capacity);
        }
    }

    #[test]
    fn the_bounds_hold(steps in steps(60, 6)) {
        let (trace, _) = trace(&steps);
        for counting in [Counting::Engine, Counting::Listed] {
            let curve = Curve::new(&trace, counting, |_| {});
            for capacity in curve.smallest()..=curve.largest() {
                let lru = curve.at(capacity).unwrap().blocks;
                let best = belady(&trace, counting, capacity).blocks;
                prop_assert!(lru <= best && best <= curve.endless().blocks);
                prop_assert!(fifo(&trace, counting, capacity).blocks <= best);
            }
            prop_assert_eq!(belady(&trace, counting, curve.largest() + 1).blocks, curve.endless().blocks);
        }
    }
}
