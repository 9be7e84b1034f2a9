//! A crowd on one file: many users ask at once, each another question.
//!
//! Each server starts cold, in turn. First all users ask at once; then, with the file still at hand, a few more questions
//! are asked one after another, which is what one user alone gets; and if asked for, once more after many other prompts have passed through the
//! server. A server that has to be set up by hand to share the file (llama-server: one slot reads it, is saved, and restored into the
//! others) is charged for that work.

mod report;
mod slots;
mod turn;
mod watch;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use self::turn::{Crowd, Turn};
use crate::InputArgs;
use crate::contender::TurnArgs;
use crate::statistics::{Ratio, Spread};

pub(crate) use self::report::table;

#[derive(Args)]
pub(crate) struct CrowdArgs {
    #[command(flatten)]
    turns: TurnArgs,
    /// How many users ask at once.
    #[arg(long, default_value_t = 8)]
    users: usize,
    /// Use this llama-server as its best manual set-up does: its first slot reads the file, is saved, and restored into one
    /// slot for each user; the time counts from the reading on. Its command needs --slot-save-path {dir}.
    #[arg(long = "restore", value_name = "NAME")]
    restore: Vec<String>,
    /// Ask so many other prompts at the end, and measure one user's decoding before and after.
    #[arg(long, default_value_t = 0)]
    resident: usize,
    /// How much of the file is used, in characters, cut at a line's end; 0 for all of it. The default is
    /// about 6,000 tokens of the case file.
    #[arg(long, default_value_t = 20_300)]
    characters: usize,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// What is compared.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Total,
    FirstTtft,
    LastTtft,
    Together,
    Alone,
    Gain,
    Residents,
    Memory,
}

impl Measure {
    pub(crate) const ALL: [Measure; 8] = [
        Measure::Total,
        Measure::FirstTtft,
        Measure::LastTtft,
        Measure::Together,
        Measure::Alone,
        Measure::Gain,
        Measure::Residents,
        Measure::Memory,
    ];

    pub(crate) fn label(self) -> &'static str {
        match self {
            Measure::Total => "all answered, s",
            Measure::FirstTtft => "first user's TTFT, s",
            Measure::LastTtft => "last user's TTFT, s",
            Measure::Together => "decode, all together, tokens/s",
            Measure::Alone => "decode, one alone, tokens/s",
            Measure::Gain => "decode, all together / one alone",
            Measure::Residents => "decode, one alone, with other prompts resident / without",
            Measure::Memory => "KV memory, all together / one alone",
        }
    }

    /// Whether ours over theirs says something: the others are ratios within one server already.
    fn is_compared(self) -> bool {
        !matches!(self, Measure::Gain | Measure::Residents | Measure::Memory)
    }

    fn of(self, turn: &Turn) -> Option<f64> {
        let over = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
        match self {
            Measure::Total => Some(turn.total_seconds),
            Measure::FirstTtft => Some(turn.ttft_seconds.min),
            Measure::LastTtft => Some(turn.ttft_seconds.max),
            Measure::Together => turn.together_tokens_per_second,
            Measure::Alone => turn.alone.tokens_per_second,
            Measure::Gain => over(turn.together_tokens_per_second, turn.alone.tokens_per_second),
            Measure::Residents => over(
                turn.among_residents.as_ref().and_then(|alone| alone.tokens_per_second),
                turn.alone.tokens_per_second,
            ),
            Measure::Memory => over(
                turn.kv_bytes.map(|bytes| bytes as f64),
                turn.alone.kv_bytes.map(|bytes| bytes as f64),
            ),
        }
    }
}

/// A server's turns.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measured {
    pub(crate) name: String,
    pub(crate) turns: Vec<Turn>,
}

impl Measured {
    /// `None` where a turn has no such figure.
    pub(crate) fn spread(&self, measure: Measure) -> Option<Spread> {
        Spread::of(&self.turns.iter().map(|turn| measure.of(turn)).collect::<Option<Vec<_>>>()?)
    }
}

/// What came of it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Crowds {
    pub(crate) users: usize,
    pub(crate) resident: usize,
    pub(crate) servers: Vec<Measured>,
    /// The first server against each of the others.
    pub(crate) ratios: Vec<Ratio<Measure>>,
}

impl CrowdArgs {
    pub(crate) fn run(&self) -> Result<Crowds> {
        let contenders = self.turns.contenders()?;
        for name in &self.restore {
            ensure!(
                contenders.iter().any(|c| c.name == *name),
                "--restore {name}: there is no --server of that name"
            );
        }
        ensure!(self.users >= 1, "at least one user is needed");
        let (session, rest) = self.input.session(self.characters)?;
        ensure!(
            session.questions.len() > self.users,
            "{} users and one alone need {} questions, {} found",
            self.users,
            self.users + 1,
            session.questions.len()
        );
        ensure!(
            self.resident == 0 || !rest.is_empty(),
            "--resident takes its prompts from the rest of the file, and --characters leaves none"
        );
        let crowd = Crowd { session, users: self.users, resident: self.resident, rest };
        let results = self.turns.measure(&contenders, |contender, server, label| {
            eprintln!("{label}");
            crowd.turn(&server.url, self.restore.contains(&contender.name))
        })?;
        let servers: Vec<Measured> =
            results.into_iter().map(|(name, turns)| Measured { name, turns }).collect();
        let ratios = ratios(&servers);
        Ok(Crowds { users: self.users, resident: self.resident, servers, ratios })
    }
}

fn ratios(servers: &[Measured]) -> Vec<Ratio<Measure>> {
    let Some((ours, rivals)) = servers.split_first() else { return Vec::new() };
    let ratio = |rival: &Measured, measure: Measure| {
        let pairs: Option<Vec<f64>> = ours
            .turns
            .iter()
            .zip(&rival.turns)
            .map(|(a, b)| Some(measure.of(a)? / measure.of(b)?))
            .collect();
        Some(Ratio { measure, rival: rival.name.clone(), ratio: Spread::of(&pairs?)? })
    };
    let compared = Measure::ALL.into_iter().filter(|measure| measure.is_compared());
    compared.flat_map(|measure| rivals.iter().filter_map(move |r| ratio(r, measure))).collect()
}

#[cfg(test)]
#[path = "crowd/tests.rs"]
mod tests;
