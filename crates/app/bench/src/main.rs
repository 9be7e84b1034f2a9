//! `tapri-bench`: measures OpenAI-compatible servers with a session of questions about one file.
//!
//! `session` drives one server; `compare` starts servers in turn, each cold, and prints ratios; `crowd` does so with many users
//! at once; `gateway` measures what gateways add to a call. Prompts are
//! text and the same for each, answers have a fixed length (`ignore_eos`), times are the client's own clock.
//! The method and its results are in `docs/benchmarks.md`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command's data goes to stdout")]

mod client;
mod compare;
mod crowd;
mod gateway;
mod process;
mod report;
mod session;
mod statistics;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

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
    Compare(CompareArgs),
    /// Start servers in turn, each cold, let many users ask about one file at once, and print ratios.
    Crowd(crowd::CrowdArgs),
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

#[derive(Args)]
struct CompareArgs {
    /// A server to measure: NAME=COMMAND, with {port} for the port to listen on. The first is compared with
    /// the best of the others, measure by measure.
    #[arg(long = "server", value_name = "NAME=COMMAND", required = true, num_args = 1)]
    servers: Vec<String>,
    /// How often each is measured, in turn.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long a server may take to answer /health, in seconds.
    #[arg(long, default_value_t = 120)]
    start_seconds: u64,
    #[command(flatten)]
    input: InputArgs,
}

impl InputArgs {
    fn session(&self) -> Result<Session> {
        let file = std::fs::read_to_string(&self.file)
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
        Ok(Session { file, questions, max_tokens: self.max_tokens, model: self.model.clone() })
    }
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Session(args) => {
            let result: SessionResult = args.input.session()?.run(&args.url, "session")?;
            if args.input.json {
                println!("{}", serde_json::to_string_pretty(&result)?);
            } else {
                println!("{}", report::session(&result));
            }
        }
        Command::Gateway(args) => {
            let results = args.run()?;
            if args.json {
                println!("{}", serde_json::to_string_pretty(&results)?);
            } else {
                println!("{}", gateway::table(&results));
            }
        }
        Command::Crowd(args) => {
            let crowds = args.run()?;
            if args.input.json {
                println!("{}", serde_json::to_string_pretty(&crowds)?);
            } else {
                println!("{}", crowd::table(&crowds));
            }
        }
        Command::Compare(args) => {
            let servers = args
                .servers
                .iter()
                .map(|s| compare::Contender::parse(s))
                .collect::<Result<Vec<_>>>()?;
            let session = args.input.session()?;
            let limit = std::time::Duration::from_secs(args.start_seconds);
            let comparison = compare::run(&session, &servers, args.rounds, limit)?;
            if args.input.json {
                println!("{}", serde_json::to_string_pretty(&comparison)?);
            } else {
                println!("{}", report::comparison(&comparison));
            }
        }
    }
    Ok(())
}
