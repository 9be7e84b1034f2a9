//! The report against a naive model, and over many names.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Debug;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use tapri_insight::report::{Groups, Observation, Options, Report, Totals, Verdict};

/// Calls, unknown, zero, prompt, cached.
type Row = (u64, u64, u64, u64, u64);

fn row(totals: &Totals) -> Row {
    (totals.calls, totals.unknown, totals.without_hit, totals.prompt, totals.cached)
}

/// The sums by a key, one call after the other.
fn naive<K: Ord>(calls: &[Observation], key: impl Fn(&Observation) -> K) -> BTreeMap<K, Row> {
    let mut sums: BTreeMap<K, Row> = BTreeMap::new();
    for call in calls {
        let sum = sums.entry(key(call)).or_default();
        sum.0 += 1;
        match (call.prompt, call.cached) {
            (Some(prompt), Some(cached)) => {
                sum.2 += u64::from(cached == 0);
                sum.3 += prompt;
                sum.4 += cached;
            }
            _ => sum.1 += 1,
        }
    }
    sums
}

fn found<K: Ord + Clone + Debug>(groups: &Groups<K>) -> BTreeMap<K, Row> {
    groups.iter().map(|(key, totals)| (key.clone(), row(totals))).collect()
}

fn name(kind: &'static str) -> impl Strategy<Value = Option<String>> {
    prop_oneof![1 => Just(None), 4 => (0u8..5).prop_map(move |n| Some(format!("{kind}{n}")))]
}

fn call() -> impl Strategy<Value = Observation> {
    let counts =
        (0u64..100_000).prop_flat_map(|prompt| (Just(prompt), prop::option::of(0..=prompt)));
    // Around the days on which New York's clocks change.
    let at = prop::option::of(prop_oneof![
        1_772_900_000i64..1_773_200_000,
        1_793_400_000i64..1_793_700_000
    ]);
    (at, name("t"), name("r"), name("m"), counts).prop_map(
        |(at, tenant, route, model, (prompt, cached))| Observation {
            at: at.and_then(|at| Timestamp::from_second(at).ok()),
            tenant,
            route,
            model,
            prompt: Some(prompt),
            cached,
            ..Observation::default()
        },
    )
}

/// A day by the offset that New York had: four hours from March to November, else five.
fn day_in_new_york(at: Timestamp) -> Date {
    let (spring, autumn) = ("2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z");
    let summer = at >= spring.parse().unwrap() && at < autumn.parse().unwrap();
    let shifted = at - jiff::SignedDuration::from_hours(if summer { 4 } else { 5 });
    TimeZone::UTC.to_datetime(shifted).date()
}

proptest! {
    #[test]
    fn sums_are_the_naive_ones(calls in prop::collection::vec(call(), 1..200)) {
        let zone = TimeZone::get("America/New_York").unwrap();
        let mut report = Report::new(Options { zone, ..Options::default() });
        calls.iter().for_each(|call| report.add(call));
        let summary = report.finish();
        prop_assert_eq!(found(&summary.days), naive(&calls, |call| call.at.map(day_in_new_york)));
        prop_assert_eq!(found(&summary.tenants), naive(&calls, |call| call.tenant.clone()));
        prop_assert_eq!(found(&summary.routes), naive(&calls, |call| call.route.clone()));
        prop_assert_eq!(found(&summary.models), naive(&calls, |call| call.model.clone()));
        prop_assert_eq!(row(&summary.all), naive(&calls, |_| ())[&()]);
    }

    /// However many names there are, so many have a line of their own, and nothing is lost.
    #[test]
    fn names_are_bounded(calls in prop::collection::vec(call(), 1..100), names in 1usize..4) {
        let mut report = Report::new(Options { names, ..Options::default() });
        calls.iter().for_each(|call| report.add(call));
        let summary = report.finish();
        for groups in [&summary.tenants, &summary.routes, &summary.models] {
            prop_assert!(groups.len() <= names);
            let named: u64 = groups.iter().map(|(_, totals)| totals.calls).sum();
            let beyond = groups.beyond.as_ref().map_or(0, |totals| totals.calls);
            prop_assert_eq!(named + beyond, calls.len() as u64);
        }
    }

    #[test]
    fn the_verdict_is_the_threshold(prompt in 1u64..1_000_000, share in 0.0f64..=1.0, threshold in 0.0f64..=1.0) {
        let cached = (prompt as f64 * share) as u64;
        let totals = Totals { calls: 1, prompt, cached, ..Totals::default() };
        let ok = cached as f64 / prompt as f64 >= threshold;
        prop_assert_eq!(totals.verdict(threshold), if ok { Verdict::Ok } else { Verdict::Alert });
    }
}
