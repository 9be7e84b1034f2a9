//! Answers in Redis or Valkey, for several processes that share one cache.
//!
//! A key of the cache is one hash there: a field for each answer, one with the tags, one for each session. All that
//! belongs together is one value, so that it goes at once. Names of values begin with the version of this layout; a
//! later version finds nothing of an earlier one, which is a miss.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncCommands, Client, RedisError, Script, TlsCertificates};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::{Filter, Found, Put, Reply, Store, StoreError, StoreStats};
use crate::exact::{Key, Tags};

/// What all names begin with.
const PREFIX: &str = "tapri:exact:1:";

/// The count of erasures.
const EPOCH: &str = "tapri:exact-erasures:1";

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(2);

/// How long anything may take. Calls wait much less; a purge of many keys is many requests.
const RESPONSE: Duration = Duration::from_secs(5);

/// Names that are looked at in one step of a search.
const STEP: usize = 512;

/// Keeps an answer unless something was erased since its call began. One script, so that nothing comes in between.
const PUT: &str = r"
    if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[1] then return 0 end
    redis.call('HSET', KEYS[1], 'v' .. ARGV[2], ARGV[3], 'tags', ARGV[4])
    for i = 6, #ARGV do redis.call('HSET', KEYS[1], 's:' .. ARGV[i], '') end
    if ARGV[5] == '' then redis.call('PERSIST', KEYS[1])
    elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[5]) then redis.call('PEXPIRE', KEYS[1], ARGV[5]) end
    return 1
";

/// Notes a session where there is an answer.
const TAG: &str = r"
    if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 's:' .. ARGV[1], '') end
    return 1
";

/// Why a URL names no Redis server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(String);

/// Answers in Redis or Valkey.
pub struct Redis {
    inner: std::sync::Arc<Inner>,
}

struct Inner {
    client: Client,
    /// Made at the first use, so that a server that isn't there is no reason not to start.
    connection: OnceCell<ConnectionManager>,
    closed: AtomicBool,
}

/// A field of a hash, and its value.
type Field = (Vec<u8>, Vec<u8>);

/// What is kept with an answer for erasure.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    tags: Tags,
    created: u64,
}

impl Redis {
    /// A server at a URL: `redis://[user:password@]host[:port][/database]`, or `rediss://` for TLS. The server's certificate
    /// is checked against the system's authorities, or against those of a PEM file: `rediss://host/0?ca=FILE`. Nothing is
    /// connected yet.
    ///
    /// # Errors
    /// Where the URL is none, or its file of authorities can't be used.
    pub fn new(url: &str) -> Result<Self, UrlError> {
        let client = client(url)?;
        let (connection, closed) = (OnceCell::new(), AtomicBool::new(false));
        Ok(Redis { inner: std::sync::Arc::new(Inner { client, connection, closed }) })
    }

    fn with<T, F>(&self, ask: impl FnOnce(ConnectionManager) -> F + Send + 'static) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RedisError>> + Send,
    {
        let inner = std::sync::Arc::clone(&self.inner);
        Box::pin(async move {
            if inner.closed.load(Ordering::Relaxed) {
                return Err(StoreError::Closed);
            }
            let connection = inner.connection.get_or_try_init(|| async {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(CONNECT))
                    .set_response_timeout(Some(RESPONSE))
                    .set_max_delay(Duration::from_millis(500))
                    // Whoever asks waits for one attempt, and comes again.
                    .set_number_of_retries(1);
                inner.client.get_connection_manager_with_config(config).await
            });
            let connection = connection.await.map_err(failed)?.clone();
            ask(connection).await.map_err(failed)
        })
    }
}

fn client(url: &str) -> Result<Client, UrlError> {
    let refused = |error: RedisError| UrlError(error.to_string());
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut authorities, mut others) = (None, Vec::new());
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.strip_prefix("ca=") {
            Some(file) => authorities = Some(file),
            None => others.push(part),
        }
    }
    let Some(file) = authorities else { return Client::open(url).map_err(refused) };
    if !url.starts_with("rediss:") {
        return Err(UrlError("`ca=FILE` is for rediss://, which is TLS".to_owned()));
    }
    let pem = std::fs::read(file)
        .map_err(|error| UrlError(format!("read the authorities in {file}: {error}")))?;
    // The library takes a file without one, and then trusts nobody.
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(UrlError(format!("{file} has no certificate in PEM form")));
    }
    let url = match others.is_empty() {
        true => rest.to_owned(),
        false => format!("{rest}?{}", others.join("&")),
    };
    let certificates = TlsCertificates { client_tls: None, root_cert: Some(pem) };
    Client::build_with_tls(url, certificates).map_err(refused)
}

fn failed(error: RedisError) -> StoreError {
    // Its text names the place and the reason, and neither keys nor values.
    StoreError::Failed(error.to_string())
}

fn name(key: &Key) -> String {
    use std::fmt::Write;
    key.as_bytes().iter().fold(PREFIX.to_owned(), |mut name, byte| {
        // Writing into a string can't fail.
        let _ = write!(name, "{byte:02x}");
        name
    })
}

impl Store for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn get(&self, key: Key) -> Reply<Found> {
        self.with(move |mut connection| async move {
            let (epoch, fields): (Option<u64>, Vec<Field>) =
                redis::pipe().get(EPOCH).hgetall(name(&key)).query_async(&mut connection).await?;
            let entries = fields.into_iter().filter_map(|(field, value)| {
                let slot = std::str::from_utf8(&field).ok()?.strip_prefix('v')?.parse().ok()?;
                Some((slot, value))
            });
            let mut entries: Vec<(usize, Vec<u8>)> = entries.collect();
            entries.sort_unstable_by_key(|(slot, _)| *slot);
            Ok(Found { epoch: epoch.unwrap_or(0), entries })
        })
    }

    fn put(&self, put: Put) -> Reply<bool> {
        let Put { key, slot, bytes, tags, created, expires, epoch } = put;
        let kept = serde_json::to_string(&Kept {
            tags: Tags { sessions: Vec::new(), ..tags.clone() },
            created,
        });
        self.with(move |mut connection| async move {
            let kept = kept.map_err(|error| {
                RedisError::from((redis::ErrorKind::Client, "tags", error.to_string()))
            })?;
            // Whole: the clocks here and there need not agree.
            let ttl = expires.map_or(String::new(), |at| at.saturating_sub(created).to_string());
            let script = Script::new(PUT);
            let mut call = script.key(name(&key));
            call.key(EPOCH).arg(epoch).arg(slot).arg(&bytes[..]).arg(kept).arg(ttl);
            for session in &tags.sessions {
                call.arg(session);
            }
            let kept: i64 = call.invoke_async(&mut connection).await?;
            Ok(kept == 1)
        })
    }

    fn tag(&self, key: Key, session: String) -> Reply<()> {
        self.with(move |mut connection| async move {
            let script = Script::new(TAG);
            let _: i64 = script.key(name(&key)).arg(session).invoke_async(&mut connection).await?;
            Ok(())
        })
    }

    fn delete(&self, key: Key) -> Reply<()> {
        self.with(move |mut connection| async move { connection.unlink(name(&key)).await })
    }

    fn purge(&self, filter: Filter, now: u64) -> Reply<u64> {
        self.with(move |mut connection| async move {
            // First: a call that began before stores nothing from here on.
            let _: u64 = connection.incr(EPOCH, 1).await?;
            let mut erased = 0;
            let mut cursor: u64 = 0;
            loop {
                let (next, names) = step(&mut connection, cursor).await?;
                for name in names {
                    erased += erase(&mut connection, &name, &filter, now).await?;
                }
                cursor = next;
                if cursor == 0 {
                    return Ok(erased);
                }
            }
        })
    }

    fn epoch(&self) -> Reply<u64> {
        self.with(|mut connection| async move {
            let epoch: Option<u64> = connection.get(EPOCH).await?;
            Ok(epoch.unwrap_or(0))
        })
    }

    fn stats(&self) -> Reply<StoreStats> {
        self.with(|mut connection| async move {
            let mut stats = StoreStats::default();
            let mut cursor: u64 = 0;
            loop {
                let (next, names) = step(&mut connection, cursor).await?;
                for name in names {
                    let fields: Vec<Vec<u8>> = connection.hkeys(&name).await?;
                    let variants = fields.iter().filter(|field| field.starts_with(b"v"));
                    for field in variants {
                        stats.entries += 1;
                        stats.bytes += redis::cmd("HSTRLEN")
                            .arg(&name)
                            .arg(field)
                            .query_async::<u64>(&mut connection)
                            .await?;
                    }
                }
                cursor = next;
                if cursor == 0 {
                    return Ok(stats);
                }
            }
        })
    }

    fn close(&self) {
        self.inner.closed.store(true, Ordering::Relaxed);
    }
}

/// Some of the names, and where to go on.
async fn step(
    connection: &mut ConnectionManager,
    cursor: u64,
) -> Result<(u64, Vec<String>), RedisError> {
    redis::cmd("SCAN")
        .arg(cursor)
        .arg("MATCH")
        .arg(format!("{PREFIX}*"))
        .arg("COUNT")
        .arg(STEP)
        .query_async(connection)
        .await
}

/// Erases a value that a filter matches; how many answers went.
async fn erase(
    connection: &mut ConnectionManager,
    name: &str,
    filter: &Filter,
    now: u64,
) -> Result<u64, RedisError> {
    let fields: Vec<String> = connection.hkeys(name).await?;
    let kept: Option<String> = connection.hget(name, "tags").await?;
    // Without tags nobody knows whose it is: it goes.
    let kept = kept.and_then(|kept| serde_json::from_str::<Kept>(&kept).ok());
    let goes = kept.is_none_or(|Kept { mut tags, created }| {
        tags.sessions =
            fields.iter().filter_map(|field| field.strip_prefix("s:")).map(str::to_owned).collect();
        filter.matches(&tags, created, now)
    });
    if !goes {
        return Ok(0);
    }
    let _: u64 = connection.unlink(name).await?;
    Ok(fields.iter().filter(|field| field.starts_with('v')).count() as u64)
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its URL may have a password in it.
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}
