//! The exact cache of `tapri serve`.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tapri_pipeline::cache::exact::{ExactCache, ExactConfig, ExactPolicy, Mode, Policies};

use crate::quantity;

/// How answers are kept and given again.
#[derive(Debug, Args)]
#[command(next_help_heading = "Exact cache")]
pub(crate) struct ExactArgs {
    /// Keep answers, and give them to the same request again
    #[arg(
        long,
        env = "TAPRI_EXACT_CACHE",
        hide_env_values = true,
        value_name = "MODE",
        value_enum,
        default_value_t = ModeArg::Off
    )]
    exact_cache: ModeArg,
    /// How long an answer is given again
    #[arg(long, env = "TAPRI_EXACT_TTL", hide_env_values = true, value_name = "TIME", default_value = "1d", value_parser = quantity::duration)]
    exact_ttl: Duration,
    /// The memory for answers
    #[arg(long, env = "TAPRI_EXACT_MEMORY", hide_env_values = true, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::bytes)]
    exact_memory: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// No answer is kept
    Off,
    /// Answers to requests with temperature 0 or a seed
    Deterministic,
    /// Every whole answer
    Always,
}

impl ExactArgs {
    /// The cache; `None` where it is off.
    pub(crate) fn cache(&self) -> Result<Option<ExactCache>> {
        let mode = match self.exact_cache {
            ModeArg::Off => return Ok(None),
            ModeArg::Deterministic => Mode::Deterministic,
            ModeArg::Always => Mode::Always,
        };
        let policy = ExactPolicy { mode, ttl: Some(self.exact_ttl), ..ExactPolicy::default() };
        Ok(Some(ExactCache::new(ExactConfig {
            policies: Policies::all(policy),
            memory_bytes: usize::try_from(self.exact_memory).unwrap_or(usize::MAX),
            ..ExactConfig::default()
        })))
    }
}
