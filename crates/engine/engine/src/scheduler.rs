//! The engine's loop: take commands, admit, compute one batch, hand out tokens; again.
//!
//! Everything here belongs to one thread. A step computes one token for every call that decodes, and as many
//! prompt tokens as fit the chunk for those that don't, oldest first.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tapri_gguf::TokenId;
use tapri_kernels::{Compute, Isa, KvStore};
use tapri_kv::{
    AdapterDigest, BlockId, CallId, Moment, Page, PrefixCache, PromptKeys, ResetReport, Root,
    RootParts,
};
use tapri_model::{Adapter, Model, Scratch};
use tapri_text::Tokenizer;

use crate::adapters::Adapters;
use crate::config::EngineConfig;
use crate::constraint::Constraint;
use crate::disk::Disk;
use crate::event::{FinishReason, GenerateError, GenerateEvent};
use crate::handle::{Pins, PrefixPicture, Shared, SubmitError};
use crate::holdings::EngineHoldings;
use crate::request::{GenerateRequest, Scope};
use crate::sequence::Sequence;
use crate::stats::Recent;

mod admit;
mod batch;
mod emit;
mod fork;
mod holdings;
pub(crate) mod masks;
mod order;
mod pace;
mod paging;
mod pin;

/// Raised whenever the engine computes other K and V than before for the same file.
const NUMERICS_VERSION: u32 = 1;

/// How often expired blocks are looked for, where blocks expire: the work is linear in what is stored.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(1);

/// A call on its way to the loop.
pub(crate) struct Submission {
    pub(crate) request: GenerateRequest,
    /// Its answers, at least one.
    pub(crate) choices: Vec<Choice>,
    pub(crate) submitted: Instant,
}

/// One of the answers to a call.
pub(crate) struct Choice {
    pub(crate) id: CallId,
    pub(crate) events: flume::Sender<GenerateEvent>,
    pub(crate) cancelled: Arc<AtomicBool>,
    pub(crate) seed: u64,
    pub(crate) constraint: Option<Constraint>,
}

/// What the loop is told.
pub(crate) enum Command {
    Submit(Box<Submission>),
    Reset(flume::Sender<Result<ResetReport, SubmitError>>),
    /// Forget what one scope has stored.
    Forget(Scope, flume::Sender<Result<ResetReport, SubmitError>>),
    /// Forget what no call can find that comes from one of these scopes.
    Retain(Vec<Scope>, flume::Sender<Result<ResetReport, SubmitError>>),
    /// Show what a scope has pinned.
    Pins(Scope, flume::Sender<Pins>),
    /// Take a pin of a scope away.
    Unpin(Scope, u64, flume::Sender<bool>),
    /// Show what is stored, and the roots of some scopes.
    Picture {
        scopes: Vec<Scope>,
        limit: usize,
        reply: flume::Sender<PrefixPicture>,
    },
    /// Show who holds what, and the roots of some scopes.
    Holdings {
        scopes: Vec<Scope>,
        reply: flume::Sender<EngineHoldings>,
    },
    /// Stop when all calls have ended, or at this time.
    Shutdown(Instant),
}

/// The loop's state.
pub(crate) struct Scheduler {
    model: Model,
    adapters: Adapters,
    compute: Compute,
    scratch: Scratch,
    store: KvStore,
    cache: PrefixCache,
    disk: Option<Disk>,
    tokenizer: Arc<Tokenizer>,
    config: EngineConfig,
    commands: flume::Receiver<Command>,
    shared: Arc<Shared>,
    started: Instant,
    /// The start by the wall clock, which pages on disk go by: in milliseconds since 1970.
    started_at: u64,
    /// When expired blocks were last looked for.
    expired_at: Instant,
    /// Calls that hold nothing, new or preempted, in the order in which they came.
    waiting: VecDeque<Sequence>,
    /// Calls that wait for a prefix that another one computes.
    joining: Vec<Sequence>,
    /// Calls whose prefix is read from disk.
    restoring: Vec<paging::Restoring>,
    /// Blocks that are to be written while there is nothing else to do, the most worth last; and whether there may be more.
    backlog: Vec<Page>,
    unsaved: bool,
    /// Calls that run, oldest first.
    running: Vec<Sequence>,
    /// Calls that ended in this step, with their last event: sent when the gauges say so as well.
    ended: Vec<(Sequence, GenerateEvent)>,
    masks: masks::Masks,
    stop_at: Option<Instant>,
    recent: Recent,
    /// What steps cost, for those that others wait for.
    pace: pace::Pace,
    answer_tokens: u64,
    prompt_tokens: u64,
    /// Reused by every step.
    logits: Vec<f32>,
    fresh: Vec<BlockId>,
}

/// What the chains of a scope start from.
pub(crate) fn root(config: &EngineConfig, isa: Isa, model: &Model, scope: &Scope) -> Root {
    Root::new(&RootParts {
        numerics: NUMERICS_VERSION,
        isa: isa.name(),
        // Covers the file's bytes (weights, tokenizer) and the RoPE settings that it leaves implicit.
        model: &model.fingerprint(),
        rope: b"",
        kv_type: config.kv_type.name(),
        block_tokens: config.block_size,
        hash: config.prefix_hash,
        tenant: &scope.0,
    })
}

impl Scheduler {
    pub(crate) fn new(
        model: Model,
        adapters: Adapters,
        compute: Compute,
        store: KvStore,
        cache: PrefixCache,
        disk: Option<Disk>,
        tokenizer: Arc<Tokenizer>,
        config: EngineConfig,
        commands: flume::Receiver<Command>,
        shared: Arc<Shared>,
    ) -> Self {
        Scheduler {
            model,
            adapters,
            compute,
            scratch: Scratch::new(),
            store,
            cache,
            disk,
            tokenizer,
            config,
            commands,
            shared,
            started: Instant::now(),
            started_at: since_1970(),
            expired_at: Instant::now(),
            waiting: VecDeque::new(),
            joining: Vec::new(),
            restoring: Vec::new(),
            backlog: Vec::new(),
            unsaved: false,
            running: Vec::new(),
            ended: Vec::new(),
            masks: masks::Masks::default(),
            stop_at: None,
            recent: Recent::default(),
            pace: pace::Pace::default(),
            answer_tokens: 0,
            prompt_tokens: 0,
            logits: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Runs until told to stop, or until nobody can submit any more.
    pub(crate) fn run(&mut self) {
        loop {
            if !self.take_commands() {
                break;
            }
            if catch_unwind(AssertUnwindSafe(|| self.step())).is_err() {
                self.recover();
            }
            self.publish_stats();
            self.say_goodbye();
        }
        self.fail_all(&GenerateError::ShuttingDown);
        self.publish_stats();
        self.say_goodbye();
    }

    /// Takes no more calls, and tells those that nobody will take any more. For the thread's end, whatever ended it.
    ///
    /// A channel keeps what was sent when its receiver goes, and with it the caller's end of its events, so a call that
    /// was sent after the last look would wait for ever. See [`Shared::closed`] for why none is.
    pub(crate) fn close_door(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        *self.shared.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        // None is left unless a defect ended the loop.
        let reading = self.restoring.drain(..).map(|reading| reading.sequence);
        let left = self.running.drain(..).chain(self.joining.drain(..)).chain(reading);
        let left = left.chain(self.waiting.drain(..));
        for sequence in left {
            let failed =
                GenerateError::Internal("the engine's thread ended by a defect".to_owned());
            for other in &sequence.others {
                let _ = other.events.try_send(GenerateEvent::Failed(failed.clone()));
            }
            sequence.send(GenerateEvent::Failed(failed));
        }
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Submit(submission) = command {
                for choice in submission.choices {
                    let failed = GenerateEvent::Failed(GenerateError::ShuttingDown);
                    let _ = choice.events.try_send(failed);
                }
            }
        }
    }

    /// One step: who left goes, who can start starts, then one batch.
    fn step(&mut self) {
        self.expire();
        self.drop_cancelled();
        self.take_pages();
        self.admit();
        self.take_masks();
        self.compute_batch();
    }

    /// Takes what was sent; waits for something if there is nothing to do. `false`: it is time to end.
    fn take_commands(&mut self) -> bool {
        loop {
            // A call that was refused when it was taken is to be told so.
            let idle = self.running.is_empty()
                && self.joining.is_empty()
                && self.waiting.is_empty()
                && self.restoring.is_empty()
                && self.ended.is_empty();
            if let Some(stop_at) = self.stop_at
                && (idle || Instant::now() >= stop_at)
            {
                return false;
            }
            let command = if idle && let Some(pause) = self.saving_pause() {
                match self.commands.recv_timeout(pause) {
                    Ok(command) => command,
                    Err(flume::RecvTimeoutError::Timeout) => {
                        self.save_some();
                        return true;
                    }
                    Err(flume::RecvTimeoutError::Disconnected) => return false,
                }
            } else if idle && self.config.prefix_ttl.is_none() {
                match self.commands.recv() {
                    Ok(command) => command,
                    Err(flume::RecvError::Disconnected) => return false,
                }
            } else if idle {
                // What expires meanwhile is to be seen in the gauges.
                match self.commands.recv_timeout(EXPIRY_INTERVAL) {
                    Ok(command) => command,
                    Err(flume::RecvTimeoutError::Timeout) => return true,
                    Err(flume::RecvTimeoutError::Disconnected) => return false,
                }
            } else {
                match self.commands.try_recv() {
                    Ok(command) => command,
                    Err(_) => return true,
                }
            };
            self.stop_saving();
            match command {
                Command::Submit(submission) => self.take(*submission),
                Command::Reset(reply) => {
                    let report = self.cache.reset();
                    let forgotten = self.disk.as_mut().map(|disk| disk.forget(None));
                    self.erase_from_disk(forgotten, report, reply);
                }
                Command::Forget(scope, reply) => {
                    let root = self.root(&scope);
                    let report = self.cache.forget(&root);
                    let forgotten = self.disk.as_mut().map(|disk| disk.forget(Some(&root)));
                    self.erase_from_disk(forgotten, report, reply);
                }
                Command::Retain(scopes, reply) => {
                    let known: HashSet<Root> =
                        scopes.iter().map(|scope| self.root(scope)).collect();
                    let report = self.cache.retain(|root| known.contains(root));
                    let forgotten = self.disk.as_mut().map(|disk| disk.retain(known));
                    self.erase_from_disk(forgotten, report, reply);
                }
                Command::Pins(scope, reply) => {
                    let _ = reply.try_send(self.pins_of(&scope));
                }
                Command::Unpin(scope, id, reply) => {
                    let gone = self.unpin(&scope, id);
                    self.publish_stats();
                    let _ = reply.try_send(gone);
                }
                Command::Picture { scopes, limit, reply } => {
                    let roots = scopes.iter().map(|scope| self.root(scope)).collect();
                    let picture = self.cache.picture(self.now(), limit);
                    // Who asked may have left.
                    let _ = reply.try_send(PrefixPicture { picture, roots });
                }
                Command::Holdings { scopes, reply } => {
                    let roots = scopes.iter().map(|scope| self.root(scope)).collect();
                    let _ = reply.try_send(self.holdings(roots));
                }
                Command::Shutdown(at) => {
                    self.stop_at = Some(self.stop_at.map_or(at, |earlier| earlier.min(at)));
                }
            }
        }
    }

    fn take(&mut self, submission: Submission) {
        // It was looked for when the call was submitted, and adapters stay.
        let name = submission.request.adapter.as_deref();
        let adapter = name.and_then(|name| self.adapters.get(name)).map(Arc::clone);
        let keys = self.keys(&submission.request, adapter.as_deref());
        if let Some(disk) = &mut self.disk {
            disk.set_share(&keys.root, submission.request.kv_share);
        }
        let context = self.model.config().context_length;
        let tokenizer = Arc::clone(&self.tokenizer);
        // All but the null block.
        let blocks = self.cache.config().blocks.saturating_sub(1);
        let Some(mut sequence) = Sequence::new(submission, keys, tokenizer, context, blocks) else {
            return;
        };
        sequence.adapter = adapter;
        if let Err(error) = self.check_pin(&sequence) {
            self.fail(sequence, error);
            return;
        }
        if let Some(guide) = &mut sequence.guide {
            self.masks.begin(sequence.id, guide);
        }
        self.queue(sequence);
    }

    /// What a call's blocks are keyed by, besides its tokens.
    fn keys(&self, request: &GenerateRequest, adapter: Option<&Adapter>) -> PromptKeys {
        let mut keys = PromptKeys::new(self.root(&request.scope));
        if let Some(salt) = &request.salt {
            keys = keys.with_salt(salt.as_bytes());
        }
        match adapter {
            Some(adapter) => keys.with_adapter(AdapterDigest(adapter.digest())),
            None => keys,
        }
    }

    /// What the chains of a scope start from.
    fn root(&self, scope: &Scope) -> Root {
        root(&self.config, self.compute.isa(), &self.model, scope)
    }

    fn now(&self) -> Moment {
        Moment::after(self.started.elapsed())
    }

    /// Drops what has expired, now and then: lookups don't find it anyway, but the gauges should show it.
    fn expire(&mut self) {
        if self.config.prefix_ttl.is_some() && self.expired_at.elapsed() >= EXPIRY_INTERVAL {
            self.expired_at = Instant::now();
            let now = self.now();
            self.cache.expire(now);
            self.expire_pages();
        }
    }

    /// Lets go of the calls whose caller left.
    fn drop_cancelled(&mut self) {
        let left = |s: &mut Sequence| s.is_cancelled();
        let mut gone: Vec<Sequence> = self.running.extract_if(.., left).collect();
        gone.extend(self.joining.extract_if(.., left));
        let reading = self.restoring.extract_if(.., |it| it.sequence.is_cancelled());
        gone.extend(reading.map(|it| it.sequence));
        let (cancelled, waiting): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.waiting).into_iter().partition(Sequence::is_cancelled);
        self.waiting = waiting;
        gone.extend(cancelled);
        for sequence in gone {
            self.end(sequence, FinishReason::Cancelled, None);
        }
    }

    /// After a defect in a step: its calls fail, what others hold and what is cached stays.
    fn recover(&mut self) {
        tracing::error!("a step of the engine failed, and its calls with it");
        // What is in them may have been overwritten.
        self.cache.take_leaving();
        for sequence in std::mem::take(&mut self.running) {
            self.fail(sequence, GenerateError::Internal("a step of the engine failed".to_owned()));
        }
    }

    fn fail_all(&mut self, error: &GenerateError) {
        let mut all = std::mem::take(&mut self.running);
        all.append(&mut self.joining);
        all.extend(std::mem::take(&mut self.restoring).into_iter().map(|it| it.sequence));
        all.extend(std::mem::take(&mut self.waiting));
        for sequence in all {
            self.fail(sequence, error.clone());
        }
    }

    /// Takes a call, in whatever state, out of the cache and the counts, and keeps its last event to be sent.
    fn close(&mut self, mut sequence: Sequence, event: GenerateEvent) {
        let now = self.now();
        if !sequence.pinned {
            self.cache.finish(sequence.id, now);
        }
        self.unsaved = true;
        if !sequence.admitted {
            self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        // It ended before its prompt was read: the next answer reads it, unless none can.
        let others = std::mem::take(&mut sequence.others);
        if let GenerateEvent::Failed(error) = &event {
            self.shared.waiting.fetch_sub(others.len(), Ordering::AcqRel);
            for other in others {
                let _ = other.events.try_send(GenerateEvent::Failed(error.clone()));
            }
        } else if let Some(next) = sequence.successor(others) {
            if next.admitted {
                self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
            }
            self.queue(next);
        }
        self.ended.push((sequence, event));
    }

    fn fail(&mut self, sequence: Sequence, error: GenerateError) {
        self.close(sequence, GenerateEvent::Failed(error));
    }

    fn say_goodbye(&mut self) {
        for (sequence, event) in self.ended.drain(..) {
            sequence.send(event);
        }
    }

    pub(crate) fn publish_stats(&mut self) {
        let kv = self.cache.stats();
        let counters = kv.counters;
        let used = kv.groups.iter().map(|group| group.in_use).sum();
        let cached = kv.groups.iter().map(|group| group.cached).sum();
        let stats = crate::EngineStats {
            prefix_queries: counters.queries,
            prefix_hits: counters.hits,
            prefix_joined: counters.joined,
            prefix_ghost_hits: counters.ghost_hits,
            preemptions: counters.preemptions,
            recomputed_tokens: counters.resumed_queries - counters.resumed_hits,
            prompt_tokens: self.prompt_tokens,
            answer_tokens: self.answer_tokens,
            evicted_blocks: counters.evictions.capacity,
            evicted_window_blocks: counters.evictions.window,
            expired_blocks: counters.evictions.expired,
            reset_blocks: counters.evictions.reset,
            // Counted where texts are tokenised.
            text_bytes: 0,
            known_text_bytes: 0,
            running: self.running.len(),
            disk: self.disk.as_ref().map(|disk| disk.stats(counters.restored)),
            waiting: self.waiting.len() + self.joining.len() + self.restoring.len(),
            // Those that wait for the disk hold blocks as well.
            joining: self.joining.len() + self.restoring.len(),
            blocks_used: used,
            blocks_cached: cached,
            blocks_pinned: kv.pinned,
            pins: kv.pins,
            blocks_total: kv.capacity,
            block_tokens: self.config.block_size,
            block_bytes: self.store.layout().block_bytes(),
            recent: self.recent.totals(),
            uptime: self.started.elapsed(),
        };
        *self.shared.stats.lock().unwrap_or_else(PoisonError::into_inner) = stats;
    }
}

/// The wall clock, in milliseconds since 1970.
pub(crate) fn since_1970() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Token ids as the cache takes them, without a copy.
fn plain(tokens: &[TokenId]) -> &[u32] {
    bytemuck::cast_slice(tokens)
}
