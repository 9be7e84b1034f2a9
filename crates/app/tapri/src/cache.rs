//! `tapri cache`: what the exact cache holds, and erasing it.
//!
//! Through the operator's paths of a running server, which erases KV blocks as well; or on a store itself, which
//! running servers notice within a second.

mod remote;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tapri_pipeline::cache::exact::Filter;
use tapri_pipeline::cache::exact::store::{self, Store};

use crate::failure::Failure;
use crate::quantity;
use crate::serve::exact::store_failure;

#[derive(Debug, Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// Say how many answers are kept, and how much they take
    Stats {
        #[command(flatten)]
        place: Place,
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Erase answers, and through a server the KV blocks of prompts
    Purge {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        what: What,
        /// Print what was erased as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which cache.
#[derive(Debug, Args)]
struct Place {
    /// A running server, at its address for operators where it has one
    #[arg(
        long,
        env = "TAPRI_ADMIN_URL",
        hide_env_values = true,
        value_name = "URL",
        default_value = "http://127.0.0.1:8080",
        conflicts_with = "store"
    )]
    server: String,
    /// The store itself: sqlite:FILE, redis://HOST:PORT/DATABASE
    #[arg(long, value_name = "URL")]
    store: Option<String>,
}

/// What is erased: what matches all that is given.
#[derive(Debug, Args)]
struct What {
    /// What this tenant was answered
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
    /// What came through this route
    #[arg(long, value_name = "NAME")]
    route: Option<String>,
    /// What this model answered
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// What this session was answered
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// What was said about this document
    #[arg(long, value_name = "NAME")]
    document: Option<String>,
    /// What was answered longer ago than this (90s, 10m, 1h, 30d)
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    older_than: Option<Duration>,
    /// Everything
    #[arg(long, conflicts_with_all = ["tenant", "route", "model", "session", "document", "older_than"])]
    all: bool,
}

impl What {
    fn filter(&self) -> Result<Filter> {
        let filter = Filter {
            tenant: self.tenant.clone(),
            route: self.route.clone(),
            model: self.model.clone(),
            session: self.session.clone(),
            document: self.document.clone(),
            older_than: self.older_than,
        };
        if filter.is_all() && !self.all {
            return Err(Failure::usage(
                "nothing is named that is to be erased",
                "name it with --tenant, --route, --model, --session, --document or --older-than, or say --all",
            )
            .into());
        }
        Ok(filter)
    }
}

pub(crate) fn run(args: &CacheArgs) -> Result<ExitCode> {
    match &args.command {
        CacheCommand::Stats { place, json } => {
            let said = match &place.store {
                Some(url) => {
                    at_store(url, |store| store.stats()).map(|stats| json!({ "store": stats }))?
                }
                None => remote::stats(&place.server)?,
            };
            show(&said, *json, show_stats)
        }
        CacheCommand::Purge { place, what, json } => {
            let filter = what.filter()?;
            let said = match &place.store {
                Some(url) => {
                    let now = std::time::SystemTime::now()
                        .duration_since(std::time::UNIX_EPOCH)
                        .map_or(0, |since| since.as_millis() as u64);
                    let answers = at_store(url, |store| store.purge(filter, now))?;
                    json!({ "answers": answers, "kv_blocks": null })
                }
                None => remote::purge(&place.server, &filter)?,
            };
            show(&said, *json, show_purge)
        }
    }
}

/// Asks a store, and waits for it as long as it takes.
fn at_store<T>(url: &str, ask: impl FnOnce(&dyn Store) -> store::Reply<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let path = url.strip_prefix("sqlite:").map(|path| path.strip_prefix("//").unwrap_or(path));
    if let Some(path) = path
        && !std::path::Path::new(path).exists()
    {
        return Err(Failure::new(
            anyhow::anyhow!("there is no cache at {path}"),
            Some("'tapri serve --exact-store sqlite:FILE' makes one"),
        )
        .into());
    }
    runtime.block_on(async {
        let opened = store::open(url, u64::MAX).map_err(store_failure)?;
        let Some(store) = opened.store else {
            return Err(Failure::usage(
                "memory is a server's own",
                "ask the server with --server, or name a store: sqlite:FILE, redis://HOST:PORT",
            )
            .into());
        };
        let answer = ask(&*store).await;
        store.close();
        answer.map_err(|error| {
            let error = anyhow::anyhow!("the store {} failed: {error}", store.name());
            Failure::new(error, Some("nothing is known of what it holds; try again")).into()
        })
    })
}

fn show(said: &Value, as_json: bool, text: fn(&Value) -> String) -> Result<ExitCode> {
    let mut out = stdout().lock();
    match as_json {
        true => writeln!(out, "{}", serde_json::to_string_pretty(said)?)?,
        false => write!(out, "{}", text(said))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show_stats(said: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text.push_str(&format!("{name:<12}{value}\n"));
    let held = |stats: &Value| {
        let bytes = stats["bytes"].as_u64().unwrap_or(0);
        let entries = stats["entries"].as_u64().unwrap_or(0);
        let noun = if entries == 1 { "answer" } else { "answers" };
        format!(
            "{} {noun}, {}",
            quantity::show_count(entries as usize),
            quantity::show_memory(bytes)
        )
    };
    let exact = &said["exact"];
    if exact.is_object() {
        line("memory", held(&exact["memory"]));
    }
    if said["store"].is_object() {
        line(exact["store"].as_str().unwrap_or("store"), held(&said["store"]));
    }
    if let Some(error) = said["store_error"].as_str() {
        line("store", format!("failed: {error}"));
    }
    if exact.is_object() {
        let count = |name: &str| exact[name].as_u64().unwrap_or(0);
        line(
            "calls",
            format!(
                "{} hits, {} shared, {} misses, {} asked anew, {} passed by",
                count("hits"),
                count("collapsed"),
                count("misses"),
                count("requested"),
                count("bypassed")
            ),
        );
        let rejected = exact["rejected"].as_object().into_iter().flatten();
        let rejected: Vec<String> = rejected
            .filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0))
            .map(|(why, count)| format!("{count} {why}"))
            .collect();
        line("kept", format!("{} answers", count("stored")));
        if !rejected.is_empty() {
            line("not kept", rejected.join(", "));
        }
        if count("store_errors") > 0 {
            line("failures", format!("{} of the store", count("store_errors")));
        }
    } else if said.get("exact").is_some() {
        text.push_str("the server has no exact cache\n");
    }
    text
}

fn show_purge(said: &Value) -> String {
    let count = |name: &str| said[name].as_u64();
    let answers = count("answers").unwrap_or(0);
    let noun = if answers == 1 { "answer" } else { "answers" };
    let mut text = format!("{answers} {noun} erased\n");
    match (count("kv_blocks"), count("kv_blocks_in_use")) {
        (Some(blocks), Some(0)) => text.push_str(&format!("{blocks} KV blocks erased\n")),
        (Some(blocks), Some(in_use)) => text.push_str(&format!(
            "{blocks} KV blocks erased; {in_use} are in use by running calls to their end, and no other finds them\n"
        )),
        _ => text.push_str("no KV blocks were touched\n"),
    }
    text
}
