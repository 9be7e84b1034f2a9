//! The exact cache of `tapri serve`.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tapri_pipeline::cache::exact::store::{self, GuardConfig, Guarded, OpenStoreError};
use tapri_pipeline::cache::exact::{ExactCache, ExactConfig, ExactPolicy, Mode, Policies};

use crate::failure::Failure;
use crate::{data, quantity};

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
    /// Where answers are kept besides memory: sqlite:FILE for one machine, redis://HOST:PORT/DATABASE for several
    /// servers, memory: for nowhere [default: sqlite: exact.sqlite in the data folder]
    #[arg(long, env = "TAPRI_EXACT_STORE", hide_env_values = true, value_name = "URL")]
    exact_store: Option<String>,
    /// How large the store's file may become before its oldest answers go
    #[arg(long, env = "TAPRI_EXACT_MAX_SIZE", hide_env_values = true, value_name = "SIZE", default_value = "1GiB", value_parser = quantity::bytes)]
    exact_max_size: u64,
    /// How long a call waits for the store before it goes on without
    #[arg(long, env = "TAPRI_EXACT_STORE_TIMEOUT", hide_env_values = true, value_name = "TIME", default_value = "50ms", value_parser = quantity::duration)]
    exact_store_timeout: Duration,
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
        let url = match &self.exact_store {
            Some(url) => url.clone(),
            None => format!("sqlite:{}", data::folder()?.join("exact.sqlite").display()),
        };
        let opened = store::open(&url, self.exact_max_size).map_err(store_failure)?;
        if let Some(aside) = &opened.aside {
            eprintln!(
                "warning: the exact cache's file was corrupt and is now {}; a new one is begun",
                aside.display()
            );
        }
        let guard = GuardConfig { timeout: self.exact_store_timeout, ..GuardConfig::default() };
        let policy = ExactPolicy { mode, ttl: Some(self.exact_ttl), ..ExactPolicy::default() };
        Ok(Some(ExactCache::new(ExactConfig {
            policies: Policies::all(policy),
            memory_bytes: usize::try_from(self.exact_memory).unwrap_or(usize::MAX),
            store: opened.store.map(|store| Guarded::new(store, guard)),
            ..ExactConfig::default()
        })))
    }
}

/// With what to do about it.
pub(crate) fn store_failure(error: OpenStoreError) -> anyhow::Error {
    let hint = error.hint();
    Failure::new(error, Some(hint)).into()
}
