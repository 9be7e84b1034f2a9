//! The events of an upstream's answer.
//!
//! Dropping them closes the connection, by which the upstream learns that nobody waits any more.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tapri_api::decode::Decoder;
use tapri_api::{
    Admission, ApiError, CallEvent, ErrorKind, Finish, FinishReason, Format, Piece, Raw, Timings,
    Usage,
};
use tokio::time::Instant;

use super::endpoint::{Counts, Running, count, request_id};
use super::outgoing::Outgoing;
use super::sse::Sse;
use crate::EventSource;
use crate::breaker::Pass;
use crate::clock::Clock;
use crate::fleet::live::Stopping;
use crate::fleet::stats::Totals;
use crate::prefix::calibration::Expected;

/// How an answer is read.
enum Reading {
    Stream(Sse),
    Body(Vec<u8>),
}

/// An answer on its way.
pub(crate) struct Events {
    ready: VecDeque<CallEvent>,
    response: Response,
    reading: Reading,
    format: Format,
    decoder: Decoder,
    body_limit: usize,
    request_id: Option<String>,
    running: Running,
    pass: Option<Pass>,
    clock: Arc<dyn Clock>,
    stopping: Stopping,
    expected: Expected,
    totals: Arc<Totals>,
    submitted: Instant,
    queued: Duration,
    first: Option<Instant>,
    last: Instant,
    ended: bool,
}

/// What an answer is read with.
pub(crate) struct Begun {
    pub(crate) response: Response,
    pub(crate) running: Running,
    pub(crate) pass: Option<Pass>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) expected: Expected,
    pub(crate) totals: Arc<Totals>,
    pub(crate) submitted: Instant,
    pub(crate) event_limit: usize,
    pub(crate) body_limit: usize,
}

impl Events {
    /// Until what `stopping` hears of.
    pub(crate) fn new(begun: Begun, stopping: Stopping, outgoing: &Outgoing) -> Self {
        let Begun { response, running, pass, clock, expected, totals, submitted, .. } = begun;
        let content_type = response.headers().get(CONTENT_TYPE);
        let streams = content_type
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.trim_start().starts_with("text/event-stream"));
        let queued = submitted.elapsed();
        let admission = Admission {
            reuse: None,
            queued,
            template: None,
            prompt_ids: None,
            dropped: outgoing.dropped.clone(),
        };
        Events {
            ready: VecDeque::from([CallEvent::Admitted(admission)]),
            reading: if streams {
                Reading::Stream(Sse::new(begun.event_limit))
            } else {
                Reading::Body(Vec::new())
            },
            format: outgoing.format,
            decoder: Decoder::new(outgoing.format, outgoing.options),
            body_limit: begun.body_limit,
            request_id: request_id(response.headers()),
            response,
            running,
            pass,
            clock,
            stopping,
            expected,
            totals,
            submitted,
            queued,
            first: None,
            last: Instant::now(),
            ended: false,
        }
    }

    fn name(&self) -> &str {
        &self.running.endpoint().upstream.name
    }

    /// Reads on until there is an event.
    async fn read(&mut self) {
        let timeouts = self.running.endpoint().upstream.timeouts;
        let between = self.last + timeouts.between;
        let deadline = match timeouts.total {
            Some(total) => between.min(self.submitted + total),
            None => between,
        };
        // Reading a chunk can be given up and begun again without losing bytes: they stay with the response.
        let read = tokio::select! {
            read = tokio::time::timeout_at(deadline, self.response.chunk()) => read,
            () = self.stopping.wait() => {
                self.fail(stopped());
                return;
            }
        };
        match read {
            Err(_) if deadline < between => {
                let total = timeouts.total.unwrap_or_default().as_secs_f64();
                let message =
                    format!("The upstream {} did not end its answer within {total} s", self.name());
                self.fail(ApiError::new(ErrorKind::Timeout, message).code("upstream_timeout"));
            }
            Err(_) => {
                let waited = self.last.elapsed().as_secs_f64();
                let message =
                    format!("The upstream {} said nothing for {waited:.1} s", self.name());
                self.fail(ApiError::new(ErrorKind::Timeout, message).code("upstream_stalled"));
            }
            Ok(Err(error)) => {
                tracing::debug!(upstream = self.name(), "an answer broke off: {error}");
                let message = format!("The upstream {} broke off its answer", self.name());
                let error = ApiError::new(ErrorKind::Upstream, message).code("upstream_incomplete");
                self.fail(error.hint("Send the request again"));
            }
            Ok(Ok(Some(chunk))) => {
                self.last = Instant::now();
                self.take(&chunk);
            }
            Ok(Ok(None)) => self.end(),
        }
    }

    fn take(&mut self, chunk: &[u8]) {
        match &mut self.reading {
            Reading::Body(body) => {
                body.extend_from_slice(chunk);
                if body.len() > self.body_limit {
                    self.fail(too_large(self.body_limit));
                }
            }
            Reading::Stream(sse) => {
                let mut events = Vec::new();
                let result = sse.push(chunk, &mut events);
                for event in events {
                    let read = self.decoder.event(event.name.as_deref(), &event.data);
                    self.decoded(read);
                }
                if let Err(error) = result {
                    self.fail(too_large(error.limit));
                }
            }
        }
    }

    fn end(&mut self) {
        match std::mem::replace(&mut self.reading, Reading::Body(Vec::new())) {
            Reading::Stream(sse) => {
                if let Some(event) = sse.end() {
                    let read = self.decoder.event(event.name.as_deref(), &event.data);
                    self.decoded(read);
                }
                let events = self.decoder.end();
                self.decoded(Ok(events));
            }
            Reading::Body(body) => {
                let body = String::from_utf8_lossy(&body);
                let read = match self.format {
                    Format::Embeddings => Ok(vectors(&body)),
                    _ => self.decoder.body(&body),
                };
                self.decoded(read);
            }
        }
        if !self.ended {
            let message = format!("The upstream {} ended its answer early", self.name());
            self.fail(ApiError::new(ErrorKind::Upstream, message).code("upstream_incomplete"));
        }
    }

    fn decoded(&mut self, read: Result<Vec<CallEvent>, ApiError>) {
        if self.ended {
            return;
        }
        let events = match read {
            Ok(events) => events,
            Err(error) => return self.fail(error),
        };
        for event in events {
            match event {
                CallEvent::Finished(finish) => {
                    let finish = self.finished(finish);
                    self.ready.push_back(CallEvent::Finished(finish));
                    return;
                }
                CallEvent::Failed(error) => return self.fail(error),
                CallEvent::Piece(piece) => {
                    if !piece.deltas.is_empty() {
                        self.first.get_or_insert_with(Instant::now);
                    }
                    self.ready.push_back(CallEvent::Piece(piece));
                }
                other => self.ready.push_back(other),
            }
        }
    }

    fn counts(&self) -> &Counts {
        &self.running.endpoint().counts
    }

    fn finished(&mut self, mut finish: Finish) -> Finish {
        self.ended = true;
        count(&self.counts().answered);
        if let Some(pass) = self.pass.take() {
            pass.well(self.clock.now());
        }
        let endpoint = Arc::clone(self.running.endpoint());
        let usage = &finish.usage;
        self.totals.see(usage);
        let calls = endpoint.calibrator.see(&self.expected, usage.prompt(), usage.cached());
        if let Some(calls) = calls {
            tracing::warn!(
                upstream = endpoint.name,
                calls,
                "calls in a row read nothing from the upstream's prefix cache though earlier ones had the same start: \
                 was it restarted, is its cache off, or does it keep apart what Tapri takes for the same?"
            );
        }
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        finish.timings = Timings {
            queued: self.queued,
            first_token: Some(first - self.submitted),
            decode: now - first,
            total: now - self.submitted,
        };
        finish
    }

    /// It ends with an error, which is the upstream's doing unless it was told to stop.
    fn fail(&mut self, mut error: ApiError) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let stopped = error.code.as_deref() == Some(STOPPED);
        let counter: &AtomicU64 =
            if stopped { &self.counts().abandoned } else { &self.counts().broken };
        count(counter);
        if let Some(pass) = self.pass.take()
            && !stopped
        {
            pass.ill(self.clock.now());
        }
        if let Some(upstream) = &mut error.upstream
            && upstream.request_id.is_none()
        {
            upstream.request_id.clone_from(&self.request_id);
        }
        self.ready.push_back(CallEvent::Failed(error));
    }
}

impl EventSource for Events {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(async {
            loop {
                if let Some(event) = self.ready.pop_front() {
                    return Some(event);
                }
                if self.ended {
                    return None;
                }
                self.read().await;
            }
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        if !self.ended {
            count(&self.counts().abandoned);
        }
    }
}

const STOPPED: &str = "shutting_down";

/// The error of a call that the server's stop cuts off.
pub(crate) fn stopped() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "The server is shutting down").code(STOPPED)
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(ErrorKind::Upstream, format!("The upstream's answer has more than {limit} bytes"))
        .code("upstream_too_large")
}

/// Embeddings are no text that is said piece by piece: the body is the answer.
fn vectors(body: &str) -> Vec<CallEvent> {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(body) else {
        let error = ApiError::new(ErrorKind::Upstream, "The upstream's answer is no JSON");
        return vec![CallEvent::Failed(error.code("upstream_invalid"))];
    };
    let usage = value.get("usage").map(Usage::from_openai).unwrap_or_default();
    let raw = Raw { format: Format::Embeddings, event: None, data: body.into(), whole: true };
    let finish = Finish {
        reason: FinishReason::Stop,
        matched_stop: None,
        tail: String::new(),
        usage,
        raw: None,
        timings: Timings::default(),
    };
    vec![
        CallEvent::Piece(Piece { raw: Some(raw), deltas: Vec::new() }),
        CallEvent::Finished(finish),
    ]
}
