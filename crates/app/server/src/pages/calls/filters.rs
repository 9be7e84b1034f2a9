//! Which calls an address asks for, and the fields that say so.

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tapri_ledger::{CacheOutcome, Detail, Filter, MissReason, Names, Order};

use crate::pages::reading::{OTHER_SCOPE, Sees};
use crate::pages::show::encoded;
use crate::pages::texts::{ENGLISH, fill};

/// The filters of an address, as they were written. An empty one asks for nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Asked {
    pub(crate) tenant: String,
    pub(crate) route: String,
    pub(crate) model: String,
    /// What the caches did, or how the call ended.
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) period: String,
    after: String,
}

/// What was understood.
pub(super) struct Read {
    pub(super) filter: Filter,
    pub(super) not_understood: Vec<String>,
}

/// What the prefix cache itself says, besides the reasons of explanations.
const STOPS: [&str; 5] =
    ["complete", "last_token_rule", "first_difference", "bypassed", OTHER_SCOPE];

/// Periods and their hours.
const PERIODS: [(&str, i64); 4] = [("1h", 1), ("24h", 24), ("7d", 168), ("30d", 720)];

const ENDINGS: [&str; 4] = ["stop", "length", "abort", "error"];

fn some(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

impl Asked {
    /// Whether anything is left out.
    pub(super) fn filters(&self) -> bool {
        self.pairs().next().is_some()
    }

    fn pairs(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("tenant", &self.tenant),
            ("route", &self.route),
            ("model", &self.model),
            ("status", &self.status),
            ("reason", &self.reason),
            ("period", &self.period),
        ]
        .into_iter()
        .map(|(name, value)| (name, value.trim()))
        .filter(|(_, value)| !value.is_empty())
    }

    /// The same filters at a path, behind a place.
    pub(super) fn address(&self, path: &str, after: Option<&str>) -> String {
        let mut address = path.to_owned();
        for (n, (name, value)) in self.pairs().chain(after.map(|at| ("after", at))).enumerate() {
            address.push(if n == 0 { '?' } else { '&' });
            address.push_str(&format!("{name}={}", encoded(value)));
        }
        address
    }

    /// What it asks for, of what a visitor may see. What can't be understood is said, and asks for nothing.
    pub(super) fn read(&self, sees: &Sees, now: Timestamp) -> Read {
        let mut not_understood = Vec::new();
        let mut unknown = |name: &str, value: &str| {
            not_understood.push(fill(ENGLISH.calls.not_understood, &[&name, &value]));
        };
        let mut filter = Filter {
            tenant: sees.tenant(some(&self.tenant)),
            route: some(&self.route),
            model: some(&self.model),
            order: Order::NewestFirst,
            detail: Detail::Figures,
            ..Filter::default()
        };
        let t = &ENGLISH.calls;
        if let Some(status) = some(&self.status) {
            if let Some(outcome) = CacheOutcome::ALL.into_iter().find(|it| it.as_str() == status) {
                filter.outcome = Some(outcome);
            } else if ENDINGS.contains(&status.as_str()) {
                filter.ending = Some(status);
            } else {
                unknown(t.status, &status);
            }
        }
        if let Some(reason) = some(&self.reason) {
            let hidden = reason == OTHER_SCOPE && *sees != Sees::All;
            let known = reason.parse::<MissReason>().is_ok() || STOPS.contains(&reason.as_str());
            if known && !hidden {
                filter.why = Some(reason);
            } else {
                unknown(t.reason, &reason);
            }
        }
        if let Some(period) = some(&self.period) {
            match PERIODS.iter().find(|(name, _)| *name == period) {
                Some((_, hours)) => {
                    filter.since = now.checked_sub(SignedDuration::from_hours(*hours)).ok();
                }
                None => unknown(t.period, &period),
            }
        }
        if let Some(after) = some(&self.after) {
            match after.parse() {
                Ok(after) => filter.after = Some(after),
                Err(_) => unknown(t.place, &after),
            }
        }
        Read { filter, not_understood }
    }
}

/// A field to choose in.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) options: Vec<Choosable>,
}

/// What can be chosen.
pub(super) struct Choosable {
    pub(super) value: String,
    pub(super) words: String,
    pub(super) chosen: bool,
}

/// What there is to choose from.
pub(super) struct Choice<'a> {
    pub(super) asked: &'a Asked,
    pub(super) names: &'a Names,
    pub(super) sees: &'a Sees,
}

impl Choice<'_> {
    pub(super) fn fields(&self) -> Vec<Field> {
        let t = &ENGLISH.calls;
        let own = |name: &String| (name.clone(), name.clone());
        let reason = |name: &String| {
            let words = name.parse::<MissReason>().map(|it| it.describe().trim_end_matches('.'));
            (name.clone(), words.map_or_else(|_| name.clone(), ToOwned::to_owned))
        };
        let status = |(value, words): (&str, &str)| (value.to_owned(), words.to_owned());
        let mut fields = Vec::new();
        if *self.sees == Sees::All
            && (self.names.tenants.len() > 1 || !self.asked.tenant.is_empty())
        {
            let tenants = self.names.tenants.iter().map(own).collect();
            fields.push(field("tenant", t.tenant, &self.asked.tenant, tenants));
        }
        let routes = self.names.routes.iter().map(own).collect();
        fields.push(field("route", t.route, &self.asked.route, routes));
        let models = self.names.models.iter().map(own).collect();
        fields.push(field("model", t.model, &self.asked.model, models));
        let statuses = t.outcomes.into_iter().chain(t.endings).map(status).collect();
        fields.push(field("status", t.status, &self.asked.status, statuses));
        let reasons = self.names.reasons.iter().map(reason).collect();
        fields.push(field("reason", t.reason, &self.asked.reason, reasons));
        let periods = t.periods.into_iter().map(status).collect();
        fields.push(field("period", t.period, &self.asked.period, periods));
        fields
    }
}

fn field(
    name: &'static str,
    label: &'static str,
    asked: &str,
    mut options: Vec<(String, String)>,
) -> Field {
    let asked = asked.trim();
    // What an old address asks for stays chosen, though none of the newest calls has it.
    if !asked.is_empty() && options.iter().all(|(value, _)| value != asked) {
        options.push((asked.to_owned(), asked.to_owned()));
    }
    let options = options
        .into_iter()
        .map(|(value, words)| Choosable { chosen: value == asked, value, words })
        .collect();
    Field { name, label, options }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&str, &str)]) -> Asked {
        let mut asked = Asked::default();
        for (name, value) in pairs {
            let field = match *name {
                "tenant" => &mut asked.tenant,
                "route" => &mut asked.route,
                "status" => &mut asked.status,
                "reason" => &mut asked.reason,
                "period" => &mut asked.period,
                _ => &mut asked.after,
            };
            (*value).clone_into(field);
        }
        asked
    }

    #[test]
    fn an_address_is_read_and_written() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(48);
        let asked = asked(&[
            ("route", "/v1/messages"),
            ("status", "miss"),
            ("reason", "evicted"),
            ("period", "24h"),
            ("after", "5.7"),
        ]);
        let read = asked.read(&Sees::All, now);
        assert!(read.not_understood.is_empty());
        assert_eq!(read.filter.outcome, Some(CacheOutcome::Miss));
        assert_eq!(read.filter.why.as_deref(), Some("evicted"));
        assert_eq!(read.filter.since, Some(Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24)));
        assert!(read.filter.after.is_some());
        assert_eq!(
            asked.address("/calls", Some("1.2")),
            "/calls?route=/v1/messages&status=miss&reason=evicted&period=24h&after=1.2"
        );
        assert_eq!(Asked::default().address("/calls", None), "/calls");
    }

    #[test]
    fn what_cannot_be_understood_is_said_and_left_out() {
        let asked =
            asked(&[("status", "x"), ("reason", "other_scope"), ("period", "y"), ("after", "z")]);
        let own = Sees::Own("red".to_owned());
        let read = asked.read(&own, Timestamp::UNIX_EPOCH);
        assert_eq!(read.not_understood.len(), 4, "{:?}", read.not_understood);
        let nothing = Filter {
            tenant: Some("red".to_owned()),
            order: Order::NewestFirst,
            detail: Detail::Figures,
            ..Filter::default()
        };
        assert_eq!(read.filter, nothing);
        assert_eq!(
            asked.read(&Sees::All, Timestamp::UNIX_EPOCH).filter.why.as_deref(),
            Some("other_scope")
        );
    }
}
