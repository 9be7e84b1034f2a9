//! What storing keys and values in fewer bits costs: memory against the numbers of two real models.
//!
//! The prompts are those of the golden files: six short ones, and the first 500 and 2,200 tokens of the example's case file. Both
//! types read the same tokens; the difference is taken at each position from which something was read back.

use tapri_gguf::TokenId;
use tapri_kernels::{Compute, Isa, KvType};
use tapri_model::{LogitsWanted, Model};

use crate::golden::{golden, log_sum_exp, open, token_ids};
use crate::runner::{Blocks, Part, Runner};

/// Rows of logits at a time: a large vocabulary has a megabyte for each.
const CHUNK: usize = 32;

/// Positions compared at the end of each prompt. What is before them is read all the same.
const COMPARED: usize = 128;

/// An instruction-set path and how keys and values are stored.
type Way = (Isa, KvType);

/// How two sets of logits differ, position by position.
#[derive(Default)]
struct Loss {
    /// Kullback-Leibler divergence of the second's distribution from the first's, in nats.
    divergences: Vec<f64>,
    /// Differences of the logprob of the first's best token.
    differences: Vec<f64>,
    /// Positions where both have the same best token.
    same: usize,
}

impl Loss {
    fn add(&mut self, exact: &[f32], other: &[f32]) {
        let (a, b) = (log_sum_exp(exact), log_sum_exp(other));
        let (mut divergence, mut best) = (0.0, 0);
        for (token, (x, y)) in exact.iter().zip(other).enumerate() {
            let (x, y) = (f64::from(*x) - a, f64::from(*y) - b);
            divergence += x.exp() * (x - y);
            if exact[token] > exact[best] {
                best = token;
            }
        }
        let best_of_other = (0..other.len()).max_by(|&i, &j| other[i].total_cmp(&other[j]));
        self.same += usize::from(best_of_other == Some(best));
        self.divergences.push(divergence);
        self.differences.push((f64::from(exact[best]) - a - f64::from(other[best]) + b).abs());
    }
}

/// Mean and largest.
fn spread(values: &[f64]) -> (f64, f64) {
    let sum: f64 = values.iter().sum();
    (sum / values.len() as f64, values.iter().copied().fold(0.0, f64::max))
}

/// The loss of one way against another over all prompts of a golden file, followed along llama.cpp's answers.
#[allow(clippy::print_stdout, reason = "the measured loss is worth reading")]
fn measure(name: &str, file: &str, ways: [Way; 2]) -> Loss {
    let computes = ways.map(|(isa, _)| Compute::new(isa, 2));
    let model = Model::load(&open(name), &computes[0]).unwrap();
    let vocab = model.config().vocab_size;
    let mut loss = Loss::default();
    for run in golden(file)["greedy"].as_array().unwrap() {
        let mut tokens = token_ids(&run["prompt_tokens"]);
        let steps = run["steps"].as_array().unwrap().iter();
        tokens.extend(steps.map(|step| TokenId(step["id"].as_u64().unwrap() as u32)));
        let mut runners = [0, 1].map(|i| {
            let (compute, kv_type) = (&computes[i], ways[i].1);
            Runner::stored(&model, compute, 16, &[tokens.len()], Blocks::InOrder, kv_type)
        });
        // In chunks of any size: the bits are the same.
        let quiet = tokens.len().saturating_sub(COMPARED) / CHUNK * CHUNK;
        for (index, piece) in tokens.chunks(CHUNK).enumerate() {
            let start = index * CHUNK;
            let logits = if start < quiet { LogitsWanted::None } else { LogitsWanted::All };
            let part = Part { sequence: 0, tokens: piece, start, logits };
            let [exact, other] =
                runners.each_mut().map(|runner| runner.forward(std::slice::from_ref(&part)));
            for (exact, other) in exact.chunks_exact(vocab).zip(other.chunks_exact(vocab)) {
                loss.add(exact, other);
            }
        }
    }
    let (kl, worst_kl) = spread(&loss.divergences);
    let (difference, worst) = spread(&loss.differences);
    println!(
        "{name}: {:?} against {:?} at {} positions: divergence {kl:.6} nats (largest {worst_kl:.4}), logprob of the best token off by \
         {difference:.4} (largest {worst:.4}), the same best token at {:.2} %",
        ways[1],
        ways[0],
        loss.divergences.len(),
        100.0 * loss.same as f64 / loss.divergences.len() as f64,
    );
    loss
}

/// Bounds about twice what was measured: a scale, an order or a rounding that is wrong is far outside.
///
/// Not all of what is measured is q8_0's own: activations are rounded to 8 bits before each product, so that any small change
/// turns some of these roundings, and between this engine and llama.cpp they move the best token's logprob by some 0.04 nats (see
/// `golden.rs`). `two_paths_differ_too` measures the same between two paths.
fn check(name: &str, file: &str) {
    let isa = Isa::from_env().unwrap();
    let loss = measure(name, file, [(isa, KvType::Bf16), (isa, KvType::Q8_0)]);
    assert!(loss.divergences.len() > 400, "hardly anything was compared");
    assert!(loss.differences.iter().any(|d| *d > 0.0), "q8_0 must round something");
    let mean = spread(&loss.divergences).0;
    assert!(mean <= 0.008, "{name}: the mean divergence is {mean} nats");
    let mean = spread(&loss.differences).0;
    assert!(mean <= 0.08, "{name}: the best token's logprob is off by {mean} nats on average");
    let share = loss.same as f64 / loss.divergences.len() as f64;
    assert!(share >= 0.93, "{name}: the best token is the same at {share} of the positions");
}

#[test]
fn smollm2_loses_little() {
    check("smollm2", "smollm2-135m-instruct-q4_1");
}

#[test]
fn gemma_loses_little() {
    check("gemma-3-270m", "gemma-3-270m-q4_k_m");
}

#[test]
#[ignore = "a measurement: what a change in the last bits of attention's floats comes to"]
fn two_paths_differ_too() {
    for (name, file) in
        [("smollm2", "smollm2-135m-instruct-q4_1"), ("gemma-3-270m", "gemma-3-270m-q4_k_m")]
    {
        measure(name, file, [(Isa::best(), KvType::Bf16), (Isa::Avx2, KvType::Bf16)]);
    }
}

#[test]
fn a_block_takes_little_more_than_half() {
    let compute = Compute::new(Isa::best(), 1);
    for name in ["smollm2", "gemma-3-270m"] {
        let model = Model::load(&open(name), &compute).unwrap();
        let [wide, narrow] =
            KvType::ALL.map(|kv_type| model.kv_plan(16).stored(kv_type).layout.block_bytes());
        let ratio = narrow as f64 / wide as f64;
        assert!((0.53..0.54).contains(&ratio), "{name}: {narrow} bytes against {wide}");
    }
}
