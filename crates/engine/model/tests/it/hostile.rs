//! Model files whose settings are changed at random: an error that says what is wrong, or a model that runs.
//! `TAPRI_TEST_FOR=1h cargo test -p tapri-model --test it hostile` goes on for an hour.

#[path = "../../../../../tests/effort.rs"]
mod effort;

use proptest::prelude::*;
use tapri_gguf::Gguf;
use tapri_kernels::{Compute, Isa};
use tapri_model::Model;
use tapri_model::tiny::TinyModel;

use crate::runner::{Blocks, Runner, tokens};

/// The numbers that the configuration is read from.
const KEYS: [&str; 10] = [
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
];

/// Numbers that no setting should have.
const ODD: [u32; 5] = [u32::MAX, 1 << 31, 1 << 20, f32::NAN.to_bits(), 1.0f32.to_bits()];

fn small(model: TinyModel) -> (String, Vec<u8>) {
    let model = TinyModel { layers: 1, ffn_width: 64, ..model };
    (model.architecture.name().to_owned(), model.to_bytes())
}

/// Puts a number in the place of that of a key, if the file has it.
fn put(file: &mut [u8], key: &str, value: u32) {
    let at = file.windows(key.len()).position(|window| window == key.as_bytes());
    if let Some(at) = at {
        // The type of the value stands between.
        let start = at + key.len() + 4;
        file[start..start + 4].copy_from_slice(&value.to_le_bytes());
    }
}

#[test]
fn changed_settings_are_an_error_or_run() {
    let files = [small(TinyModel::llama()), small(TinyModel::gemma3())];
    let compute = Compute::new(Isa::best(), 1);
    let number = prop_oneof![
        4 => 0..70u32,
        2 => prop::sample::select(&[64, 128, 256, 320, 512, 8192][..]),
        1 => prop::sample::select(&ODD[..]),
        1 => any::<u32>(),
    ];
    let change = (prop::sample::select(&KEYS[..]), number);
    let byte = (any::<prop::sample::Index>(), any::<u8>());
    let changes =
        (any::<bool>(), prop::collection::vec(change, 0..4), prop::collection::vec(byte, 0..2));
    effort::check(250, &changes, |(which, numbers, bytes)| {
        let (name, file) = &files[usize::from(which)];
        let mut file = file.clone();
        for (key, value) in numbers {
            put(&mut file, &format!("{name}.{key}"), value);
        }
        for (index, byte) in bytes {
            // The settings come first, and the shapes of tensors after the vocabulary.
            let index = index.index(16 << 10);
            file[index] = byte;
        }
        let Ok(gguf) = Gguf::from_bytes(file) else { return Ok(()) };
        match Model::load(&gguf, &compute) {
            Err(error) => prop_assert!(!error.to_string().is_empty()),
            Ok(model) => {
                let length = model.config().context_length.min(20);
                let tokens = tokens(length, model.config().vocab_size, 1);
                let mut runner = Runner::new(&model, &compute, 16, &[length], Blocks::InOrder);
                if length > 0 {
                    runner.chunked(0, &tokens, 0, 7);
                }
            }
        }
        Ok(())
    });
}
