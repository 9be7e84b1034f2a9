//! Servers in turn, each started cold, so that a drift of the machine's speed touches all alike.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use crate::process::Server;
use crate::session::{Session, SessionResult};
use crate::statistics::{Ratio, Spread};

/// A server to measure.
#[derive(Debug, Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) command: String,
}

impl Contender {
    /// Reads `NAME=COMMAND`.
    pub(crate) fn parse(text: &str) -> Result<Contender> {
        let (name, command) =
            text.split_once('=').with_context(|| format!("--server {text}: write NAME=COMMAND"))?;
        ensure!(command.contains("{port}"), "--server {name}: its command must hold {{port}}");
        Ok(Contender { name: name.to_owned(), command: command.to_owned() })
    }
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

/// Runs `rounds` rounds; in each, every server is started, asked and ended once.
pub(crate) fn run(
    session: &Session,
    contenders: &[Contender],
    rounds: usize,
    limit: Duration,
) -> Result<Comparison> {
    ensure!(contenders.len() >= 2, "at least two servers are needed to compare");
    ensure!(rounds >= 1, "at least one round is needed");
    let mut servers: Vec<Measured> = contenders
        .iter()
        .map(|c| Measured { name: c.name.clone(), sessions: Vec::new() })
        .collect();
    for round in 1..=rounds {
        for (contender, measured) in contenders.iter().zip(&mut servers) {
            let server = Server::start(&contender.command, limit)
                .with_context(|| format!("start {} for round {round}", contender.name))?;
            let label = format!("round {round}/{rounds} {}", contender.name);
            measured.sessions.push(session.run(&server.url, &label)?);
        }
    }
    let ratios = ratios(&servers).context("a measure has no samples")?;
    Ok(Comparison { servers, ratios })
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

    #[test]
    fn a_contender_needs_a_name_and_a_port() {
        assert!(Contender::parse("just words").is_err());
        assert!(Contender::parse("a=serve").is_err());
        assert_eq!(Contender::parse("a=serve --port {port}").unwrap().name, "a");
    }
}
