//! The semantic cache of `tapri serve`.

mod embedder;
mod store;

use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tapri_cache::exact::{Policies, SystemClock};
use tapri_cache::semantic::{
    Judge, SemanticCache, SemanticMode, SemanticPolicies, SemanticPolicy, SemanticStore,
};

use crate::config::{Config, sections as config};
use crate::failure::Failure;

pub(crate) use store::{check, opened};

/// Doors that questions come through. Each is a route of its own, with labels of its own.
const DOORS: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

/// Whether answers are given to other questions that mean the same.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Semantic cache")]
pub(crate) struct SemanticServeArgs {
    /// Look for questions that mean the same; needs --exact-cache, which keeps the answers
    #[arg(
        long,
        env = "TAPRI_SEMANTIC_CACHE",
        hide_env_values = true,
        value_name = "MODE",
        value_enum,
        default_value_t = ModeArg::Off
    )]
    semantic: ModeArg,
    /// The share of served answers that may be wrong [default: 0.01]
    #[arg(long, env = "TAPRI_SEMANTIC_BUDGET", hide_env_values = true, value_name = "SHARE")]
    semantic_budget: Option<f64>,
    /// What questions are compared by: a name from 'tapri pull', the path of a .safetensors file, or an upstream's, as
    /// upstream:NAME/MODEL [default: all-minilm-l6-v2]
    #[arg(long, env = "TAPRI_ENCODER", hide_env_values = true, value_name = "MODEL")]
    encoder: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// No question is compared
    Off,
    /// Questions are compared, the model answers all the same, and labels are gathered
    Shadow,
    /// Answers are served where the labels allow it
    Serve,
}

impl SemanticServeArgs {
    /// The cache; `None` where nothing turns it on. Without an exact cache it is refused.
    pub(crate) fn cache(&self, config: &Config, exact: &Policies) -> Result<Option<SemanticCache>> {
        let policies = self.policies(config, exact)?;
        if are_off(&policies) {
            return Ok(None);
        }
        let embedder = embedder::embedder(config, self.encoder.as_deref())?;
        let seed = std::process::id().into();
        let clock = Arc::new(SystemClock);
        let timeout = config.sections.cache.timeout;
        let opened = match store::place(config)? {
            store::Place::File(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                let store = SemanticStore::open(&path).map_err(store::failure)?;
                if let Some(aside) = store.aside() {
                    eprintln!(
                        "warning: the semantic cache's file was corrupt and is now {}; a new one is begun, and routes gather labels anew",
                        aside.display()
                    );
                }
                SemanticCache::open(embedder, store, policies, clock, seed)
            }
            #[cfg(feature = "postgres")]
            store::Place::Postgres(url) => {
                let store = store::postgres(&url, timeout)?;
                SemanticCache::shared(embedder, store, policies, clock, seed)
            }
            // It was refused where it was read.
            #[cfg(not(feature = "postgres"))]
            store::Place::Postgres(_) => {
                let _ = timeout;
                return Err(store::refused(&tapri_cache::semantic::store::PlaceError::NotBuilt));
            }
        };
        Ok(Some(opened.map_err(store::failure)?))
    }

    /// What each route does: as the configuration says, and as the flags say for the doors.
    /// A route that is on while its exact cache is off is refused.
    pub(crate) fn policies(&self, config: &Config, exact: &Policies) -> Result<SemanticPolicies> {
        let default = SemanticPolicy::default();
        let budget = self.semantic_budget.or(config.sections.budgets.semantic_wrong);
        let budget = budget.unwrap_or(default.budget);
        let mut policies = SemanticPolicies::new();
        let checked = |name: &str, policy: SemanticPolicy| {
            policy.checked().map_err(|error| {
                Failure::usage(format!("route {name}: {error}"), "a share is above 0 and below 1")
            })
        };
        let mode = match self.semantic {
            ModeArg::Off => SemanticMode::Off,
            ModeArg::Shadow => SemanticMode::Shadow,
            ModeArg::Serve => SemanticMode::Serve,
        };
        if mode != SemanticMode::Off {
            for door in DOORS {
                let policy = SemanticPolicy { mode, budget, ..default.clone() };
                policies.insert(door.to_owned(), checked(door, policy)?);
            }
        }
        for route in &config.sections.routes {
            let semantic = &route.semantic;
            let mode = match semantic.mode {
                config::SemanticMode::Off => SemanticMode::Off,
                config::SemanticMode::Shadow => SemanticMode::Shadow,
                config::SemanticMode::Serve => SemanticMode::Serve,
            };
            let judge = match &semantic.judge {
                Some(written) => judge(written),
                None => Judge::Person,
            };
            let policy = SemanticPolicy {
                mode,
                budget: semantic.budget.unwrap_or(budget),
                recheck: semantic.recheck.unwrap_or(default.recheck),
                judge,
                ttl: semantic.ttl,
                entries: default.entries,
            };
            policies.insert(route.name.clone(), checked(&route.name, policy)?);
        }
        let alone = policies.iter().filter(|(route, policy)| {
            policy.mode != SemanticMode::Off
                && exact.of(route.as_str()).mode == tapri_cache::exact::Mode::Off
        });
        if let Some(route) = alone.map(|(route, _)| route).min() {
            return Err(Failure::usage(
                format!(
                    "route {route}: the semantic cache needs the exact cache, which keeps the answers"
                ),
                "turn it on for the same route, or add --exact-cache always",
            )
            .into());
        }
        Ok(policies)
    }
}

/// Whether no route looks.
pub(crate) fn are_off(policies: &SemanticPolicies) -> bool {
    policies.values().all(|policy| policy.mode == SemanticMode::Off)
}

/// `upstream:NAME/MODEL`, or a model's name: whoever serves it.
fn judge(written: &str) -> Judge {
    match written.strip_prefix("upstream:").and_then(|it| it.split_once('/')) {
        Some((config::Upstream::EMBEDDED, model)) => Judge::Model(Some(model.to_owned())),
        Some((upstream, model)) => {
            Judge::Upstream { upstream: upstream.to_owned(), model: model.to_owned() }
        }
        None => Judge::Model(Some(written.to_owned())),
    }
}
