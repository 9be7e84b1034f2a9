//! Alerts that are statistics: a tenant's or a route's hit rate fell, or is low.
//!
//! [`Watch`] takes finished calls one after the other and says when something changed. A call is one observation, the
//! share of its prompt that came from cache: token counts are heavy-tailed, so one long prompt would outweigh a
//! hundred others, while a share lies in [0, 1]. Calls of a conversation hang together, so the unit is the mean of a
//! block of calls, and blocks grow until neighbours are hardly correlated.
//!
//! What is promised: as long as the share that is to be expected, given all before, stays at or above a floor (the
//! learned rate less a margin), false alarms of one series come on average no more often than once in
//! [`Config::false_alarm_every`] calls, whenever one looks. It holds for any distribution (see [`detector`]).
//! Less than [`Config::reference`] blocks are too little to know a rate, so a fall is seen only after them; a rate
//! below the threshold is told sooner. After an alarm a series learns anew.
//!
//! Memory is bounded: so many series, so many blocks of each; the series that was quiet longest is dropped.
//!
//! ```
//! use tapri_insight::alert::{Call, Config, Watch};
//!
//! let mut watch = Watch::new(Config::default());
//! let at = jiff::Timestamp::UNIX_EPOCH;
//! let mut alerts = Vec::new();
//! for n in 0..1000 {
//!     let cached = if n < 800 { 30_400 } else { 0 };
//!     let call = Call { at, tenant: "acme", route: "/v1/messages", prompt: 32_200, cached };
//!     alerts.extend(watch.see(&call));
//! }
//! assert!(alerts[0].to_string().starts_with("hit rate of tenant acme fell from 94% "));
//! ```
//!
//! Map: [`detector`] evidence against a floor; [`interval`] bounds of a mean; [`split`] where it changed; `series` one
//! tenant or route; [`watch`] all of them; [`message`] an alert in words and as JSON.

pub mod detector;
pub mod interval;
pub mod message;
mod series;
pub mod split;
pub mod watch;

use jiff::Timestamp;

pub use self::message::SCHEMA;
pub use self::watch::{Gauge, Watch};

/// How series are watched.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The share below which a hit rate is low, in [0, 1].
    pub threshold: f64,
    /// A fall of less is no alarm.
    pub margin: f64,
    /// The mean number of a series' calls between false alarms, at least.
    pub false_alarm_every: u64,
    /// Calls in a block, before it grows.
    pub block: u32,
    /// Blocks from which a rate is learned.
    pub reference: usize,
    /// Calls with shorter prompts aren't counted: there is nothing in them to cache.
    pub min_prompt: u64,
    /// Series that are watched at once.
    pub series: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            threshold: 0.5,
            margin: 0.1,
            false_alarm_every: 1_000_000,
            // A fall from 0.94 to nothing is seen after some 100 calls; smaller blocks gain little and correlate more.
            block: 16,
            reference: 32,
            min_prompt: 64,
            series: 1000,
        }
    }
}

/// A finished call whose cached tokens are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// When it was.
    pub at: Timestamp,
    /// Whose it is.
    pub tenant: &'a str,
    /// Its endpoint.
    pub route: &'a str,
    /// Tokens of its prompt.
    pub prompt: u64,
    /// Of those, from cache.
    pub cached: u64,
}

/// What is watched: all calls of a tenant, all of a route, or just all.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// A tenant, over all routes.
    Tenant(String),
    /// A route, over all tenants.
    Route(String),
    /// Calls of which nobody said whose they are.
    All,
}

/// What is said of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The hit rate fell.
    Fell,
    /// The hit rate is below the threshold.
    Low,
    /// After a fall or a low rate: the hit rate rose again. No alarm.
    Recovered,
}

/// A mean share and its bounds at 95 percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// The mean.
    pub mean: f64,
    /// Its lower bound.
    pub low: f64,
    /// Its upper bound.
    pub high: f64,
    /// Calls it is the mean of.
    pub calls: u64,
}

/// When a rate changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Most likely then.
    pub at: Timestamp,
    /// At 95 percent, not before.
    pub from: Timestamp,
    /// At 95 percent, not after.
    pub to: Timestamp,
}

/// An alarm, or the end of one.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// Of what.
    pub subject: Subject,
    /// What.
    pub kind: Kind,
    /// The rate before, where it was known.
    pub before: Option<Rate>,
    /// The rate since.
    pub after: Rate,
    /// When it changed, for changes.
    pub changed: Option<Changed>,
    /// The time of the call that showed it.
    pub seen: Timestamp,
    /// The threshold for a low rate.
    pub threshold: f64,
    /// The mean number of calls between false alarms that is promised.
    pub false_alarm_every: u64,
}
