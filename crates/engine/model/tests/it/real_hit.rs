//! A hit changes nothing, on the two real models and a bounded sample.

use tapri_kernels::{Compute, Isa};
use tapri_model::{LogitsWanted, Model};

use crate::golden::{golden, open, token_ids};
use crate::runner::{Blocks, Part, Runner, first_difference};

fn check(name: &str, file: &str) {
    let isa = Isa::from_env().unwrap();
    let (one, two) = (Compute::new(isa, 1), Compute::new(isa, 2));
    let model = Model::load(&open(name), &two).unwrap();
    let golden = golden(file);
    // The golden prompt of some 500 tokens: beyond Gemma's window, and across a 256-key boundary.
    let tokens = (golden["greedy"].as_array().unwrap().iter())
        .map(|run| token_ids(&run["prompt_tokens"]))
        .find(|tokens| (500..600).contains(&tokens.len()))
        .unwrap();
    let length = tokens.len();
    let cold =
        Runner::new(&model, &two, 16, &[length], Blocks::InOrder).prefill(0, &tokens, 0, 512);

    // The prefix was read in other chunks, on one thread, and lies elsewhere; the rest is read from there.
    let mut runner = Runner::new(&model, &one, 16, &[length, length, 64], Blocks::Shuffled);
    for chunk in [37, 160] {
        runner.prefill(0, &tokens, 0, chunk);
        for shared in [32, 256, (length - 1) / 16 * 16] {
            let (first, second) = runner.sequences.split_at_mut(1);
            for (mine, theirs) in second[0].blocks.iter_mut().zip(&first[0].blocks) {
                mine[..shared / 16].copy_from_slice(&theirs[..shared / 16]);
            }
            let warm = runner.prefill(1, &tokens, shared, 512);
            assert_eq!(first_difference(&cold, &warm), None, "{name}: {shared} tokens shared");
            // The shared blocks must not be written by the next round.
            let fresh = Runner::new(&model, &one, 16, &[length, length, 64], Blocks::Shuffled);
            runner.sequences[1] = fresh.sequences.into_iter().nth(1).unwrap();
        }
    }

    // Beside another sequence in one batch.
    let mut runner = Runner::new(&model, &two, 16, &[64, length], Blocks::Shuffled);
    runner.prefill(1, &tokens[..400], 0, 400);
    let logits = runner.forward(&[
        Part { sequence: 0, tokens: &tokens[100..164], start: 0, logits: LogitsWanted::Last },
        Part { sequence: 1, tokens: &tokens[400..], start: 400, logits: LogitsWanted::Last },
    ]);
    let vocab = model.config().vocab_size;
    assert_eq!(first_difference(&cold, &logits[vocab..]), None, "{name}: in a batch");
}

#[test]
fn smollm2() {
    check("smollm2", "smollm2-135m-instruct-q4_1");
}

#[test]
fn gemma() {
    check("gemma-3-270m", "gemma-3-270m-q4_k_m");
}
