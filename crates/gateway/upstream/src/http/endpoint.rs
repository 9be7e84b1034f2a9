//! A replica: its connections, its state, its counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
};
use reqwest::{Client, Response, Url};
use tapri_api::{Format, decode};

use super::outgoing::Outgoing;
use super::trouble::Trouble;
use crate::breaker::Breaker;
use crate::config::{Api, Secret, UpstreamConfig, is_loopback};
use crate::fleet::FleetError;
use crate::prefix::calibration::Calibrator;

/// The largest body of an error that is read.
const ERROR_LIMIT: usize = 64 << 10;

/// The version of Anthropic's API that is asked for where the caller names none.
const ANTHROPIC_VERSION: HeaderValue = HeaderValue::from_static("2023-06-01");

/// Idle connections that a replica keeps.
const POOL: usize = 256;

/// A replica of an upstream.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: String,
    pub(crate) upstream: Arc<UpstreamConfig>,
    pub(crate) breaker: Arc<Breaker>,
    pub(crate) calibrator: Calibrator,
    pub(crate) counts: Counts,
    client: Client,
    base: Url,
    running: AtomicUsize,
    well: AtomicBool,
    /// Until when it asked to be left alone.
    cooling: Mutex<Option<Instant>>,
}

/// How requests ended.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) answered: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) busy: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) broken: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) retries: AtomicU64,
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Endpoint {
    pub(crate) fn new(
        upstream: &Arc<UpstreamConfig>,
        url: &str,
        name: String,
    ) -> Result<Self, FleetError> {
        let bad = || FleetError::Url { upstream: upstream.name.clone(), url: url.to_owned() };
        let mut base = Url::parse(url).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(bad());
        }
        // A path says where its version stands; without one it is /v1.
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(if path.is_empty() { "/v1" } else { &path });
        let mut builder = Client::builder()
            .connect_timeout(upstream.timeouts.connect)
            .pool_max_idle_per_host(POOL)
            .tcp_nodelay(true)
            // A redirect would carry the credential to wherever it points.
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(url) {
            builder = builder.no_proxy();
        }
        if !upstream.certificates.is_empty() {
            let certificates = reqwest::Certificate::from_pem_bundle(&upstream.certificates)
                .map_err(|source| FleetError::Client { upstream: upstream.name.clone(), source })?;
            for certificate in certificates {
                builder = builder.add_root_certificate(certificate);
            }
        }
        let client = builder
            .build()
            .map_err(|source| FleetError::Client { upstream: upstream.name.clone(), source })?;
        Ok(Endpoint {
            name,
            breaker: Breaker::new(upstream.breaker),
            upstream: Arc::clone(upstream),
            calibrator: Calibrator::default(),
            counts: Counts::default(),
            client,
            base,
            running: AtomicUsize::new(0),
            well: AtomicBool::new(true),
            cooling: Mutex::new(None),
        })
    }

    /// Calls that it is answering.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Whether it answers when its health is asked for.
    pub(crate) fn is_well(&self) -> bool {
        self.well.load(Ordering::Relaxed)
    }

    pub(crate) fn set_well(&self, well: bool) {
        self.well.store(well, Ordering::Relaxed);
    }

    pub(crate) fn cool(&self, until: Instant) {
        let mut cooling = self.cooling.lock().unwrap_or_else(PoisonError::into_inner);
        *cooling = Some(cooling.map_or(until, |before| before.max(until)));
    }

    pub(crate) fn is_cooling(&self, now: Instant) -> bool {
        let cooling = self.cooling.lock().unwrap_or_else(PoisonError::into_inner);
        cooling.is_some_and(|until| now < until)
    }

    /// The address of a path behind the version.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        let path = path.strip_prefix("/v1").unwrap_or(path);
        url.set_path(&format!("{}{path}", self.base.path()));
        url
    }

    /// Whether it answers at its health's path, which stands beside the version.
    pub(crate) async fn check(&self, path: &str, timeout: Duration) -> bool {
        let mut url = self.base.clone();
        let root = self.base.path().strip_suffix("/v1").unwrap_or_default();
        url.set_path(&format!("{root}{path}"));
        let sent = self.client.get(url).timeout(timeout).send().await;
        sent.is_ok_and(|response| response.status().is_success())
    }

    /// A GET with the credential, for lists of models.
    pub(crate) async fn get(&self, path: &str, key: Option<&Secret>) -> Option<String> {
        let headers = self.headers(key, &[]);
        let request = self.client.get(self.url(path)).headers(headers);
        let response = request.timeout(self.upstream.timeouts.connect * 2).send().await.ok()?;
        response.status().is_success().then_some(())?;
        response.text().await.ok()
    }

    fn headers(&self, key: Option<&Secret>, own: &[(String, String)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let family = match self.upstream.api {
            Api::OpenAi => "openai-",
            Api::Anthropic => {
                headers.insert("anthropic-version", ANTHROPIC_VERSION);
                "anthropic-"
            }
        };
        for (name, value) in own.iter().filter(|(name, _)| name.starts_with(family)) {
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value))
            {
                headers.insert(name, value);
            }
        }
        let value = key.and_then(|key| {
            let text = match self.upstream.api {
                Api::OpenAi => format!("Bearer {}", key.reveal()),
                Api::Anthropic => key.reveal().to_owned(),
            };
            let mut value = HeaderValue::from_str(&text).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        if let Some(value) = value {
            let name = match self.upstream.api {
                Api::OpenAi => AUTHORIZATION,
                Api::Anthropic => HeaderName::from_static("x-api-key"),
            };
            headers.insert(name, value);
        }
        headers
    }

    /// Sends a request of a call that was submitted then, and waits for the headers of its answer.
    pub(crate) async fn send(
        &self,
        path: &str,
        outgoing: &Outgoing,
        key: Option<&Secret>,
        own: &[(String, String)],
        submitted: tokio::time::Instant,
    ) -> Result<Response, Trouble> {
        let mut headers = self.headers(key, own);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Some(directives) = outgoing.directives {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static(directives));
        }
        let request = self.client.post(self.url(path)).headers(headers).body(outgoing.body.clone());
        let timeouts = &self.upstream.timeouts;
        let first_byte = (tokio::time::Instant::now() + timeouts.first_byte, timeouts.first_byte);
        // Tries before this one, and the waits between, count in the total.
        let total = timeouts.total.map(|total| (submitted + total, total));
        let (deadline, limit) = total.map_or(first_byte, |total| total.min(first_byte));
        let response = match tokio::time::timeout_at(deadline, request.send()).await {
            Err(_) => return Err(Trouble::too_slow(&self.upstream.name, limit)),
            Ok(Err(error)) => {
                // The address without its path: nothing of a prompt is in it.
                tracing::debug!(upstream = self.name, "no answer: {}", cause(&error));
                return Err(Trouble::of_transport(&self.upstream.name, &error));
            }
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response, outgoing.format).await)
    }

    async fn refusal(&self, mut response: Response, format: Format) -> Trouble {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        let reading = async {
            while let Ok(Some(chunk)) = response.chunk().await {
                body.extend_from_slice(&chunk);
                if body.len() > ERROR_LIMIT {
                    break;
                }
            }
        };
        // What has come is enough.
        let _ = tokio::time::timeout(self.upstream.timeouts.connect, reading).await;
        let id = request_id(&headers);
        let error = decode::error(format, status, &String::from_utf8_lossy(&body), id.as_deref());
        Trouble::of_status(status, error, &headers)
    }
}

/// The innermost cause, which says more than the outer ones.
fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// The upstream's name for the request.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-request-id", "request-id", "x-amzn-requestid"]
        .iter()
        .find_map(|name| Some(headers.get(*name)?.to_str().ok()?.to_owned()))
}

/// A call that a replica is answering; counted until it is dropped, streams to their end.
#[derive(Debug)]
pub(crate) struct Running(Arc<Endpoint>);

impl Running {
    pub(crate) fn begin(endpoint: &Arc<Endpoint>) -> Self {
        endpoint.running.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(endpoint))
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
