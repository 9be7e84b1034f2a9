//! Connections, made when they are needed and made again when they are lost.

use std::str::FromStr;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};

use super::{PostgresConfig, failed, sql};
use crate::semantic::store::SemanticStoreError;

/// How long a server may take to take a connection and to make tables.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an erasure may take.
const ERASE: Duration = Duration::from_secs(30);

/// What a wish is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// A lookup: short, on a connection of its own.
    Look,
    /// Something that is written or read off any call's way.
    Write,
    /// The same, and it may take long.
    Erase,
}

/// A connection that works.
pub(super) struct Live {
    pub(super) client: Client,
    pub(super) nearest: Statement,
}

/// The way to a server.
pub(super) struct Link {
    /// Its own, so that callers without one can ask. `None` at the end alone.
    runtime: Option<Runtime>,
    config: PostgresConfig,
    look: Arc<Slot>,
    write: Arc<Slot>,
}

struct Slot {
    server: Config,
    live: Mutex<Option<Arc<Live>>>,
    /// One connection is made at a time, whoever waits for it.
    connecting: Arc<Semaphore>,
    /// The server gives up on a statement after so long.
    statement: Duration,
    /// It was not there, or too slow: it is left alone until then.
    rests_until: Mutex<Option<Instant>>,
}

impl Link {
    pub(super) fn new(url: &str, config: PostgresConfig) -> Result<Self, SemanticStoreError> {
        // Its message names the option that is wrong, and no value.
        let mut server = Config::from_str(url)
            .map_err(|error| SemanticStoreError::Address(error.to_string()))?;
        if server.get_ssl_mode() == SslMode::Require {
            return Err(SemanticStoreError::Address(
                "sslmode=require: this Tapri speaks to Postgres without TLS; put a proxy or a tunnel that does between them"
                    .to_owned(),
            ));
        }
        server.application_name("tapri").connect_timeout(CONNECT);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tapri-postgres")
            .enable_all()
            .build()
            .map_err(SemanticStoreError::Io)?;
        let slot = |statement| {
            Arc::new(Slot {
                server: server.clone(),
                live: Mutex::new(None),
                connecting: Arc::new(Semaphore::new(1)),
                statement,
                rests_until: Mutex::new(None),
            })
        };
        Ok(Link { runtime: Some(runtime), config, look: slot(config.timeout), write: slot(ERASE) })
    }

    /// Asks, and waits no longer than the lane's limit. Blocks.
    pub(super) fn ask<T, F>(
        &self,
        lane: Lane,
        ask: impl FnOnce(Arc<Live>) -> F + Send + 'static,
    ) -> Result<T, SemanticStoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let runtime = self.runtime.as_ref().ok_or(SemanticStoreError::Closed)?;
        let (slot, limit) = match lane {
            Lane::Look => (&self.look, self.config.timeout),
            Lane::Write => (&self.write, self.config.write_timeout),
            Lane::Erase => (&self.write, ERASE),
        };
        // People who erase want to know, also of a store that failed a moment ago.
        if lane != Lane::Erase
            && lock(&slot.rests_until).is_some_and(|until| Instant::now() < until)
        {
            return Err(SemanticStoreError::Resting);
        }
        let (reply, answer) = sync_channel(1);
        let theirs = Arc::clone(slot);
        let task = runtime.spawn(async move {
            let answer = match Slot::live(&theirs).await {
                Ok(live) => ask(live).await.map_err(|error| (is_away(&error), failed(error))),
                Err(error) => Err((true, error)),
            };
            // Who asked may have gone.
            let _ = reply.send(answer);
        });
        let (away, error) = match answer.recv_timeout(limit) {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(failure)) => failure,
            Err(RecvTimeoutError::Timeout) => (true, SemanticStoreError::Slow),
            Err(RecvTimeoutError::Disconnected) => (true, SemanticStoreError::Closed),
        };
        task.abort();
        if away {
            *lock(&slot.rests_until) = Some(Instant::now() + self.config.rest);
        }
        Err(error)
    }
}

/// Whether the server isn't there or is too slow, and didn't refuse one statement: what one call brings must not keep
/// others from it.
fn is_away(error: &Error) -> bool {
    error.as_db_error().is_none() || error.code() == Some(&SqlState::QUERY_CANCELED)
}

impl Slot {
    /// The connection; a new one where there is none. It is made on a task of its own, which goes on where the one who
    /// asked has no more time.
    async fn live(slot: &Arc<Slot>) -> Result<Arc<Live>, SemanticStoreError> {
        if let Some(live) = slot.open() {
            return Ok(live);
        }
        let slot = Arc::clone(slot);
        let made = tokio::spawn(async move {
            let permit = Arc::clone(&slot.connecting).acquire_owned().await;
            if let Some(live) = slot.open() {
                return Ok(live);
            }
            let made = tokio::time::timeout(2 * CONNECT, slot.connect()).await;
            let live = Arc::new(made.map_err(|_| SemanticStoreError::Slow)?.map_err(failed)?);
            *lock(&slot.live) = Some(Arc::clone(&live));
            drop(permit);
            Ok(live)
        });
        made.await.unwrap_or(Err(SemanticStoreError::Closed))
    }

    fn open(&self) -> Option<Arc<Live>> {
        lock(&self.live).as_ref().filter(|live| !live.client.is_closed()).cloned()
    }

    async fn connect(&self) -> Result<Live, Error> {
        let (client, connection) = self.server.connect(NoTls).await?;
        // Ends with the client, or with the connection.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!("the connection to the semantic cache's Postgres ended: {error}");
            }
        });
        client.batch_execute(sql::SCHEMA).await?;
        let nearest = client.prepare(sql::NEAREST).await?;
        let limit = self.statement.as_millis().max(1);
        client.batch_execute(&format!("SET statement_timeout = {limit}")).await?;
        Ok(Live { client, nearest })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Also from within another runtime, where waiting is forbidden.
            runtime.shutdown_background();
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}
