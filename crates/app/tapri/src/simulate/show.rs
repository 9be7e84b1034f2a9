//! The figures as text.

use std::fmt::Write;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};

use super::run::{Figures, Reused};
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
    for note in notes(figures) {
        let _ = writeln!(out, "{note}");
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
                "a KV cache of {} blocks, {} tokens; with --model or --kv-bytes-per-token it is said in bytes",
                show_count(target.blocks),
                count(target.tokens)
            ),
        },
    );
    out
}

/// What the figures are, and what they are not.
fn notes(figures: &Figures) -> Vec<String> {
    let trace = &figures.trace;
    let agree = figures.capacities.iter().filter(|at| at.too_large == 0);
    let (agree, differ): (Vec<_>, Vec<_>) =
        agree.partition(|at| at.lru.is_some_and(|lru| lru.tokens_saved == at.replay.tokens_saved));
    let mut notes = vec![
        "Hits: the least recently used block goes first, replayed through the engine's own prefix cache. FIFO: the first \
         that came goes first."
            .to_owned(),
        "Belady: no order does better. Both are tokens hit.".to_owned(),
    ];
    if differ.is_empty() && !agree.is_empty() {
        notes.push(format!(
            "The one pass over all capacities gives the same at {}.",
            if agree.len() == 1 { "this one".to_owned() } else { format!("these {}", agree.len()) }
        ));
    }
    for at in differ {
        notes.push(format!(
            "At {} blocks the one pass gives something else.",
            show_count(at.blocks)
        ));
    }
    if figures.capacities.iter().any(|at| at.too_large > 0) {
        notes.push(
            "A cache smaller than the longest call can't run it: such calls count as read anew."
                .to_owned(),
        );
    }
    notes.push(match figures.endless.prefill_saved {
        Some(_) => "Prefill saved is an estimate: the share of the model's multiplications.".to_owned(),
        None => "Prefill saved is an estimate: between the share of attention and that of everything else.".to_owned(),
    });
    if let Some(rate) = trace.prefill_tokens_per_second {
        notes.push(format!("Time saved is an estimate: {} tokens a second.", show_count(rate)));
    }
    if trace.window_layers > 0 {
        notes.push(format!(
            "KV memory is an estimate from above: {} layers of the model look back only so far, and are reckoned with as if they \
             looked back to the start.",
            trace.window_layers
        ));
    }
    notes.push(String::new());
    notes
}

/// The columns of what a cache reuses.
fn reused_header(figures: &Figures) -> Vec<&'static str> {
    let mut header = vec!["blocks hit", "tokens hit", "tokens saved", "prefill saved"];
    if figures.trace.prefill_tokens_per_second.is_some() {
        header.push("time saved");
    }
    header
}

fn reused_row(reused: &Reused) -> Vec<String> {
    let mut row = vec![
        share(reused.block_hit),
        share(reused.token_hit),
        show_count(reused.tokens_saved as usize),
        prefill(reused),
    ];
    row.extend(reused.prefill_seconds_saved.map(span));
    row
}

/// The share of the prefill's work. Without a model it is between that of its matrices, which goes by tokens, and that of
/// its attention, which goes by pairs of tokens.
fn prefill(reused: &Reused) -> String {
    match reused.prefill_saved {
        Some(saved) => share(saved),
        None => {
            let (one, other) = (reused.attention_saved, reused.token_hit);
            let (low, high) = (share(one.min(other)), share(one.max(other)));
            if low == high { high } else { format!("{} to {high}", low.trim_end_matches(" %")) }
        }
    }
}

fn capacities(figures: &Figures) -> Table {
    let bytes = figures.trace.kv_bytes_per_token.is_some();
    let mut header = vec!["capacity", "tokens"];
    if bytes {
        header.push("KV memory");
    }
    header.extend(reused_header(figures));
    // Shares of the prompt's tokens, as the column of hits is.
    header.extend(["FIFO, tokens", "Belady, tokens"]);
    let mut table = Table::new();
    let columns = header.len();
    table.load_preset(presets::NOTHING).set_header(header);
    for at in &figures.capacities {
        let mut row = vec![show_count(at.blocks), show_count(at.tokens as usize)];
        row.extend(at.bytes.map(show_memory));
        row.extend(reused_row(&at.replay));
        row.extend([share(at.fifo.token_hit), share(at.belady.token_hit)]);
        table.add_row(row);
    }
    right(&mut table, 0..columns);
    table
}

fn endless(figures: &Figures) -> Table {
    let mut header = vec!["an endless cache"];
    header.extend(reused_header(figures));
    let mut table = Table::new();
    let columns = header.len();
    table.load_preset(presets::NOTHING).set_header(header);
    let forgetful = figures.expiry.iter().map(|expiry| {
        (format!("that forgets after {}", span(expiry.after_seconds)), &expiry.reused)
    });
    let endless = ("that forgets nothing".to_owned(), &figures.endless);
    for (name, reused) in forgetful.chain([endless]) {
        let mut row = vec![name];
        row.extend(reused_row(reused));
        table.add_row(row);
    }
    right(&mut table, 1..columns);
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
pub(super) fn span(seconds: f64) -> String {
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
