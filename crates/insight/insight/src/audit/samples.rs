//! Recorded times.

use serde::{Deserialize, Serialize};

/// A line of recorded times: one test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Whose API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Between whom: `per_user`, `per_org`, `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The share of the prompt that hits share with the victim's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix_fraction: Option<f64>,
    /// How often the victim sent its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victim_requests: Option<u64>,
    /// Times of requests that share a start.
    pub hit_seconds: Vec<f64>,
    /// Times of requests that share nothing.
    pub miss_seconds: Vec<f64>,
    /// What someone else computed from them.
    #[serde(flatten)]
    pub stored: Option<Stored>,
}

/// A result that was stored with the times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stored {
    /// D+.
    pub ks_statistic: f64,
    /// Its one-sided p.
    pub ks_p_one_sided: f64,
}
