//! `tapri cost`.

mod history;
mod plan;
mod starts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use rust_decimal::Decimal;
use tapri_insight::prices::Lifetime;

use crate::quantity;
use crate::report::period::{self, Since};

const EXAMPLES: &str = "\
Examples:
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --prices example
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --ttft-miss 4 --ttft-hit 0.5 --answer-time 5
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --prices claude-sonnet-4-5 --ttl 1h --gap 20m
  tapri cost --from-ledger --since 7d --prices bundled
  tapri cost --from-log requests.jsonl --model claude-sonnet-4-5
  tapri cost --prefix 300000 --input-tokens 301000 --answer 500 --calls 20 --prices gpt-5.6 --batch

A line of a log is a request (OpenAI's or Anthropic's JSON, or a log's line that holds one) with its time, or a record of
Tapri's ledger.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    history: HistoryArgs,
    /// The prices: example, bundled, a file (TOML or JSON), or a model's name
    ///
    /// Without it: example for a plan, bundled for calls that were made.
    #[arg(long, value_name = "PRICES")]
    prices: Option<String>,
    /// The model whose prices hold, where the prices are a book of many
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Calls that are to be made.
#[derive(Debug, Args)]
#[command(next_help_heading = "A plan")]
struct PlanArgs {
    /// Tokens that all calls begin with
    #[arg(long, value_name = "TOKENS", required_unless_present_any = ["from_ledger", "from_log"])]
    prefix: Option<u64>,
    /// Tokens of each call's own, behind them
    #[arg(long, value_name = "TOKENS", default_value_t = 0, conflicts_with = "input_tokens")]
    question: u64,
    /// Tokens of a whole prompt, instead of --question; what the prefix leaves of them is the call's own
    #[arg(long, value_name = "TOKENS")]
    input_tokens: Option<u64>,
    /// Tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    answer: u64,
    /// How many calls
    #[arg(long, value_name = "N", default_value_t = 20)]
    calls: u64,
    /// How long the start is to be kept (5m, 30m, 1h, 12h) [default: the shortest that has a price]
    #[arg(long, value_name = "TIME")]
    ttl: Option<Lifetime>,
    /// From one call to the next (90s, 10m, 1h) [default: short enough]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    gap: Option<Duration>,
    /// At the prices of a batch
    #[arg(long)]
    batch: bool,
    /// Seconds to the first token when nothing is cached
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "ttft_hit")]
    ttft_miss: Option<Decimal>,
    /// Seconds to the first token when the start is cached
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "ttft_miss")]
    ttft_hit: Option<Decimal>,
    /// Seconds from the first token to the last
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    answer_time: Decimal,
}

/// Calls that were made.
#[derive(Debug, Args)]
#[command(next_help_heading = "Calls that were made")]
struct HistoryArgs {
    /// Say for each start in the ledger what is the cheapest: a marker, a longer lifetime, or nothing
    #[arg(long, conflicts_with_all = ["prefix", "from_log"])]
    from_ledger: bool,
    /// The same from logs of requests, plain or gzipped; '-' is stdin
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "prefix")]
    from_log: Vec<PathBuf>,
    /// Only calls since then: a time back from now (24h, 7d) or a date (2026-11-30)
    #[arg(long, value_name = "TIME", value_parser = period::since)]
    since: Option<Since>,
    /// Only this tenant's calls
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// The ledger [default: ledger.sqlite in Tapri's data folder]
    #[arg(long, value_name = "FILE", requires = "from_ledger")]
    ledger: Option<PathBuf>,
}

fn seconds(text: &str) -> Result<Decimal, String> {
    let seconds =
        text.parse::<Decimal>().map_err(|_| "it must be a number of seconds".to_owned())?;
    if seconds.is_sign_negative() || seconds > Decimal::from(1_000_000_000) {
        return Err("it must be a number of seconds, and not negative".to_owned());
    }
    Ok(seconds)
}

pub(crate) fn run(args: &CostArgs) -> Result<ExitCode> {
    if args.history.from_ledger || !args.history.from_log.is_empty() {
        history::run(args)?;
    } else {
        plan::run(args)?;
    }
    Ok(ExitCode::SUCCESS)
}
