//! The exact cache of `tapri serve`.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tapri_pipeline::cache::exact::store::{self, GuardConfig, Guarded, OpenStoreError};
use tapri_pipeline::cache::exact::{ExactCache, ExactConfig, ExactPolicy, Mode, Policies};

use crate::config::Config;
use crate::config::sections::{Exact, ExactMode};
use crate::failure::Failure;
use crate::{data, quantity};

/// How answers are kept and given again. What isn't given here is the configuration's.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Exact cache")]
pub(crate) struct ExactArgs {
    /// Keep answers, and give them to the same request again; routes of the configuration may say otherwise [default:
    /// off]
    #[arg(
        long,
        env = "TAPRI_EXACT_CACHE",
        hide_env_values = true,
        value_name = "MODE",
        value_enum
    )]
    exact_cache: Option<ModeArg>,
    /// How long an answer is given again [default: 1d]
    #[arg(long, env = "TAPRI_EXACT_TTL", hide_env_values = true, value_name = "TIME", value_parser = quantity::duration)]
    exact_ttl: Option<Duration>,
    /// Where answers are kept besides memory: sqlite:FILE for one machine, redis://HOST:PORT/DATABASE for several
    /// servers, memory: for nowhere [default: exact.sqlite in the data folder]
    #[arg(long, env = "TAPRI_EXACT_STORE", hide_env_values = true, value_name = "URL")]
    exact_store: Option<String>,
    /// How large the store's file may become before its oldest answers go [default: 1GiB]
    #[arg(long, env = "TAPRI_EXACT_MAX_SIZE", hide_env_values = true, value_name = "SIZE", value_parser = quantity::bytes)]
    exact_max_size: Option<u64>,
    /// How long a call waits for the store before it goes on without [default: 50ms]
    #[arg(long, env = "TAPRI_EXACT_STORE_TIMEOUT", hide_env_values = true, value_name = "TIME", value_parser = quantity::duration)]
    exact_store_timeout: Option<Duration>,
    /// The memory for answers [default: 64MiB]
    #[arg(long, env = "TAPRI_EXACT_MEMORY", hide_env_values = true, value_name = "SIZE", value_parser = quantity::bytes)]
    exact_memory: Option<u64>,
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
    /// The cache; `None` where nothing turns it on.
    pub(crate) fn cache(&self, config: &Config) -> Result<Option<ExactCache>> {
        let policies = self.policies(config);
        if policies.are_off() {
            return Ok(None);
        }
        let sections = &config.sections;
        let url = match (&self.exact_store, &sections.cache.store) {
            (Some(url), _) => url.clone(),
            (None, Some(url)) => {
                url.read(config.folder()).context("the address in cache.store can't be read")?
            }
            (None, None) => format!("sqlite:{}", data::folder()?.join("exact.sqlite").display()),
        };
        let most = self.exact_max_size.or(sections.budgets.cache_disk).unwrap_or(1 << 30);
        let opened = store::open(&url, most).map_err(store_failure)?;
        if let Some(aside) = &opened.aside {
            eprintln!(
                "warning: the exact cache's file was corrupt and is now {}; a new one is begun",
                aside.display()
            );
        }
        let default = GuardConfig::default();
        let timeout = self.exact_store_timeout.or(sections.cache.timeout);
        let guard = GuardConfig { timeout: timeout.unwrap_or(default.timeout), ..default };
        let memory = self.exact_memory.or(sections.budgets.cache_memory);
        let default = ExactConfig::default();
        Ok(Some(ExactCache::new(ExactConfig {
            policies,
            memory_bytes: memory
                .map_or(default.memory_bytes, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            store: opened.store.map(|store| Guarded::new(store, guard)),
            ..default
        })))
    }

    /// What each route does: as the configuration says, and as the flags say for all that it doesn't name.
    pub(crate) fn policies(&self, config: &Config) -> Policies {
        let mode = match self.exact_cache {
            None | Some(ModeArg::Off) => Mode::Off,
            Some(ModeArg::Deterministic) => Mode::Deterministic,
            Some(ModeArg::Always) => Mode::Always,
        };
        let on = ExactPolicy::default();
        let default = ExactPolicy { mode, ttl: self.exact_ttl.or(on.ttl), ..on };
        let routes = config.sections.routes.iter().filter_map(|route| {
            let Exact { mode, ttl, variants, max_entry } = route.exact?;
            let mode = match mode {
                ExactMode::Off => Mode::Off,
                ExactMode::Deterministic => Mode::Deterministic,
                ExactMode::Always => Mode::Always,
            };
            let most = max_entry.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
            let policy = ExactPolicy {
                mode,
                ttl: ttl.or(default.ttl),
                variants: variants.map_or(default.variants, Into::into),
                max_entry_bytes: most.unwrap_or(default.max_entry_bytes),
            };
            Some((route.name.clone(), policy))
        });
        let routes: HashMap<String, ExactPolicy> = routes.collect();
        Policies { default, routes }
    }
}

/// With what to do about it.
pub(crate) fn store_failure(error: OpenStoreError) -> anyhow::Error {
    let hint = error.hint();
    Failure::new(error, Some(hint)).into()
}
