//! A hit changes nothing: the logits of a token are the same bits however its prefix and it came to be computed.

use tapri_kernels::{Compute, Isa, KvType};
use tapri_model::tiny::{TinyModel, TinyWeights};
use tapri_model::{LogitsWanted, Model};

use crate::runner::{Blocks, Part, Runner, first_difference, isas, tokens};

const LENGTH: usize = 560;

/// Enough to reach into a second 256-key block: for what differs from another architecture in parts that know nothing of length.
const SHORT: usize = 276;

/// Runs every case for one model on one path.
fn check(recipe: &TinyModel, isa: Isa) {
    check_length(recipe, isa, LENGTH);
}

/// The same with a sequence of `length` tokens.
fn check_length(recipe: &TinyModel, isa: Isa, length: usize) {
    check_stored(recipe, isa, length, KvType::Bf16);
}

/// The same over keys and values that are stored so.
fn check_stored(recipe: &TinyModel, isa: Isa, length: usize, kv_type: KvType) {
    let gguf = recipe.gguf();
    let one = Compute::new(isa, 1);
    let two = Compute::new(isa, 2);
    let model = Model::load(&gguf, &one).unwrap();
    let vocab = model.config().vocab_size;
    let tokens_a = tokens(length, vocab, 1);
    let runner = |compute, block_tokens, lengths: &[usize], order| {
        Runner::stored(&model, compute, block_tokens, lengths, order, kv_type)
    };
    let whole = runner(&one, 16, &[length], Blocks::InOrder).chunked(0, &tokens_a, 0, length);
    assert!(whole.iter().all(|x| x.is_finite()));
    let name = format!("{:?} {:?} {isa:?} {kv_type}", recipe.architecture, recipe.weights);
    let same = |logits: &[f32], from: usize, what: &str| {
        if let Some(at) = first_difference(logits, &whole[from * vocab..]) {
            panic!("{name}, {what}: token {} differs", from + at / vocab);
        }
    };

    for chunk in [1, 7, 16, 100, 512] {
        for (compute, block_tokens, order) in [
            (&one, 16, Blocks::Shuffled),
            (&two, 16, Blocks::InOrder),
            (&two, 32, Blocks::Shuffled),
        ] {
            let mut runner = runner(compute, block_tokens, &[length], order);
            let logits = runner.chunked(0, &tokens_a, 0, chunk);
            same(
                &logits,
                0,
                &format!(
                    "chunks of {chunk}, {} threads, blocks of {block_tokens}",
                    compute.threads()
                ),
            );
        }
    }

    // In a batch of five, of different lengths and starts, a chunk at a time.
    for compute in [&one, &two] {
        let lengths = [40, length, 333, 1, 128];
        let others: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(
                |(n, len)| {
                    if n == 1 { tokens_a.clone() } else { tokens(*len, vocab, 10 + n as u64) }
                },
            )
            .collect();
        let mut runner = runner(compute, 16, &lengths, Blocks::Shuffled);
        let mut logits = Vec::new();
        for step in 0..length.div_ceil(100) {
            // Each takes other chunks, so that the batch's shape changes all the time.
            let parts: Vec<Part<'_>> = (others.iter().enumerate())
                .filter_map(|(sequence, all)| {
                    let size = [9, 100, 64, 1, 30][sequence];
                    let start = (step * size).min(all.len());
                    let end = (start + size).min(all.len());
                    let wanted = if sequence == 1 { LogitsWanted::All } else { LogitsWanted::Last };
                    (start < end).then(|| Part {
                        sequence,
                        tokens: &all[start..end],
                        start,
                        logits: wanted,
                    })
                })
                .collect();
            let out = runner.forward(&parts);
            let before = parts.iter().filter(|part| part.sequence < 1).count() * vocab;
            let rows = parts.iter().find(|part| part.sequence == 1).unwrap().tokens.len();
            logits.extend_from_slice(&out[before..before + rows * vocab]);
        }
        same(&logits, 0, &format!("in a batch of five, {} threads", compute.threads()));
    }

    // A second sequence reads the first one's blocks: from a full prefix, and from part of one.
    for shared in [16, 256, 544].into_iter().filter(|shared| *shared < length) {
        let mut runner = runner(&two, 16, &[length, length], Blocks::Shuffled);
        runner.prefill(0, &tokens_a, 0, 100);
        let (first, second) = runner.sequences.split_at_mut(1);
        for (mine, theirs) in second[0].blocks.iter_mut().zip(&first[0].blocks) {
            mine[..shared / 16].copy_from_slice(&theirs[..shared / 16]);
        }
        let logits = runner.chunked(1, &tokens_a, shared, 512);
        same(&logits, shared, &format!("{shared} tokens shared"));
    }

    // Only the last row through the head, and the last layer for that row alone.
    let logits = runner(&two, 16, &[length], Blocks::InOrder).prefill(0, &tokens_a, 0, 300);
    same(&logits, length - 1, "the last row alone");
}

#[test]
fn llama_f32() {
    isas().into_iter().for_each(|isa| check(&TinyModel::llama(), isa));
}

#[test]
fn llama3_with_factors() {
    isas().into_iter().for_each(|isa| check_length(&TinyModel::llama3(), isa, SHORT));
}

#[test]
fn qwen2_with_biases() {
    let recipe = TinyModel::qwen2().weights(TinyWeights::Q8_0);
    isas().into_iter().for_each(|isa| check_length(&recipe, isa, SHORT));
}

#[test]
fn qwen3_with_norms() {
    isas().into_iter().for_each(|isa| check_length(&TinyModel::qwen3(), isa, SHORT));
}

#[test]
fn llama_quantised() {
    for weights in [TinyWeights::Q4_1, TinyWeights::Q8_0] {
        isas().into_iter().for_each(|isa| check(&TinyModel::llama().weights(weights), isa));
    }
}

#[test]
fn gemma_mixed() {
    isas().into_iter().for_each(|isa| check(&TinyModel::gemma3().weights(TinyWeights::Mixed), isa));
}

#[test]
fn gemma_f32() {
    isas().into_iter().for_each(|isa| check(&TinyModel::gemma3(), isa));
}

#[test]
fn llama_over_q8_0() {
    isas().into_iter().for_each(|isa| check_stored(&TinyModel::llama(), isa, LENGTH, KvType::Q8_0));
}

#[test]
fn gemma_over_q8_0() {
    let recipe = TinyModel::gemma3().weights(TinyWeights::Mixed);
    isas().into_iter().for_each(|isa| check_stored(&recipe, isa, LENGTH, KvType::Q8_0));
}

#[test]
fn a_window_block_that_is_gone_is_not_read() {
    let gguf = TinyModel::gemma3().gguf();
    let compute = Compute::new(Isa::best(), 2);
    let model = Model::load(&gguf, &compute).unwrap();
    let tokens = tokens(200, model.config().vocab_size, 3);
    let mut runner = Runner::new(&model, &compute, 16, &[200], Blocks::InOrder);
    let whole = runner.prefill(0, &tokens, 0, 200);

    let mut runner = Runner::new(&model, &compute, 16, &[200], Blocks::InOrder);
    runner.prefill(0, &tokens[..150], 0, 150);
    let plan = model.kv_plan(16);
    for (blocks, group) in runner.sequences[0].blocks.iter_mut().zip(&plan.groups) {
        if let Some(window) = group.window {
            // Token 150 sees back to 150 - (window - 1).
            for block in &mut blocks[..(151 - window) / 16] {
                runner.store.clear_block(*block);
                *block = 0;
            }
        }
    }
    let rest = runner.prefill(0, &tokens, 150, 50);
    assert_eq!(first_difference(&whole, &rest), None);
}
