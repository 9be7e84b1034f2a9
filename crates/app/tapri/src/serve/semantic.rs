//! The semantic cache of `tapri serve`.

use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use tapri_cache::exact::SystemClock;
use tapri_cache::semantic::{
    Judge, SemanticCache, SemanticMode, SemanticPolicies, SemanticPolicy, SemanticStore,
};

use crate::config::{Config, sections as config};
use crate::data;
use crate::failure::Failure;
use crate::semantic::{EncoderArgs, encoder};

/// Doors that questions come through. Each is a route of its own, with labels of its own.
const DOORS: [&str; 3] = ["/v1/chat/completions", "/v1/messages", "/v1/responses"];

/// Whether answers are given to other questions that mean the same.
#[derive(Debug, Args)]
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
    #[command(flatten)]
    encoder: EncoderArgs,
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
    pub(crate) fn cache(&self, config: &Config, exact: bool) -> Result<Option<SemanticCache>> {
        let policies = self.policies(config)?;
        if policies.values().all(|policy| policy.mode == SemanticMode::Off) {
            return Ok(None);
        }
        if !exact {
            return Err(Failure::usage(
                "the semantic cache needs the exact cache, which keeps the answers",
                "turn it on for the same route, or add --exact-cache always",
            )
            .into());
        }
        let sections = &config.sections;
        if sections.semantic.store.is_some() {
            return Err(Failure::usage(
                "semantic.store: a shared index of questions is not there yet",
                "leave it out: each process keeps its own index",
            )
            .into());
        }
        let encoder = match sections.semantic.embedder.as_deref() {
            Some(elsewhere) if elsewhere.starts_with("upstream:") => {
                return Err(Failure::usage(
                    "semantic.embedder: an upstream's embeddings are not used by the semantic cache yet",
                    "leave it out, or name a model of this machine: all-minilm-l6-v2",
                )
                .into());
            }
            Some(model) => encoder(&EncoderArgs { encoder: model.to_owned() })?,
            None => encoder(&self.encoder)?,
        };
        let folder = data::folder()?;
        std::fs::create_dir_all(&folder)?;
        let store = SemanticStore::open(&folder.join("semantic.sqlite"))?;
        let seed = std::process::id().into();
        Ok(Some(SemanticCache::open(encoder, store, policies, Arc::new(SystemClock), seed)?))
    }

    /// What each route does: as the configuration says, and as the flags say for the doors.
    pub(crate) fn policies(&self, config: &Config) -> Result<SemanticPolicies> {
        let default = SemanticPolicy::default();
        let budget = config.sections.budgets.semantic_wrong.unwrap_or(default.budget);
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
            let budget = self.semantic_budget.unwrap_or(budget);
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
                // `upstream:NAME/MODEL`: the model says which upstream.
                Some(judge) => {
                    let model = judge.strip_prefix("upstream:").unwrap_or(judge);
                    let model = model.split_once('/').map_or(model, |(_, model)| model);
                    Judge::Model(Some(model.to_owned()))
                }
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
        Ok(policies)
    }
}
