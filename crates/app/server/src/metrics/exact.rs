//! The exact cache's counters and gauges.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tapri_pipeline::Pipeline;

/// Reads the exact cache's counters when they are asked for.
pub(super) struct ExactCollector {
    pipeline: Pipeline,
}

impl ExactCollector {
    pub(super) fn of(pipeline: &Pipeline) -> Self {
        ExactCollector { pipeline: pipeline.clone() }
    }
}

impl fmt::Debug for ExactCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExactCollector").finish_non_exhaustive()
    }
}

impl Collector for ExactCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(stats) = self.pipeline.exact_stats() else { return Ok(()) };
        let mut lookups = encoder.encode_descriptor(
            "tapri_exact_lookups",
            "Calls that came to the exact cache, by what it did",
            None,
            MetricType::Counter,
        )?;
        let outcomes = [
            ("hit", stats.hits),
            ("collapsed", stats.collapsed),
            ("miss", stats.misses),
            ("request", stats.requested),
            ("bypass", stats.bypassed),
        ];
        for (outcome, value) in outcomes {
            ConstCounter::new(value).encode(lookups.encode_family(&[("outcome", outcome)])?)?;
        }
        let stored = encoder.encode_descriptor(
            "tapri_exact_stored",
            "Answers that the exact cache kept",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(stats.stored).encode(stored)?;
        let mut rejected = encoder.encode_descriptor(
            "tapri_exact_rejected",
            "Answers that the exact cache did not keep, by why",
            None,
            MetricType::Counter,
        )?;
        for (reason, value) in &stats.rejected {
            ConstCounter::new(*value).encode(rejected.encode_family(&[("reason", *reason)])?)?;
        }
        let mut errors = encoder.encode_descriptor(
            "tapri_exact_store_errors",
            "Times that the store of the exact cache failed, was too slow, or gave what can't be read",
            None,
            MetricType::Counter,
        )?;
        let store = stats.store.unwrap_or("memory");
        ConstCounter::new(stats.store_errors).encode(errors.encode_family(&[("store", store)])?)?;
        let gauges = [
            ("tapri_exact_entries", "Answers in memory", stats.memory.entries),
            ("tapri_exact_bytes", "Bytes of answers in memory", stats.memory.bytes),
            ("tapri_exact_flights", "Calls that run for those who wait for them", stats.flights),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as f64).encode(metric)?;
        }
        Ok(())
    }
}
