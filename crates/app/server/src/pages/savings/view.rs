//! The sums as charts and tables.

use std::collections::BTreeMap;
use std::time::Duration;

use tapri_insight::alert::{Alert, Kind, Subject};
use tapri_insight::histogram::Histogram;
use tapri_insight::report::Summary;
use tapri_insight::report::latency::{Finding, Pair};
use tapri_insight::savings::{Saved, Savings, Waiting};

use crate::alerts::{Alerts, Standing};
use crate::pages::chart::{self, Column, Distribution, Entry, Fill};
use crate::pages::figures::{known, money, percent, seconds, span};
use crate::pages::show::{Html, Moment, Number};
use crate::pages::texts::{ENGLISH, fill};

/// Rows of a table of names.
const NAMES: usize = 20;

/// Causes that are listed.
const CAUSES: usize = 10;

/// What was saved.
pub(super) struct View {
    pub(super) facts: Vec<(&'static str, Html)>,
    /// Why the waiting time isn't wholly known.
    pub(super) waiting_unknown: Option<Html>,
    pub(super) price_lists: Option<String>,
    pub(super) days: Html,
    pub(super) days_top: Html,
    pub(super) days_ends: (String, String),
    pub(super) legend: Vec<Entry>,
    pub(super) tables: Vec<Table>,
    pub(super) latency: Option<LatencyView>,
    pub(super) causes: Vec<CauseRow>,
    pub(super) changes: Vec<(Html, String)>,
}

/// Sums by name.
pub(super) struct Table {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) head: &'static str,
    pub(super) rows: Vec<Row>,
    /// Names that are not listed.
    pub(super) more: usize,
    pub(super) open: bool,
}

pub(super) struct Row {
    pub(super) name: String,
    pub(super) calls: Html,
    pub(super) unread: Html,
    pub(super) share: Html,
    pub(super) money: Html,
    pub(super) waiting: Html,
}

/// Hits against misses.
pub(super) struct LatencyView {
    pub(super) finding: &'static str,
    pub(super) drawn: Distribution,
    pub(super) hits: Html,
    pub(super) misses: Html,
    /// A share of the calls, and the times by which as many hits and misses had begun to answer.
    pub(super) rows: Vec<(Html, Html, Html)>,
}

pub(super) struct CauseRow {
    pub(super) reason: String,
    pub(super) words: &'static str,
    pub(super) figures: Html,
    /// Its part of the most frequent one's tokens.
    pub(super) bar: Html,
}

/// What the server's own watch says.
pub(super) struct Alarms {
    /// Whether anything is watched.
    pub(super) watched: bool,
    pub(super) standing: Vec<(String, String)>,
    pub(super) latest: Vec<(Html, String)>,
}

impl View {
    pub(super) fn new(savings: &Savings, summary: &Summary) -> Self {
        let t = &ENGLISH.savings;
        let all = &savings.all;
        let waiting = savings.waiting(all);
        let lists: Vec<String> = summary.lists.iter().map(ToString::to_string).collect();
        let (days, days_top, days_ends) = days(savings);
        let by_day = savings.days.iter().rev().map(|(day, saved)| (day.to_string(), saved));
        View {
            facts: facts(all, waiting),
            waiting_unknown: (waiting.unknown > 0)
                .then(|| Html(fill(t.waiting_unknown, &[&Number(waiting.unknown)]))),
            price_lists: (!lists.is_empty()).then(|| lists.join(", ")),
            days,
            days_top,
            days_ends,
            legend: vec![
                Entry::new(Fill::Cached, t.from_prefix),
                Entry::new(Fill::Used, t.from_answers),
                Entry::new(Fill::Fresh, t.read_fresh),
            ],
            tables: vec![
                table("days", t.by_day, t.day, by_day, savings, false),
                table("tenants", t.by_tenant, t.tenant, by_size(&savings.tenants), savings, true),
                table("routes", t.by_route, t.route, by_size(&savings.routes), savings, true),
                table("models", t.by_model, t.model, by_size(&savings.models), savings, false),
            ],
            latency: latency(&summary.durations.merged(), summary.latency.all.finding),
            causes: causes(summary),
            changes: summary.changes.iter().rev().take(NAMES).map(said).collect(),
        }
    }
}

fn facts(all: &Saved, waiting: Waiting) -> Vec<(&'static str, Html)> {
    let t = &ENGLISH.savings;
    let number = |count| Html(Number(count).to_string());
    vec![
        (t.calls, number(all.calls)),
        (t.not_read, number(all.unread())),
        (t.of_prompt, percent(all.share())),
        (t.stored_answers, number(all.answers)),
        (t.money, saved_money(all)),
        (t.waiting, span(waiting.time)),
    ]
}

fn saved_money(saved: &Saved) -> Html {
    money(
        saved
            .money
            .iter()
            .map(|(currency, paid)| (currency.as_str(), paid.without_cache - paid.paid)),
    )
}

fn by_size(names: &BTreeMap<String, Saved>) -> impl Iterator<Item = (String, &Saved)> {
    let mut all: Vec<_> = names.iter().collect();
    all.sort_by_key(|(_, saved)| std::cmp::Reverse((saved.unread(), saved.calls)));
    all.into_iter().map(|(name, saved)| (name.clone(), saved))
}

fn table<'a>(
    id: &'static str,
    title: &'static str,
    head: &'static str,
    sums: impl Iterator<Item = (String, &'a Saved)>,
    savings: &Savings,
    open: bool,
) -> Table {
    let mut rows: Vec<Row> = sums
        .map(|(name, saved)| {
            let waiting = savings.waiting(saved);
            // Of which nothing is known, nothing is said.
            let nothing = waiting.time.is_zero() && waiting.unknown > 0;
            Row {
                name,
                calls: Html(Number(saved.calls).to_string()),
                unread: Html(Number(saved.unread()).to_string()),
                share: percent(saved.share()),
                money: saved_money(saved),
                waiting: known((!nothing).then(|| span(waiting.time))),
            }
        })
        .collect();
    let limit = if id == "days" { usize::MAX } else { NAMES };
    let more = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    Table { id, title, head, rows, more, open }
}

/// A column for each day from the first to the last, also of those without a call.
fn days(savings: &Savings) -> (Html, Html, (String, String)) {
    /// More columns than this can't be told apart.
    const MOST: usize = 400;
    let t = &ENGLISH.savings;
    let ends = savings.days.first_key_value().zip(savings.days.last_key_value());
    let Some(((first, _), (last, _))) = ends else {
        return (Html(String::new()), Html(String::new()), (String::new(), String::new()));
    };
    let none = Saved::default();
    // A single day alone would be no picture of days.
    let week = last.checked_sub(jiff::Span::new().days(6)).unwrap_or(*first);
    let first = (*first).min(week);
    let columns: Vec<Column> = first
        .series(jiff::Span::new().days(1))
        .take_while(|day| day <= last)
        .take(MOST)
        .map(|day| {
            let saved = savings.days.get(&day).unwrap_or(&none);
            let fresh = saved.prompt.saturating_sub(saved.unread());
            Column {
                title: fill(t.day_title, &[&day, &saved.unread(), &fresh]),
                parts: vec![
                    (Fill::Cached, saved.cached as f64),
                    (Fill::Used, saved.spared as f64),
                    (Fill::Fresh, fresh as f64),
                ],
            }
        })
        .collect();
    let all = &savings.all;
    let fresh = all.prompt.saturating_sub(all.unread());
    let label = fill(t.days_label, &[&columns.len(), &all.unread(), &fresh]);
    let top = Html(Number(chart::top(&columns) as u64).to_string());
    (chart::columns(&label, &columns), top, (first.to_string(), last.to_string()))
}

fn latency(times: &Pair, finding: Finding) -> Option<LatencyView> {
    let t = &ENGLISH.savings;
    let (hits, misses) = (&times.hits, &times.misses);
    let median = |it: &Histogram| {
        it.quantile(0.5).map_or_else(|| "-".to_owned(), |it| format!("{:.3}", it.as_secs_f64()))
    };
    let label =
        fill(t.latency_label, &[&hits.count(), &median(hits), &misses.count(), &median(misses)]);
    let drawn = chart::distribution(&label, hits, misses)?;
    let rows = [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99].map(|share| {
        let at = |it: &Histogram| seconds(it.quantile(share).map(millis));
        (percent(Some(share)), at(hits), at(misses))
    });
    let words = |text, it: &Histogram| {
        Html(fill(text, &[&Number(it.count()), &seconds(it.quantile(0.5).map(millis))]))
    };
    Some(LatencyView {
        finding: match finding {
            Finding::TooFew => t.too_few,
            Finding::NoDifference => t.no_difference,
            Finding::HitsFaster => t.hits_faster,
            Finding::HitsSlower => t.hits_slower,
        },
        drawn,
        hits: words(t.hits, hits),
        misses: words(t.misses, misses),
        rows: rows.into(),
    })
}

/// A histogram's times are exact to a hundredth: more digits than a millisecond's would claim more.
fn millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1))
}

fn causes(summary: &Summary) -> Vec<CauseRow> {
    let t = &ENGLISH.savings;
    let most = summary.causes.first().map_or(0, |cause| cause.tokens).max(1) as f64;
    let row = |cause: &tapri_insight::report::Cause| {
        let share = cause.tokens as f64 / most;
        let parts =
            [(Fill::Fresh, share, String::new()), (Fill::Empty, 1.0 - share, String::new())];
        CauseRow {
            reason: cause.reason.as_str().to_owned(),
            words: cause.reason.describe(),
            figures: Html(fill(t.cause_of, &[&Number(cause.tokens), &Number(cause.calls)])),
            bar: chart::strip("bar", &fill(t.cause_label, &[&cause.tokens]), &parts, 0, None),
        }
    };
    summary.causes.iter().take(CAUSES).map(row).collect()
}

fn said(alert: &Alert) -> (Html, String) {
    (Html(Moment(alert.seen).to_string()), alert.to_string())
}

/// What the watch says, of all or of one tenant.
pub(super) fn alarms(alerts: Option<&Alerts>, tenant: Option<&str>) -> Alarms {
    let t = &ENGLISH.savings;
    let Some(alerts) = alerts else {
        return Alarms { watched: false, standing: Vec::new(), latest: Vec::new() };
    };
    // A route's rate is that of all its tenants.
    let may_see = |subject: &Subject| match (tenant, subject) {
        (None, _) => true,
        (Some(tenant), Subject::Tenant(of)) => of == tenant,
        (Some(_), _) => false,
    };
    let standing = alerts.standing();
    let standing = standing.iter().filter(|it| may_see(&it.subject)).map(|it: &Standing| {
        let words = match it.kind {
            Kind::Fell => t.fell,
            Kind::Low => t.low,
            Kind::Recovered => t.recovered,
        };
        (it.subject.to_string(), words.to_owned())
    });
    let latest = alerts.latest();
    Alarms {
        watched: true,
        standing: standing.collect(),
        latest: latest.iter().filter(|alert| may_see(&alert.subject)).map(said).collect(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use tapri_ledger::CallRecord;

    use super::*;
    use crate::AlertConfig;

    #[test]
    fn a_tenant_sees_its_own_alarms_alone() {
        assert!(!alarms(None, None).watched);
        let alerts = Alerts::start(AlertConfig::default()).unwrap();
        for n in 0..600 {
            for (tenant, cached) in [("red", 0), ("blue", 900)] {
                let mut record = CallRecord::new(n.to_string(), jiff::Timestamp::UNIX_EPOCH);
                record.tenant = tenant.to_owned();
                record.route = "/v1/messages".to_owned();
                record.tokens.prompt = Some(1000);
                record.tokens.cached = Some(cached);
                alerts.ended(&record);
            }
        }
        // What waits is counted before it ends.
        alerts.stop(Duration::from_secs(5));
        let red = alarms(Some(&alerts), Some("red"));
        assert_eq!(red.standing, [("tenant red".to_owned(), ENGLISH.savings.low.to_owned())]);
        assert!(red.latest.len() == 1 && red.latest[0].1.contains("tenant red"));
        let blue = alarms(Some(&alerts), Some("blue"));
        assert!(blue.watched && blue.standing.is_empty() && blue.latest.is_empty());
        assert!(alarms(Some(&alerts), None).standing.len() >= red.standing.len());
    }
}
