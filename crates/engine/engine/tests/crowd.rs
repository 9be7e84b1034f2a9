//! A crowd on one file: it is read once, held once, and each answer is the one that its user gets alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::num::NonZeroUsize;

use support::{Answer, ask, config, finish, prompt, request, start};
use tapri_engine::{Engine, EngineConfig, TokenId};
use tapri_model::tiny::TinyModel;

const USERS: usize = 8;
const ANSWER: usize = 64;

/// One file, and each user's own question of 5 to 19 tokens about it.
fn prompts(file: usize) -> Vec<Vec<TokenId>> {
    let question = |user: usize| prompt(5 + 2 * user, 50 + user as u32);
    (0..USERS).map(|user| [prompt(file, 9), question(user)].concat()).collect()
}

/// Submits all at once.
fn together(engine: &Engine, prompts: &[Vec<TokenId>]) -> Vec<Answer> {
    let calls: Vec<_> =
        prompts.iter().map(|p| engine.submit(request(p.clone(), ANSWER)).unwrap()).collect();
    calls.into_iter().map(|call| finish(call).unwrap()).collect()
}

fn alone(model: &TinyModel, prompt: &[TokenId]) -> support::Seen {
    let engine = start(model, EngineConfig { prefix_cache: false, ..config() });
    ask(&engine, request(prompt.to_vec(), ANSWER)).seen()
}

/// The common start is long enough for all to share their attention tiles over it.
#[test]
fn each_answer_is_the_one_its_user_gets_alone() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let prompts = prompts(1_300);
        let engine = start(&model, config());
        // Cold, where seven wait for what the first reads; then with the file at hand.
        for _ in 0..2 {
            let answers = together(&engine, &prompts);
            for user in [0, 3, 7] {
                assert_eq!(answers[user].seen(), alone(&model, &prompts[user]), "user {user}");
            }
        }
    }
}

#[test]
fn a_file_is_read_once_and_held_once() {
    const FILE: usize = 6_000;
    let model = TinyModel::llama();
    let prompts = prompts(FILE);
    let longest = prompts.iter().map(Vec::len).max().unwrap() + ANSWER;
    let one_users = longest.div_ceil(config().block_size);
    // The null block comes on top.
    let blocks = 1 + one_users * 115 / 100;
    let block = start(&model, config()).stats().block_bytes;
    let engine = start(
        &model,
        EngineConfig {
            kv_memory: (blocks * block) as u64,
            chunk: NonZeroUsize::new(256).unwrap(),
            ..config()
        },
    );
    let answers = together(&engine, &prompts);
    let stats = engine.stats();
    assert_eq!(stats.blocks_total, blocks - 1, "{stats:?}");
    // Nobody had to wait for another's blocks, or lost any.
    assert_eq!((stats.preemptions, stats.evicted_blocks, stats.recomputed_tokens), (0, 0, 0));
    let whole_blocks = FILE / config().block_size * config().block_size;
    assert_eq!(answers[0].admitted.cached_tokens + answers[0].admitted.joined_tokens, 0);
    for answer in &answers[1..] {
        let reused = answer.admitted.cached_tokens + answer.admitted.joined_tokens;
        assert_eq!(reused, whole_blocks, "{:?}", answer.admitted);
    }
    assert_eq!(stats.prefix_hits + stats.prefix_joined, ((USERS - 1) * whole_blocks) as u64);
}
