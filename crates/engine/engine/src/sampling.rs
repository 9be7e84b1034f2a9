//! The choice of a token from its scores.
//!
//! Penalties (repetition, then presence and frequency) and biases change the logits first, then a mask leaves the tokens that a grammar allows. Order of the filters: temperature, min-p, top-k, top-p (as vLLM applies them). Everything is a pure
//! function of the logits, the settings and the generator's state, so a call with a seed repeats.

use std::collections::{HashMap, HashSet};

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tapri_gguf::TokenId;

use crate::constraint::Mask;
use crate::event::{PromptLogprobs, TokenLogprob, TokenLogprobs};
use crate::request::Sampling;

/// What is wrong with sampling settings; fragments for "sampling settings: {0}".
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// `temperature` outside [0, 100] or not a number.
    #[error("temperature must be a number from 0 to 100, got {0}")]
    Temperature(f32),
    /// `top_p` outside (0, 1].
    #[error("top_p must be above 0 and at most 1, got {0}")]
    TopP(f32),
    /// `min_p` outside [0, 1].
    #[error("min_p must be from 0 to 1, got {0}")]
    MinP(f32),
    /// `top_k` of 0.
    #[error("top_k must be at least 1, or absent to keep all tokens")]
    TopK,
    /// A penalty outside [-2, 2].
    #[error("{name} must be from -2 to 2, got {value}")]
    Penalty {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f32,
    },
    /// A repetition penalty that isn't above 0 and at most 10.
    #[error("repetition_penalty must be above 0 and at most 10, got {0}")]
    RepetitionPenalty(f32),
    /// A bias outside [-100, 100], or of no token.
    #[error(
        "logit_bias must be from -100 to 100 for tokens 0 to {last}, got {bias} for token {token}"
    )]
    Bias {
        /// The token.
        token: u32,
        /// Its bias.
        bias: f32,
        /// The vocabulary's last token.
        last: usize,
    },
    /// More than 20 rivals asked for.
    #[error("at most 20 top logprobs can be asked for, got {0}")]
    Logprobs(u32),
}

/// The most rivals whose logprobs a call may ask for.
pub const MAX_TOP_LOGPROBS: u32 = 20;

/// Checks settings before a call is taken.
///
/// # Errors
/// The first setting that is out of its range.
pub fn validate(
    sampling: &Sampling,
    logprobs: Option<u32>,
    vocabulary: usize,
) -> Result<(), SamplingError> {
    let &Sampling {
        temperature,
        top_k,
        top_p,
        min_p,
        seed: _,
        presence_penalty,
        frequency_penalty,
        repetition_penalty,
        ref logit_bias,
    } = sampling;
    if !(repetition_penalty > 0.0 && repetition_penalty <= 10.0) {
        return Err(SamplingError::RepetitionPenalty(repetition_penalty));
    }
    for (name, value) in
        [("presence_penalty", presence_penalty), ("frequency_penalty", frequency_penalty)]
    {
        if !(-2.0..=2.0).contains(&value) {
            return Err(SamplingError::Penalty { name, value });
        }
    }
    for &(token, bias) in logit_bias {
        if token.0 as usize >= vocabulary || !(-100.0..=100.0).contains(&bias) {
            let last = vocabulary.saturating_sub(1);
            return Err(SamplingError::Bias { token: token.0, bias, last });
        }
    }
    if !(0.0..=100.0).contains(&temperature) {
        return Err(SamplingError::Temperature(temperature));
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return Err(SamplingError::TopP(top_p));
    }
    if !(0.0..=1.0).contains(&min_p) {
        return Err(SamplingError::MinP(min_p));
    }
    if top_k == Some(0) {
        return Err(SamplingError::TopK);
    }
    match logprobs {
        Some(n) if n > MAX_TOP_LOGPROBS => Err(SamplingError::Logprobs(n)),
        _ => Ok(()),
    }
}

/// One call's sampler: its settings and its generator.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    settings: Sampling,
    rng: ChaCha8Rng,
    candidates: Vec<(u32, f32)>,
    /// How often the answer has each of its tokens; kept where there are penalties.
    said: HashMap<u32, u32>,
    /// The tokens of the prompt and the answer; kept where there is a penalty for them.
    seen: HashSet<u32>,
    /// Logits with penalties and biases; used where there are any.
    adjusted: Vec<f32>,
}

/// Why no token could be picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unpickable {
    /// The logits hold a NaN or nothing finite.
    NotANumber,
    /// The mask leaves nothing.
    NothingFits,
}

impl Sampler {
    /// The seed is the answer's own: the call's, one derived from it, or one at random.
    pub(crate) fn new(settings: Sampling, seed: u64, prompt: &[TokenId]) -> Self {
        let seen = match settings.repetition_penalty {
            1.0 => HashSet::new(),
            _ => prompt.iter().map(|token| token.0).collect(),
        };
        Sampler {
            seen,
            settings,
            rng: ChaCha8Rng::seed_from_u64(seed),
            candidates: Vec::new(),
            said: HashMap::new(),
            adjusted: Vec::new(),
        }
    }

    /// Picks a token from `logits` `[vocabulary]`, of those in `mask` if there is one.
    pub(crate) fn pick(
        &mut self,
        logits: &[f32],
        mask: Option<&Mask>,
    ) -> Result<TokenId, Unpickable> {
        let mut adjusted = std::mem::take(&mut self.adjusted);
        let picked = self.pick_from(self.adjust(logits, &mut adjusted), mask);
        self.adjusted = adjusted;
        if let Ok(token) = picked {
            if self.penalises() {
                *self.said.entry(token.0).or_default() += 1;
            }
            if self.settings.repetition_penalty != 1.0 {
                self.seen.insert(token.0);
            }
        }
        picked
    }

    fn penalises(&self) -> bool {
        self.settings.presence_penalty != 0.0 || self.settings.frequency_penalty != 0.0
    }

    /// The logits with penalties and biases, as OpenAI's API and, for repetition, Hugging Face define them; without any, the
    /// logits themselves.
    fn adjust<'a>(&self, logits: &'a [f32], room: &'a mut Vec<f32>) -> &'a [f32] {
        let Sampling {
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
            ref logit_bias,
            ..
        } = self.settings;
        if self.said.is_empty() && self.seen.is_empty() && logit_bias.is_empty() {
            return logits;
        }
        room.clear();
        room.extend_from_slice(logits);
        for &token in &self.seen {
            if let Some(logit) = room.get_mut(token as usize) {
                *logit = match *logit > 0.0 {
                    true => *logit / repetition_penalty,
                    false => *logit * repetition_penalty,
                };
            }
        }
        for (&token, &times) in &self.said {
            if let Some(logit) = room.get_mut(token as usize) {
                *logit -= presence_penalty + frequency_penalty * times as f32;
            }
        }
        for &(token, bias) in logit_bias {
            if let Some(logit) = room.get_mut(token.0 as usize) {
                *logit += bias;
            }
        }
        room
    }

    fn pick_from(&mut self, logits: &[f32], mask: Option<&Mask>) -> Result<TokenId, Unpickable> {
        let (mut best, mut max) = argmax(logits).ok_or(Unpickable::NotANumber)?;
        if let Some(mask) = mask
            && !mask.has(best as usize)
        {
            (best, max) = argmax_of(logits, mask).ok_or(Unpickable::NothingFits)?;
        }
        if self.settings.temperature == 0.0 {
            return Ok(TokenId(best));
        }
        let inverse = 1.0 / self.settings.temperature;
        let weight = |l: f32| ((l - max) * inverse).exp();
        self.candidates.clear();
        let floor = self.settings.min_p;
        self.candidates.extend(
            logits
                .iter()
                .enumerate()
                .filter(|&(i, _)| mask.is_none_or(|mask| mask.has(i)))
                .map(|(i, &l)| (i as u32, weight(l)))
                .filter(|&(_, w)| w >= floor && w > 0.0),
        );
        self.keep_top();
        let total: f64 = self.candidates.iter().map(|&(_, w)| f64::from(w)).sum();
        // 53 random bits: a uniform number in [0, 1).
        let uniform = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut left = uniform * total;
        for &(id, w) in &self.candidates {
            left -= f64::from(w);
            if left < 0.0 {
                return Ok(TokenId(id));
            }
        }
        // Rounding may leave a hair: the last candidate's. The best token is always one.
        Ok(TokenId(self.candidates.last().map_or(best, |&(id, _)| id)))
    }

    /// Cuts the candidates to top-k, then to top-p of what is left, likeliest first.
    fn keep_top(&mut self) {
        let Sampling { top_k, top_p, .. } = self.settings;
        let by_weight = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if let Some(k) = top_k.map(|k| k as usize)
            && k < self.candidates.len()
        {
            self.candidates.select_nth_unstable_by(k, by_weight);
            self.candidates.truncate(k);
        }
        if top_p >= 1.0 {
            // One order, whatever the selection left: the draw must not depend on it.
            self.candidates.sort_unstable_by_key(|&(id, _)| id);
            return;
        }
        let total: f64 = self.candidates.iter().map(|&(_, w)| f64::from(w)).sum();
        let wanted = total * f64::from(top_p);
        // Sorting 262,144 candidates takes longer than a decode step; the nucleus is nearly always
        // among the first thousand.
        let mut head = 1024;
        loop {
            let sorted = head >= self.candidates.len();
            let slice = if sorted {
                &mut self.candidates[..]
            } else {
                self.candidates.select_nth_unstable_by(head, by_weight);
                &mut self.candidates[..head]
            };
            slice.sort_unstable_by(by_weight);
            let mut sum = 0.0;
            let end = slice.iter().position(|&(_, w)| {
                sum += f64::from(w);
                sum >= wanted
            });
            if let Some(end) = end {
                self.candidates.truncate(end + 1);
                return;
            }
            if sorted {
                return;
            }
            head *= 8;
        }
    }
}

/// The index and value of the greatest score, the first of equals; `None` if one is NaN or the greatest isn't finite.
fn argmax(logits: &[f32]) -> Option<(u32, f32)> {
    let mut best = (0u32, f32::NEG_INFINITY);
    let mut nan = false;
    for (i, &l) in logits.iter().enumerate() {
        nan |= l.is_nan();
        if l > best.1 {
            best = (i as u32, l);
        }
    }
    (!nan && best.1.is_finite()).then_some(best)
}

/// The same among the tokens of a mask; `None` if it has no token with a finite score.
fn argmax_of(logits: &[f32], mask: &Mask) -> Option<(u32, f32)> {
    let mut best = (0u32, f32::NEG_INFINITY);
    for (word, &bits) in mask.words().iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            let id = word * 32 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if let Some(&l) = logits.get(id)
                && l > best.1
            {
                best = (id as u32, l);
            }
        }
    }
    best.1.is_finite().then_some(best)
}

/// The logprob of `chosen` and of the `top` likeliest tokens, before temperature and filters.
pub(crate) fn logprobs(
    logits: &[f32],
    chosen: TokenId,
    top: usize,
    bytes: impl Fn(TokenId) -> Vec<u8>,
) -> TokenLogprobs {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&l| f64::from(l - max).exp()).sum();
    let normaliser = f64::from(max) + sum.ln();
    let one = |id: u32| TokenLogprob {
        id: TokenId(id),
        bytes: bytes(TokenId(id)),
        logprob: (f64::from(logits[id as usize]) - normaliser) as f32,
    };
    let by_score =
        |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let mut ids: Vec<u32> = if top == 0 { Vec::new() } else { (0..logits.len() as u32).collect() };
    let top = top.min(ids.len());
    if top < ids.len() {
        ids.select_nth_unstable_by(top, by_score);
        ids.truncate(top);
    }
    ids.sort_unstable_by(by_score);
    TokenLogprobs { chosen: one(chosen.0), top: ids.into_iter().map(one).collect() }
}

/// The logprob of a token of the prompt, from the logits of the place before it.
pub(crate) fn prompt_logprobs(
    logits: &[f32],
    token: TokenId,
    top: usize,
    bytes: impl Fn(TokenId) -> Vec<u8>,
) -> PromptLogprobs {
    let own = logits[token.index()];
    let rank = logits.iter().filter(|logit| **logit >= own).count();
    PromptLogprobs { logprobs: logprobs(logits, token, top, bytes), rank }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sampler(settings: Sampling) -> Sampler {
        Sampler::new(settings, 7, &[])
    }

    #[test]
    fn greedy_takes_the_first_of_equals() {
        assert_eq!(sampler(Sampling::greedy()).pick(&[1.0, 3.0, 3.0, 2.0], None), Ok(TokenId(1)));
    }

    #[test]
    fn a_score_that_is_no_number_is_refused() {
        assert_eq!(
            sampler(Sampling::greedy()).pick(&[1.0, f32::NAN], None),
            Err(Unpickable::NotANumber)
        );
        assert_eq!(
            sampler(Sampling::default()).pick(&[f32::INFINITY, 0.0], None),
            Err(Unpickable::NotANumber)
        );
        assert_eq!(
            sampler(Sampling::default()).pick(&[f32::NEG_INFINITY; 2], None),
            Err(Unpickable::NotANumber)
        );
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let logits: Vec<f32> = (0..1000).map(|i| ((i * 37) % 101) as f32 / 50.0).collect();
        let run = |seed| {
            let mut s = Sampler::new(Sampling::default(), seed, &[]);
            (0..50).map(|_| s.pick(&logits, None).unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let logits: Vec<f32> = [0.5f32, 0.3, 0.2].iter().map(|p| p.ln()).collect();
        let mut s = sampler(Sampling::default());
        let mut seen = [0u32; 3];
        for _ in 0..20_000 {
            seen[s.pick(&logits, None).unwrap().0 as usize] += 1;
        }
        for (n, p) in seen.iter().zip([0.5, 0.3, 0.2]) {
            assert!((f64::from(*n) / 20_000.0 - p).abs() < 0.02, "{seen:?}");
        }
    }

    #[test]
    fn each_filter_keeps_what_it_says() {
        let logits: Vec<f32> = [0.4f32, 0.3, 0.2, 0.1].iter().map(|p| p.ln()).collect();
        let reach = |settings: Sampling| {
            let mut s = sampler(settings);
            let mut seen = [false; 4];
            for _ in 0..2_000 {
                seen[s.pick(&logits, None).unwrap().0 as usize] = true;
            }
            seen
        };
        let all = Sampling::default();
        assert_eq!(reach(all.clone()), [true; 4]);
        assert_eq!(reach(Sampling { top_k: Some(2), ..all.clone() }), [true, true, false, false]);
        assert_eq!(reach(Sampling { top_p: 0.65, ..all.clone() }), [true, true, false, false]);
        assert_eq!(reach(Sampling { top_p: 0.71, ..all.clone() }), [true, true, true, false]);
        assert_eq!(reach(Sampling { min_p: 0.4, ..all.clone() }), [true, true, true, false]);
        assert_eq!(reach(Sampling { temperature: 0.01, ..all }), [true, false, false, false]);
    }

    #[test]
    fn a_wide_nucleus_is_exact() {
        // 5,000 equal tokens: top_p 0.5 needs 2,500 of them, past the first selection.
        let mut s = sampler(Sampling { top_p: 0.5, ..Sampling::default() });
        for _ in 0..200 {
            assert!(s.pick(&[0.0; 5_000], None).unwrap().0 < 2_500);
        }
    }

    #[test]
    fn logprobs_are_normalised_and_sorted() {
        let logits: Vec<f32> = [0.1f32, 0.6, 0.3].iter().map(|p| p.ln() + 5.0).collect();
        let l = logprobs(&logits, TokenId(0), 2, |_| Vec::new());
        assert!((l.chosen.logprob - 0.1f32.ln()).abs() < 1e-5);
        assert_eq!(l.top.iter().map(|t| t.id.0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let s = Sampling::default;
        let bad = |sampling| validate(&sampling, None, 10).unwrap_err();
        assert_eq!(bad(Sampling { top_k: Some(0), ..s() }), SamplingError::TopK);
        assert_eq!(bad(Sampling { top_p: 0.0, ..s() }), SamplingError::TopP(0.0));
        assert!(bad(Sampling { temperature: f32::NAN, ..s() }).to_string().contains("temperature"));
        assert!(bad(Sampling { min_p: -0.1, ..s() }).to_string().contains("min_p"));
        let error = bad(Sampling { frequency_penalty: 2.5, ..s() });
        assert!(error.to_string().contains("frequency_penalty"));
        let error = bad(Sampling { logit_bias: vec![(TokenId(10), 1.0)], ..s() });
        assert!(error.to_string().contains("tokens 0 to 9"));
        assert_eq!(validate(&s(), Some(21), 10), Err(SamplingError::Logprobs(21)));
        assert_eq!(validate(&s(), Some(20), 10), Ok(()));
    }

    #[test]
    fn a_mask_leaves_what_it_has() {
        let logits = [3.0, 1.0, 2.0, 0.5];
        let mask = Mask::of(&[1, 3], 4);
        assert_eq!(sampler(Sampling::greedy()).pick(&logits, Some(&mask)), Ok(TokenId(1)));
        let mut s = sampler(Sampling::default());
        let mut seen = [0; 4];
        for _ in 0..500 {
            seen[s.pick(&logits, Some(&mask)).unwrap().0 as usize] += 1;
        }
        assert_eq!((seen[0], seen[2]), (0, 0));
        assert!(seen[1] > 0 && seen[3] > 0);
        let none = Mask::of(&[], 4);
        let picked = sampler(Sampling::greedy()).pick(&logits, Some(&none));
        assert_eq!(picked, Err(Unpickable::NothingFits));
    }

    #[test]
    fn penalties_count_and_biases_add() {
        let run = |settings: Sampling| {
            let mut s = sampler(Sampling { temperature: 0.0, ..settings });
            (0..4).map(|_| s.pick(&[1.0, 0.8, 0.3], None).unwrap().0).collect::<Vec<_>>()
        };
        assert_eq!(run(Sampling::default()), [0, 0, 0, 0]);
        // Once said, a token loses 0.5 and no more.
        assert_eq!(run(Sampling { presence_penalty: 0.5, ..Sampling::default() }), [0, 1, 0, 0]);
        // Each time it loses 0.3: 1.0, 0.8, 0.7, 0.5.
        assert_eq!(run(Sampling { frequency_penalty: 0.3, ..Sampling::default() }), [0, 1, 0, 1]);
        let logit_bias = vec![(TokenId(2), 5.0)];
        assert_eq!(run(Sampling { logit_bias, ..Sampling::default() }), [2, 2, 2, 2]);
    }

    #[test]
    fn repetition_is_penalised_as_the_paper_has_it() {
        // Positive logits are divided, negative ones multiplied; a token counts once, in the prompt or in the answer.
        let logits = [2.0, 1.5, -1.0, 0.0];
        let run = |penalty: f32, prompt: &[u32]| {
            let settings = Sampling { repetition_penalty: penalty, ..Sampling::greedy() };
            let prompt: Vec<TokenId> = prompt.iter().copied().map(TokenId).collect();
            let mut sampler = Sampler::new(settings, 1, &prompt);
            let picks = (0..4).map(|_| sampler.pick(&logits, None).unwrap().0);
            picks.collect::<Vec<_>>()
        };
        assert_eq!(run(1.0, &[0, 0]), [0, 0, 0, 0]);
        // 2.0 / 1.25 stays above 1.5; / 1.5 doesn't, and then 1.5 / 1.5 falls below 2.0 / 1.5.
        assert_eq!(run(1.25, &[]), [0, 0, 0, 0]);
        assert_eq!(run(1.5, &[]), [0, 1, 0, 0]);
        assert_eq!(run(1.5, &[0, 0, 0]), [1, 0, 0, 0]);
        // Below 1 it is a bonus.
        assert_eq!(run(0.5, &[1]), [1, 1, 1, 1]);
        let settings = Sampling { repetition_penalty: 2.0, ..Sampling::greedy() };
        let sampler = Sampler::new(settings, 1, &[TokenId(0), TokenId(2), TokenId(3)]);
        let mut room = Vec::new();
        assert_eq!(sampler.adjust(&logits, &mut room), [1.0, 1.5, -2.0, 0.0]);
        for wrong in [0.0, -1.0, 11.0, f32::NAN] {
            let settings = Sampling { repetition_penalty: wrong, ..Sampling::default() };
            let refused = validate(&settings, None, 4);
            assert!(matches!(refused, Err(SamplingError::RepetitionPenalty(_))), "{wrong}");
        }
    }
}
