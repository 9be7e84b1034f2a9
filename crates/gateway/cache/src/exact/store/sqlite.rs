//! Answers in an SQLite file: for one machine, and for the time after a restart.
//!
//! One thread owns the connection; calls hand it their wish over a bounded queue and wait for the answer as long as
//! their [`Guarded`](super::Guarded) lets them. The file is in WAL mode: a killed process loses nothing that was
//! committed, a crash of the machine at most the last commits, and neither corrupts. A file that is corrupt is set
//! aside, and a new one begun.

mod file;
mod known;
mod ops;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

use tokio::sync::oneshot;

use self::file::File;
pub use self::file::OpenError;
use self::known::Known;
use super::{Filter, Found, Put, Reply, Store, StoreError, StoreStats};
use crate::exact::Key;

/// Wishes that may wait for the thread.
const QUEUE: usize = 256;

/// Settings of an SQLite store.
#[derive(Debug, Clone)]
pub struct SqliteConfig {
    /// The file.
    pub path: PathBuf,
    /// Bytes of answers; beyond them the oldest go.
    pub max_bytes: u64,
}

impl SqliteConfig {
    /// A gibibyte in a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteConfig { path: path.into(), max_bytes: 1 << 30 }
    }
}

/// Answers in an SQLite file.
pub struct Sqlite {
    path: PathBuf,
    aside: Option<PathBuf>,
    wishes: SyncSender<Wish>,
    known: Arc<Known>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

type Answer<T> = oneshot::Sender<Result<T, StoreError>>;

/// What the thread is asked.
enum Wish {
    Get(Key, Answer<Found>),
    Put(Put, Answer<bool>),
    Tag(Key, String, Answer<()>),
    Delete(Key, Answer<()>),
    Purge(Filter, u64, Answer<u64>),
    Epoch(Answer<u64>),
    Stats(Answer<StoreStats>),
    Close,
}

impl Sqlite {
    /// Opens or makes a file, and starts its thread. A corrupt file is set aside; see [`Sqlite::aside`].
    ///
    /// # Errors
    /// Where the file is something else, or can't be opened.
    pub fn open(config: SqliteConfig) -> Result<Self, OpenError> {
        let known = Arc::new(Known::nothing());
        let now = SystemTime::now();
        let (file, aside) = File::open(&config.path, config.max_bytes, now, Arc::clone(&known))?;
        let (wishes, queue) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("tapri-exact".to_owned())
            .spawn(move || run(file, &queue))
            .map_err(|source| OpenError::Io { path: config.path.clone(), source })?;
        Ok(Sqlite { path: config.path, aside, wishes, known, thread: Mutex::new(Some(thread)) })
    }

    /// Where a corrupt file went when this one was opened.
    pub fn aside(&self) -> Option<&Path> {
        self.aside.as_deref()
    }

    fn wish<T: Send + 'static>(&self, wish: impl FnOnce(Answer<T>) -> Wish) -> Reply<T> {
        let (answer, wait) = oneshot::channel();
        let sent = self.wishes.try_send(wish(answer));
        Box::pin(async move {
            match sent {
                Ok(()) => wait.await.unwrap_or(Err(StoreError::Closed)),
                Err(TrySendError::Full(_)) => Err(StoreError::Full),
                Err(TrySendError::Disconnected(_)) => Err(StoreError::Closed),
            }
        })
    }
}

impl Store for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn get(&self, key: Key) -> Reply<Found> {
        self.wish(|answer| Wish::Get(key, answer))
    }

    fn lacks(&self, key: &Key) -> bool {
        self.known.lacks(key)
    }

    fn put(&self, put: Put) -> Reply<bool> {
        self.wish(|answer| Wish::Put(put, answer))
    }

    fn tag(&self, key: Key, session: String) -> Reply<()> {
        self.wish(|answer| Wish::Tag(key, session, answer))
    }

    fn delete(&self, key: Key) -> Reply<()> {
        self.wish(|answer| Wish::Delete(key, answer))
    }

    fn purge(&self, filter: Filter, now: u64) -> Reply<u64> {
        self.wish(move |answer| Wish::Purge(filter, now, answer))
    }

    fn epoch(&self) -> Reply<u64> {
        self.wish(Wish::Epoch)
    }

    fn stats(&self) -> Reply<StoreStats> {
        self.wish(Wish::Stats)
    }

    fn close(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that has gone needs no word.
            let _ = self.wishes.send(Wish::Close);
            let _ = thread.join();
        }
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("path", &self.path).finish_non_exhaustive()
    }
}

fn run(mut file: File, queue: &Receiver<Wish>) {
    while let Ok(wish) = queue.recv() {
        // Whoever asked may have gone; then the answer goes nowhere.
        match wish {
            Wish::Get(key, answer) if !answer.is_closed() => {
                drop(answer.send(file.ask(|c| ops::get(c, &key))))
            }
            // Nobody waits for it any more.
            Wish::Get(..) => {}
            Wish::Put(put, answer) => drop(answer.send(file.put(&put))),
            Wish::Tag(key, session, answer) => {
                drop(answer.send(file.ask(|c| ops::tag(c, &key, &session))));
            }
            Wish::Delete(key, answer) => drop(answer.send(file.delete(&key))),
            Wish::Purge(filter, now, answer) => drop(answer.send(file.purge(&filter, now))),
            Wish::Epoch(answer) => drop(answer.send(file.epoch())),
            Wish::Stats(answer) => drop(answer.send(file.ask(ops::stats))),
            Wish::Close => break,
        }
    }
}

/// An SQLite store behind a shared handle.
pub fn shared(config: SqliteConfig) -> Result<Arc<Sqlite>, OpenError> {
    Sqlite::open(config).map(Arc::new)
}
