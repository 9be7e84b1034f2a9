//! `tapri-bench`: measures OpenAI-compatible servers with a session of questions about one file.
//!
//! `session` drives one server; `compare` starts servers in turn, each cold, and prints ratios; `crowd` does so with many users
//! at once; `cold` times prompts of which nothing is cached, `lengths` questions of several lengths, `neighbour` what one user's
//! long prompt does to another's answer; `gateway` measures what gateways add to a call. Prompts are text and the same for each,
//! answers have a fixed length (`ignore_eos`), times are the client's own clock.
//! The method and its results are in `docs/benchmarks.md`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command's data goes to stdout")]

mod client;
mod cold;
mod compare;
mod contender;
mod crowd;
mod gateway;
mod lengths;
mod neighbour;
mod process;
mod report;
mod session;
mod statistics;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use crate::session::{Session, SessionResult};

#[derive(Parser)]
#[command(name = "tapri-bench", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask every question of one running server, and print what it took.
    Session(SessionArgs),
    /// Start servers in turn, each cold, ask every question of each, and print ratios.
    Compare(compare::CompareArgs),
    /// Start servers in turn, each cold, let many users ask about one file at once, and print ratios.
    Crowd(crowd::CrowdArgs),
    /// Start servers in turn, let each read a file, and time questions of several lengths about it.
    Lengths(lengths::LengthsArgs),
    /// Start servers in turn, and time prompts of which nothing is cached, in memory that was used before.
    Cold(cold::ColdArgs),
    /// Start servers in turn, and measure how one user's answer is held up while another's long prompt is read.
    Neighbour(neighbour::NeighbourArgs),
    /// Measure what gateways add to a call, in front of a fake upstream.
    Gateway(gateway::GatewayArgs),
}

#[derive(Args)]
struct InputArgs {
    /// The file every question is about, as text.
    #[arg(long, default_value = "examples/case_file/case_file.txt")]
    file: PathBuf,
    /// The questions, one a line.
    #[arg(long, default_value = "examples/case_file/questions.txt")]
    questions: PathBuf,
    /// Ask only the first N questions.
    #[arg(long)]
    first: Option<usize>,
    /// Tokens of every answer.
    #[arg(long, default_value_t = 64)]
    max_tokens: u32,
    /// The model's name in the request; left out where a server has one model alone.
    #[arg(long)]
    model: Option<String>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct SessionArgs {
    /// The server, without /v1.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    url: String,
    #[command(flatten)]
    input: InputArgs,
}

impl InputArgs {
    /// What is asked, of so many characters of the file (0: all), and the rest of the file.
    fn session(&self, characters: usize) -> Result<(Session, String)> {
        let mut file = std::fs::read_to_string(&self.file)
            .with_context(|| format!("read the file {}", self.file.display()))?;
        let questions = std::fs::read_to_string(&self.questions)
            .with_context(|| format!("read the questions {}", self.questions.display()))?;
        let questions: Vec<String> = questions
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(self.first.unwrap_or(usize::MAX))
            .map(str::to_owned)
            .collect();
        anyhow::ensure!(
            questions.len() >= 2,
            "at least two questions are needed, {} found",
            questions.len()
        );
        let rest = session::cut(&mut file, characters);
        let (max_tokens, model) = (self.max_tokens, self.model.clone());
        Ok((Session { file, questions, max_tokens, model }, rest))
    }
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Session(args) => {
            let (session, _) = args.input.session(0)?;
            let result: SessionResult = session.run(&args.url, "session")?;
            print(args.input.json, &result, report::session)
        }
        Command::Gateway(args) => print(args.json, &args.run()?, gateway::table),
        Command::Crowd(args) => print(args.input.json, &args.run()?, crowd::table),
        Command::Compare(args) => print(args.input.json, &args.run()?, report::comparison),
        Command::Cold(args) => print(args.input.json, args.run()?.as_slice(), cold::table),
        Command::Lengths(args) => print(args.input.json, &args.run()?, lengths::table),
        Command::Neighbour(args) => {
            print(args.input.json, args.run()?.as_slice(), neighbour::table)
        }
    }
}

/// JSON, or a table for people.
fn print<T: Serialize + ?Sized>(
    json: bool,
    results: &T,
    table: impl Fn(&T) -> String,
) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(results)? } else { table(results) };
    println!("{text}");
    Ok(())
}
