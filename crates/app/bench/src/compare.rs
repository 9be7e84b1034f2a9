//! One user's questions about a file, server against server.

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use crate::InputArgs;
use crate::contender::TurnArgs;
use crate::session::SessionResult;
use crate::statistics::{Ratio, Spread};

#[derive(Args)]
pub(crate) struct CompareArgs {
    #[command(flatten)]
    turns: TurnArgs,
    /// How much of the file is used, in characters, cut at a line's end; 0 for all of it.
    #[arg(long, default_value_t = 0)]
    characters: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// What is compared.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    FirstTtft,
    LaterTtft,
    DecodeRate,
    Total,
}

impl Measure {
    pub(crate) const ALL: [Measure; 4] =
        [Measure::FirstTtft, Measure::LaterTtft, Measure::DecodeRate, Measure::Total];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Measure::FirstTtft => "first TTFT, s",
            Measure::LaterTtft => "later TTFT, s (median)",
            Measure::DecodeRate => "decode, tokens/s (median)",
            Measure::Total => "whole session, s",
        }
    }

    fn of(self, r: &SessionResult) -> f64 {
        match self {
            Measure::FirstTtft => r.first_ttft_seconds,
            Measure::LaterTtft => r.later_ttft_seconds,
            Measure::DecodeRate => r.decode_tokens_per_second,
            Measure::Total => r.total_seconds,
        }
    }

    /// Whether `a` is better than `b`.
    fn better(self, a: f64, b: f64) -> bool {
        if self == Measure::DecodeRate { a > b } else { a < b }
    }
}

/// A server's sessions.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) sessions: Vec<SessionResult>,
}

impl Measured {
    pub(crate) fn spread(&self, measure: Measure) -> Option<Spread> {
        Spread::of(&self.sessions.iter().map(|s| measure.of(s)).collect::<Vec<_>>())
    }
}

/// What a comparison found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Comparison {
    pub(crate) servers: Vec<Measured>,
    /// The first server against the best of the others: by each measure the one whose median is best.
    pub(crate) ratios: Vec<Ratio<Measure>>,
}

impl CompareArgs {
    pub(crate) fn run(&self) -> Result<Comparison> {
        let contenders = self.turns.contenders()?;
        ensure!(contenders.len() >= 2, "at least two servers are needed to compare");
        let (session, _) = self.input.session(self.characters)?;
        let results =
            self.turns.measure(&contenders, |_, server, label| session.run(&server.url, label))?;
        let servers: Vec<Measured> =
            results.into_iter().map(|(name, sessions)| Measured { name, sessions }).collect();
        let ratios = ratios(&servers).context("a measure has no samples")?;
        Ok(Comparison { servers, ratios })
    }
}

fn ratios(servers: &[Measured]) -> Option<Vec<Ratio<Measure>>> {
    let (ours, rivals) = servers.split_first()?;
    Measure::ALL
        .into_iter()
        .map(|measure| {
            let mut best = rivals.first()?;
            for rival in rivals {
                if measure.better(rival.spread(measure)?.median, best.spread(measure)?.median) {
                    best = rival;
                }
            }
            let pairs: Vec<f64> = ours
                .sessions
                .iter()
                .zip(&best.sessions)
                .map(|(a, b)| measure.of(a) / measure.of(b))
                .collect();
            Some(Ratio { measure, rival: best.name.clone(), ratio: Spread::of(&pairs)? })
        })
        .collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn result(first: f64, later: f64, rate: f64) -> SessionResult {
        SessionResult {
            first_ttft_seconds: first,
            later_ttft_seconds: later,
            decode_tokens_per_second: rate,
            total_seconds: first + later,
            prompt_tokens: 1,
            cached_tokens: None,
            calls: Vec::new(),
        }
    }

    #[test]
    fn the_best_rival_is_chosen_measure_by_measure() {
        let measured = |name: &str, r: &[(f64, f64, f64)]| Measured {
            name: name.to_owned(),
            sessions: r.iter().map(|&(a, b, c)| result(a, b, c)).collect(),
        };
        let found = ratios(&[
            measured("ours", &[(10.0, 0.1, 80.0), (20.0, 0.1, 80.0)]),
            measured("x", &[(40.0, 0.4, 40.0), (40.0, 0.4, 40.0)]),
            measured("y", &[(50.0, 0.2, 20.0), (50.0, 0.2, 20.0)]),
        ])
        .unwrap();
        let row = |m| found.iter().find(|r| r.measure == m).unwrap();
        assert_eq!(row(Measure::FirstTtft).rival, "x");
        assert_eq!(row(Measure::FirstTtft).ratio, Spread { min: 0.25, median: 0.375, max: 0.5 });
        assert_eq!(row(Measure::LaterTtft).rival, "y");
        assert_eq!(row(Measure::DecodeRate).rival, "x");
        assert_eq!(row(Measure::DecodeRate).ratio.median, 2.0);
    }
}
