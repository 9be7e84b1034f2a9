//! A neighbour: one user's answer is being written when another's long prompt arrives. How long does the first wait for the next
//! token?

use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use serde::Serialize;

use crate::InputArgs;
use crate::client::{Completion, complete, complete_watched};
use crate::contender::TurnArgs;
use crate::session::Session;
use crate::statistics::{Spread, median};

/// Tokens of the first answer before the neighbour comes.
const BEFORE: usize = 32;

/// Characters of the first user's own prompt.
const OWN_CHARACTERS: usize = 2_000;

#[derive(Args)]
pub(crate) struct NeighbourArgs {
    #[command(flatten)]
    turns: TurnArgs,
    /// Tokens of the first user's answer, which has to outlast the reading of the neighbour's prompt.
    #[arg(long, default_value_t = 600)]
    answer: u32,
    /// How much of the file the neighbour sends, in characters, cut at a line's end; 0 for all of it.
    #[arg(long, default_value_t = 0)]
    characters: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// What one round gave.
#[derive(Debug, Clone, Serialize)]
struct Turn {
    /// The median pause between two tokens of the first answer before the neighbour came, in seconds.
    before_seconds: f64,
    /// The median pause while the neighbour's prompt was read.
    meanwhile_seconds: f64,
    /// The longest of these.
    longest_seconds: f64,
    /// From sending the long prompt to its first token.
    neighbour_ttft_seconds: f64,
    /// Whether the first answer was still being written when the neighbour's began.
    outlasted: bool,
}

/// A server's rounds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    name: String,
    turns: Vec<Turn>,
}

impl NeighbourArgs {
    pub(crate) fn run(&self) -> Result<Vec<Measured>> {
        let contenders = self.turns.contenders()?;
        let (session, _) = self.input.session(self.characters)?;
        let results = self.turns.measure(&contenders, |_, server, label| {
            eprintln!("{label}");
            self.turn(&session, &server.url)
        })?;
        Ok(results.into_iter().map(|(name, turns)| Measured { name, turns }).collect())
    }

    fn turn(&self, session: &Session, url: &str) -> Result<Turn> {
        let model = session.model.as_deref();
        let own: String = session.file.chars().take(OWN_CHARACTERS).collect();
        let own = format!("A note of my own.\n\n{own}\n\nNow go on with it:");
        let (under_way, begun) = mpsc::sync_channel(1);
        std::thread::scope(|scope| {
            let first = scope.spawn(move || {
                complete_watched(url, model, &own, self.answer, None, |events| {
                    if events == BEFORE {
                        let _ = under_way.try_send(());
                    }
                })
            });
            // An answer that ends early closes the channel.
            let sent = begun.recv().ok().map(|()| Instant::now());
            let neighbour =
                sent.map(|_| complete(url, model, &session.prompt(&session.questions[0]), 1, None));
            let first = first.join().map_err(|_| anyhow!("the first user's thread failed"))??;
            let sent = sent.with_context(|| {
                format!(
                    "the first answer ended before {BEFORE} parts of it had come: raise --answer"
                )
            })?;
            let neighbour = neighbour.context("the neighbour did not ask")??;
            turn(&first, sent, &neighbour)
        })
    }
}

fn turn(first: &Completion, sent: Instant, neighbour: &Completion) -> Result<Turn> {
    let began = *neighbour.moments.first().context("the neighbour got no token")?;
    let pauses = |wanted: &dyn Fn(Instant, Instant) -> bool| -> Vec<f64> {
        let pairs = first.moments.windows(2).filter(|pair| wanted(pair[0], pair[1]));
        pairs.map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect()
    };
    let before = pauses(&|_, to| to <= sent);
    // A pause that the long prompt can have made: it ended after the prompt came and began before its first token.
    let meanwhile = pauses(&|from, to| to > sent && from < began);
    ensure!(!meanwhile.is_empty(), "no token of the first answer came while the prompt was read");
    Ok(Turn {
        before_seconds: median(&before).context("no token came before the neighbour")?,
        meanwhile_seconds: median(&meanwhile).context("no token came meanwhile")?,
        longest_seconds: meanwhile.iter().copied().fold(0.0, f64::max),
        neighbour_ttft_seconds: neighbour.ttft_seconds,
        outlasted: first.moments.last().is_some_and(|last| *last >= began),
    })
}

/// Each server's rounds: medians, and the smallest and the greatest.
pub(crate) fn table(servers: &[Measured]) -> String {
    let mut table = Table::new();
    let mut header = vec!["measured".to_owned()];
    header.extend(servers.iter().map(|s| s.name.clone()));
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    let mut line = |label: &str, unit: f64, of: fn(&Turn) -> f64| {
        let mut row = vec![label.to_owned()];
        row.extend(servers.iter().map(|s| {
            let samples: Vec<f64> = s.turns.iter().map(|t| of(t) * unit).collect();
            Spread::of(&samples).map_or_else(String::new, |v| v.text(1))
        }));
        table.add_row(row);
    };
    line("next token before, ms (median)", 1e3, |t| t.before_seconds);
    line("next token meanwhile, ms (median)", 1e3, |t| t.meanwhile_seconds);
    line("next token meanwhile, ms (longest)", 1e3, |t| t.longest_seconds);
    line("longest less the median before, ms", 1e3, |t| t.longest_seconds - t.before_seconds);
    line("the long prompt's TTFT, s", 1.0, |t| t.neighbour_ttft_seconds);
    let mut row = vec!["the first answer outlasted the reading".to_owned()];
    row.extend(servers.iter().map(|s| {
        format!("{} of {}", s.turns.iter().filter(|t| t.outlasted).count(), s.turns.len())
    }));
    table.add_row(row);
    table.to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn answer(moments: Vec<Instant>) -> Completion {
        Completion {
            ttft_seconds: 3.0,
            answer_seconds: 1.0,
            total_seconds: 4.0,
            prompt_tokens: 10,
            answer_tokens: moments.len() as u64,
            cached_tokens: None,
            answer: String::new(),
            moments,
        }
    }

    #[test]
    fn pauses_are_told_apart_by_when_they_were() {
        let start = Instant::now();
        let at = |ms: &[u64]| ms.iter().map(|&ms| start + Duration::from_millis(ms)).collect();
        let ms = |ms| start + Duration::from_millis(ms);
        // The prompt came at 35 ms and was answered at 260: the pause from 30 on is the first it can have made, the one
        // from 240 on the last.
        let first = answer(at(&[0, 10, 20, 30, 80, 240, 270, 700]));
        let found = turn(&first, ms(35), &answer(at(&[260]))).unwrap();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(found.before_seconds, 0.010), "{found:?}");
        assert!(near(found.meanwhile_seconds, 0.050), "{found:?}");
        assert!(near(found.longest_seconds, 0.160), "{found:?}");
        assert!(found.outlasted);
        let short = answer(at(&[0, 10, 20, 30, 80]));
        assert!(!turn(&short, ms(35), &answer(at(&[260]))).unwrap().outlasted);
        assert!(turn(&answer(at(&[0, 10])), ms(35), &answer(at(&[260]))).is_err());
        let text = table(&[Measured { name: "ours".to_owned(), turns: vec![found] }]);
        let row = |label: &str| {
            let line = text.lines().find(|line| line.contains(label)).unwrap();
            line.split('|').nth(2).unwrap().trim().to_owned()
        };
        assert_eq!(row("ms (longest)"), "160.0 (160.0-160.0)");
        assert_eq!(row("longest less"), "150.0 (150.0-150.0)");
        assert_eq!(row("outlasted"), "1 of 1");
    }
}
