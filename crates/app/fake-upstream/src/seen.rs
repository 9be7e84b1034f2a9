//! What came, and how it ended.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ending {
    /// It has not.
    #[default]
    Running,
    /// It was answered to the end, be the end an error.
    Answered,
    /// The script broke it off.
    Cut,
    /// The client left before the end.
    ClientGone,
}

impl Ending {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Ending::Running => "running",
            Ending::Answered => "answered",
            Ending::Cut => "cut",
            Ending::ClientGone => "client_gone",
        }
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Counted from 0.
    pub number: u64,
    /// The path.
    pub path: String,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub bytes: Bytes,
    /// How it ended.
    pub ending: Ending,
    /// Chunks sent.
    pub chunks: usize,
    /// Tokens of its prompt that were said to come from the cache.
    pub cached: u64,
}

impl Seen {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or(Value::Null)
    }

    /// As `GET /__requests` shows it.
    pub fn show(&self) -> Value {
        let headers: serde_json::Map<String, Value> =
            self.headers.iter().map(|(k, v)| (k.clone(), Value::String(v.clone()))).collect();
        json!({
            "number": self.number, "path": self.path, "headers": headers, "body": self.json(),
            "ending": self.ending.as_str(), "chunks": self.chunks, "cached": self.cached,
        })
    }
}

/// The latest requests, within bounds of number and bytes.
#[derive(Debug, Default)]
pub(crate) struct Log {
    inner: Mutex<Inner>,
    most: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Inner {
    seen: VecDeque<Seen>,
    bytes: usize,
    next: u64,
}

impl Log {
    pub(crate) fn new(most: usize, most_bytes: usize) -> Self {
        Log { inner: Mutex::default(), most, most_bytes }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a request, and drops the oldest where there are too many.
    pub(crate) fn add(&self, path: &str, headers: Vec<(String, String)>, bytes: Bytes) -> u64 {
        let mut inner = self.inner();
        let number = inner.next;
        inner.next += 1;
        inner.bytes += bytes.len();
        inner.seen.push_back(Seen {
            number,
            path: path.to_owned(),
            headers,
            bytes,
            ending: Ending::Running,
            chunks: 0,
            cached: 0,
        });
        while inner.seen.len() > self.most || inner.bytes > self.most_bytes {
            let Some(oldest) = inner.seen.pop_front() else { break };
            inner.bytes -= oldest.bytes.len();
        }
        number
    }

    pub(crate) fn change(&self, number: u64, change: impl FnOnce(&mut Seen)) {
        let mut inner = self.inner();
        let Some(first) = inner.seen.front().map(|seen| seen.number) else { return };
        let Some(at) = number.checked_sub(first) else { return };
        if let Some(seen) = inner.seen.get_mut(at as usize) {
            change(seen);
        }
    }

    pub(crate) fn all(&self) -> Vec<Seen> {
        self.inner().seen.iter().cloned().collect()
    }

    pub(crate) fn came(&self) -> u64 {
        self.inner().next
    }

    pub(crate) fn clear(&self) {
        let mut inner = self.inner();
        inner.seen.clear();
        inner.bytes = 0;
    }
}

/// Counts requests that are being answered.
#[derive(Debug, Default)]
pub(crate) struct Running {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Running {
    pub(crate) fn begin(this: &Arc<Self>) -> Arc<Self> {
        let now = this.now.fetch_add(1, Ordering::SeqCst) + 1;
        this.most.fetch_max(now, Ordering::SeqCst);
        Arc::clone(this)
    }

    /// Now, and the most at once.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.now.load(Ordering::SeqCst), self.most.load(Ordering::SeqCst))
    }
}

/// Says how a request ended; dropped before, its client left.
#[derive(Debug)]
pub(crate) struct Mark {
    log: Option<Arc<Log>>,
    number: u64,
    chunks: usize,
    running: Option<Arc<Running>>,
}

impl Mark {
    pub(crate) fn new(log: Arc<Log>, number: u64, running: Arc<Running>) -> Self {
        Mark { log: Some(log), number, chunks: 0, running: Some(running) }
    }

    /// Of no request.
    pub(crate) fn none() -> Self {
        Mark { log: None, number: 0, chunks: 0, running: None }
    }

    pub(crate) fn chunk(&mut self) {
        self.chunks += 1;
    }

    pub(crate) fn end(&mut self, ending: Ending) {
        if let Some(log) = self.log.take() {
            let chunks = self.chunks;
            log.change(self.number, |seen| (seen.ending, seen.chunks) = (ending, chunks));
        }
        if let Some(running) = self.running.take() {
            running.now.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.end(Ending::ClientGone);
    }
}
