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

/// Near questions that a semantic cache may need before it serves: 312 right ones within a budget of 1 percent.
const MOST_LESSONS: u64 = 1000;

/// So many near questions served in a row, and it has learnt.
const SERVED_IN_A_ROW: u64 = 20;

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
        let (url, headers) = address(case, way);
        let wanted = wanted(case, way);
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
            self.send(&url, &headers, body, case.stream, wanted.clone(), done.clone());
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

    /// Asks a semantic cache its questions, then asks them in other words until their answers are served: it learns from
    /// the first few hundred that its answers are right.
    pub(crate) fn teach(&self, case: &Case, way: &Running, questions: u64) -> Result<()> {
        let (url, headers) = address(case, way);
        let ask = |body: Vec<u8>, wanted: Option<Arc<str>>| {
            let call =
                call(&self.client, &url, &headers, body.into(), false, wanted, Instant::now());
            self.runtime.block_on(call)
        };
        eprintln!("{}: {questions} questions are asked first", way.name);
        for question in 0..questions {
            ask(case.first_asked(question), None).context("ask a question to be kept")?;
        }
        let mut in_a_row = 0;
        for number in 0..questions.max(MOST_LESSONS) {
            let served = ask(case.body(0, number), wanted(case, way));
            in_a_row = if served.is_ok() { in_a_row + 1 } else { 0 };
            if in_a_row == SERVED_IN_A_ROW {
                eprintln!("{}: served after {number} near questions", way.name);
                return Ok(());
            }
        }
        let served = ask(case.body(0, 0), wanted(case, way));
        served.map(|_| ()).context("the near questions are not served")
    }

    fn send(
        &self,
        url: &Arc<str>,
        headers: &Arc<[(String, String)]>,
        body: Bytes,
        stream: bool,
        wanted: Option<Arc<str>>,
        done: Sender<Call>,
    ) {
        let (client, url, headers) = (self.client.clone(), Arc::clone(url), Arc::clone(headers));
        let sent = Instant::now();
        self.runtime.spawn(async move {
            let call = call(&client, &url, &headers, body, stream, wanted, sent);
            let result = tokio::time::timeout(PATIENCE, call).await;
            // The receiver lives until every sender is gone.
            let _ = done.send(result.context("no answer in time").and_then(|call| call));
        });
    }
}

/// Where a case's calls go, with their headers.
fn address(case: &Case, way: &Running) -> (Arc<str>, Arc<[(String, String)]>) {
    let own = case.headers.iter().map(|(n, v)| (n.clone(), v.clone()));
    let url = format!("{}/v1/chat/completions", way.url);
    (url.into(), own.chain(way.headers.iter().cloned()).collect())
}

/// What the answer's `Cache-Status` holds. The straight way has no cache to say anything.
fn wanted(case: &Case, way: &Running) -> Option<Arc<str>> {
    case.cache_status.as_deref().filter(|_| !way.is_straight()).map(Arc::from)
}

async fn call(
    client: &Client<HttpConnector, Full<Bytes>>,
    url: &str,
    headers: &[(String, String)],
    body: Bytes,
    stream: bool,
    wanted: Option<Arc<str>>,
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
    let cache = response.headers().get("cache-status").cloned();
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
    if let Some(wanted) = wanted {
        let cache = cache.as_ref().and_then(|value| value.to_str().ok()).unwrap_or("nothing");
        anyhow::ensure!(cache.contains(&*wanted), "Cache-Status is {cache}, and not {wanted}");
    }
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
