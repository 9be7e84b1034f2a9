//! What is written, off the way of those who look.
//!
//! One thread owns the store; the cache hands it jobs over a bounded queue and never waits for it, except where
//! someone wants an answer (an erasure, a list). A job that the queue has no room for is dropped and counted, but for
//! two that would leave a wrong answer alive: a removal waits beside the queue, and a label that speaks against a
//! route is remembered as long as the process lives.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::semantic::RowId;
use crate::semantic::store::{Keeper, Known, Label, SemanticStoreError, StoredQuestion};

/// Jobs that may wait. A label carries two answers of at most 64 KiB, so that the worst queue takes 32 MiB.
const ROOM: usize = 256;

/// How long someone who wants an answer waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the end waits for what is in the queue.
const AT_THE_END: Duration = Duration::from_secs(5);

/// At most one warning in so long.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// Labels against a route that could not be written and are remembered.
const MOST_UNWRITTEN: usize = 100_000;

/// Someone's question to the store.
type Wish = Box<dyn FnOnce(&mut dyn Keeper, &Told) + Send>;

/// What the thread does.
pub(super) enum Job {
    /// Keeps a question; of its scope only so many stay.
    Keep { question: Box<StoredQuestion>, erasures: u64, most: usize },
    /// Forgets a question.
    Remove(RowId),
    /// Keeps a label, the one of this number.
    Label { label: Box<Label>, erasures: u64, number: u64 },
    /// Reads the labels again.
    Reread,
    /// Answers someone.
    Ask(Wish),
}

/// What the store knew after the label of this number was written.
#[derive(Debug, Clone, Default)]
pub(super) struct News {
    pub(super) known: Known,
    pub(super) upto: u64,
    /// Counts readings: what was read before is older news, whenever it is heard.
    pub(super) number: u64,
}

/// What both sides see.
#[derive(Default)]
pub(super) struct Told {
    /// Jobs that there was no room for.
    dropped: AtomicU64,
    /// Times that the store failed.
    errors: AtomicU64,
    /// The number of the last label that was written, or failed to be.
    written: AtomicU64,
    /// Readings.
    reads: AtomicU64,
    /// Labels against a route that aren't in the store.
    unwritten: Mutex<Vec<(String, f32)>>,
    /// Removals that there was no room for, or that failed.
    late: Mutex<Vec<RowId>>,
    news: Mutex<Option<News>>,
    rereading: AtomicBool,
    warned: Mutex<Option<Instant>>,
}

/// The cache's side.
pub(super) struct Writer {
    name: &'static str,
    jobs: Option<SyncSender<Job>>,
    ended: Mutex<Receiver<()>>,
    told: Arc<Told>,
}

impl Writer {
    /// Starts the thread.
    pub(super) fn start(
        keeper: Box<dyn Keeper>,
        encoder: String,
    ) -> Result<Self, SemanticStoreError> {
        let (jobs, queue) = sync_channel(ROOM);
        let (end, ended) = channel::<()>();
        let told = Arc::new(Told::default());
        let (name, theirs) = (keeper.name(), Arc::clone(&told));
        thread::Builder::new()
            .name("tapri-semantic".to_owned())
            .spawn(move || {
                run(keeper, &encoder, &queue, &theirs);
                // Dropped at the end, however it comes.
                drop(end);
            })
            .map_err(SemanticStoreError::Io)?;
        Ok(Writer { name, jobs: Some(jobs), ended: Mutex::new(ended), told })
    }

    /// What the store is.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Hands a job over; whether there was room. Never waits.
    pub(super) fn send(&self, job: Job) -> bool {
        let Some(jobs) = &self.jobs else { return false };
        match jobs.try_send(job) {
            Ok(()) => true,
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                match job {
                    // Done as soon as the queue is empty: nothing before it in the queue can bring the row back.
                    Job::Remove(id) => lock(&self.told.late).push(id),
                    Job::Reread => self.told.rereading.store(false, Ordering::Release),
                    _ => {
                        self.told.dropped.fetch_add(1, Ordering::Relaxed);
                        self.told
                            .warn("more waits to be written than there is room for; it is dropped");
                    }
                }
                false
            }
        }
    }

    /// Remembers a label against a route that isn't in the store.
    pub(super) fn remember(&self, route: &str, similarity: f32) {
        self.told.remember(route, similarity);
    }

    /// Has the labels read again, unless that is under way.
    pub(super) fn reread(&self) {
        if !self.told.rereading.swap(true, Ordering::AcqRel) {
            self.send(Job::Reread);
        }
    }

    /// What was read again since the last time, if anything.
    pub(super) fn news(&self) -> Option<News> {
        lock(&self.told.news).take()
    }

    /// The number of the last label that is in the store, or failed to be.
    pub(super) fn written(&self) -> u64 {
        self.told.written.load(Ordering::Acquire)
    }

    /// Jobs that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.told.dropped.load(Ordering::Relaxed)
    }

    /// Times that the store failed.
    pub(super) fn errors(&self) -> u64 {
        self.told.errors.load(Ordering::Relaxed)
    }

    /// Counts a failure of the store that someone else met, and warns of it now and then.
    pub(super) fn failed(&self, error: &SemanticStoreError) {
        self.told.failed(error);
    }

    /// Asks the store, behind all that waits, and waits for its answer.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Keeper) -> Result<T, SemanticStoreError> + Send + 'static,
    ) -> Result<T, SemanticStoreError> {
        self.wish(move |keeper, _| ask(keeper))
    }

    /// Does something, and reads the labels after it.
    pub(super) fn ask_then_read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Keeper) -> Result<T, SemanticStoreError> + Send + 'static,
    ) -> Result<(T, News), SemanticStoreError> {
        self.wish(move |keeper, told| Ok((ask(keeper)?, told.read(keeper)?)))
    }

    fn wish<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&mut dyn Keeper, &Told) -> Result<T, SemanticStoreError> + Send + 'static,
    ) -> Result<T, SemanticStoreError> {
        let jobs = self.jobs.as_ref().ok_or(SemanticStoreError::Closed)?;
        let (reply, answer) = sync_channel(1);
        let mut job = Job::Ask(Box::new(move |keeper, told| {
            // Who asked may have gone.
            let _ = reply.send(ask(keeper, told));
        }));
        let begun = Instant::now();
        loop {
            match jobs.try_send(job) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return Err(SemanticStoreError::Closed),
                Err(TrySendError::Full(_)) if begun.elapsed() > PATIENCE => {
                    return Err(SemanticStoreError::Slow);
                }
                Err(TrySendError::Full(back)) => job = back,
            }
            thread::sleep(Duration::from_millis(5));
        }
        match answer.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(SemanticStoreError::Slow),
            Err(RecvTimeoutError::Disconnected) => Err(SemanticStoreError::Closed),
        }
    }
}

impl Drop for Writer {
    /// Waits for what is in the queue, but not for a store that hangs.
    fn drop(&mut self) {
        self.jobs = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(AT_THE_END) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the semantic cache's store hangs; what was to be written last is lost");
        }
    }
}

fn run(mut keeper: Box<dyn Keeper>, encoder: &str, queue: &Receiver<Job>, told: &Told) {
    // Questions since the last look at whether a scope has too many.
    let mut kept: u64 = 0;
    loop {
        // Before it is looked whether the queue is empty: whatever these name stood in the queue before them.
        let late = std::mem::take(&mut *lock(&told.late));
        let job = match queue.try_recv() {
            Ok(job) => {
                lock(&told.late).extend(late);
                job
            }
            Err(TryRecvError::Disconnected) => {
                late.into_iter().for_each(|id| told.done(keeper.remove(id)));
                return;
            }
            Err(TryRecvError::Empty) => {
                for id in late {
                    if let Err(error) = keeper.remove(id) {
                        told.failed(&error);
                        lock(&told.late).push(id);
                    }
                }
                // At the end the loop comes by once more, for what came late meanwhile.
                let Ok(job) = queue.recv() else { continue };
                job
            }
        };
        match job {
            Job::Keep { question, erasures, most } => {
                told.done(keeper.keep(question.id(), &question, encoder, erasures));
                kept += 1;
                // Counting a scope costs reading it, so it is counted once in a while.
                if kept.is_multiple_of((most as u64 / 16).clamp(1, 256)) {
                    told.done(keeper.trim(question.scope, most));
                }
            }
            Job::Remove(id) => {
                if let Err(error) = keeper.remove(id) {
                    told.failed(&error);
                    lock(&told.late).push(id);
                }
            }
            Job::Label { label, erasures, number } => {
                if let Err(error) = keeper.label(&label, erasures) {
                    told.failed(&error);
                    if label.verdict.is_wrong() {
                        told.remember(&label.owner.route, label.similarity);
                    }
                }
                told.written.store(number, Ordering::Release);
            }
            Job::Reread => {
                match told.read(&mut *keeper) {
                    Ok(news) => *lock(&told.news) = Some(news),
                    Err(error) => told.failed(&error),
                }
                told.rereading.store(false, Ordering::Release);
            }
            Job::Ask(wish) => wish(&mut *keeper, told),
        }
    }
}

impl Told {
    fn read(&self, keeper: &mut dyn Keeper) -> Result<News, SemanticStoreError> {
        let upto = self.written.load(Ordering::Acquire);
        let mut known = keeper.known()?;
        let unwritten = lock(&self.unwritten);
        known.labels.extend(unwritten.iter().map(|(route, near)| (route.clone(), *near, true)));
        let number = 1 + self.reads.fetch_add(1, Ordering::Relaxed);
        Ok(News { known, upto, number })
    }

    fn remember(&self, route: &str, similarity: f32) {
        let mut unwritten = lock(&self.unwritten);
        if unwritten.len() < MOST_UNWRITTEN {
            unwritten.push((route.to_owned(), similarity));
        }
    }

    fn done(&self, result: Result<(), SemanticStoreError>) {
        if let Err(error) = result {
            self.failed(&error);
        }
    }

    fn failed(&self, error: &SemanticStoreError) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let why = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        self.warn(&why);
    }

    fn warn(&self, what: &str) {
        let now = Instant::now();
        let mut warned = lock(&self.warned);
        if warned.is_none_or(|at| now.duration_since(at) >= WARN_EVERY) {
            *warned = Some(now);
            drop(warned);
            let (failures, dropped) =
                (self.errors.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed));
            tracing::warn!(
                failures,
                dropped,
                "the semantic cache goes on without its store: {what}"
            );
        }
    }
}

/// What a thread left behind that panicked is as good as before.
fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
