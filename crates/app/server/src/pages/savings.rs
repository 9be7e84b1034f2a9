//! The page at `/savings`: what the caches saved and what they could not, from the ledger.
//!
//! Tokens and times are measured; money and waiting time are estimates, and named so. Map: [`view`] the sums as charts
//! and tables.

mod view;

use std::ops::ControlFlow;

use askama::Template;
use axum::Extension;
use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use tapri_insight::report::{Observation, Options, Report, Summary};
use tapri_insight::savings::Savings;
use tapri_ledger::{Detail, Filter};

use self::view::{Alarms, View};
use super::reading::{self, Sees};
use super::render::{self, Frame, Page};
use super::texts::{ENGLISH, SavingsTexts, fill};
use super::visitor::Visitor;
use crate::routes::App;

/// The page's address.
pub(super) const PATH: &str = "/savings";

/// Periods, and their days; nothing is all that the ledger has.
const PERIODS: [(&str, i64); 3] = [("7d", 7), ("30d", 30), ("90d", 90)];

pub(super) fn routes() -> Router<App> {
    Router::new().route(PATH, get(page))
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Asked {
    period: String,
    tenant: String,
}

/// A choice of a field.
struct Choosable {
    value: String,
    words: String,
    chosen: bool,
}

#[derive(Template)]
#[template(path = "savings/page.html")]
struct SavingsPage {
    frame: Frame,
    t: &'static SavingsTexts,
    periods: Vec<Choosable>,
    tenants: Vec<Choosable>,
    not_understood: Option<String>,
    recorded: bool,
    unreadable: u64,
    view: Option<View>,
    alarms: Alarms,
}

/// What the ledger gave.
struct Sums {
    savings: Savings,
    summary: Summary,
    tenants: Vec<String>,
    unreadable: u64,
}

/// `GET /savings`.
async fn page(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Query(asked): Query<Asked>,
) -> Page {
    let t = &ENGLISH.savings;
    let sees = Sees::of(&app, &visitor, PATH, t.title)?;
    let period = if asked.period.is_empty() { "30d" } else { asked.period.trim() };
    let days = PERIODS.iter().find(|(name, _)| *name == period).map(|(_, days)| *days);
    let not_understood = (days.is_none() && period != "all")
        .then(|| fill(ENGLISH.calls.not_understood, &[&t.period, &period]));
    let since = days
        .and_then(|days| Timestamp::now().checked_sub(SignedDuration::from_hours(24 * days)).ok());
    let tenant = sees.tenant(Some(asked.tenant.trim().to_owned()).filter(|it| !it.is_empty()));
    let filter =
        Filter { since, tenant: tenant.clone(), detail: Detail::Figures, ..Filter::default() };
    let (whose, zone) = (sees.tenant(None), TimeZone::system());
    let sums = reading::ledger(&app, move |ledger| {
        let mut savings = Savings::new(zone.clone());
        let options = Options { zone, last: 0, explained: true, ..Options::default() };
        let mut report = Report::new(options);
        let queried = ledger.query(&filter, |record| {
            savings.add(&record);
            if record.tokens.prompt.is_some() {
                report.add(&Observation::from(record));
            }
            ControlFlow::Continue(())
        })?;
        Ok(Sums {
            savings,
            summary: report.finish(),
            tenants: ledger.names(whose.as_deref())?.tenants.into_iter().collect(),
            unreadable: queried.unreadable,
        })
    });
    let sums = sums.await?;
    let chosen = |value: &str, words: &str, now: &str| Choosable {
        value: value.to_owned(),
        words: words.to_owned(),
        chosen: value == now,
    };
    let names = sums.as_ref().map(|sums| sums.tenants.as_slice()).unwrap_or_default();
    let shows_tenants = sees == Sees::All && (names.len() > 1 || !asked.tenant.is_empty());
    let tenants = names.iter().filter(|_| shows_tenants);
    let template = SavingsPage {
        periods: t.periods.iter().map(|(value, words)| chosen(value, words, period)).collect(),
        tenants: tenants.map(|name| chosen(name, name, asked.tenant.trim())).collect(),
        not_understood,
        recorded: app.pipeline().recorder().ledger().is_some(),
        unreadable: sums.as_ref().map_or(0, |sums| sums.unreadable),
        view: sums
            .filter(|sums| sums.savings.all.calls > 0)
            .map(|sums| View::new(&sums.savings, &sums.summary)),
        alarms: view::alarms(app.alerts(), tenant.as_deref()),
        frame: Frame::new(&visitor, PATH, t.title),
        t,
    };
    Ok(render::page(&template))
}
