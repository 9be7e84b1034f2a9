//! What a route's exact cache does.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tapri_api::{Call, Prompt};

/// When a route's answers are stored and served again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Never.
    Off,
    /// For calls whose answer is meant to be the same each time: temperature 0 or a seed, said in so many words.
    Deterministic,
    /// For every call: the same question gets the same answer until its time is up.
    #[default]
    Always,
}

/// What a route's exact cache does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExactPolicy {
    /// When.
    pub mode: Mode,
    /// How long an answer is served; `None` is until it makes room.
    pub ttl: Option<Duration>,
    /// How many answers are kept for one call. With more than one, the first so many calls are all answered by the
    /// model, and later ones get the kept answers in turn. At least 1, at most [`ExactPolicy::MAX_VARIANTS`].
    pub variants: usize,
    /// Bytes that an answer may have to be kept. A flight's answer beyond that has no more followers either.
    pub max_entry_bytes: usize,
}

impl ExactPolicy {
    /// The most answers that are kept for one call.
    pub const MAX_VARIANTS: usize = 32;

    /// No cache.
    pub fn off() -> Self {
        ExactPolicy { mode: Mode::Off, ..ExactPolicy::default() }
    }
}

/// A route that turns the cache on: every call, for a day, one answer of up to a mebibyte.
impl Default for ExactPolicy {
    fn default() -> Self {
        ExactPolicy {
            mode: Mode::Always,
            ttl: Some(Duration::from_secs(86_400)),
            variants: 1,
            max_entry_bytes: 1 << 20,
        }
    }
}

/// The policies of all routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policies {
    /// Of routes that are not named below.
    pub default: ExactPolicy,
    /// By the route's name, which is [`Origin::route`](tapri_api::Origin::route).
    pub routes: HashMap<String, ExactPolicy>,
}

impl Policies {
    /// One for all routes.
    pub fn all(policy: ExactPolicy) -> Self {
        Policies { default: policy, routes: HashMap::new() }
    }

    /// Whether no route has a cache.
    pub fn are_off(&self) -> bool {
        self.routes.values().chain([&self.default]).all(|policy| policy.mode == Mode::Off)
    }

    /// The policy of a route.
    pub fn of(&self, route: &str) -> &ExactPolicy {
        self.routes.get(route).unwrap_or(&self.default)
    }
}

/// Whether a call says that its answer is to be the same each time: temperature 0 or a seed.
///
/// What isn't said doesn't count, since what an upstream fills in isn't known here.
pub(crate) fn is_deterministic(call: &Call) -> bool {
    match &call.prompt {
        Prompt::Request(inbound) => {
            let number = |field: &str| inbound.body.get(field).and_then(|value| value.as_f64());
            number("temperature") == Some(0.0) || number("seed").is_some()
        }
        _ => call.sampling.temperature == 0.0 || call.sampling.seed.is_some(),
    }
}
