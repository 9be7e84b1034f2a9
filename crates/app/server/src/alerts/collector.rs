//! What `/metrics` shows of the watch.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tapri_insight::alert::{Gauge, Kind};

use super::Alerts;

/// Reads the watch when it is asked for.
pub(crate) struct AlertCollector(pub(crate) Arc<Alerts>);

impl fmt::Debug for AlertCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlertCollector").finish_non_exhaustive()
    }
}

impl Collector for AlertCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shared = &self.0.shared;
        {
            let watch = shared.watch.lock().unwrap_or_else(PoisonError::into_inner);
            let mut gauges: Vec<Gauge<'_>> = watch.gauges().collect();
            gauges.sort_by_key(|gauge| gauge.subject);
            let mut family = |name: &str, help: &str, value: &dyn Fn(&Gauge<'_>) -> Option<f64>| {
                let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                for gauge in &gauges {
                    let (tenant, route) = gauge.subject.labels();
                    if let Some(value) = value(gauge) {
                        let labels = [("tenant", tenant), ("route", route)];
                        ConstGauge::new(value).encode(metric.encode_family(&labels)?)?;
                    }
                }
                Ok::<(), fmt::Error>(())
            };
            let truth = |it: bool| Some(f64::from(u8::from(it)));
            family(
                "tapri_hit_rate",
                "Mean share of a call's prompt that was reused, over the last calls of a tenant or a route; 1 is all",
                &|gauge| gauge.rate,
            )?;
            family(
                "tapri_hit_rate_learned",
                "Whether the usual hit rate of a tenant or a route is known: 1 or 0",
                &|gauge| truth(gauge.learned),
            )?;
            family(
                "tapri_hit_rate_alert",
                "Whether the hit rate of a tenant or a route fell or is low: 1 or 0",
                &|gauge| truth(gauge.alarm.is_some()),
            )?;
        }
        let mut alerts = encoder.encode_descriptor(
            "tapri_alerts",
            "What was said of hit rates, by kind",
            None,
            MetricType::Counter,
        )?;
        for kind in [Kind::Fell, Kind::Low, Kind::Recovered] {
            let said = shared.said[kind as usize].load(Ordering::Relaxed);
            ConstCounter::new(said).encode(alerts.encode_family(&[("kind", kind.as_str())])?)?;
        }
        let left_out = encoder.encode_descriptor(
            "tapri_alert_calls_left_out",
            "Calls that were left out of the watch because its queue was full",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(shared.left_out.load(Ordering::Relaxed)).encode(left_out)?;
        if let Some(webhook) = &shared.webhook {
            let mut sent = encoder.encode_descriptor(
                "tapri_alert_webhooks",
                "Alerts for the webhook, by what became of them",
                None,
                MetricType::Counter,
            )?;
            for (result, count) in webhook.counts() {
                ConstCounter::new(count).encode(sent.encode_family(&[("result", result)])?)?;
            }
        }
        Ok(())
    }
}
