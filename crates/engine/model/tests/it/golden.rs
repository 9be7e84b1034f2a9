//! Greedy runs that llama.cpp made on the two real models (`tests/data/golden`), followed along its tokens.

use serde_json::Value;
use tapri_gguf::{Gguf, TokenId};
use tapri_kernels::{Compute, Isa};
use tapri_model::Model;

use crate::runner::{Blocks, Runner};

/// Where llama.cpp's best token leads its second by more than this many nats, ours must be the same.
const CLEAR_LEAD: f64 = 0.3;
/// The most that the logprob of llama.cpp's best token may be off, on average.
const MEAN_DIFFERENCE: f64 = 0.05;

pub(crate) fn golden(file: &str) -> Value {
    let path = format!("{}/../../../tests/data/golden/{file}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

pub(crate) fn token_ids(value: &Value) -> Vec<TokenId> {
    value.as_array().unwrap().iter().map(|id| TokenId(id.as_u64().unwrap() as u32)).collect()
}

pub(crate) fn open(name: &str) -> Gguf {
    Gguf::open(tapri_registry::test_model(name)).unwrap()
}

#[allow(clippy::print_stdout, reason = "the measured difference is worth reading")]
fn follow(name: &str, file: &str) {
    let compute = Compute::new(Isa::from_env().unwrap(), 2);
    let model = Model::load(&open(name), &compute).unwrap();
    let golden = golden(file);
    let (mut differences, mut wrong, mut clear, mut close) = (Vec::new(), Vec::new(), 0, 0);
    for (number, run) in golden["greedy"].as_array().unwrap().iter().enumerate() {
        let mut tokens = token_ids(&run["prompt_tokens"]);
        let steps = run["steps"].as_array().unwrap();
        let mut runner =
            Runner::new(&model, &compute, 16, &[tokens.len() + steps.len()], Blocks::Shuffled);
        let mut start = 0;
        for (at, step) in steps.iter().enumerate() {
            let logits = runner.prefill(0, &tokens, start, 512);
            start = tokens.len();
            let best = step["id"].as_u64().unwrap() as usize;
            let their = step["logprob"].as_f64().unwrap();
            let second = step["top"][1][1].as_f64().unwrap();
            let ours = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap();
            let lead = their - second;
            if lead > CLEAR_LEAD {
                clear += 1;
                if ours != best {
                    wrong.push(format!(
                        "run {number}, step {at}: {ours} for {best}, which leads by {lead:.3}"
                    ));
                }
            } else {
                close += usize::from(ours != best);
            }
            let log_sum = log_sum_exp(&logits);
            differences.push((f64::from(logits[best]) - log_sum - their).abs());
            tokens.push(TokenId(best as u32));
        }
    }
    let mean = differences.iter().sum::<f64>() / differences.len() as f64;
    let worst = differences.iter().copied().fold(0.0, f64::max);
    println!(
        "{name}: {} steps, mean difference {mean:.4} nats, worst {worst:.4}; \
         {} of {clear} clear leads agree, {close} of {} close calls go the other way",
        differences.len(),
        clear - wrong.len(),
        differences.len() - clear,
    );
    assert_eq!(wrong, Vec::<String>::new(), "{name}");
    assert!(clear > differences.len() / 2, "{name}: hardly anything was compared");
    assert!(mean <= MEAN_DIFFERENCE, "{name}: the mean difference is {mean} nats");
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let most = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    most + logits.iter().map(|&x| (f64::from(x) - most).exp()).sum::<f64>().ln()
}

#[test]
#[ignore = "the bar is not met or not confirmed yet: activations rounded to 8 bits move some clear leads; run with --ignored"]
fn smollm2_follows_llama_cpp() {
    follow("smollm2", "smollm2-135m-instruct-q4_1");
}

#[test]
#[ignore = "the bar is not met or not confirmed yet: activations rounded to 8 bits move some clear leads; run with --ignored"]
fn gemma_follows_llama_cpp() {
    follow("gemma-3-270m", "gemma-3-270m-q4_k_m");
}
