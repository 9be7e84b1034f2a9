//! The report: did the cache work, for whom, and what did it save?
//!
//! [`Report`] takes one call after the other, from the ledger or a log, and needs bounded memory: sums by day, tenant,
//! route and model for a limited number of names, durations in histograms, the last calls in a ring. [`Report::finish`]
//! gives a [`Summary`].
//!
//! ```
//! use tapri_insight::report::{Observation, Options, Report};
//!
//! let mut report = Report::new(Options::default());
//! for _ in 0..20 {
//!     report.add(&Observation { prompt: Some(32_200), cached: Some(30_400), ..Observation::default() });
//! }
//! let summary = report.finish();
//! assert_eq!(summary.all.line(0.5), "608,000 of 644,000 prompt tokens from cache (94%): OK");
//! ```
//!
//! Map: [`totals`] sums and the line; [`groups`] sums by name; [`latency`] hits against misses; [`last`] the last
//! calls; [`causes`] reasons and their cost; [`priced`] what a call cost; `unread` writes that nobody read; `changes` hit rates that fell; [`text`] for people; [`plot`] as charts; [`json`] for
//! programs.

pub mod causes;
mod changes;
pub mod groups;
pub mod json;
pub mod last;
pub mod latency;
pub mod plot;
pub mod priced;
pub mod text;
pub mod totals;
mod unread;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tapri_ledger::{CallRecord, MissReason};

use crate::alert::Alert;
use crate::usage::LoggedCall;

pub use self::causes::{Cause, Causes};
pub use self::groups::Groups;
pub use self::last::LastCalls;
pub use self::latency::{Latency, LatencyReport};
pub use self::priced::{PriceTag, Priced};
pub use self::totals::{Paid, Totals, Verdict};

/// What a report needs of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    /// When it was.
    pub at: Option<Timestamp>,
    /// Whose it is.
    pub tenant: Option<String>,
    /// Its endpoint.
    pub route: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its conversation.
    pub conversation: Option<String>,
    /// All tokens of its prompt.
    pub prompt: Option<u64>,
    /// Of those, from cache.
    pub cached: Option<u64>,
    /// Of those, written to a cache.
    pub written: Option<u64>,
    /// Of the written, those for the longer lifetime.
    pub written_long: Option<u64>,
    /// Tokens of its answer.
    pub answer: Option<u64>,
    /// To the first token.
    pub ttft: Option<Duration>,
    /// Why it reused less than it could.
    pub reason: Option<MissReason>,
    /// What it cost.
    pub priced: Option<Priced>,
    /// As [`CallRecord::trace`].
    pub trace: Vec<u64>,
}

impl From<LoggedCall> for Observation {
    fn from(call: LoggedCall) -> Self {
        Observation {
            at: call.at,
            tenant: call.tenant,
            route: call.route,
            model: call.model,
            conversation: call.conversation,
            prompt: Some(call.usage.prompt),
            cached: call.usage.cached,
            written: call.usage.written,
            written_long: call.usage.written_long,
            answer: call.usage.answer,
            ttft: call.ttft,
            reason: None,
            priced: None,
            trace: Vec::new(),
        }
    }
}

impl From<CallRecord> for Observation {
    fn from(record: CallRecord) -> Self {
        Observation {
            at: Some(record.at),
            tenant: Some(record.tenant),
            route: Some(record.route),
            model: Some(record.model),
            conversation: record.conversation,
            prompt: record.tokens.prompt,
            cached: record.tokens.reused(),
            written: record.tokens.written,
            written_long: None,
            answer: record.tokens.answer,
            ttft: record.ttft,
            reason: record.explanation.as_ref().map(|explanation| explanation.reason),
            priced: record.cost.map(Priced::from),
            trace: record.trace,
        }
    }
}

/// How a report is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where a day begins.
    pub zone: TimeZone,
    /// The share of prompt tokens from cache below which it is an alert, in [0, 1].
    pub threshold: f64,
    /// How many of the last calls are looked at; 0 for none.
    pub last: usize,
    /// How many tenants, routes and models have sums of their own.
    pub names: usize,
    /// Whether the calls come with what the ledger knows about why they missed.
    pub explained: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { zone: TimeZone::UTC, threshold: 0.5, last: 100, names: 1000, explained: false }
    }
}

/// Days that have sums of their own: a hundred years, so only a log of nonsense has more.
const DAYS: usize = 36_525;

/// Price lists that are named.
const LISTS: usize = 16;

/// A report in the making.
#[derive(Debug, Clone)]
pub struct Report {
    options: Options,
    all: Totals,
    days: Groups<Option<Date>>,
    tenants: Groups<Option<String>>,
    routes: Groups<Option<String>>,
    models: Groups<Option<String>>,
    latency: Latency,
    causes: Causes,
    latest: last::Latest,
    writes: unread::Writes,
    changes: changes::Changes,
    lists: BTreeSet<PriceTag>,
    first: Option<Timestamp>,
    end: Option<Timestamp>,
}

/// What a report says.
#[derive(Debug, Clone)]
pub struct Summary {
    /// How it was made.
    pub options: Options,
    /// Over everything.
    pub all: Totals,
    /// By day; `None` for calls without a time.
    pub days: Groups<Option<Date>>,
    /// By tenant; `None` for calls without one.
    pub tenants: Groups<Option<String>>,
    /// By route.
    pub routes: Groups<Option<String>>,
    /// By model.
    pub models: Groups<Option<String>>,
    /// Time to the first token, hits against misses.
    pub latency: LatencyReport,
    /// Durations of hits and of misses, for a plot.
    pub durations: Latency,
    /// Why calls missed, the most tokens first.
    pub causes: Vec<Cause>,
    /// The last calls.
    pub last: LastCalls,
    /// Tokens written to a cache, and of those not read by the end: an estimate.
    pub written: (u64, u64),
    /// Hit rates that fell, were low or rose again, in the order of the calls.
    pub changes: Vec<Alert>,
    /// The price lists of the estimates.
    pub lists: BTreeSet<PriceTag>,
    /// The first and the last time seen.
    pub span: Option<(Timestamp, Timestamp)>,
}

impl Report {
    /// An empty one.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Report {
            all: Totals::default(),
            days: Groups::new(DAYS),
            tenants: Groups::new(options.names),
            routes: Groups::new(options.names),
            models: Groups::new(options.names),
            latency: Latency::default(),
            causes: Causes::default(),
            latest: last::Latest::new(options.last),
            writes: unread::Writes::default(),
            changes: changes::Changes::new(options.threshold),
            lists: BTreeSet::new(),
            first: None,
            end: None,
            options,
        }
    }

    /// Adds a call.
    pub fn add(&mut self, call: &Observation) {
        self.all.add(call);
        let day = call.at.map(|at| self.options.zone.to_datetime(at).date());
        self.days.add(&day, call);
        self.tenants.add(&call.tenant, call);
        self.routes.add(&call.route, call);
        self.models.add(&call.model, call);
        self.latency.add(call);
        self.causes.add(call);
        self.latest.add(call);
        self.writes.add(call);
        self.changes.add(call);
        if let Some(priced) = &call.priced
            && self.lists.len() < LISTS
            && !self.lists.contains(&priced.list)
        {
            self.lists.insert(priced.list.clone());
        }
        if let Some(at) = call.at {
            self.first = Some(self.first.map_or(at, |first| first.min(at)));
            self.end = Some(self.end.map_or(at, |end| end.max(at)));
        }
    }

    /// What came of it.
    #[must_use]
    pub fn finish(self) -> Summary {
        Summary {
            latency: self.latency.report(),
            durations: self.latency,
            causes: self.causes.finish(),
            last: self.latest.finish(),
            written: self.writes.finish(),
            changes: self.changes.finish(),
            lists: self.lists,
            span: self.first.zip(self.end),
            options: self.options,
            all: self.all,
            days: self.days,
            tenants: self.tenants,
            routes: self.routes,
            models: self.models,
        }
    }
}

impl Summary {
    /// Whether a day or the last calls are an alert.
    #[must_use]
    pub fn alerts(&self) -> bool {
        let threshold = self.options.threshold;
        self.days.iter().any(|(_, totals)| totals.verdict(threshold) == Verdict::Alert)
            || (self.options.last > 0 && self.last.alerts())
    }
}
