//! What a gateway adds to a call: open-loop load on a fake upstream, straight and through each gateway in turn.
//!
//! Calls are sent on a schedule and not when an earlier one comes back, so a target that stalls is charged for every
//! call it holds up (no coordinated omission). All targets run during the whole measurement and take turns in short
//! rounds, so that a drift of the machine's speed touches all alike. What a gateway adds is a quantile of its latencies
//! less the same quantile of the straight ones in the same round.

mod load;
mod plan;
mod questions;
mod report;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use self::load::{Load, Samples};
use self::plan::{Case, Plan};
use self::target::Running;
use crate::statistics::Spread;

pub(crate) use self::report::table;

#[derive(Args)]
pub(crate) struct GatewayArgs {
    /// What to measure: the upstream, the targets and the cases
    #[arg(long, default_value = "crates/app/bench/gateway.toml")]
    plan: PathBuf,
    /// Only these cases; all by default
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Only these targets beside the straight one; all by default
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    /// How often each target has its turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of a turn
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Where the folder of a rival is, for `{NAME}` in the plan: NAME=FOLDER
    #[arg(long = "set", value_name = "NAME=FOLDER")]
    set: Vec<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Case by case, in the plan's order.
    pub(crate) cases: Vec<CaseResult>,
}

/// One case.
#[derive(Debug, Serialize)]
pub(crate) struct CaseResult {
    /// Its name in the plan.
    pub(crate) name: String,
    /// Calls a second.
    pub(crate) rate: f64,
    /// Bytes of a request.
    pub(crate) request_bytes: usize,
    /// The straight way first.
    pub(crate) targets: Vec<TargetResult>,
}

/// One target in one case.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TargetResult {
    /// Its name in the plan; `direct` is the upstream itself.
    pub(crate) name: String,
    /// Calls answered well, in all rounds.
    pub(crate) answered: usize,
    /// Calls that failed, or were not answered well.
    pub(crate) failed: usize,
    /// Calls a second that were answered, in the slowest round.
    pub(crate) least_rate: f64,
    /// Seconds to the answer's end, or of a stream to its first chunk.
    pub(crate) latency: Option<Quantiles>,
    /// The same, less the straight way's in the same round.
    pub(crate) added: Option<Quantiles>,
    /// Seconds between two chunks of a stream, less the straight way's.
    pub(crate) added_gap: Option<Quantiles>,
    /// The process' memory after the first and after the last round, in bytes.
    pub(crate) memory: Option<(u64, u64)>,
}

/// Quantiles, each with its spread over the rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: Spread,
    pub(crate) p99: Spread,
    pub(crate) p999: Spread,
}

const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

impl GatewayArgs {
    pub(crate) fn run(&self) -> Result<Results> {
        let plan = Plan::read(&self.plan, &self.set)?;
        let cases = plan.cases(&self.cases)?;
        let targets = plan.targets(&self.targets)?;
        let folder = tempfile::tempdir().context("make a folder for the servers' data")?;
        let upstream = Running::upstream(&plan, folder.path())?;
        // What takes no part need not be there.
        let running = targets
            .iter()
            .filter(|target| cases.iter().any(|case| target.takes(case)))
            .map(|target| Running::start(target, &upstream.url, folder.path()))
            .collect::<Result<Vec<_>>>()?;
        let load = Load::new()?;
        let mut results = Results { cases: Vec::new() };
        for case in cases {
            eprintln!("{}: {} calls a second", case.name, case.rate);
            let mut ways: Vec<&Running> = vec![&upstream];
            ways.extend(running.iter().filter(|way| way.takes(case)));
            results.cases.push(self.case(&load, case, &ways)?);
        }
        Ok(results)
    }

    fn case(&self, load: &Load, case: &Case, ways: &[&Running]) -> Result<CaseResult> {
        let turn = Duration::from_secs_f64(self.seconds);
        for way in ways.iter().skip(1) {
            if let Some(questions) = case.questions {
                load.teach(case, way, questions)?;
            }
        }
        for way in ways {
            // Not measured: connections are made, code is compiled, and what is to be a hit is stored.
            load.run(case, way, Duration::from_secs_f64((self.seconds / 3.0).max(1.0)), 0)?;
        }
        let mut rounds: Vec<Vec<Samples>> = ways.iter().map(|_| Vec::new()).collect();
        let mut memory: Vec<Option<(u64, u64)>> = vec![None; ways.len()];
        for round in 0..self.rounds {
            // The order turns as well, so that no target always comes after the heaviest.
            for i in 0..ways.len() {
                let at = (i + round) % ways.len();
                rounds[at].push(load.run(case, ways[at], turn, round as u64 + 1)?);
                if let Some(bytes) = ways[at].memory() {
                    let first = memory[at].map_or(bytes, |(first, _)| first);
                    memory[at] = Some((first, bytes));
                }
            }
        }
        let targets = ways.iter().enumerate().map(|(at, way)| {
            let own = &rounds[at];
            let straight = (at > 0).then(|| &rounds[0]);
            TargetResult {
                name: way.name.clone(),
                answered: own.iter().map(|samples| samples.latencies.len()).sum(),
                failed: own.iter().map(|samples| samples.failed).sum(),
                least_rate: own
                    .iter()
                    .map(|samples| samples.latencies.len() as f64 / samples.seconds)
                    .fold(f64::INFINITY, f64::min),
                latency: quantiles(own, None, |samples| &samples.latencies),
                added: straight.and_then(|straight| {
                    quantiles(own, Some(straight), |samples| &samples.latencies)
                }),
                added_gap: straight
                    .and_then(|straight| quantiles(own, Some(straight), |samples| &samples.gaps)),
                memory: memory[at],
            }
        });
        Ok(CaseResult {
            name: case.name.clone(),
            rate: case.rate,
            request_bytes: case.body(0, 0).len(),
            targets: targets.collect(),
        })
    }
}

/// Quantiles round by round, less those of the straight way.
fn quantiles(
    own: &[Samples],
    straight: Option<&Vec<Samples>>,
    of: impl Fn(&Samples) -> &Vec<f64>,
) -> Option<Quantiles> {
    let mut spreads = QUANTILES.iter().map(|&q| {
        let rounds: Option<Vec<f64>> = own
            .iter()
            .enumerate()
            .map(|(round, samples)| {
                let base = match straight {
                    Some(straight) => quantile(of(straight.get(round)?), q)?,
                    None => 0.0,
                };
                Some(quantile(of(samples), q)? - base)
            })
            .collect();
        Spread::of(&rounds?)
    });
    Some(Quantiles { p50: spreads.next()??, p99: spreads.next()??, p999: spreads.next()?? })
}

/// The smallest sample that is not below a share of all; samples are sorted.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn samples(latencies: &[f64]) -> Samples {
        Samples { latencies: latencies.to_vec(), gaps: Vec::new(), failed: 0, seconds: 1.0 }
    }

    #[test]
    fn quantiles_are_samples() {
        let sorted: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(500.0));
        assert_eq!(quantile(&sorted, 0.999), Some(999.0));
        assert_eq!(quantile(&[3.0], 0.99), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn what_is_added_is_taken_round_by_round() {
        let straight = vec![samples(&[1.0, 1.0]), samples(&[10.0, 10.0])];
        let through = [samples(&[1.5, 2.0]), samples(&[10.25, 11.0])];
        let added = quantiles(&through, Some(&straight), |s| &s.latencies).unwrap();
        assert_eq!((added.p50.min, added.p50.max), (0.25, 0.5));
        assert_eq!(added.p99.median, 1.0);
        assert!(quantiles(&through, Some(&straight), |s| &s.gaps).is_none());
    }
}
