//! Tables for people.

use comfy_table::{Table, presets::ASCII_MARKDOWN};

use super::{Quantiles, Results, TargetResult};

/// A table for each case, times in milliseconds: the median of the rounds, and the smallest and greatest.
pub(crate) fn table(results: &Results) -> String {
    let mut text = String::new();
    for case in &results.cases {
        text.push_str(&format!(
            "{}: {} calls a second, {} bytes each; ms, median of the rounds (smallest-greatest)\n",
            case.name, case.rate, case.request_bytes
        ));
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN).set_header([
            "",
            "p50",
            "p99",
            "p99.9",
            "added p50",
            "added p99",
            "added p99.9",
            "gap p50",
            "gap p99",
            "answered",
            "failed",
            "MB",
        ]);
        for target in &case.targets {
            table.add_row(row(target));
        }
        text.push_str(&format!("{table}\n\n"));
    }
    text
}

fn row(target: &TargetResult) -> Vec<String> {
    let mut row = vec![target.name.clone()];
    row.extend(three(target.latency.as_ref()));
    row.extend(three(target.added.as_ref()));
    row.extend(three(target.added_gap.as_ref()).into_iter().take(2));
    row.push(target.answered.to_string());
    row.push(target.failed.to_string());
    row.push(match target.memory {
        Some((first, last)) => format!("{:.0} to {:.0}", first as f64 / 1e6, last as f64 / 1e6),
        None => "-".to_owned(),
    });
    row
}

fn three(quantiles: Option<&Quantiles>) -> [String; 3] {
    match quantiles {
        Some(q) => [q.p50, q.p99, q.p999].map(|seconds| seconds.times(1e3).text(3)),
        None => std::array::from_fn(|_| "-".to_owned()),
    }
}
