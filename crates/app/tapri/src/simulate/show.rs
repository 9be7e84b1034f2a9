//! The figures as text.

use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::run::{At, Figures, Reused};
use crate::pull::lines;
use crate::quantity::{show_count, show_memory};

pub(super) fn text(figures: &Figures) -> String {
    let mut out = String::new();
    let trace = &figures.trace;
    let count = |count: u64| show_count(count as usize);
    let _ = writeln!(
        out,
        "{} calls in {}, {} prompt tokens, {} distinct blocks of {} tokens; the longest call holds {}\n",
        show_count(trace.calls),
        span(trace.seconds),
        count(trace.prompt_tokens),
        show_count(trace.distinct_blocks),
        trace.block_tokens,
        show_count(trace.longest_call_blocks),
    );
    let _ = writeln!(out, "{}\n", lines(&capacities(figures)));
    let _ = writeln!(out, "{}\n", lines(&endless(figures)));
    if figures.capacities.iter().any(|at| at.too_large > 0) {
        let _ = writeln!(
            out,
            "A capacity below the longest call runs fewer calls: those that are too large are counted as read anew.\n"
        );
    }
    let target = &figures.target;
    let _ = writeln!(
        out,
        "{} of what is possible ({} of the prompt tokens) needs {}.",
        whole(target.share),
        share(target.reused.token_hit),
        match target.bytes {
            Some(bytes) => format!(
                "{} of KV memory: {} blocks, {} tokens",
                show_memory(bytes),
                show_count(target.blocks),
                count(target.tokens)
            ),
            None => format!(
                "a KV cache of {} blocks, {} tokens; with --kv-bytes-per-token it is said in bytes",
                show_count(target.blocks),
                count(target.tokens)
            ),
        },
    );
    out
}

fn capacities(figures: &Figures) -> Table {
    let bytes = figures.trace.kv_bytes_per_token.is_some();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let mut header =
        vec!["capacity", "tokens", "blocks hit", "tokens hit", "tokens saved", "FIFO", "Belady"];
    if bytes {
        header.insert(2, "KV memory");
    }
    let columns = header.len();
    table.set_header(header);
    for at in &figures.capacities {
        let At { replay, .. } = at;
        let mut row = vec![
            show_count(at.blocks),
            show_count(at.tokens as usize),
            share(replay.block_hit),
            share(replay.token_hit),
            show_count(replay.tokens_saved as usize),
            share(at.fifo.token_hit),
            share(at.belady.token_hit),
        ];
        if let Some(bytes) = at.bytes {
            row.insert(2, show_memory(bytes));
        }
        table.add_row(row);
    }
    right(&mut table, 0..columns);
    table
}

fn endless(figures: &Figures) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["an endless cache", "blocks hit", "tokens hit", "tokens saved"]);
    let mut row = |name: String, reused: &Reused| {
        table.add_row([
            name,
            share(reused.block_hit),
            share(reused.token_hit),
            show_count(reused.tokens_saved as usize),
        ]);
    };
    for expiry in &figures.expiry {
        row(format!("that forgets after {}", span(expiry.after_seconds)), &expiry.reused);
    }
    row("that forgets nothing".to_owned(), &figures.endless);
    right(&mut table, 1..4);
    table
}

fn right(table: &mut Table, columns: std::ops::Range<usize>) {
    for column in columns {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn share(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A share that someone chose: `90 %`.
fn whole(share: f64) -> String {
    let tenths = (share * 1000.0).round() / 10.0;
    format!("{tenths} %")
}

/// A span of time in its two largest units.
fn span(seconds: f64) -> String {
    let all = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    let (days, hours, minutes) = (all / 86_400, all / 3600 % 24, all / 60 % 60);
    match (days, hours, minutes, all % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, 0) => format!("{minutes} min"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, 0, _) => format!("{hours} h"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}
