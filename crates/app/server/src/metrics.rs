//! What `/metrics` shows, in Prometheus' OpenMetrics text.
//!
//! What vLLM counts too goes by vLLM's names and labels, so that dashboards made for it read these as they are.
//! Tapri's own are `tapri_*`.

mod exact;
mod semantic;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tapri_pipeline::{BackendStats, DiskStats, Pipeline};

use crate::alerts::Alerts;
use crate::alerts::collector::AlertCollector;
use crate::config::TraceCounts;

mod upstreams;

use upstreams::UpstreamCollector;

/// How calls ended: vLLM's words, and `error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    /// The model's end, or a stop string.
    Stop,
    /// The token limit.
    Length,
    /// The client left.
    Abort,
    /// An error, before or in the answer.
    Error,
}

/// Labels of a counter of calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndingLabels {
    finished_reason: &'static str,
}

/// Labels of a counter of refusals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabels {
    status: u16,
}

/// The metrics of a server.
pub struct Metrics {
    registry: Registry,
    calls: Family<EndingLabels, Counter>,
    refused: Family<StatusLabels, Counter>,
    pub(crate) time_to_first_token: Histogram,
    pub(crate) inter_token: Histogram,
    pub(crate) time_per_token: Histogram,
    pub(crate) end_to_end: Histogram,
    pub(crate) queue: Histogram,
}

/// vLLM's buckets for the time to the first token, in seconds.
const FIRST_TOKEN: [f64; 21] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0,
];
/// vLLM's buckets for the time of a token, with finer ones below: small models are fast.
const TOKEN: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5,
    5.0, 10.0,
];
/// vLLM's buckets for a whole call.
const CALL: [f64; 18] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 480.0,
    1920.0,
];

impl Metrics {
    /// The metrics of a pipeline's calls, labelled with its model.
    pub(crate) fn new(
        pipeline: &Pipeline,
        alerts: Option<&Arc<Alerts>>,
        traces: Option<TraceCounts>,
    ) -> Self {
        let model = pipeline.models().first().map(|card| card.id.clone()).unwrap_or_default();
        let labels = [("model_name".into(), model.into()), ("engine".into(), "0".into())];
        let mut registry = Registry::with_labels(labels.into_iter());
        let calls = Family::<EndingLabels, Counter>::default();
        registry.register("vllm:request_success", "Calls that ended, by how", calls.clone());
        let refused = Family::<StatusLabels, Counter>::default();
        registry.register(
            "tapri_requests_refused",
            "Requests that got an error instead of an answer",
            refused.clone(),
        );
        let mut histogram = |name: &str, help: &str, buckets: &[f64]| {
            let histogram = Histogram::new(buckets.iter().copied());
            registry.register(name, help, histogram.clone());
            histogram
        };
        let time_to_first_token = histogram(
            "vllm:time_to_first_token_seconds",
            "Seconds from submission to the first token",
            &FIRST_TOKEN,
        );
        let inter_token =
            histogram("vllm:inter_token_latency_seconds", "Seconds between tokens", &TOKEN);
        let time_per_token = histogram(
            "vllm:request_time_per_output_token_seconds",
            "Mean seconds per token after the first",
            &TOKEN,
        );
        let end_to_end = histogram(
            "vllm:e2e_request_latency_seconds",
            "Seconds from submission to the end",
            &CALL,
        );
        let queue = histogram(
            "vllm:request_queue_time_seconds",
            "Seconds from submission to admission",
            &FIRST_TOKEN,
        );
        registry.register_collector(Box::new(LedgerCollector { pipeline: pipeline.clone() }));
        registry.register_collector(Box::new(UpstreamCollector(pipeline.clone())));
        registry.register_collector(Box::new(EngineCollector { pipeline: pipeline.clone() }));
        registry.register_collector(Box::new(exact::ExactCollector::of(pipeline)));
        registry.register_collector(Box::new(semantic::SemanticCollector::of(pipeline)));
        if let Some(traces) = traces {
            registry.register_collector(Box::new(TraceCollector(traces)));
        }
        if let Some(alerts) = alerts {
            registry.register_collector(Box::new(AlertCollector(Arc::clone(alerts))));
        }
        Metrics {
            registry,
            calls,
            refused,
            time_to_first_token,
            inter_token,
            time_per_token,
            end_to_end,
            queue,
        }
    }

    /// Counts a call that ended.
    pub(crate) fn ended(&self, ending: Ending) {
        let finished_reason = match ending {
            Ending::Stop => "stop",
            Ending::Length => "length",
            Ending::Abort => "abort",
            Ending::Error => "error",
        };
        self.calls.get_or_create(&EndingLabels { finished_reason }).inc();
    }

    /// Counts a request that got an error.
    pub(crate) fn refused(&self, status: u16) {
        self.refused.get_or_create(&StatusLabels { status }).inc();
    }

    /// All of them, as OpenMetrics text.
    pub(crate) fn render(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Reads what became of the calls' records.
struct LedgerCollector {
    pipeline: Pipeline,
}

impl fmt::Debug for LedgerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerCollector").finish_non_exhaustive()
    }
}

impl Collector for LedgerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(counts) = self.pipeline.recorder().counts() else { return Ok(()) };
        let mut records = encoder.encode_descriptor(
            "tapri_ledger_records",
            "Records of calls, by what became of them; pruned ones were written before",
            None,
            MetricType::Counter,
        )?;
        let outcomes =
            [("written", counts.written), ("dropped", counts.dropped), ("pruned", counts.pruned)];
        for (outcome, value) in outcomes {
            ConstCounter::new(value).encode(records.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}

/// Reads what became of the calls' traces.
struct TraceCollector(TraceCounts);

impl fmt::Debug for TraceCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceCollector").finish_non_exhaustive()
    }
}

impl Collector for TraceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut traces = encoder.encode_descriptor(
            "tapri_traces",
            "Calls whose traces were for a collector, by what became of them",
            None,
            MetricType::Counter,
        )?;
        for (outcome, value) in (self.0)() {
            ConstCounter::new(value).encode(traces.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }
}

/// Reads the backend's counters when they are asked for.
struct EngineCollector {
    pipeline: Pipeline,
}

impl fmt::Debug for EngineCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCollector").finish_non_exhaustive()
    }
}

impl Collector for EngineCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        match self.pipeline.stats() {
            Some(stats) => encode_stats(&stats, encoder),
            None => Ok(()),
        }
    }
}

fn encode_stats(
    stats: &BackendStats,
    mut encoder: DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let counters = [
        (
            "vllm:prefix_cache_queries",
            "Prompt tokens looked up in the prefix cache",
            stats.prefix_queries,
        ),
        ("vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache", stats.prefix_hits),
        ("vllm:prompt_tokens", "Prompt tokens, reused or computed", stats.prompt_tokens),
        ("vllm:generation_tokens", "Answer tokens", stats.answer_tokens),
        ("vllm:num_preemptions", "Calls preempted for want of KV memory", stats.preemptions),
        (
            "tapri_prefix_joined_tokens",
            "Prompt tokens that one call computed and another waited for",
            stats.prefix_joined,
        ),
        (
            "tapri_recomputed_tokens",
            "Tokens that preempted calls had to compute again; neither queries nor hits",
            stats.recomputed_tokens,
        ),
        (
            "tapri_tokenized_text_bytes",
            "Bytes of prompts' texts of 2 kB and more that were to be tokenised",
            stats.text_bytes,
        ),
        (
            "tapri_tokenized_text_known_bytes",
            "Bytes of them whose tokens were known, as an earlier prompt began with the same text",
            stats.known_text_bytes,
        ),
    ];
    for (name, help, value) in counters {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let mut evicted = encoder.encode_descriptor(
        "tapri_kv_blocks_evicted",
        "KV blocks that left the cache, by cause",
        None,
        MetricType::Counter,
    )?;
    let causes = [
        ("capacity", stats.evicted_blocks),
        ("window", stats.evicted_window_blocks),
        ("ttl", stats.expired_blocks),
        ("reset", stats.reset_blocks),
    ];
    for (cause, value) in causes {
        ConstCounter::new(value).encode(evicted.encode_family(&[("cause", cause)])?)?;
    }
    let used = if stats.blocks_total == 0 {
        0.0
    } else {
        stats.blocks_used as f64 / stats.blocks_total as f64
    };
    let bytes = |blocks: usize| blocks as f64 * stats.block_bytes as f64;
    let gauges = [
        ("vllm:num_requests_running", "Calls that run", stats.running as f64),
        ("vllm:num_requests_waiting", "Calls that wait", stats.waiting as f64),
        ("vllm:kv_cache_usage_perc", "KV blocks in use by calls and pins; 1 is all", used),
        ("tapri_kv_budget_bytes", "The KV cache's memory budget", bytes(stats.blocks_total)),
        (
            "tapri_kv_used_bytes",
            "KV memory in use by running calls and pins",
            bytes(stats.blocks_used),
        ),
        ("tapri_kv_pinned_bytes", "KV memory that pins hold", bytes(stats.blocks_pinned)),
        ("tapri_kv_pins", "Starts that are pinned", stats.pins as f64),
        (
            "tapri_kv_cached_bytes",
            "KV memory kept for reuse, in no call's use",
            bytes(stats.blocks_cached),
        ),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)?;
    }
    encode_holdings(stats, &mut encoder)?;
    match &stats.disk {
        Some(disk) => encode_disk(disk, encoder),
        None => Ok(()),
    }
}

/// What is held, and by how many.
fn encode_holdings(
    stats: &BackendStats,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let mut calls = encoder.encode_descriptor(
        "tapri_engine_calls",
        "Calls in the engine, by state; those that join wait for a prefix that another computes",
        None,
        MetricType::Gauge,
    )?;
    let states = [
        ("running", stats.running),
        ("joining", stats.joining),
        ("waiting", stats.waiting.saturating_sub(stats.joining)),
    ];
    for (state, value) in states {
        ConstGauge::new(value as f64).encode(calls.encode_family(&[("state", state)])?)?;
    }
    let mut blocks = encoder.encode_descriptor(
        "tapri_kv_blocks",
        "KV blocks, by state",
        None,
        MetricType::Gauge,
    )?;
    let taken = stats.blocks_used + stats.blocks_cached;
    let states = [
        ("used", stats.blocks_used),
        ("cached", stats.blocks_cached),
        ("empty", stats.blocks_total.saturating_sub(taken)),
    ];
    for (state, value) in states {
        ConstGauge::new(value as f64).encode(blocks.encode_family(&[("state", state)])?)?;
    }
    let held = stats.running + stats.joining > 0;
    let leaked = if held { 0 } else { stats.blocks_used.saturating_sub(stats.blocks_pinned) };
    let metric = encoder.encode_descriptor(
        "tapri_kv_blocks_leaked",
        "KV blocks in use though no call runs or joins and no pin holds them; anything but 0 is a defect",
        None,
        MetricType::Gauge,
    )?;
    ConstGauge::new(leaked as f64).encode(metric)
}

fn encode_disk(disk: &DiskStats, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let DiskStats { pages, capacity, bytes, written, dropped, restored, restored_tokens, rejected } =
        *disk;
    let counters = [
        ("tapri_kv_disk_written", "KV pages written to disk", written),
        (
            "tapri_kv_disk_dropped",
            "KV pages not kept on disk: they came faster than it writes, or it took no more",
            dropped,
        ),
        ("tapri_kv_disk_restored", "KV pages read back from disk", restored),
        (
            "tapri_kv_disk_restored_tokens",
            "Prompt tokens found on disk; they count as hits of the prefix cache as well",
            restored_tokens,
        ),
        (
            "tapri_kv_disk_rejected",
            "KV pages on disk that were damaged or could not be read",
            rejected,
        ),
    ];
    for (name, help, value) in counters {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)?;
    }
    let gauges = [
        ("tapri_kv_disk_pages", "KV pages on disk", pages as f64),
        ("tapri_kv_disk_capacity_pages", "KV pages that the disk has room for", capacity as f64),
        ("tapri_kv_disk_bytes", "Bytes of the KV pages on disk", bytes as f64),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)?;
    }
    Ok(())
}
