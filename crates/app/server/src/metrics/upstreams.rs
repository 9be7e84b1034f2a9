//! What `/metrics` shows of upstreams.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tapri_pipeline::{Pipeline, UpstreamStats};

/// Reads the upstreams' counters when they are asked for.
pub(super) struct UpstreamCollector(pub(super) Pipeline);

impl fmt::Debug for UpstreamCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamCollector").finish_non_exhaustive()
    }
}

/// A metric with its help, and how it is read.
type Row = (&'static str, &'static str, fn(&UpstreamStats) -> u64);

const COUNTERS: [Row; 9] = [
    ("tapri_upstream_retries", "Tries of a request after the first", |it| it.retries),
    ("tapri_upstream_breaker_opened", "How often the circuit breaker opened", |it| it.opened),
    (
        "tapri_upstream_predicted_cached_tokens",
        "Prompt tokens that the upstream's prefix cache was expected to have, of calls that told what it had",
        |it| it.calibration.predicted,
    ),
    ("tapri_upstream_cached_tokens", "Prompt tokens that it had, of the same calls", |it| {
        it.calibration.realised
    }),
    (
        "tapri_upstream_prediction_error_tokens",
        "The differences of the two, call by call, without their signs",
        |it| it.calibration.error,
    ),
    (
        "tapri_upstream_untold_calls",
        "Calls whose answer did not tell how many tokens were cached",
        |it| it.calibration.untold,
    ),
    (
        "tapri_upstream_cold_surprises",
        "Calls of which much was expected in the cache and nothing was there",
        |it| it.calibration.surprises,
    ),
    (
        "tapri_upstream_regret_tokens",
        "Prompt tokens that another replica had and the chosen one had not, since load decided",
        |it| it.calibration.lost,
    ),
    ("tapri_upstream_novel_tokens", "Prompt tokens that no replica had", |it| it.calibration.novel),
];

const GAUGES: [Row; 3] = [
    ("tapri_upstream_running", "Calls that are being answered", |it| it.running as u64),
    ("tapri_upstream_up", "Whether it answers when its health is asked for", |it| {
        u64::from(it.well)
    }),
    ("tapri_upstream_breaker_open", "Whether the circuit breaker keeps calls away", |it| {
        u64::from(it.breaker.as_str() == "open")
    }),
];

impl Collector for UpstreamCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let upstreams = self.0.upstreams();
        if upstreams.is_empty() {
            return Ok(());
        }
        let mut requests = encoder.encode_descriptor(
            "tapri_upstream_requests",
            "Requests to upstreams, by how they ended",
            None,
            MetricType::Counter,
        )?;
        for it in &upstreams {
            let results = [
                ("answered", it.answered),
                ("refused", it.refused),
                ("busy", it.busy),
                ("failed", it.failed),
                ("broken", it.broken),
                ("abandoned", it.abandoned),
            ];
            for (result, value) in results {
                let labels = [("upstream", it.name.as_str()), ("result", result)];
                ConstCounter::new(value).encode(requests.encode_family(&labels)?)?;
            }
        }
        for (name, help, read) in COUNTERS {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for it in &upstreams {
                let labels = [("upstream", it.name.as_str())];
                ConstCounter::new(read(it)).encode(metric.encode_family(&labels)?)?;
            }
        }
        for (name, help, read) in GAUGES {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for it in &upstreams {
                let labels = [("upstream", it.name.as_str())];
                ConstGauge::new(read(it) as f64).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
