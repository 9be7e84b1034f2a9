//! Which calls, as they are asked for on the command line.

use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use tapri_ledger::{CacheOutcome, Filter, MissReason};

use crate::report::period::{self, Since};

#[derive(Debug, Args)]
#[command(next_help_heading = "Which calls")]
pub(super) struct FilterArgs {
    /// Begun since then: a time back from now (24h, 7d) or a date (2026-11-30)
    #[arg(long, value_name = "TIME", value_parser = period::since)]
    since: Option<Since>,
    /// Begun before then
    #[arg(long, value_name = "TIME", value_parser = period::since)]
    until: Option<Since>,
    /// Of a tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// Through a door: ask, /v1/chat/completions, ...
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    /// Of a model
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Run by: embedded, or an upstream's name
    #[arg(long, value_name = "NAME")]
    upstream: Option<String>,
    /// Of a conversation
    #[arg(long, value_name = "NAME")]
    conversation: Option<String>,
    /// With this outcome
    #[arg(long, value_enum)]
    outcome: Option<OutcomeArg>,
    /// That reused no more for this reason, by its name: evicted, time_changed, ...
    #[arg(long, value_name = "REASON", value_parser = reason)]
    reason: Option<String>,
    /// That ended so
    #[arg(long, value_enum)]
    ending: Option<EndingArg>,
    /// With at least so many prompt tokens
    #[arg(long, value_name = "N")]
    min_tokens: Option<u64>,
    /// With a smaller share of the prompt from the cache (0.5 or 50%)
    #[arg(long, value_name = "SHARE", value_parser = period::share)]
    hit_below: Option<f64>,
    /// With a larger share of the prompt from the cache
    #[arg(long, value_name = "SHARE", value_parser = period::share)]
    hit_above: Option<f64>,
    /// With an id that begins so
    #[arg(long, value_name = "ID")]
    id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutcomeArg {
    /// All that could be reused was
    Hit,
    /// A part was
    Partial,
    /// Nothing was there
    Miss,
    /// The cache wasn't asked
    Bypass,
    /// Another call in flight answered this one too
    Collapsed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EndingArg {
    /// The model's end or a stop string
    Stop,
    /// The token limit
    Length,
    /// The client left
    Abort,
    /// An error
    Error,
}

impl FilterArgs {
    pub(super) fn filter(&self, now: Timestamp, zone: &TimeZone) -> Result<Filter> {
        Ok(Filter {
            since: self.since.as_ref().map(|since| since.start(now, zone)),
            until: self.until.as_ref().map(|until| until.start(now, zone)),
            tenant: self.tenant.clone(),
            route: self.route.clone(),
            model: self.model.clone(),
            upstream: self.upstream.clone(),
            conversation: self.conversation.clone(),
            id_prefix: self.id.clone(),
            outcome: self.outcome.map(|outcome| match outcome {
                OutcomeArg::Hit => CacheOutcome::Hit,
                OutcomeArg::Partial => CacheOutcome::Partial,
                OutcomeArg::Miss => CacheOutcome::Miss,
                OutcomeArg::Bypass => CacheOutcome::Bypass,
                OutcomeArg::Collapsed => CacheOutcome::Collapsed,
            }),
            why: self.reason.clone(),
            ending: self.ending.map(|ending| {
                match ending {
                    EndingArg::Stop => "stop",
                    EndingArg::Length => "length",
                    EndingArg::Abort => "abort",
                    EndingArg::Error => "error",
                }
                .to_owned()
            }),
            min_prompt: self.min_tokens,
            hit_below: self.hit_below,
            hit_above: self.hit_above,
            ..Filter::default()
        })
    }
}

/// What the prefix cache itself says, besides the reasons of explanations.
const STOPS: [&str; 5] =
    ["complete", "last_token_rule", "first_difference", "bypassed", "other_scope"];

fn reason(text: &str) -> Result<String, String> {
    let names = || MissReason::ALL.into_iter().map(MissReason::as_str).chain(STOPS);
    if names().any(|name| name == text) {
        return Ok(text.to_owned());
    }
    let mut near: Vec<_> = names().map(|name| (strsim::jaro_winkler(text, name), name)).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<_> = near.into_iter().take(3).map(|(_, name)| name).collect();
    Err(format!("it is no reason; the nearest are {}", near.join(", ")))
}
