//! Random histories of calls.

use proptest::prelude::*;
use tapri_kv::{PrefixHash, PromptKeys, Root, RootParts};

/// One step of a history. Numbers that pick a call are taken modulo the calls there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Admit {
        prompt: Vec<u32>,
        scope: usize,
        no_read: bool,
        no_store: bool,
        no_join: bool,
        answer: usize,
    },
    /// Computes up to so many positions of a running call.
    Step {
        pick: usize,
        tokens: usize,
    },
    /// A second answer to a running call's prompt.
    Fork {
        pick: usize,
        answer: usize,
    },
    Finish {
        pick: usize,
    },
    Abort {
        pick: usize,
    },
    Preempt {
        pick: usize,
    },
    /// Admits a queued call again.
    Retry {
        pick: usize,
    },
    Poll {
        pick: usize,
    },
    /// Polls what was woken.
    Wake,
    StopWaiting {
        pick: usize,
    },
    Pass {
        seconds: u64,
    },
    Expire,
    Reset,
    /// Ends a running call and pins what it has stored.
    Pin {
        pick: usize,
    },
    Unpin {
        pick: usize,
    },
}

/// Prompts that share starts: a few segments, each of two kinds, of lengths that don't end at block boundaries.
fn prompts() -> impl Strategy<Value = Vec<u32>> {
    (prop::collection::vec(0_u32..5, 1..6), 0_usize..4).prop_map(|(kinds, cut)| {
        let mut tokens: Vec<u32> = kinds
            .iter()
            .enumerate()
            .flat_map(|(at, kind)| {
                // Most prompts go the same way; kind 3 differs in its last token alone.
                let (length, kind) = ([9_u32, 6, 11, 4, 7][at % 5], kind.saturating_sub(2));
                (0..length).map(move |token| match kind {
                    0 => token,
                    1 if token + 1 < length => token,
                    _ => 100 * kind + token,
                })
            })
            .collect();
        tokens.truncate((tokens.len() - cut).max(1));
        tokens
    })
}

pub(crate) fn histories() -> impl Strategy<Value = Vec<Op>> {
    let pick = || 0_usize..64;
    let odd = || prop::bool::weighted(0.12);
    let op = prop_oneof![
        8 => (prompts(), 0_usize..2, odd(), odd(), odd(), 0_usize..12).prop_map(|(prompt, scope, no_read, no_store, no_join, answer)| {
            Op::Admit { prompt, scope, no_read, no_store, no_join, answer }
        }),
        14 => (pick(), 1_usize..=8).prop_map(|(pick, tokens)| Op::Step { pick, tokens }),
        3 => (pick(), 0_usize..12).prop_map(|(pick, answer)| Op::Fork { pick, answer }),
        3 => pick().prop_map(|pick| Op::Finish { pick }),
        1 => pick().prop_map(|pick| Op::Abort { pick }),
        2 => pick().prop_map(|pick| Op::Preempt { pick }),
        3 => pick().prop_map(|pick| Op::Retry { pick }),
        2 => pick().prop_map(|pick| Op::Poll { pick }),
        4 => Just(Op::Wake),
        1 => pick().prop_map(|pick| Op::StopWaiting { pick }),
        2 => (0_u64..8).prop_map(|seconds| Op::Pass { seconds }),
        1 => Just(Op::Expire),
        2 => pick().prop_map(|pick| Op::Pin { pick }),
        1 => pick().prop_map(|pick| Op::Unpin { pick }),
        1 => prop::bool::weighted(0.15).prop_map(|reset| if reset { Op::Reset } else { Op::Wake }),
    ];
    prop::collection::vec(op, 1..150)
}

/// Keys of one of the test's scopes: two tenants' roots would do as well as two salts, so there is one of each.
pub(crate) fn keys(scope: usize) -> PromptKeys {
    let root = Root::new(&RootParts {
        numerics: 1,
        isa: "scalar",
        model: b"model",
        rope: b"rope",
        kv_type: "bf16",
        block_tokens: 4,
        hash: PrefixHash::Sha256,
        tenant: b"tenant",
    });
    let keys = PromptKeys::new(root);
    if scope == 0 { keys } else { keys.with_salt(b"salt") }
}
