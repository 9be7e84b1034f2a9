//! Notes depend on what came before: why a changed token spoils the cache of everything after it, and of nothing before.

use tapri_gguf::TokenId;
use tapri_kernels::{Compute, TILE_TOKENS};
use tapri_model::Model;
use tapri_model::tiny::TinyModel;

use crate::runner::{Blocks, Runner, isas, tokens};

const LENGTH: usize = 300;
const CHANGED: usize = 5;

/// Keys and values of one layer, `[tokens, kv width]` each.
fn notes(runner: &Runner<'_>, layer: usize) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let config = runner.model.config();
    let dim = config.head_dim;
    (0..LENGTH)
        .map(|token| {
            let block = runner.sequences[0].blocks[0][token / TILE_TOKENS];
            let (mut keys, mut values) =
                (vec![0.0; config.kv_width()], vec![0.0; config.kv_width()]);
            for head in 0..config.kv_heads {
                let range = head * dim..(head + 1) * dim;
                let slot = token % TILE_TOKENS;
                runner.store.read_token(
                    block,
                    layer,
                    slot,
                    head,
                    &mut keys[range.clone()],
                    &mut values[range],
                );
            }
            (keys, values)
        })
        .unzip()
}

fn changed(a: &[Vec<f32>], b: &[Vec<f32>]) -> Vec<usize> {
    (0..LENGTH).filter(|&token| a[token] != b[token]).collect()
}

#[test]
fn a_changed_token_changes_the_notes_of_all_that_follow() {
    for isa in isas() {
        let compute = Compute::new(isa, 2);
        let model = Model::load(&TinyModel::llama().gguf(), &compute).unwrap();
        let before = tokens(LENGTH, model.config().vocab_size, 4);
        let mut after = before.clone();
        after[CHANGED] = TokenId((after[CHANGED].0 + 1) % model.config().vocab_size as u32);

        let [a, b] = [before, after].map(|tokens| {
            let mut runner =
                Runner::new(&model, &compute, TILE_TOKENS, &[LENGTH], Blocks::Shuffled);
            runner.prefill(0, &tokens, 0, 128);
            runner
        });
        let (keys_a, values_a) = notes(&a, 0);
        let (keys_b, values_b) = notes(&b, 0);
        assert_eq!(changed(&keys_a, &keys_b), [CHANGED], "{isa:?}: keys of the first layer");
        assert_eq!(changed(&values_a, &values_b), [CHANGED], "{isa:?}: values of the first layer");

        let (keys_a, values_a) = notes(&a, 1);
        let (keys_b, values_b) = notes(&b, 1);
        let from_there: Vec<usize> = (CHANGED..LENGTH).collect();
        assert_eq!(from_there.len(), 1 + 294);
        assert_eq!(changed(&keys_a, &keys_b), from_there, "{isa:?}: keys of the second layer");
        assert_eq!(
            changed(&values_a, &values_b),
            from_there,
            "{isa:?}: values of the second layer"
        );
    }
}
