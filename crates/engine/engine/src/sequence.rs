//! One call inside the engine: its tokens, how far they are computed, and where its events go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tapri_gguf::TokenId;
use tapri_kv::{AdmitOptions, CallId, PromptKeys, Ready};
use tapri_text::{ControlTokens, Detokenizer, Tokenizer};

use crate::event::{GenerateEvent, Timings, Usage};
use crate::request::StopRules;
use crate::sampling::Sampler;
use crate::scheduler::masks::Guide;
use crate::stop::StopMatcher;

/// Answer tokens that room is kept for from the start; a longer answer takes what it finds, or the newest call is preempted.
const RESERVED_ANSWER: usize = 256;

/// Progress is told only while the reader keeps up: past this many unread events it is skipped.
const PROGRESS_BACKLOG: usize = 32;

/// One call.
pub(crate) struct Sequence {
    pub(crate) id: CallId,
    pub(crate) keys: PromptKeys,
    pub(crate) options: AdmitOptions,
    /// The prompt, then the answer as far as it will be read back.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) prompt_tokens: usize,
    /// Tokens whose K and V are there.
    pub(crate) computed: usize,
    pub(crate) max_tokens: usize,
    pub(crate) sampler: Sampler,
    pub(crate) rules: StopRules,
    pub(crate) logprobs: Option<u32>,
    pub(crate) matcher: StopMatcher,
    pub(crate) detokenizer: Detokenizer<Arc<Tokenizer>>,
    pub(crate) usage: Usage,
    /// The grammar of a constrained answer.
    pub(crate) guide: Option<Guide>,
    /// Logits of the next token, while its mask isn't ready.
    pub(crate) parked: Option<Vec<f32>>,
    pub(crate) admitted: bool,
    events: flume::Sender<GenerateEvent>,
    cancelled: Arc<AtomicBool>,
    submitted: Instant,
    timings: Timings,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Sequence {
    pub(crate) fn new(
        submission: crate::scheduler::Submission,
        keys: PromptKeys,
        tokenizer: Arc<Tokenizer>,
        context: usize,
    ) -> Self {
        let crate::scheduler::Submission {
            id,
            request,
            events,
            cancelled,
            submitted,
            fallback_seed,
        } = submission;
        let prompt_tokens = request.prompt.len();
        let reserve_tokens = (prompt_tokens + request.max_tokens.min(RESERVED_ANSWER)).min(context);
        Sequence {
            id,
            keys,
            options: AdmitOptions {
                no_read: !request.cache.read,
                no_store: !request.cache.store,
                // A call that may not read can't take part in what another is writing.
                no_join: !request.cache.read,
                reserve_tokens,
            },
            tokens: request.prompt,
            prompt_tokens,
            computed: 0,
            max_tokens: request.max_tokens,
            sampler: Sampler::new(request.sampling, fallback_seed),
            matcher: StopMatcher::new(&request.stop.strings),
            rules: request.stop,
            logprobs: request.logprobs,
            detokenizer: Detokenizer::new(tokenizer, ControlTokens::Hide),
            usage: Usage { prompt_tokens, ..Usage::default() },
            guide: request.constraint.map(Guide::Idle),
            parked: None,
            admitted: false,
            events,
            cancelled,
            submitted,
            timings: Timings::default(),
            first_token: None,
            last_token: None,
        }
    }

    /// Tokens still to be computed before the next one can be chosen.
    pub(crate) fn pending(&self) -> usize {
        self.tokens.len() - self.computed
    }

    /// Whether nobody wants the rest.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire) || self.events.is_disconnected()
    }

    /// It may run from `ready.start()` on. Said to the caller the first time only.
    pub(crate) fn admit(&mut self, ready: &Ready, now: Instant) {
        self.computed = ready.start();
        // A call that was preempted computes them again.
        self.parked = None;
        if self.admitted {
            return;
        }
        self.admitted = true;
        self.usage.cached_tokens = ready.hit;
        self.usage.joined_tokens = ready.joined;
        self.timings.queued = now - self.submitted;
        self.send(GenerateEvent::Admitted(crate::event::Admitted {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: ready.hit,
            joined_tokens: ready.joined,
            stop: ready.stop,
            queued: self.timings.queued,
        }));
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
