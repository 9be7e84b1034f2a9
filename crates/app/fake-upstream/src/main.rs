//! `tapri-fake-upstream`: the scripted upstream as a process.

#![expect(clippy::print_stdout, reason = "a command line prints")]

use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use tapri_fake_upstream::{CacheConfig, CacheStyle, Fake, FakeConfig, Script};

/// Plays OpenAI's and Anthropic's APIs, troubles included, for tests and benchmarks.
///
/// A model's name may hold a script (m@status=503,retry_after=2). PUT /__script {"default": {...}, "queue": [...]} sets
/// scripts, GET /__requests shows what came, GET /__state what runs.
#[derive(Debug, Parser)]
#[command(name = "tapri-fake-upstream", version)]
struct Arguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The script where nothing else is asked for, as JSON
    #[arg(long, value_name = "JSON")]
    script: Option<String>,
    /// Play a prefix cache by these rules
    #[arg(long, value_enum)]
    cache: Option<Style>,
    /// Tokens that the played cache holds
    #[arg(long, default_value_t = CacheConfig::default().tokens)]
    cache_tokens: usize,
    /// Models that /v1/models lists
    #[arg(long = "model", default_value = "fake")]
    models: Vec<String>,
    /// The credential that requests must have
    #[arg(long)]
    key: Option<String>,
    /// Requests that are kept for /__requests
    #[arg(long, default_value_t = 1000)]
    keep: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Style {
    Vllm,
    Openai,
    Anthropic,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let script: Script = match &arguments.script {
        Some(script) => serde_json::from_str(script).context("--script is no script")?,
        None => Script::default(),
    };
    let style = |style| match style {
        Style::Vllm => CacheStyle::Vllm,
        Style::Openai => CacheStyle::OpenAi,
        Style::Anthropic => CacheStyle::Anthropic,
    };
    let tokens = arguments.cache_tokens;
    let fake = Fake::start(FakeConfig {
        address: arguments.listen,
        script,
        cache: arguments.cache.map(|cache| CacheConfig { style: style(cache), tokens }),
        models: arguments.models,
        key: arguments.key,
        keep: (arguments.keep, 64 << 20),
    })
    .await
    .with_context(|| format!("can't listen on {}", arguments.listen))?;
    println!("playing on {}", fake.url());
    fake.serve().await;
    Ok(())
}
