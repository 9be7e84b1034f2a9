//! The record of a call, from its arrival to its end, however it ends.
//!
//! On a call's way stand two looks at a clock and a hand-over; fingerprints and files are the ledger's thread's.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tapri_api::{
    Admission, ApiError, Call, CallEvent, CallId, Finish, FinishReason, Origin, Outline, Reuse,
    ReuseStop,
};
use tapri_ledger::{
    CacheOutcome, CacheResult, CallRecord, Clock, Cost, Counts, Ending, Entry, EraseError, Explain,
    Explanation, Money, SystemClock, TokenCounts, Writer,
};
use tapri_upstream::ModelCard;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::exact::Exact;
use crate::explaining::Explaining;
use crate::live::Live;
use crate::semantic::Semantic;
use crate::steps::Steps;

/// Says what a call cost, from its record: model and tokens. `None` where it has no price.
pub type Pricing = Arc<dyn Fn(&CallRecord) -> Option<Cost> + Send + Sync>;

/// Sees the record of every call that ended, and when its steps were. It runs on the call's way, so it must not wait for
/// anything.
pub type Observer = Arc<dyn Fn(&CallRecord, &Steps) + Send + Sync>;

/// Where the records of a pipeline's calls go. Cheap to clone. The default keeps none.
#[derive(Clone, Default)]
pub struct Recorder {
    inner: Option<Arc<Inner>>,
}

#[derive(Clone)]
struct Inner {
    /// Without one, records are only shown to observers.
    writer: Option<Writer>,
    clock: Arc<dyn Clock>,
    pricing: Option<Pricing>,
    observers: Vec<Observer>,
    live: Option<Live>,
}

impl Recorder {
    /// Into a ledger, with what each call cost.
    pub fn new(writer: Writer, pricing: Option<Pricing>) -> Self {
        Recorder::with_clock(writer, pricing, Arc::new(SystemClock))
    }

    /// The same with a clock of one's own.
    pub fn with_clock(writer: Writer, pricing: Option<Pricing>, clock: Arc<dyn Clock>) -> Self {
        let inner = Inner { pricing, ..Inner::new(Some(writer), clock) };
        Recorder { inner: Some(Arc::new(inner)) }
    }

    /// The same, and someone sees every record; also where none are kept.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        let mut inner = self.open();
        inner.observers.push(observer);
        Recorder { inner: Some(Arc::new(inner)) }
    }

    /// The same, and whoever looks on there sees every call that ended; also where no records are kept.
    #[must_use]
    pub fn shown_on(self, live: Live) -> Self {
        Recorder { inner: Some(Arc::new(Inner { live: Some(live), ..self.open() })) }
    }

    fn open(self) -> Inner {
        let inner = self.inner.as_deref().cloned();
        inner.unwrap_or_else(|| Inner::new(None, Arc::new(SystemClock)))
    }

    /// The ledger that records go to.
    pub fn ledger(&self) -> Option<&Path> {
        self.writer().map(Writer::path)
    }

    /// What became of the records so far; `None` where none are kept.
    pub fn counts(&self) -> Option<Counts> {
        self.writer().map(|writer| writer.counts())
    }

    /// The last thing that went wrong with writing them; see [`Writer::last_error`].
    pub fn last_error(&self) -> Option<String> {
        self.writer().and_then(Writer::last_error)
    }

    /// Writes what waits and closes the ledger; see [`Writer::close`].
    pub fn close(&self, limit: Duration) -> bool {
        self.writer().is_none_or(|writer| writer.close(limit))
    }

    /// Erases the texts of a tenant's conversation in the ledger; see [`Writer::erase_texts`]. Blocks.
    ///
    /// # Errors
    /// Where they may still be there.
    pub fn erase_texts(
        &self,
        tenant: &str,
        conversation: &str,
        limit: Duration,
    ) -> Result<u64, EraseError> {
        match self.writer() {
            Some(writer) => writer.erase_texts(tenant, conversation, limit),
            None => Ok(0),
        }
    }

    fn writer(&self) -> Option<&Writer> {
        self.inner.as_ref()?.writer.as_ref()
    }

    /// A call has come.
    pub(crate) fn begin(&self, call: &Call, upstream: &str) -> Recording {
        let outline = call.outline.clone();
        let open = self.inner.as_ref().map(|inner| {
            let mut record = inner.record(call.id, &call.origin);
            // A name that isn't served may be of any length, and anything.
            record.model = call.model.as_deref().unwrap_or_default().chars().take(128).collect();
            record.upstream = upstream.to_owned();
            Box::new(Open {
                recorder: Arc::clone(inner),
                steps: Steps::of(call),
                record,
                outline,
                prompt_ids: None,
                salt: call.salt.as_ref().map(|salt| salt.as_str().to_owned()),
                no_store: !call.cache.may_store(),
                forwarded: true,
                answered: 0,
            })
        });
        Recording { open, explaining: None, explaining_began: false }
    }

    /// A request that was no call: what it asked could not be read.
    pub(crate) fn refused(&self, id: CallId, origin: &Origin, model: &str, error: &ApiError) {
        if let Some(inner) = &self.inner {
            let mut record = inner.record(id, origin);
            model.clone_into(&mut record.model);
            record.ending = Ending::Error(error.word().to_owned());
            let entry =
                Entry { record, outline: None, prompt_ids: None, salt: None, explain: None };
            inner.hand_over(entry, &Steps::now());
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("writer", &self.writer()).finish_non_exhaustive()
    }
}

impl Inner {
    fn new(writer: Option<Writer>, clock: Arc<dyn Clock>) -> Self {
        Inner { writer, clock, pricing: None, observers: Vec::new(), live: None }
    }

    fn hand_over(&self, entry: Entry, steps: &Steps) {
        for observer in &self.observers {
            observer(&entry.record, steps);
        }
        if let Some(live) = &self.live {
            live.ended(&entry.record, entry.explain.as_ref());
        }
        if let Some(writer) = &self.writer {
            writer.record(entry);
        }
    }

    fn record(&self, id: CallId, origin: &Origin) -> CallRecord {
        let mut record = CallRecord::new(id.to_string(), self.clock.now());
        record.route = origin.route.clone().into_owned();
        record.tenant = origin.tenant.clone().into_owned();
        record.conversation.clone_from(&origin.conversation);
        // Until it is known better: a call that is dropped was left by its client.
        record.ending = Ending::Abort;
        record
    }
}

/// A call's record in the making; it is handed over at the last event. One that is dropped before was left by its client.
#[derive(Debug)]
pub(crate) struct Recording {
    open: Option<Box<Open>>,
    explaining: Option<Arc<Explaining>>,
    explaining_began: bool,
}

struct Open {
    recorder: Arc<Inner>,
    steps: Steps,
    record: CallRecord,
    outline: Option<Outline>,
    prompt_ids: Option<Arc<[u32]>>,
    salt: Option<String>,
    no_store: bool,
    /// Whether the answer was computed for this call.
    forwarded: bool,
    answered: u64,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("id", &self.record.id).finish_non_exhaustive()
    }
}

impl Recording {
    /// The model's own name and who answers for it, once it is known that it is served.
    pub(crate) fn served_by(&mut self, card: &ModelCard) {
        if let Some(open) = &mut self.open {
            open.record.model.clone_from(&card.id);
            open.record.upstream.clone_from(&card.upstream);
        }
    }

    /// Where its steps are noted, where someone may want to know them.
    pub(crate) fn steps(&mut self) -> Option<&mut Steps> {
        self.open.as_mut().map(|open| &mut open.steps)
    }

    /// It is sent on to whoever answers.
    pub(crate) fn sends_on(&mut self) {
        if let Some(steps) = self.steps() {
            steps.sends_on();
        }
    }

    /// What the exact cache did.
    pub(crate) fn exact(&mut self, exact: &Exact) {
        if let Some(open) = &mut self.open {
            open.record.exact = Some(exact.result.clone());
            open.forwarded = exact.is_forwarded();
        }
    }

    /// What the semantic cache did.
    pub(crate) fn semantic(&mut self, semantic: &Semantic) {
        if let Some(open) = &mut self.open {
            open.record.semantic = Some(semantic.result.clone());
            open.forwarded &= !semantic.is_served();
        }
    }

    /// What it reuses is known.
    pub(crate) fn admitted(&mut self, admission: &Admission) {
        let Some(open) = &mut self.open else { return };
        open.prompt_ids.clone_from(&admission.prompt_ids);
        // Where nothing is known yet, nothing is claimed.
        let Some(reuse) = &admission.reuse else { return };
        open.record.prefix = Some(prefix(reuse));
        open.record.tokens = TokenCounts {
            prompt: Some(reuse.prompt as u64),
            cached: Some(reuse.cached as u64),
            restored: Some(reuse.restored as u64),
            joined: Some(reuse.joined as u64),
            written: open.no_store.then_some(0),
            // Counted token by token, and set at the end.
            answer: Some(0),
        };
    }

    /// It is to be explained.
    pub(crate) fn explained(&mut self, explaining: Arc<Explaining>) {
        self.explaining = Some(explaining);
    }

    /// Finds the explanation, off the threads that serve sockets.
    pub(crate) fn explain(&self) -> Option<JoinHandle<Option<Explanation>>> {
        let explaining = Arc::clone(self.explaining.as_ref()?);
        let runtime = Handle::try_current().ok()?;
        Some(runtime.spawn_blocking(move || explaining.get()))
    }

    /// Not before the first token: until then the machine has better things to do.
    fn begin_explaining(&mut self) {
        if !std::mem::replace(&mut self.explaining_began, true) {
            // Whoever needs it waits for it through the explanation itself.
            drop(self.explain());
        }
    }

    /// Sees an event.
    pub(crate) fn see(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Token(_) => {
                self.begin_explaining();
                if let Some(open) = &mut self.open {
                    open.answered += 1;
                    open.first_token();
                }
            }
            CallEvent::Piece(piece) if piece.is_of_prompt() => {}
            CallEvent::Piece(piece) => {
                self.begin_explaining();
                if let Some(open) = &mut self.open
                    && !piece.deltas.is_empty()
                {
                    open.first_token();
                }
            }
            CallEvent::Finished(finish) => {
                self.begin_explaining();
                if let Some(open) = &mut self.open {
                    open.finished(finish);
                }
                self.hand_over();
            }
            CallEvent::Failed(error) => self.failed(error),
            CallEvent::Admitted(_) | CallEvent::Prefill { .. } => {}
        }
    }

    /// It ended with an error.
    pub(crate) fn failed(&mut self, error: &ApiError) {
        if let Some(open) = &mut self.open {
            open.record.ending = Ending::Error(error.word().to_owned());
        }
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let Some(open) = self.open.take() else { return };
        let Open {
            recorder,
            steps,
            mut record,
            outline,
            prompt_ids,
            salt,
            answered,
            forwarded,
            ..
        } = *open;
        record.total = steps.began.elapsed();
        if let Some(answer) = &mut record.tokens.answer {
            *answer = answered;
        }
        record.cost = recorder.pricing.as_ref().and_then(|price| match forwarded {
            true => price(&record),
            false => free(price, &record),
        });
        let explain =
            self.explaining.clone().map(|explaining| Explain(Arc::new(move || explaining.get())));
        recorder.hand_over(Entry { record, outline, prompt_ids, salt, explain }, &steps);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.hand_over();
    }
}

impl Open {
    fn first_token(&mut self) {
        if self.record.ttft.is_none() {
            self.record.ttft = Some(self.steps.began.elapsed());
        }
    }

    fn finished(&mut self, finish: &Finish) {
        self.record.ending = match finish.reason {
            // A turn that ends with tool calls, a refusal or a pause ended as its model meant it to.
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::ContentFilter
            | FinishReason::Pause => Ending::Stop,
            FinishReason::Length => Ending::Length,
        };
        let usage = &finish.usage;
        if !self.forwarded {
            // The prefix cache wasn't asked for this call, so that nothing counts as found or computed in it.
            self.record.tokens = TokenCounts {
                prompt: usage.prompt().map(|tokens| tokens as u64),
                answer: usage.answer().map(|tokens| tokens as u64),
                ..TokenCounts::default()
            };
        } else {
            self.record.tokens = TokenCounts {
                prompt: usage.prompt().map(|tokens| tokens as u64),
                cached: usage.cached().map(|tokens| tokens as u64),
                // Known since it was admitted.
                restored: self.record.tokens.restored,
                joined: usage.joined().map(|tokens| tokens as u64),
                written: usage.written().map(|tokens| tokens as u64),
                answer: usage.answer().map(|tokens| tokens as u64),
            };
        }
        // The token that ended an answer is none of its events, and the answer's usage counts it.
        if let Some(answer) = usage.answer() {
            self.answered = answer as u64;
        }
    }
}

/// The cost of an answer that was computed before: nothing was paid for it this time.
fn free(price: &Pricing, record: &CallRecord) -> Option<Cost> {
    let mut computed = record.clone();
    computed.tokens.cached = Some(0);
    computed.tokens.joined = None;
    let cost = price(&computed)?;
    let paid = Money::new(Default::default(), cost.paid.currency);
    Some(Cost { paid, ..cost })
}

/// What the prefix cache did, as the operator may know it: another scope's share is named.
fn prefix(reuse: &Reuse) -> CacheResult {
    let outcome = match (reuse.stop, reuse.reused()) {
        (ReuseStop::Bypassed, _) => CacheOutcome::Bypass,
        (_, 0) => CacheOutcome::Miss,
        (stop, _) if stop.is_whole() => CacheOutcome::Hit,
        _ => CacheOutcome::Partial,
    };
    let reason = if reuse.other_scope { "other_scope" } else { reuse.stop.as_str() };
    CacheResult { outcome, reason: Some(reason.to_owned()) }
}
