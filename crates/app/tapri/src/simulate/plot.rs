//! Hit rate against capacity, as SVG.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tapri_insight::plot::{Axis, Chart, Form, Mark, Series, svg};

use super::run::{At, Figures};
use super::show::span;

pub(super) fn write(path: &Path, figures: &Figures) -> Result<()> {
    let drawn = svg(&[chart(figures)])?;
    fs::write(path, drawn).with_context(|| format!("{} could not be written", path.display()))
}

fn chart(figures: &Figures) -> Chart {
    let trace = &figures.trace;
    let per_block = trace.kv_bytes_per_token.map(|bytes| bytes * trace.block_tokens);
    let x = |blocks: usize| match per_block {
        Some(bytes) => blocks as f64 * bytes as f64 / f64::from(1 << 30),
        None => blocks as f64,
    };
    let label = match per_block {
        Some(_) => "KV memory (GiB)".to_owned(),
        None => format!("capacity (blocks of {} tokens)", trace.block_tokens),
    };
    let at = |share: &dyn Fn(&At) -> f64| -> Vec<(f64, f64)> {
        figures.capacities.iter().map(|at| (x(at.blocks), share(at))).collect()
    };
    let curve = figures.curve.iter().map(|point| (x(point.blocks), point.token_hit)).collect();
    let mut marks = vec![Mark { y: figures.endless.token_hit, name: "endless".to_owned() }];
    // One that takes nothing away would lie on the endless cache's.
    marks.extend(
        figures
            .expiry
            .iter()
            .filter(|expiry| expiry.reused.token_hit < figures.endless.token_hit)
            .map(|expiry| Mark {
                y: expiry.reused.token_hit,
                name: format!("endless, forgets after {}", span(expiry.after_seconds)),
            }),
    );
    Chart {
        title: "Prompt tokens from the cache".to_owned(),
        x: Axis::new(label).logarithmic(),
        y: Axis::percent("tokens hit"),
        series: vec![
            Series::new("least recently used", Form::Line, curve),
            Series::new("exact replay", Form::Points, at(&|at| at.replay.token_hit)),
            Series::new("FIFO", Form::Line, at(&|at| at.fifo.token_hit)),
            Series::new("Belady", Form::Line, at(&|at| at.belady.token_hit)),
        ],
        marks,
    }
}
