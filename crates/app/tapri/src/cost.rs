//! `tapri cost`.

mod plan;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use rust_decimal::Decimal;
use tapri_insight::prices::Lifetime;

use crate::quantity;

const EXAMPLES: &str = "\
Examples:
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --prices example
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --ttft-miss 4 --ttft-hit 0.5 --answer-time 5
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --prices claude-sonnet-4-5 --ttl 1h --gap 20m
  tapri cost --prefix 300000 --input-tokens 301000 --answer 500 --calls 20 --prices gpt-5.6 --batch";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The prices: example, bundled, a file (TOML or JSON), or a model's name
    #[arg(long, value_name = "PRICES", default_value = "example")]
    prices: String,
    /// The model, where the prices are a book of many
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
    #[arg(long, value_name = "TOKENS", required = true)]
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

fn seconds(text: &str) -> Result<Decimal, String> {
    let seconds =
        text.parse::<Decimal>().map_err(|_| "it must be a number of seconds".to_owned())?;
    if seconds.is_sign_negative() || seconds > Decimal::from(1_000_000_000) {
        return Err("it must be a number of seconds, and not negative".to_owned());
    }
    Ok(seconds)
}

pub(crate) fn run(args: &CostArgs) -> Result<ExitCode> {
    plan::run(args)?;
    Ok(ExitCode::SUCCESS)
}
