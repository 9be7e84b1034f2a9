//! Prompts of which nothing is cached, in memory that earlier prompts have used: what a cache costs a call that finds nothing.
//!
//! A server's first prompt is not measured, since the system zeroes memory at its first use; and what is stored is forgotten
//! before each prompt.

use anyhow::{Context, Result, ensure};
use clap::Args;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::Serialize;
use serde_json::json;

use crate::InputArgs;
use crate::client::{complete, post};
use crate::contender::TurnArgs;
use crate::report::cell;
use crate::session::Session;
use crate::statistics::{Spread, median};

#[derive(Args)]
pub(crate) struct ColdArgs {
    #[command(flatten)]
    turns: TurnArgs,
    /// How many prompts are measured of each server in each round.
    #[arg(long, default_value_t = 3)]
    each: usize,
    /// How much of the file a prompt has, in characters, cut at a line's end. The rest is the first prompt of all.
    #[arg(long, default_value_t = 40_000)]
    characters: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// A server's prompts, of all rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    name: String,
    ttft_seconds: Vec<f64>,
}

impl ColdArgs {
    pub(crate) fn run(&self) -> Result<Vec<Measured>> {
        ensure!(self.each >= 1, "--each needs at least one prompt");
        let contenders = self.turns.contenders()?;
        let (session, rest) = self.input.session(self.characters)?;
        ensure!(!rest.is_empty(), "--characters leaves nothing of the file for the first prompt");
        let first: String = rest.chars().take(self.characters).collect();
        let results = self.turns.measure(&contenders, |_, server, label| {
            eprintln!("{label}");
            self.turn(&session, &first, &server.url)
        })?;
        let measured = results.into_iter();
        Ok(measured.map(|(name, it)| Measured { name, ttft_seconds: it.concat() }).collect())
    }

    fn turn(&self, session: &Session, first: &str, url: &str) -> Result<Vec<f64>> {
        let model = session.model.as_deref();
        let ask = |prompt: &str| complete(url, model, prompt, 1, None);
        ask(&format!("Another matter.\n\n{first}")).context("let it use its memory")?;
        let prompts = (0..self.each).map(|number| {
            post(&format!("{url}/cache/reset"), &json!({})).context("forget what is stored")?;
            // Each begins differently, should a server keep something all the same.
            let call = ask(&format!("{number}.\n\n{}", session.file)).context("ask a prompt")?;
            ensure!(
                call.cached_tokens.unwrap_or(0) == 0,
                "the server reused tokens of a prompt that nobody sent before"
            );
            Ok(call.ttft_seconds)
        });
        prompts.collect()
    }
}

/// Each server's prompts, and the first server's median over the others'.
pub(crate) fn table(servers: &[Measured]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "nothing cached, TTFT in s", "ratio"]);
    let ours = servers.first().and_then(|server| median(&server.ttft_seconds));
    for (at, server) in servers.iter().enumerate() {
        let ratio = match (ours, median(&server.ttft_seconds)) {
            (Some(ours), Some(theirs)) if at > 0 => format!("{:.3}", ours / theirs),
            _ => String::new(),
        };
        table.add_row([server.name.clone(), cell(Spread::of(&server.ttft_seconds)), ratio]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_the_first_server_over_the_others() {
        let measured = |name: &str, ttft_seconds: &[f64]| Measured {
            name: name.to_owned(),
            ttft_seconds: ttft_seconds.to_vec(),
        };
        let text = table(&[measured("on", &[3.0, 2.0, 4.0]), measured("off", &[2.0, 2.5, 1.0])]);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .map(|line| line.split('|').map(str::trim).filter(|c| !c.is_empty()).collect())
            .collect();
        assert_eq!(rows[0], ["on", "3.000 (2.000-4.000)"]);
        assert_eq!(rows[1], ["off", "2.000 (1.000-2.500)", "1.500"]);
    }
}
