//! One call inside the engine: its tokens, how far they are computed, and where its events go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tapri_gguf::TokenId;
use tapri_kv::{AdmitOptions, CallId, PromptKeys, Ready};
use tapri_model::Adapter;
use tapri_text::{ControlTokens, Detokenizer, Tokenizer};

use crate::event::{GenerateEvent, Timings, Usage};
use crate::request::{Sampling, StopRules};
use crate::sampling::Sampler;
use crate::scheduler::masks::Guide;
use crate::scheduler::{Choice, Submission};
use crate::stop::StopMatcher;

/// Answer tokens that room is kept for from the start; a longer answer takes what it finds, or the newest call is preempted.
const RESERVED_ANSWER: usize = 256;

/// Progress is told only while the reader keeps up: past this many unread events it is skipped.
const PROGRESS_BACKLOG: usize = 32;

/// One call.
pub(crate) struct Sequence {
    pub(crate) id: CallId,
    pub(crate) keys: PromptKeys,
    /// What is added to the model for it; its digest is in the keys.
    pub(crate) adapter: Option<Arc<Adapter>>,
    pub(crate) options: AdmitOptions,
    /// The prompt, then the answer as far as it will be read back.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) prompt_tokens: usize,
    /// Tokens whose K and V are there.
    pub(crate) computed: usize,
    pub(crate) max_tokens: usize,
    pub(crate) sampler: Sampler,
    sampling: Sampling,
    pub(crate) rules: StopRules,
    pub(crate) logprobs: Option<u32>,
    /// How many rivals of the prompt's tokens are told, if their logprobs are wanted.
    pub(crate) prompt_logprobs: Option<u32>,
    /// Tokens of the prompt whose logprobs were told; the first has none.
    pub(crate) scored: usize,
    pub(crate) matcher: StopMatcher,
    pub(crate) detokenizer: Detokenizer<Arc<Tokenizer>>,
    tokenizer: Arc<Tokenizer>,
    pub(crate) usage: Usage,
    /// The grammar of a constrained answer.
    pub(crate) guide: Option<Guide>,
    /// Logits of the next token, while its mask isn't ready.
    pub(crate) parked: Option<Vec<f32>>,
    /// Whether its prompt is to be pinned; once it is, that is its hold on the cache.
    pub(crate) pin: bool,
    pub(crate) pinned: bool,
    pub(crate) admitted: bool,
    /// How often it was preempted.
    pub(crate) preemptions: u32,
    /// Further answers, until the prompt is read.
    pub(crate) others: Vec<Choice>,
    /// What was told of its admission.
    admission: Option<crate::event::Admitted>,
    events: flume::Sender<GenerateEvent>,
    cancelled: Arc<AtomicBool>,
    submitted: Instant,
    timings: Timings,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Sequence {
    pub(crate) fn new(
        submission: Submission,
        keys: PromptKeys,
        tokenizer: Arc<Tokenizer>,
        context: usize,
        kv_blocks: usize,
    ) -> Option<Self> {
        let Submission { request, choices, submitted } = submission;
        let mut others = choices.into_iter();
        let Choice { id, events, cancelled, seed, constraint } = others.next()?;
        let prompt_tokens = request.prompt.len();
        let reserve_tokens = (prompt_tokens + request.max_tokens.min(RESERVED_ANSWER)).min(context);
        // A share of next to nothing is one block: what can't fit in it is refused by name.
        let share = request.kv_share.map(|share| ((share * kv_blocks as f64) as usize).max(1));
        Some(Sequence {
            id,
            keys,
            adapter: None,
            options: AdmitOptions {
                share,
                // What is cached has no scores.
                no_read: !request.cache.read || request.prompt_logprobs.is_some(),
                no_store: !request.cache.store,
                // A call that may not read can't take part in what another is writing.
                no_join: !request.cache.read || request.prompt_logprobs.is_some(),
                reserve_tokens,
            },
            sampler: Sampler::new(request.sampling.clone(), seed, &request.prompt),
            tokens: request.prompt,
            prompt_tokens,
            computed: 0,
            max_tokens: request.max_tokens,
            sampling: request.sampling,
            matcher: StopMatcher::new(&request.stop.strings),
            rules: request.stop,
            logprobs: request.logprobs,
            prompt_logprobs: request.prompt_logprobs,
            scored: 1,
            detokenizer: Detokenizer::new(Arc::clone(&tokenizer), ControlTokens::Hide),
            tokenizer,
            usage: Usage { prompt_tokens, ..Usage::default() },
            guide: constraint.map(Guide::Idle),
            parked: None,
            pin: request.pin,
            pinned: false,
            admitted: false,
            preemptions: 0,
            others: others.collect(),
            admission: None,
            events,
            cancelled,
            submitted,
            timings: Timings::default(),
            first_token: None,
            last_token: None,
        })
    }

    /// Another answer to its prompt, at the same point: it has said nothing yet.
    pub(crate) fn fork(&self, choice: Choice) -> Sequence {
        let Choice { id, events, cancelled, seed, constraint } = choice;
        let fork = Sequence {
            id,
            keys: self.keys.clone(),
            adapter: self.adapter.clone(),
            options: self.options,
            tokens: self.tokens.clone(),
            prompt_tokens: self.prompt_tokens,
            computed: self.computed,
            max_tokens: self.max_tokens,
            sampler: Sampler::new(self.sampling.clone(), seed, &self.tokens[..self.prompt_tokens]),
            sampling: self.sampling.clone(),
            rules: self.rules.clone(),
            logprobs: self.logprobs,
            // Told by the first answer, which has read the prompt.
            prompt_logprobs: None,
            scored: self.scored,
            matcher: StopMatcher::new(&self.rules.strings),
            detokenizer: Detokenizer::new(Arc::clone(&self.tokenizer), ControlTokens::Hide),
            tokenizer: Arc::clone(&self.tokenizer),
            usage: self.usage,
            guide: constraint.map(Guide::Idle),
            parked: None,
            pin: false,
            pinned: false,
            admitted: self.admitted,
            preemptions: 0,
            others: Vec::new(),
            admission: self.admission.clone(),
            events,
            cancelled,
            submitted: self.submitted,
            timings: self.timings,
            first_token: None,
            last_token: None,
        };
        if let Some(admission) = &fork.admission {
            fork.send(GenerateEvent::Admitted(admission.clone()));
        }
        fork
    }

    /// The first of the other answers in this one's place, with the rest behind it.
    pub(crate) fn successor(&self, others: Vec<Choice>) -> Option<Sequence> {
        let mut others = others.into_iter();
        let mut next = self.fork(others.next()?);
        next.computed = 0;
        next.others = others.collect();
        Some(next)
    }

    /// Tokens still to be computed before the next one can be chosen.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Since it was submitted.
    pub(crate) fn age(&self, now: Instant) -> std::time::Duration {
        now.saturating_duration_since(self.submitted)
    }

    /// Whether the scores of every row of the prompt are wanted.
    pub(crate) fn scores_prompt(&self) -> bool {
        self.prompt_logprobs.is_some() && self.scored < self.prompt_tokens
    }

    /// Whether nobody wants the rest.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) || self.events.is_disconnected()
    }

    /// It may run from `ready.start()` on. Said to the caller the first time only.
    /// `restored` of the tokens that were found came from disk.
    pub(crate) fn admit(&mut self, ready: &Ready, restored: usize, now: Instant) {
        self.computed = ready.start();
        // A call that was preempted computes them again.
        self.parked = None;
        if self.admitted {
            return;
        }
        self.admitted = true;
        self.usage.cached_tokens = ready.hit;
        self.usage.restored_tokens = restored;
        self.usage.joined_tokens = ready.joined;
        self.timings.queued = now - self.submitted;
        let admission = crate::event::Admitted {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: ready.hit,
            restored_tokens: restored,
            joined_tokens: ready.joined,
            stop: ready.stop,
            queued: self.timings.queued,
        };
        self.admission = Some(admission.clone());
        self.send(GenerateEvent::Admitted(admission));
        self.progress();
    }

    /// Tells how much of the prompt is there, unless the reader lags.
    pub(crate) fn progress(&self) {
        if self.events.len() < PROGRESS_BACKLOG {
            let ready = self.computed.min(self.prompt_tokens);
            self.send(GenerateEvent::Prefill { ready, total: self.prompt_tokens });
        }
    }

    /// Notes that a token of the answer was chosen.
    pub(crate) fn count_token(&mut self, now: Instant) {
        self.usage.answer_tokens += 1;
        self.first_token.get_or_insert(now);
        self.last_token = Some(now);
    }

    /// The call's durations, as of now.
    pub(crate) fn timings(&self, now: Instant) -> Timings {
        Timings {
            first_token: self.first_token.map(|at| at - self.submitted),
            decode: self
                .first_token
                .zip(self.last_token)
                .map_or_else(Default::default, |(first, last)| last - first),
            total: now - self.submitted,
            ..self.timings
        }
    }

    /// Hands an event over. There is room for all that a call can send (see `SPARE_EVENTS`); a reader that left gets nothing.
    pub(crate) fn send(&self, event: GenerateEvent) {
        let _ = self.events.try_send(event);
    }
}
