//! Calls on a schedule.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::plan::Case;
use super::target::Running;

/// A call that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a turn measured; times in seconds, sorted.
#[derive(Debug)]
pub(crate) struct Samples {
    /// To the answer's end, or of a stream to its first chunk.
    pub(crate) latencies: Vec<f64>,
    /// Between two chunks of a stream.
    pub(crate) gaps: Vec<f64>,
    /// Calls without a good answer.
    pub(crate) failed: usize,
    /// From the first call to the last answer.
    pub(crate) seconds: f64,
}

/// A generator of load: one thread that keeps the schedule, one that talks.
pub(crate) struct Load {
    runtime: tokio::runtime::Runtime,
    client: Client<HttpConnector, Full<Bytes>>,
}

type Call = Result<(f64, Vec<f64>)>;

impl Load {
    pub(crate) fn new() -> Result<Load> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start a runtime")?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client =
            Client::builder(TokioExecutor::new()).pool_max_idle_per_host(512).build(connector);
        Ok(Load { runtime, client })
    }

    /// A turn of one target.
    pub(crate) fn run(
        &self,
        case: &Case,
        way: &Running,
        turn: Duration,
        round: u64,
    ) -> Result<Samples> {
        let calls = ((turn.as_secs_f64() * case.rate).round() as u64).max(1);
        let url: Arc<str> = format!("{}/v1/chat/completions", way.url).into();
        let headers: Arc<[(String, String)]> = case
            .headers
            .iter()
            .map(|(n, v)| (n.clone(), v.clone()))
            .chain(way.headers.iter().cloned())
            .collect();
        let (done, results) = channel();
        let begun = Instant::now();
        for number in 0..calls {
            // Built before it is due: the clock starts when the call is handed over.
            let body = Bytes::from(case.body(round, number));
            let due = begun + Duration::from_secs_f64(number as f64 / case.rate);
            // The system's own sleep is true to some 50 us, tokio's to a millisecond.
            if let Some(wait) = due.checked_duration_since(Instant::now()) {
                std::thread::sleep(wait);
            }
            self.send(&url, &headers, body, case.stream, done.clone());
        }
        drop(done);
        let mut samples =
            Samples { latencies: Vec::new(), gaps: Vec::new(), failed: 0, seconds: 0.0 };
        let mut why = None;
        for call in results {
            match call {
                Ok((latency, gaps)) => {
                    samples.latencies.push(latency);
                    samples.gaps.extend(gaps);
                }
                Err(error) => {
                    samples.failed += 1;
                    why.get_or_insert(error);
                }
            }
        }
        samples.seconds = begun.elapsed().as_secs_f64();
        samples.latencies.sort_by(f64::total_cmp);
        samples.gaps.sort_by(f64::total_cmp);
        if let Some(error) = why {
            eprintln!("{}: {} of {calls} calls failed: {error:#}", way.name, samples.failed);
        }
        Ok(samples)
    }

    fn send(
        &self,
        url: &Arc<str>,
        headers: &Arc<[(String, String)]>,
        body: Bytes,
        stream: bool,
        done: Sender<Call>,
    ) {
        let (client, url, headers) = (self.client.clone(), Arc::clone(url), Arc::clone(headers));
        let sent = Instant::now();
        self.runtime.spawn(async move {
            let call = call(&client, &url, &headers, body, stream, sent);
            let result = tokio::time::timeout(PATIENCE, call).await;
            // The receiver lives until every sender is gone.
            let _ = done.send(result.context("no answer in time").and_then(|call| call));
        });
    }
}

async fn call(
    client: &Client<HttpConnector, Full<Bytes>>,
    url: &str,
    headers: &[(String, String)],
    body: Bytes,
    stream: bool,
    sent: Instant,
) -> Call {
    let mut request =
        Request::builder().method(Method::POST).uri(url).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(body)).context("make a request")?;
    let response = client.request(request).await.context("send")?;
    let status = response.status();
    let mut body = response.into_body();
    let mut chunks = Vec::new();
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("read")?.into_data() else { continue };
        if stream && data.windows(5).any(|bytes| bytes == b"data:") {
            chunks.push(Instant::now());
        }
        text.extend_from_slice(&data);
    }
    anyhow::ensure!(
        status.is_success(),
        "{status}: {}",
        String::from_utf8_lossy(&text).chars().take(300).collect::<String>()
    );
    if !stream {
        anyhow::ensure!(text.ends_with(b"}") || text.ends_with(b"}\n"), "the answer is no JSON");
        return Ok((sent.elapsed().as_secs_f64(), Vec::new()));
    }
    let first = chunks.first().context("a stream without a chunk")?;
    anyhow::ensure!(
        text.windows(6).any(|bytes| bytes == b"[DONE]"),
        "the stream ended without [DONE]"
    );
    let gaps = chunks.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    Ok(((*first - sent).as_secs_f64(), gaps))
}
