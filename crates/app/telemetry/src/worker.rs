//! The queue's other end: calls are gathered for a while and sent together; sums are sent now and then.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::call::Call;
use crate::telemetry::{Counters, StartError};
use crate::tokens::Tokens;
use crate::value::text;
use crate::{ConfigError, TelemetryConfig, span};

/// What requests are sent with.
pub(crate) struct Sending {
    client: Client,
    traces: Url,
    metrics: Url,
    resource: Resource,
    /// Whether the last request failed: trouble is said once, and so is its end.
    troubled: bool,
}

impl Sending {
    pub(crate) fn new(config: &TelemetryConfig) -> Result<Self, StartError> {
        let wrong = || ConfigError::Endpoint(config.endpoint.clone());
        let base = Url::parse(config.endpoint.trim()).map_err(|_| wrong())?;
        if !matches!(base.scheme(), "http" | "https") || !base.has_host() {
            return Err(wrong().into());
        }
        let url = |path: &str| {
            let whole = format!("{}/{path}", base.as_str().trim_end_matches('/'));
            Url::parse(&whole).map_err(|_| wrong())
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let bad = || StartError::Header(name.clone());
            let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::try_from(name.as_str()).map_err(|_| bad())?, value);
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let client = Client::builder()
            .default_headers(headers)
            .timeout(config.timeout)
            // A credential goes where it was meant to go.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(StartError::Client)?;
        let mut attributes = vec![
            text("service.name", config.service.as_str()),
            text("service.version", env!("CARGO_PKG_VERSION")),
        ];
        attributes.extend(config.attributes.iter().map(|(name, value)| text(name, value.as_str())));
        let resource = Resource { attributes, ..Resource::default() };
        let (traces, metrics) = (url("v1/traces")?, url("v1/metrics")?);
        Ok(Sending { client, traces, metrics, resource, troubled: false })
    }

    /// Sends a message. Gives the answer's body where it was taken.
    async fn send(&mut self, url: Url, message: &impl Message) -> Option<Vec<u8>> {
        let sent = self.client.post(url).body(message.encode_to_vec()).send().await;
        let read = async {
            let response = sent.map_err(|error| error.without_url().to_string())?;
            let status = response.status();
            let body = response.bytes().await.map_err(|error| error.without_url().to_string())?;
            if status.is_success() { Ok(body.to_vec()) } else { Err(format!("it said {status}")) }
        };
        match read.await {
            Ok(body) => {
                if std::mem::take(&mut self.troubled) {
                    tracing::info!("the collector of traces takes them again");
                }
                Some(body)
            }
            Err(why) => {
                if !std::mem::replace(&mut self.troubled, true) {
                    tracing::warn!(
                        "the collector of traces doesn't take them: {why}; calls go on, and what is lost is counted"
                    );
                }
                None
            }
        }
    }

    async fn spans(
        &mut self,
        calls: &mut Vec<Call>,
        config: &TelemetryConfig,
        counters: &Counters,
    ) {
        if calls.is_empty() {
            return;
        }
        let spans: Vec<_> =
            calls.iter().flat_map(|call| span::spans(call, &config.providers)).collect();
        let count = calls.len() as u64;
        calls.clear();
        let of_scope = ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() };
        let of_resource = ResourceSpans {
            resource: Some(self.resource.clone()),
            scope_spans: vec![of_scope],
            ..ResourceSpans::default()
        };
        let request = ExportTraceServiceRequest { resource_spans: vec![of_resource] };
        let answer = self.send(self.traces.clone(), &request).await;
        let taken = answer.is_some_and(|body| is_whole(&body));
        let counter: &AtomicU64 = if taken { &counters.exported } else { &counters.failed };
        counter.fetch_add(count, Ordering::Relaxed);
    }

    async fn sums(&mut self, tokens: &Tokens) {
        let metrics = tokens.metrics(SystemTime::now());
        if metrics.is_empty() {
            return;
        }
        let of_scope = ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() };
        let of_resource = ResourceMetrics {
            resource: Some(self.resource.clone()),
            scope_metrics: vec![of_scope],
            ..ResourceMetrics::default()
        };
        let request = ExportMetricsServiceRequest { resource_metrics: vec![of_resource] };
        // Sums go out whole each time: the next request has what this one had.
        self.send(self.metrics.clone(), &request).await;
    }
}

/// Whether nothing of a request was refused. A collector that says nothing more than 200 took it all.
fn is_whole(body: &[u8]) -> bool {
    let Ok(answer) = ExportTraceServiceResponse::decode(body) else { return true };
    answer.partial_success.is_none_or(|partial| partial.rejected_spans == 0)
}

fn scope() -> InstrumentationScope {
    InstrumentationScope {
        name: "tapri".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    }
}

/// Works until the queue is closed and empty.
pub(crate) async fn work(
    config: &TelemetryConfig,
    mut sending: Sending,
    mut calls: Receiver<Call>,
    tokens: &Tokens,
    counters: &Counters,
) {
    let every = |period: std::time::Duration| {
        let period = period.max(std::time::Duration::from_millis(10));
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    };
    let (mut due, mut sums_due) = (every(config.delay), every(config.interval));
    let most = config.batch.max(1);
    let mut batch: Vec<Call> = Vec::with_capacity(most);
    loop {
        let room = most - batch.len();
        tokio::select! {
            came = calls.recv_many(&mut batch, room) => {
                if came == 0 {
                    break;
                }
                if batch.len() >= most {
                    sending.spans(&mut batch, config, counters).await;
                }
            }
            _ = due.tick() => sending.spans(&mut batch, config, counters).await,
            _ = sums_due.tick() => sending.sums(tokens).await,
        }
    }
    sending.spans(&mut batch, config, counters).await;
    sending.sums(tokens).await;
}
