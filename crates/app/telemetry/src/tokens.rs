//! Token counts, as sums since the start.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Metric, NumberDataPoint, Sum,
};

use crate::call::Call;
use crate::span::unix_nanos;
use crate::value::{text, truth};

/// Series of a metric; what is beyond is counted together, as OpenTelemetry's SDKs do. Names of models are the callers'
/// to choose where an upstream takes any.
const MOST: usize = 2000;

/// Operation, provider and model.
type Series = (&'static str, String, String);

/// The kinds of counts, and what each is called.
const NAMES: [(&str, &str); 4] = [
    ("gen_ai.client.inference.usage.input_tokens", "Tokens of prompts, cached ones included"),
    ("gen_ai.client.inference.usage.output_tokens", "Tokens of answers"),
    (
        "gen_ai.client.inference.usage.cache_read.input_tokens",
        "Tokens of prompts that were read from a prefix cache",
    ),
    (
        "gen_ai.client.inference.usage.cache_write.input_tokens",
        "Tokens of prompts that were written to a prefix cache",
    ),
];

/// The sums. A kind that was never known of a series is absent.
#[derive(Debug)]
pub(crate) struct Tokens {
    began: SystemTime,
    sums: Mutex<BTreeMap<Series, [Option<u64>; 4]>>,
}

impl Tokens {
    pub(crate) fn new(began: SystemTime) -> Self {
        Tokens { began, sums: Mutex::default() }
    }

    /// Counts a call.
    pub(crate) fn see(&self, call: &Call, provider: &str) {
        let tokens = &call.tokens;
        let counts = [tokens.prompt, tokens.answer, tokens.reused(), tokens.written];
        if counts.iter().all(Option::is_none) {
            return;
        }
        let mut series = (call.operation, provider.to_owned(), call.model.clone());
        let mut sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        if sums.len() >= MOST && !sums.contains_key(&series) {
            series = ("", String::new(), String::new());
        }
        let known = sums.entry(series).or_default();
        for (sum, count) in known.iter_mut().zip(counts) {
            if let Some(count) = count {
                *sum = Some(sum.unwrap_or(0).saturating_add(count));
            }
        }
    }

    /// All of them now; empty where nothing was counted.
    pub(crate) fn metrics(&self, now: SystemTime) -> Vec<Metric> {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let point = |(operation, provider, model): &Series, sum: u64| {
            let attributes = match operation.is_empty() {
                true => vec![truth("otel.metric.overflow", true)],
                false => vec![
                    text("gen_ai.operation.name", *operation),
                    text("gen_ai.provider.name", provider.as_str()),
                    text("gen_ai.request.model", model.as_str()),
                    text("gen_ai.token.modality", "text"),
                ],
            };
            NumberDataPoint {
                attributes,
                start_time_unix_nano: unix_nanos(self.began),
                time_unix_nano: unix_nanos(now),
                value: Some(Value::AsInt(i64::try_from(sum).unwrap_or(i64::MAX))),
                ..NumberDataPoint::default()
            }
        };
        let metric = |(kind, (name, description)): (usize, &(&str, &str))| {
            let data_points: Vec<NumberDataPoint> =
                sums.iter().filter_map(|(series, sums)| Some(point(series, sums[kind]?))).collect();
            let sum = Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative as i32,
                is_monotonic: true,
            };
            Metric {
                name: (*name).to_owned(),
                description: (*description).to_owned(),
                unit: "{token}".to_owned(),
                data: Some(Data::Sum(sum)),
                ..Metric::default()
            }
        };
        let has_points = |metric: &Metric| match &metric.data {
            Some(Data::Sum(sum)) => !sum.data_points.is_empty(),
            _ => false,
        };
        NAMES.iter().enumerate().map(metric).filter(has_points).collect()
    }
}
