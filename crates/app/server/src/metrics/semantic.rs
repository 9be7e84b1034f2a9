//! The semantic cache's counters and gauges.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tapri_pipeline::Pipeline;

/// Reads the semantic cache's counters when they are asked for.
pub(super) struct SemanticCollector {
    pipeline: Pipeline,
}

impl SemanticCollector {
    pub(super) fn of(pipeline: &Pipeline) -> Self {
        SemanticCollector { pipeline: pipeline.clone() }
    }
}

impl fmt::Debug for SemanticCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticCollector").finish_non_exhaustive()
    }
}

impl Collector for SemanticCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(cache) = self.pipeline.semantic_cache() else { return Ok(()) };
        let counts = cache.counts();
        let outcomes = [
            ("hit", counts.hits),
            ("shadow", counts.shadows),
            ("guarded", counts.guarded),
            ("nothing", counts.nothing),
            ("gone", counts.gone),
            ("failed", counts.failed),
        ];
        let mut lookups = encoder.encode_descriptor(
            "tapri_semantic_lookups",
            "Questions that were looked for by meaning, by what was found: an answer that was served, one to compare, one \
             that a guard stopped, nothing near, one that had made room, or a failure",
            None,
            MetricType::Counter,
        )?;
        for (outcome, value) in outcomes {
            ConstCounter::new(value).encode(lookups.encode_family(&[("outcome", outcome)])?)?;
        }
        let mut refusals = encoder.encode_descriptor(
            "tapri_semantic_guard_refusals",
            "Near questions that were not answered alike, by the guard that is named first",
            None,
            MetricType::Counter,
        )?;
        for (guard, value) in counts.refused() {
            let labels = [("guard", guard.name())];
            ConstCounter::new(value).encode(refusals.encode_family(&labels)?)?;
        }
        let mut labels = encoder.encode_descriptor(
            "tapri_semantic_labels",
            "Stored answers that were compared with the model's, by what was found; unsettled ones count as wrong",
            None,
            MetricType::Counter,
        )?;
        let verdicts = [
            ("same", counts.labels - counts.wrong),
            ("wrong", counts.wrong - counts.unsettled),
            ("unsettled", counts.unsettled),
        ];
        for (verdict, value) in verdicts {
            ConstCounter::new(value).encode(labels.encode_family(&[("verdict", verdict)])?)?;
        }
        let store = [("store", cache.store_name())];
        let counters = [
            (
                "tapri_semantic_errors",
                "Times that the sentence encoder or the store of questions failed or was too slow",
                counts.errors,
            ),
            (
                "tapri_semantic_writes_dropped",
                "Questions and labels that were not kept since too many waited to be written",
                counts.dropped,
            ),
        ];
        for (name, help, value) in counters {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric.encode_family(&store)?)?;
        }
        let entries = encoder.encode_descriptor(
            "tapri_semantic_entries",
            "Stored questions; of a shared store, as of the last time that its labels were read",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(cache.len() as f64).encode(entries)?;
        let routes = cache.status();
        let mut bounds = encoder.encode_descriptor(
            "tapri_semantic_wrong_bound",
            "At most this share of hits from this similarity up is wrong, with 95 percent certainty",
            None,
            MetricType::Gauge,
        )?;
        for status in &routes {
            for band in &status.bands {
                let from = format!("{:.2}", band.from);
                let labels = [("route", status.route.as_str()), ("from", from.as_str())];
                ConstGauge::new(band.bound).encode(bounds.encode_family(&labels)?)?;
            }
        }
        let mut serves = encoder.encode_descriptor(
            "tapri_semantic_serves_from",
            "The similarity from which up a route may serve within its budget; absent where it may not",
            None,
            MetricType::Gauge,
        )?;
        for status in &routes {
            if let Some(from) = status.threshold {
                let labels = [("route", status.route.as_str())];
                // As it is written, not as an f32 widens.
                let from = (f64::from(from) * 100.0).round() / 100.0;
                ConstGauge::new(from).encode(serves.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
