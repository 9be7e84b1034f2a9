//! A report for programs: the schema `tapri.report/1`.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Groups, Summary, Totals, Verdict};

/// One object; money is decimal text, shares are fractions, durations are seconds.
#[must_use]
pub fn render(summary: &Summary) -> Value {
    let threshold = summary.options.threshold;
    let (written, unread) = summary.written;
    json!({
        "schema": "tapri.report/1",
        "zone": summary.options.zone.iana_name(),
        "threshold": threshold,
        "from": summary.span.map(|span| span.0),
        "to": summary.span.map(|span| span.1),
        "alert": summary.alerts(),
        "all": Sums::of(&summary.all, threshold),
        "days": rows("day", &summary.days, threshold),
        "tenants": rows("tenant", &summary.tenants, threshold),
        "routes": rows("route", &summary.routes, threshold),
        "models": rows("model", &summary.models, threshold),
        "last": (summary.options.last > 0).then(|| json!({
            "asked": summary.last.asked,
            "calls": summary.last.calls,
            "hits": summary.last.hits,
            "zeros": summary.last.zeros,
            "unknown": summary.last.unknown,
            "since_hit": summary.last.since_hit,
            "last_hit": summary.last.last_hit,
            "never_hit": summary.last.never_hit(),
            "alert": summary.last.alerts(),
            "says": summary.last.sentences(),
        })),
        "changes": summary.changes.iter().map(crate::alert::Alert::json).collect::<Vec<_>>(),
        "causes": summary.causes.iter().map(|cause| json!({
            "reason": cause.reason,
            "calls": cause.calls,
            "tokens": cause.tokens,
            "estimate_at_most": cause.money.iter().map(|(currency, amount)| (currency.clone(), amount.normalize())).collect::<BTreeMap<_, _>>(),
        })).collect::<Vec<_>>(),
        "ttft": summary.latency,
        "prices": summary.lists.iter().map(|list| json!({ "list": list.name, "date": list.date })).collect::<Vec<_>>(),
        "writes": { "tokens": written, "estimate_never_read": unread },
    })
}

/// Sums, with what follows from them.
#[derive(Serialize)]
struct Sums {
    calls: u64,
    unknown: u64,
    zero: u64,
    prompt: u64,
    cached: u64,
    written: u64,
    hit_rate: Option<f64>,
    verdict: Verdict,
    line: String,
    estimate: BTreeMap<String, Value>,
    unpriced: u64,
}

impl Sums {
    fn of(totals: &Totals, threshold: f64) -> Self {
        let money = |sums: &super::Paid| {
            json!({
                "paid": sums.paid.normalize(),
                "without_cache": sums.without_cache.normalize(),
                "saved": (sums.without_cache - sums.paid).normalize(),
            })
        };
        Sums {
            calls: totals.calls,
            unknown: totals.unknown,
            zero: totals.without_hit,
            prompt: totals.prompt,
            cached: totals.cached,
            written: totals.written,
            hit_rate: totals.hit_rate(),
            verdict: totals.verdict(threshold),
            line: totals.line(threshold),
            estimate: totals
                .money
                .iter()
                .map(|(currency, sums)| (currency.clone(), money(sums)))
                .collect(),
            unpriced: totals.unpriced,
        }
    }
}

fn rows<K: Ord + Clone + Serialize>(kind: &str, groups: &Groups<K>, threshold: f64) -> Value {
    let row = |key: Value, totals: &Totals| {
        let mut row = json!({ kind: key });
        if let (Value::Object(row), Ok(Value::Object(sums))) =
            (&mut row, serde_json::to_value(Sums::of(totals, threshold)))
        {
            row.extend(sums);
        }
        row
    };
    let mut rows: Vec<Value> = groups.iter().map(|(key, totals)| row(json!(key), totals)).collect();
    if let Some(beyond) = &groups.beyond {
        rows.push(row(json!("(others)"), beyond));
    }
    Value::Array(rows)
}
