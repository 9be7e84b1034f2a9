//! Writing records, off the way of calls.
//!
//! [`Writer::record`] hands a record over and comes back at once; a thread of its own makes the fingerprints and
//! writes in batches. Nobody ever waits for the disk: when the thread falls behind, or the disk takes nothing, records
//! are dropped and counted.
//!
//! # What callers and the thread share, and why nobody is forgotten
//!
//! - The channel is a lock: what is sent is there before the sending returns, and is taken once.
//! - The counts publish nothing, so they are relaxed: each is a sum of read-modify-writes of one word. `waiting_bytes` gets
//!   a record's bytes before it is sent and loses them once, when the thread takes it or the sender gives it up; in between it
//!   is too high, so that a record may be dropped that would just have fitted, and the limit is never passed but by one
//!   record that waits alone.
//! - No wake-up that is owed is lost. In `gather` the thread looks at the channel, then parks. Whoever wants it awake sends
//!   first and then unparks it. Unparking leaves a token where the thread isn't parked, and what came before it is seen by the
//!   thread after the `park` that takes it. So if the look came before the sending, the token is there before or during
//!   the park, which ends, and the next look finds what was sent. A token that is left over (from a message that was
//!   found without it, or for the channel's own blocking `recv`, which parks too) makes one look that finds nothing: both
//!   loops look again before they sleep. Who sends without unparking is owed nothing before the deadline, which ends the
//!   park by itself.
//! - The last [`Writer`] drops the sender before it unparks, so that the thread finds the channel closed; a closed channel
//!   still gives what is in it, so that what waits is written.

mod trouble;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use flume::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError};
use jiff::Timestamp;
use rusqlite::ErrorCode;
use tapri_api::Outline;

use self::trouble::{Trouble, with_source};
use crate::prune::{Limits, prune};
use crate::store::{Check, Opened, Store, is_corrupt};
use crate::{CallRecord, Clock, Explanation, OpenError, Secret};

/// Settings of a [`Writer`].
#[derive(Debug, Clone)]
pub struct WriterConfig {
    /// The database.
    pub path: PathBuf,
    /// Whether prompts are kept as text.
    pub keep_text: bool,
    /// How large and how old it may become.
    pub limits: Limits,
    /// Records that may wait for the thread.
    pub queue: usize,
    /// Bytes of prompts that may wait for it.
    pub queue_bytes: usize,
    /// Records that are written at once.
    pub batch: usize,
    /// The longest that a record waits for others to be written with.
    pub interval: Duration,
}

impl WriterConfig {
    /// The defaults, for a database.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        WriterConfig {
            path: path.into(),
            keep_text: false,
            limits: Limits::default(),
            queue: 4096,
            // Four bodies of the largest size that the server takes.
            queue_bytes: 64 << 20,
            batch: 256,
            // A killed process may lose a second; this leaves most of it for the writing.
            interval: Duration::from_millis(250),
        }
    }
}

/// A call that ended, with what its fingerprints are made from.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The record; `parts`, `trace` and `text` are filled in by the writer.
    pub record: CallRecord,
    /// The prompt's parts.
    pub outline: Option<Outline>,
    /// The prompt's token ids.
    pub prompt_ids: Option<Arc<[u32]>>,
    /// The client's own salt, which partitions the cache as model and tenant do.
    pub salt: Option<String>,
    /// Finds the record's explanation, where it isn't in it already. Runs on the writer's thread.
    pub explain: Option<Explain>,
}

/// Finds an explanation when it is needed.
#[derive(Clone)]
pub struct Explain(pub Arc<dyn Fn() -> Option<Explanation> + Send + Sync>);

impl std::fmt::Debug for Explain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explain").finish_non_exhaustive()
    }
}

impl Entry {
    /// A record of which no more is known.
    pub fn new(record: CallRecord) -> Self {
        Entry { record, outline: None, prompt_ids: None, salt: None, explain: None }
    }

    fn bytes(&self) -> usize {
        let ids = self.prompt_ids.as_ref().map_or(0, |ids| 4 * ids.len());
        self.outline.as_ref().map_or(0, Outline::bytes) + ids
    }
}

/// Why texts could not be erased.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// The ledger's thread did not answer in time.
    #[error("the ledger did not answer in time")]
    Unanswered,
    /// The database refused.
    #[error("the ledger could not be changed: {0}")]
    Refused(String),
}

/// What became of records since the writer was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Written.
    pub written: u64,
    /// Dropped: the queue was full, or the disk took nothing.
    pub dropped: u64,
    /// Let go for the limits of size and age.
    pub pruned: u64,
}

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    pruned: AtomicU64,
    waiting_bytes: AtomicUsize,
    last_error: Mutex<Option<String>>,
}

enum Message {
    Entry(Box<Entry>),
    /// Everything that came before is to be written.
    Flush(Sender<()>),
    /// The texts of a tenant's conversation are to be erased.
    Erase(String, String, Sender<Result<u64, String>>),
    Close(Sender<()>),
}

/// The thread did not answer in time.
struct TooSlow;

/// Takes records. Cheap to clone; clones share everything. When the last one is dropped, what waits is written.
#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    sender: Option<Sender<Message>>,
    shared: Arc<Shared>,
    queue_bytes: usize,
    path: PathBuf,
    aside: Option<PathBuf>,
    /// Records that wake the thread before its time.
    batch: usize,
    wake: std::thread::Thread,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    /// Opens a ledger, or makes one, and starts its thread. A corrupt file is set aside: see [`Writer::aside`].
    pub fn open(config: WriterConfig, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let opened = open(&config.path, clock.now(), Check::Whole)?;
        Writer::start(config, clock, Some(opened))
    }

    /// The same for a program that goes on without a ledger: when it can't be opened, records are dropped and
    /// counted, and each batch tries to open it again.
    pub fn open_or_retry(
        config: WriterConfig,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Option<OpenError>), OpenError> {
        let (opened, error) = match open(&config.path, clock.now(), Check::Whole) {
            Ok(opened) => (Some(opened), None),
            Err(error) => (None, Some(error)),
        };
        Ok((Writer::start(config, clock, opened)?, error))
    }

    fn start(
        config: WriterConfig,
        clock: Arc<dyn Clock>,
        opened: Option<(Opened, Secret)>,
    ) -> Result<Self, OpenError> {
        let (store, aside, secret) = match opened {
            Some((Opened { store, aside }, secret)) => (Some(store), aside, Some(secret)),
            None => (None, None, None),
        };
        let (sender, receiver) = flume::bounded(config.queue.max(1));
        let shared = Arc::new(Shared::default());
        let path = config.path.clone();
        let (queue_bytes, batch) = (config.queue_bytes, config.batch);
        let thread = Thread {
            config,
            secret,
            // Whoever opened it says what is wrong.
            trouble: match &store {
                Some(_) => Trouble::none(),
                None => Trouble::from_the_start(clock.now()),
            },
            check: if store.is_some() { Check::Head } else { Check::Whole },
            clock,
            store,
            shared: Arc::clone(&shared),
            pending: Vec::new(),
            more_to_prune: true,
        };
        let thread = std::thread::Builder::new()
            .name("tapri-ledger".to_owned())
            .spawn(move || thread.run(&receiver))
            .map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let inner = Inner {
            sender: Some(sender),
            shared,
            queue_bytes,
            path,
            aside,
            batch,
            wake: thread.thread().clone(),
            thread: Mutex::new(Some(thread)),
        };
        Ok(Writer { inner: Arc::new(inner) })
    }

    /// The database.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Where a corrupt database went at opening, if there was one.
    pub fn aside(&self) -> Option<&Path> {
        self.inner.aside.as_deref()
    }

    /// Hands a record over. Never waits: when too many wait already, it is dropped and counted.
    pub fn record(&self, entry: Entry) {
        let shared = &self.inner.shared;
        let bytes = entry.bytes();
        let before = shared.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        // One of any size may wait alone.
        let room = before == 0 || before + bytes <= self.inner.queue_bytes;
        let sent = match &self.inner.sender {
            Some(sender) if room => match sender.try_send(Message::Entry(Box::new(entry))) {
                Ok(()) => {
                    // What waits is to be made small before it must be dropped.
                    let much = before + bytes > self.inner.queue_bytes / 4;
                    if much || sender.len() >= self.inner.batch {
                        self.inner.wake.unpark();
                    }
                    true
                }
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
            },
            _ => false,
        };
        if !sent {
            shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything that was handed over is written or dropped, and the limits are kept. `false` after
    /// `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        // A thread that has ended has nothing left to write.
        self.ask(Message::Flush, limit).is_ok()
    }

    /// Erases the texts of a tenant's conversation: prompts where they are kept, and values that explanations quote.
    /// Counts and fingerprints stay. Gives how many records it concerned. Blocks, at most as long as `limit`.
    ///
    /// # Errors
    /// Where the database could not be changed in time; the texts may still be there.
    pub fn erase_texts(
        &self,
        tenant: &str,
        conversation: &str,
        limit: Duration,
    ) -> Result<u64, EraseError> {
        let (tenant, conversation) = (tenant.to_owned(), conversation.to_owned());
        match self.ask(|reply| Message::Erase(tenant, conversation, reply), limit) {
            Ok(Some(answer)) => answer.map_err(EraseError::Refused),
            Ok(None) | Err(TooSlow) => Err(EraseError::Unanswered),
        }
    }

    /// Writes what waits and closes the database; records that come later are dropped. `false` if it was not done
    /// within `limit`: a disk that hangs doesn't hold up the end of a program.
    pub fn close(&self, limit: Duration) -> bool {
        let done = self.ask(Message::Close, limit).is_ok();
        if done {
            self.inner.join();
        }
        done
    }

    /// Asks the thread at once, whatever it gathers. `Ok(None)`: it has ended.
    fn ask<T>(
        &self,
        message: impl FnOnce(Sender<T>) -> Message,
        limit: Duration,
    ) -> Result<Option<T>, TooSlow> {
        let end = Instant::now() + limit;
        let (reply, replied) = flume::bounded(1);
        let Some(sender) = &self.inner.sender else { return Ok(None) };
        match sender.send_deadline(message(reply), end) {
            Ok(()) => self.inner.wake.unpark(),
            Err(flume::SendTimeoutError::Disconnected(_)) => return Ok(None),
            Err(flume::SendTimeoutError::Timeout(_)) => return Err(TooSlow),
        }
        match replied.recv_deadline(end) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => Err(TooSlow),
        }
    }

    /// The last thing that went wrong with writing.
    pub fn last_error(&self) -> Option<String> {
        self.inner.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What became of records so far.
    pub fn counts(&self) -> Counts {
        let shared = &self.inner.shared;
        Counts {
            written: shared.written.load(Ordering::Relaxed),
            dropped: shared.dropped.load(Ordering::Relaxed),
            pruned: shared.pruned.load(Ordering::Relaxed),
        }
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

impl Inner {
    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic in it has been printed by its own hook.
            let _ = thread.join();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sender = None;
        self.wake.unpark();
        self.join();
    }
}

fn open(path: &Path, now: Timestamp, check: Check) -> Result<(Opened, Secret), OpenError> {
    let opened = Store::open(path, now, check)?;
    Ok((opened, Secret::of_ledger(path)?))
}

/// The next message, until a deadline. Whoever sends doesn't wake the thread, as that would cost a call more than all else
/// that is done for its record; only who can't wait until the deadline unparks it.
fn gather(receiver: &Receiver<Message>, deadline: Instant) -> Result<Message, RecvTimeoutError> {
    loop {
        match receiver.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(RecvTimeoutError::Timeout);
        }
        std::thread::park_timeout(left);
    }
}

/// Writes.
struct Thread {
    config: WriterConfig,
    clock: Arc<dyn Clock>,
    secret: Option<Secret>,
    /// How the next opening looks at the file: a disk that fails again and again is no reason to read all of it each time.
    check: Check,
    /// `None` while it can't be opened.
    store: Option<Store>,
    shared: Arc<Shared>,
    pending: Vec<CallRecord>,
    more_to_prune: bool,
    trouble: Trouble,
}

impl Thread {
    fn run(mut self, receiver: &Receiver<Message>) {
        let interval = self.config.interval;
        let mut deadline = Instant::now() + interval;
        // While records come it looks for them itself: to wake a thread costs the call that wakes it. After an interval
        // without any it sleeps until it is woken.
        let mut busy = false;
        loop {
            let message = if self.pending.is_empty() && !self.more_to_prune && !busy {
                receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                gather(receiver, deadline)
            };
            match message {
                Ok(Message::Entry(entry)) => {
                    // A record that came while it looked by itself has waited since the last look at most.
                    if self.pending.is_empty() && !busy {
                        deadline = Instant::now() + interval;
                    }
                    busy = true;
                    self.take(*entry);
                    if self.pending.len() < self.config.batch {
                        continue;
                    }
                    self.write();
                }
                Ok(Message::Flush(reply)) => {
                    self.write();
                    while self.more_to_prune && self.store.is_some() {
                        self.prune();
                    }
                    // Whoever asked may have stopped waiting.
                    let _ = reply.send(());
                }
                Ok(Message::Erase(tenant, conversation, reply)) => {
                    // What came before is in the database first, so that it is erased too.
                    self.write();
                    let _ = reply.send(self.erase(&tenant, &conversation));
                }
                Ok(Message::Close(reply)) => {
                    self.end();
                    self.count_late(receiver);
                    let _ = reply.send(());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    busy = !self.pending.is_empty();
                    self.write();
                }
                Err(RecvTimeoutError::Disconnected) => return self.end(),
            }
            deadline = Instant::now() + interval;
        }
    }

    /// Makes a record whole.
    fn take(&mut self, entry: Entry) {
        let bytes = entry.bytes();
        let Entry { mut record, outline, prompt_ids, salt, explain } = entry;
        if let Some(Explain(explain)) = explain {
            record.explanation = explain();
        }
        if let (Some(outline), Some(secret)) = (&outline, &self.secret) {
            record.parts = outline.parts().iter().map(|part| secret.part(part)).collect();
            record.text = self.config.keep_text.then(|| outline.json());
        }
        if let (Some(ids), Some(secret)) = (&prompt_ids, &self.secret) {
            let partition = [&*record.model, &*record.tenant, salt.as_deref().unwrap_or_default()];
            record.trace = secret.trace(&partition, ids);
        }
        self.shared.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.pending.push(record);
    }

    fn write(&mut self) {
        if !self.pending.is_empty() {
            if self.store.as_ref().is_none_or(|store| !store.is_current()) {
                self.reopen();
            }
            let result = match &mut self.store {
                Some(store) => store.write(&self.pending),
                // The reason was said when it could not be opened.
                None => return self.drop_pending(),
            };
            match result {
                Ok(()) => self.written(),
                Err(error) => self.failed(&error),
            }
        }
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        self.trouble.behind(self.clock.now(), dropped);
        self.prune();
    }

    fn erase(&mut self, tenant: &str, conversation: &str) -> Result<u64, String> {
        if !self.pending.is_empty() {
            return Err("records of it wait to be written".to_owned());
        }
        match &self.store {
            Some(store) => {
                store.erase_texts(tenant, conversation).map_err(|error| error.to_string())
            }
            None => Err("it can't be opened".to_owned()),
        }
    }

    fn written(&mut self) {
        self.shared.written.fetch_add(self.pending.len() as u64, Ordering::Relaxed);
        self.pending.clear();
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        self.trouble.over(&self.config.path, dropped);
    }

    fn failed(&mut self, error: &rusqlite::Error) {
        match error.sqlite_error_code() {
            // Another process writes for long; there is time, while there is room.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                if self.pending.len() < 4 * self.config.batch => {}
            Some(ErrorCode::DiskFull) => {
                self.drop_pending();
                self.warn(error);
            }
            _ if is_corrupt(error) => {
                self.warn(error);
                // Opening finds what is wrong with it, and sets it aside.
                self.check = Check::Whole;
                if let Some(store) = self.store.take() {
                    store.abandon();
                }
                self.reopen();
                let again = self.store.as_mut().map(|store| store.write(&self.pending));
                match again {
                    Some(Ok(())) => self.written(),
                    _ => self.drop_pending(),
                }
            }
            _ => {
                self.drop_pending();
                self.warn(error);
                // After an error of the disk a connection may be of no more use.
                self.store = None;
            }
        }
    }

    fn reopen(&mut self) {
        self.store = None;
        match open(&self.config.path, self.clock.now(), self.check) {
            Ok((Opened { store, aside }, secret)) => {
                self.secret = Some(secret);
                self.check = Check::Head;
                if let Some(aside) = aside {
                    tracing::warn!(
                        "the ledger was corrupt and is now {}; a new one is begun",
                        aside.display()
                    );
                }
                self.store = Some(store);
            }
            Err(error) => self.warn(&error),
        }
    }

    fn drop_pending(&mut self) {
        let lost = self.pending.len() as u64;
        self.pending.clear();
        self.shared.dropped.fetch_add(lost, Ordering::Relaxed);
    }

    fn warn(&mut self, error: &dyn std::error::Error) {
        *self.shared.last_error.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(with_source(error));
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        self.trouble.warn(&self.config.path, self.clock.now(), dropped, error);
    }

    fn prune(&mut self) {
        self.more_to_prune = false;
        let Some(store) = &mut self.store else { return };
        match prune(store.connection(), &self.config.limits, self.clock.now()) {
            Ok(pruned) => {
                self.more_to_prune = pruned.more;
                self.shared.pruned.fetch_add(pruned.records, Ordering::Relaxed);
            }
            // On a full disk nothing can be deleted either; the next batch tries again.
            Err(error) => tracing::debug!("the ledger could not be pruned: {error}"),
        }
    }

    /// Counts the records that came while the last ones were written: nobody will write them.
    fn count_late(&self, receiver: &Receiver<Message>) {
        let late = receiver.try_iter().filter(|message| matches!(message, Message::Entry(_)));
        self.shared.dropped.fetch_add(late.count() as u64, Ordering::Relaxed);
    }

    fn end(&mut self) {
        self.write();
        // Busy until the end.
        self.drop_pending();
        self.store = None;
    }
}
