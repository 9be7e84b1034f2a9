//! Starts engines over tiny models and reads calls to their end.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::num::NonZeroUsize;
use std::path::PathBuf;

use tapri_engine::{
    Admitted, CallHandle, Engine, EngineConfig, GenerateError, GenerateEvent, GenerateRequest,
    Outcome, Sampling, TokenId,
};
use tapri_model::tiny::TinyModel;

/// What came of a call.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) admitted: Admitted,
    pub(crate) ids: Vec<u32>,
    /// The bits of each token's logprob and of its rivals'.
    pub(crate) bits: Vec<Vec<(u32, u32)>>,
    pub(crate) text: String,
    pub(crate) outcome: Outcome,
}

/// What a caller sees of an answer, bit for bit.
pub(crate) type Seen = (Vec<u32>, Vec<Vec<(u32, u32)>>, String);

impl Answer {
    /// What must not depend on the cache.
    pub(crate) fn seen(&self) -> Seen {
        (self.ids.clone(), self.bits.clone(), self.text.clone())
    }
}

pub(crate) fn threads(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

pub(crate) fn start(model: &TinyModel, config: EngineConfig) -> Engine {
    Engine::start_from(&model.gguf(), PathBuf::from("tiny"), config).unwrap()
}

/// Small budgets, two threads.
pub(crate) fn config() -> EngineConfig {
    EngineConfig { threads: threads(2), kv_memory: 64 << 20, ..EngineConfig::default() }
}

/// A prompt of `n` tokens that depends on `seed`.
pub(crate) fn prompt(n: usize, seed: u32) -> Vec<TokenId> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            TokenId(10 + (state >> 16) % 250)
        })
        .collect()
}

pub(crate) fn request(prompt: Vec<TokenId>, max_tokens: usize) -> GenerateRequest {
    let mut request =
        GenerateRequest { prompt, max_tokens, logprobs: Some(5), ..GenerateRequest::default() };
    request.sampling = Sampling::greedy();
    request.stop.ignore_eos = true;
    request
}

pub(crate) fn finish(mut call: CallHandle) -> Result<Answer, GenerateError> {
    let mut admitted = None;
    let (mut ids, mut bits, mut text) = (Vec::new(), Vec::new(), String::new());
    while let Some(event) = call.next() {
        match event {
            GenerateEvent::Admitted(a) => admitted = Some(a),
            GenerateEvent::Prefill { .. } | GenerateEvent::Prompt(_) => {}
            GenerateEvent::Token(token) => {
                ids.push(token.id.0);
                text += &token.text;
                if let Some(l) = token.logprobs {
                    let all = std::iter::once(&l.chosen).chain(&l.top);
                    bits.push(all.map(|t| (t.id.0, t.logprob.to_bits())).collect());
                }
            }
            GenerateEvent::Done(outcome) => {
                text += &outcome.tail;
                let admitted = admitted.expect("admitted comes first");
                return Ok(Answer { admitted, ids, bits, text, outcome });
            }
            GenerateEvent::Failed(error) => return Err(error),
        }
    }
    panic!("the events ended without a last one");
}

pub(crate) fn ask(engine: &Engine, request: GenerateRequest) -> Answer {
    finish(engine.submit(request).unwrap()).unwrap()
}
