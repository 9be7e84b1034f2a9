//! A random adapter on SmolLM2, followed along the tokens that llama.cpp's server chose with it.
//!
//! `tests/data/golden/adapter.py` made the file, with the adapter that the ignored test here writes: the same numbers on any machine.

use tapri_gguf::{TensorType, TokenId};
use tapri_kernels::{Compute, Isa};
use tapri_model::tiny::TinyAdapter;
use tapri_model::{Adapter, Model, ModelConfig};

use crate::golden::{golden, open, token_ids};
use crate::runner::{Blocks, Runner};

/// The most that the logprob of llama.cpp's best token may be off, on average: as without an adapter, both engines round activations
/// to 8 bits, each in its own way. Measured with AVX-512: 0.044; without the adapter it is 0.60.
const MEAN_DIFFERENCE: f64 = 0.08;

fn recipe() -> TinyAdapter {
    let config = ModelConfig::from_gguf(&open("smollm2")).unwrap();
    TinyAdapter { kind: TensorType::F16, ..TinyAdapter::of(&config).seed(7) }
}

/// The mean difference of the best token's logprob from llama.cpp's.
fn follow(model: &Model, compute: &Compute, adapter: Option<&Adapter>) -> f64 {
    let mut differences = Vec::new();
    for run in golden("smollm2-135m-instruct-q4_1-adapter")["greedy"].as_array().unwrap() {
        let mut tokens = token_ids(&run["prompt_tokens"]);
        let steps = run["steps"].as_array().unwrap();
        let lengths = [tokens.len() + steps.len()];
        let mut runner = Runner::new(model, compute, 16, &lengths, Blocks::Shuffled);
        runner.sequences[0].adapter = adapter;
        let mut start = 0;
        for step in steps {
            let logits = runner.prefill(0, &tokens, start, 512);
            start = tokens.len();
            let best = step["id"].as_u64().unwrap() as usize;
            let sum: f64 = logits.iter().map(|&x| f64::from(x).exp()).sum();
            let ours = f64::from(logits[best]) - sum.ln();
            differences.push((ours - step["logprob"].as_f64().unwrap()).abs());
            tokens.push(TokenId(best as u32));
        }
    }
    differences.iter().sum::<f64>() / differences.len() as f64
}

#[test]
#[allow(clippy::print_stdout, reason = "the measured difference is worth reading")]
fn an_adapter_follows_llama_cpp() {
    let compute = Compute::new(Isa::from_env().unwrap(), 2);
    let model = Model::load(&open("smollm2"), &compute).unwrap();
    let adapter = Adapter::load(&recipe().gguf(), &model, &compute).unwrap();
    let with = follow(&model, &compute, Some(&adapter));
    let without = follow(&model, &compute, None);
    println!("mean difference {with:.4} nats; without the adapter {without:.4}");
    assert!(with <= MEAN_DIFFERENCE, "{with}");
    assert!(without > 5.0 * MEAN_DIFFERENCE, "the adapter does nothing: {without}");
}

#[test]
#[ignore = "writes the adapter of the golden file to TAPRI_ADAPTER_OUT"]
fn write_the_golden_adapter() {
    recipe().writer().write(std::env::var_os("TAPRI_ADAPTER_OUT").unwrap()).unwrap();
}
