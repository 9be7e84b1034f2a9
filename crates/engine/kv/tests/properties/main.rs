//! Random histories against naive models.
//!
//! `harness` plays the engine over a memory in which each slot says whose token it holds after which whole prefix, and knows by a plain map from
//! whole prefixes to blocks what a lookup must find. `order` reimplements one full-attention group with plain vectors and compares the queue itself.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod harness;
mod history;
mod model;
mod order;
mod shares;
mod spill;

use std::num::NonZeroUsize;
use std::time::Duration;

use proptest::prelude::*;
use tapri_kv::{BlockHash, CacheConfig, GroupSpec, PrefixHash};

use harness::Harness;
use history::{Op, histories};

fn window(tokens: usize) -> GroupSpec {
    GroupSpec::Window { tokens: NonZeroUsize::new(tokens).unwrap() }
}

/// Almost every pair of blocks collides.
fn weak(bytes: &[u8]) -> BlockHash {
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    BlockHash([sum % 3; 32])
}

fn config(blocks: usize, groups: Vec<GroupSpec>) -> CacheConfig {
    let mut config = CacheConfig::new(blocks, groups);
    config.block_tokens = 4;
    config.step_tokens = 8;
    config.retention_tokens = 16;
    config
}

fn configs() -> impl Strategy<Value = CacheConfig> {
    let groups = prop_oneof![
        3 => Just(vec![GroupSpec::Full]),
        3 => Just(vec![GroupSpec::Full, window(9), window(6)]),
        1 => Just(vec![window(8), GroupSpec::Full, GroupSpec::Full]),
        1 => Just(vec![window(10)]),
        1 => Just(vec![window(1), window(7)]),
    ];
    (groups, 12_usize..70, prop::option::of(5_u64..40), any::<bool>(), 0_u8..4).prop_map(
        |(groups, blocks, ttl, weakly, ghosts)| {
            let mut config = config(blocks.max(groups.len() * 8), groups);
            config.ttl = ttl.map(Duration::from_secs);
            config.ghosts = usize::from(ghosts) * 20;
            if weakly {
                config.hash = PrefixHash::Custom(weak);
            }
            config
        },
    )
}

fn play(config: &CacheConfig, ops: &[Op]) -> Vec<String> {
    let mut harness = Harness::new(config.clone());
    for op in ops {
        harness.apply(op);
        harness.check();
    }
    harness.end();
    harness.into_log()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// All that `Harness::check` holds after every step, and that everything comes to an end.
    #[test]
    fn any_history_keeps_the_promises(config in configs(), ops in histories()) {
        play(&config, &ops);
    }

    #[test]
    fn the_same_history_gives_the_same_result(config in configs(), ops in histories()) {
        prop_assert_eq!(play(&config, &ops), play(&config, &ops));
    }

    /// One full-attention group: tables, hits and the whole free queue are those of the naive model.
    #[test]
    fn one_group_is_exactly_the_naive_pool(blocks in 8_usize..50, ops in histories()) {
        let mut config = config(blocks, vec![GroupSpec::Full]);
        config.join = false;
        order::compare(&config, &ops);
    }

    /// What made room and comes back is what the call would have computed, whatever happens in between.
    #[test]
    fn what_comes_back_is_what_left(config in configs(), ops in spill::ops()) {
        // Pages are known by their hash alone, so it must be one that nobody can forge.
        spill::play(&CacheConfig { hash: PrefixHash::Sha256, ..config }, &ops);
    }
}

/// The histories do what they are for.
#[test]
fn some_histories_bring_something_back() {
    let op = |shared| spill::Op::Admit {
        text: 1,
        shared,
        own: 3,
        scope: 0,
        no_store: false,
        restore: 1,
    };
    let step = spill::Op::Step { pick: 0, tokens: 8 };
    for groups in [vec![GroupSpec::Full], vec![GroupSpec::Full, window(9)], vec![window(10)]] {
        let mut ops = vec![op(40)];
        ops.extend(vec![step.clone(); 6]);
        ops.extend([spill::Op::Finish { pick: 0 }, spill::Op::Restart { save: true }, op(40)]);
        ops.push(spill::Op::Arrive { pick: 0, fails: false });
        assert!(spill::play(&config(60, groups), &ops) >= 32);
    }
}
