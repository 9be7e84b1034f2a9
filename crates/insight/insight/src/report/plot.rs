//! A report as charts.

use jiff::civil::Date;
use rust_decimal::prelude::ToPrimitive;

use super::{Summary, Totals};
use crate::histogram::Histogram;
use crate::plot::{Axis, Chart, Form, Mark, Series};

/// Hit rate and savings over time, and the time to the first token of hits and of misses. A chart without data has no
/// points, and is left out when drawn.
#[must_use]
pub fn charts(summary: &Summary) -> Vec<Chart> {
    let days: Vec<(Date, &Totals)> =
        summary.days.iter().filter_map(|(day, totals)| Some(((*day)?, totals))).collect();
    let mut charts = Vec::new();
    if let Some((from, _)) = days.first() {
        let zone = summary.options.zone.iana_name().unwrap_or("local time");
        let x = || Axis::days(format!("day ({zone})"), *from);
        let at = |day: Date| day.duration_since(*from).as_hours() as f64 / 24.0;
        charts.push(Chart {
            title: "Prompt tokens from cache".to_owned(),
            x: x(),
            y: Axis::percent("hit rate (%)"),
            series: vec![Series::new(
                "share of prompt tokens",
                Form::Line,
                days.iter()
                    .filter_map(|(day, totals)| Some((at(*day), totals.hit_rate()?)))
                    .collect(),
            )],
            marks: vec![Mark { y: summary.options.threshold, name: "threshold".to_owned() }],
        });
        charts.push(savings(summary, &days, x(), at));
    }
    let durations = summary.durations.merged();
    charts.push(Chart {
        title: "Time to the first token: share of calls that had it".to_owned(),
        x: Axis::new("time to the first token (s)").logarithmic(),
        y: Axis::percent("share of calls (%)"),
        series: [("hits", &durations.hits), ("misses", &durations.misses)]
            .into_iter()
            .filter(|(_, times)| times.count() > 0)
            .map(|(name, times)| {
                let name = format!("{name} ({} calls)", times.count());
                Series::new(name, Form::Steps, cumulative(times))
            })
            .collect(),
        marks: Vec::new(),
    });
    charts
}

/// Money where there are prices, else the tokens that didn't have to be computed.
fn savings(
    summary: &Summary,
    days: &[(Date, &Totals)],
    x: Axis,
    at: impl Fn(Date) -> f64,
) -> Chart {
    // Prices of one report are in one currency, but for a ledger whose list was changed.
    let currency =
        summary.all.money.iter().max_by_key(|(_, sums)| sums.without_cache).map(|(name, _)| name);
    let (title, label, name, points) = match currency {
        Some(currency) => {
            let lists: Vec<String> = summary.lists.iter().map(ToString::to_string).collect();
            let points = days
                .iter()
                .filter_map(|(day, totals)| {
                    let sums = totals.money.get(currency)?;
                    Some((at(*day), (sums.without_cache - sums.paid).to_f64()?))
                })
                .collect();
            (
                format!("Saved by the cache (estimate; prices: {})", lists.join(", ")),
                format!("{currency} a day"),
                "saved; hollow: lost",
                points,
            )
        }
        None => (
            "Prompt tokens that were not computed".to_owned(),
            "tokens a day".to_owned(),
            "from cache",
            days.iter().map(|(day, totals)| (at(*day), totals.cached as f64)).collect(),
        ),
    };
    Chart {
        title,
        x,
        y: Axis::new(label),
        series: vec![Series::new(name, Form::Bars, points)],
        marks: Vec::new(),
    }
}

/// The share of calls within each time.
fn cumulative(times: &Histogram) -> Vec<(f64, f64)> {
    let all = times.count() as f64;
    let mut below = 0;
    let first = times.iter().next().map(|(time, _)| (time.as_secs_f64(), 0.0));
    let steps = times.iter().map(|(time, count)| {
        below += count;
        (time.as_secs_f64(), below as f64 / all)
    });
    first.into_iter().chain(steps).collect()
}
