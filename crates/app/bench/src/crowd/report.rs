//! The table.

use comfy_table::{Table, presets::ASCII_MARKDOWN};

use super::{Crowds, Measure, Measured};
use crate::report::cell;

/// Each server's medians with their spread, and ours over each rival's.
pub(crate) fn table(crowds: &Crowds) -> String {
    let mut table = Table::new();
    let mut header = vec![format!("{} users at once", crowds.users)];
    header.extend(crowds.servers.iter().map(|s| s.name.clone()));
    let rivals = crowds.servers.iter().skip(1);
    let ours = crowds.servers.first().map_or("", |s| s.name.as_str());
    header.extend(rivals.clone().map(|s| format!("{ours} / {}", s.name)));
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for measure in Measure::ALL {
        if measure == Measure::Residents && crowds.resident == 0 {
            continue;
        }
        let mut row = vec![measure.label().to_owned()];
        row.extend(crowds.servers.iter().map(|s| cell(s.spread(measure))));
        row.extend(rivals.clone().map(|rival| {
            let ratio =
                crowds.ratios.iter().find(|r| r.measure == measure && r.rival == rival.name);
            cell(ratio.map(|r| r.ratio))
        }));
        table.add_row(row);
    }
    let line = |label: &str, of: &dyn Fn(&Measured) -> String| {
        let mut row = vec![label.to_owned()];
        row.extend(crowds.servers.iter().map(of));
        row
    };
    table.add_row(line("prompt tokens computed", &|s| computed(s)));
    table.add_row(line("prompt tokens of all users", &|s| {
        s.turns.first().map_or_else(String::new, |turn| turn.prompt_tokens.to_string())
    }));
    table.add_row(line("KV memory, all together, MiB", &|s| memory(s)));
    table.to_string()
}

/// Prompt tokens that were not reused, the least and the most of a turn.
fn computed(server: &Measured) -> String {
    let computed: Option<Vec<u64>> =
        server.turns.iter().map(|t| t.prompt_tokens.checked_sub(t.cached_tokens?)).collect();
    match computed.as_deref().map(|c| (c.iter().min(), c.iter().max())) {
        Some((Some(least), Some(most))) if least == most => least.to_string(),
        Some((Some(least), Some(most))) => format!("{least}-{most}"),
        _ => "the server does not say".to_owned(),
    }
}

fn memory(server: &Measured) -> String {
    match server.turns.iter().filter_map(|t| t.kv_bytes).max() {
        Some(bytes) => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
        None => "the server does not say".to_owned(),
    }
}
