//! `tapri simulate`.

use std::io::{Write, stdout};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tapri_engine::KvType;
use tapri_insight::simulate::Counting;
use tapri_registry::ModelRef;

use crate::ledger::LedgerFile;
use crate::{cli, quantity};

mod capacity;
mod files;
mod ledger;
mod model;
mod plot;
mod run;
mod show;

use capacity::Capacity;

const EXAMPLES: &str = "\
Examples:
  tapri simulate conversation_trace.jsonl
      hit rates against capacity for a Mooncake trace
  tapri simulate traces/ --kv-bytes-per-token 128KiB --target 0.9
      recorded sessions, one a file; how much KV memory 90 % of what is possible needs
  tapri simulate traces/ --model smollm2 --capacity 4GiB,16GiB
      what two sizes of KV memory would reuse with a model whose KV bytes are known; --kv-type q8_0 for a cache of 8 bits
  tapri simulate
      the calls of 'tapri serve' and 'tapri ask', from the ledger
  tapri simulate conversation_trace.jsonl --capacity 20000,50000 --json
      an exact replay at two capacities, as JSON

Calls run one after another, as they came: none waits for room that another one holds. Answers are no part of a
trace, so what they would have left in the cache is missing.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// Block traces, plain or gzipped: Mooncake's JSONL, recorded sessions (JSON), lines of 'tapri calls --jsonl'; files, or
    /// folders of them. Without any: the ledger
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Capacities to replay exactly, in blocks, or in memory where the KV bytes of a token are known (20000,8GiB)
    /// [default: some between the longest call and the whole trace]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = capacity::parse)]
    capacity: Vec<Capacity>,
    /// The share of what an endless cache reuses to find the capacity for, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = capacity::share)]
    target: f64,
    /// Lifetimes after the last use to replay
    #[arg(long, value_name = "TIME", value_delimiter = ',', default_value = "5m,1h", value_parser = quantity::duration)]
    ttl: Vec<Duration>,
    /// What counts as a block
    #[arg(long, value_enum, default_value_t = CountArg::Listed)]
    count: CountArg,
    /// KV memory of one token, to show capacities in bytes
    #[arg(long, value_name = "SIZE", value_parser = quantity::bytes)]
    kv_bytes_per_token: Option<u64>,
    /// A model whose KV memory and prefill work to reckon with: a name from 'tapri pull', hf:OWNER/REPO:FILE, or a path
    #[arg(long, value_parser = cli::model, conflicts_with = "kv_bytes_per_token")]
    model: Option<ModelRef>,
    /// How the KV cache of that model stores its numbers, as 'tapri serve' is told
    #[arg(long, env = "TAPRI_KV_TYPE", hide_env_values = true, value_name = "TYPE", default_value = "bf16", value_parser = cli::kv_type())]
    kv_type: KvType,
    /// Prompt tokens that a server reads in a second, to estimate the time saved
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    prefill_rate: Option<NonZeroUsize>,
    /// Tokens of a block, where the trace doesn't say [default: 512 for Mooncake's, 64 for sessions]
    #[arg(long, value_name = "N")]
    block_tokens: Option<NonZeroU32>,
    /// Let each recorded session begin this long after the one before [default: all at once]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    stagger: Option<Duration>,
    /// Draw hit rate against capacity into this file, as SVG
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Print the figures as JSON, shares as fractions
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    ledger: LedgerFile,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CountArg {
    /// Every block that the trace lists, a shorter last one included, as the traces' authors count
    Listed,
    /// As Tapri's engine: full blocks only, and the last token is always computed
    Engine,
}

impl From<CountArg> for Counting {
    fn from(count: CountArg) -> Self {
        match count {
            CountArg::Listed => Counting::Listed,
            CountArg::Engine => Counting::Engine,
        }
    }
}

pub(crate) fn run(args: &SimulateArgs) -> Result<ExitCode> {
    let read = files::read(args)?;
    let figures = run::figures(args, read)?;
    if let Some(path) = &args.plot {
        plot::write(path, &figures)?;
    }
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &figures)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", show::text(&figures))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
