//! What the rest of the program holds.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tapri_pipeline::Observer;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::call::Call;
use crate::span::provider;
use crate::tokens::Tokens;
use crate::worker::{Sending, work};
use crate::{ConfigError, TelemetryConfig};

/// Why nothing can be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Settings that can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A header that HTTP doesn't take. Its value isn't said.
    #[error("{0:?} can't be sent as a header")]
    Header(String),
    /// The client can't be made.
    #[error("the client can't be made: {0}")]
    Client(#[source] reqwest::Error),
    /// There is no thread for it.
    #[error("there is no thread for it: {0}")]
    Thread(#[source] std::io::Error),
}

/// What became of calls' spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Calls whose spans a collector took.
    pub exported: u64,
    /// Calls that found no room in the queue.
    pub dropped: u64,
    /// Calls whose spans a collector did not take, or could not be sent.
    pub failed: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) exported: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// Sends telemetry until it is closed. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Telemetry {
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<TelemetryConfig>,
    tokens: Arc<Tokens>,
    counters: Arc<Counters>,
    queue: Mutex<Option<mpsc::Sender<Call>>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    /// Hears when the worker ended.
    ended: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

impl Telemetry {
    /// Starts to send, on a thread of its own.
    ///
    /// # Errors
    /// Where the settings can't be used. That no collector is there is no error.
    pub fn start(config: TelemetryConfig) -> Result<Self, StartError> {
        let sending = Sending::new(&config)?;
        let config = Arc::new(config);
        let tokens = Arc::new(Tokens::new(SystemTime::now()));
        let counters = Arc::new(Counters::default());
        let (queue, calls) = mpsc::channel(config.queue.max(1));
        let (ends, ended) = std::sync::mpsc::sync_channel(1);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let worker = {
            let (config, tokens, counters) =
                (Arc::clone(&config), Arc::clone(&tokens), Arc::clone(&counters));
            std::thread::Builder::new().name("tapri-otlp".to_owned()).spawn(move || {
                runtime.block_on(work(&config, sending, calls, &tokens, &counters));
                // Nobody may wait for it.
                let _ = ends.try_send(());
            })
        };
        let worker = worker.map_err(StartError::Thread)?;
        Ok(Telemetry {
            shared: Arc::new(Shared {
                config,
                tokens,
                counters,
                queue: Mutex::new(Some(queue)),
                worker: Mutex::new(Some(worker)),
                ended: Mutex::new(ended),
            }),
        })
    }

    /// Takes the calls of a pipeline.
    pub fn observer(&self) -> Observer {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |record, steps| shared.see(Call::of(record, steps)))
    }

    /// What became of calls so far.
    pub fn counts(&self) -> Counts {
        let counters = &self.shared.counters;
        Counts {
            exported: counters.exported.load(Ordering::Relaxed),
            dropped: counters.dropped.load(Ordering::Relaxed),
            failed: counters.failed.load(Ordering::Relaxed),
        }
    }

    /// Sends what waits and ends. Blocks for so long at most; gives whether it was done by then.
    pub fn close(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let worker = self.shared.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(worker) = worker else { return true };
        if ended.recv_timeout(left).is_err() && !worker.is_finished() {
            // It ends with the process: a collector that doesn't answer holds up nobody.
            return false;
        }
        // A panic has been reported by the thread itself.
        let _ = worker.join();
        true
    }
}

impl Shared {
    fn see(&self, call: Call) {
        self.tokens.see(&call, provider(&call.upstream, &self.config.providers));
        if call.parent.is_some_and(|parent| !parent.sampled) {
            return;
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queue.as_ref()
            && let Err(TrySendError::Full(_)) = queue.try_send(call)
        {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
