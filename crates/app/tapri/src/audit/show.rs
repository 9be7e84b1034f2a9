//! Figures that recorded and live audits share.

use std::time::Duration;

use serde::Serialize;
use tapri_insight::audit::Judgement;

use crate::quantity::show_seconds;

/// What two samples of times say.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Times {
    pub(super) hits: usize,
    pub(super) misses: usize,
    pub(super) hit_median_seconds: f64,
    pub(super) miss_median_seconds: f64,
    /// D+ of the one-sided test.
    pub(super) statistic: f64,
    pub(super) p: f64,
    /// The smallest p that so many samples could have given.
    pub(super) smallest_p: f64,
    pub(super) average_precision: f64,
    pub(super) hits_below_all_misses: f64,
    /// Hits are slower: a two-sided test would have found sharing.
    pub(super) two_sided_trap: bool,
    pub(super) found: bool,
}

impl From<&Judgement> for Times {
    fn from(judged: &Judgement) -> Self {
        Times {
            hits: judged.hits.count,
            misses: judged.misses.count,
            hit_median_seconds: judged.hits.median,
            miss_median_seconds: judged.misses.median,
            statistic: judged.faster.statistic,
            p: judged.faster.p,
            smallest_p: judged.smallest_p,
            average_precision: judged.average_precision,
            hits_below_all_misses: judged.below_all_misses,
            two_sided_trap: judged.two_sided_trap(),
            found: judged.found(),
        }
    }
}

impl Times {
    pub(super) fn verdict(&self) -> &'static str {
        match (self.found, self.two_sided_trap) {
            (true, _) => "sharing",
            (false, true) => "none (hits are slower)",
            (false, false) => "none",
        }
    }
}

/// `0.236`, `9.6e-37`.
pub(super) fn p_value(p: f64) -> String {
    if p >= 0.001 { format!("{p:.3}") } else { format!("{p:.1e}") }
}

/// `95 %`.
pub(super) fn share(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `0.734 s`.
pub(super) fn seconds(seconds: f64) -> String {
    show_seconds(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}
