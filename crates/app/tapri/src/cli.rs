//! What can be written after `tapri`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use tapri_engine::{AdapterFile, DiskConfig, EngineConfig, KvType, PrefixHash};
use tapri_registry::ModelRef;

use crate::audit::AuditArgs;
use crate::cache::CacheArgs;
use crate::calls::CallsArgs;
use crate::config::command::ConfigArgs;
use crate::cost::CostArgs;
use crate::explain::ExplainArgs;
use crate::keys::KeysArgs;
use crate::ledger::LedgerArgs;
use crate::lint::LintArgs;
use crate::prices::PricesArgs;
use crate::quantity;
use crate::read::ReadArgs;
use crate::report::ReportArgs;
use crate::semantic::SemanticArgs;
use crate::serve::alert::AlertArgs;
use crate::serve::exact::ExactArgs;
use crate::serve::pages::PagesArgs;
use crate::serve::semantic::SemanticServeArgs;
use crate::simulate::SimulateArgs;

/// Keeps long prompts hot: ask a model about a document and only the first question reads it.
#[derive(Debug, Parser)]
#[command(name = "tapri", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Ask questions about a document (PDF, Markdown or text)
    Ask(AskArgs),
    /// Test a deployment of your own: does one user's prompt make another's answer faster?
    Audit(Box<AuditArgs>),
    /// Say what the exact cache holds, and erase it
    Cache(CacheArgs),
    /// List the calls that the ledger has, and show one
    Calls(CallsArgs),
    /// Check the configuration of 'tapri serve', and show where each value comes from
    Config(ConfigArgs),
    /// Estimate what caching saves, before and after
    Cost(CostArgs),
    /// Say why a request could not reuse an earlier one, for two requests or a log
    Explain(ExplainArgs),
    /// Make API keys for tenants, and change the server's secret
    Keys(KeysArgs),
    /// Check requests for what will break the cache
    Lint(LintArgs),
    /// Show what models' tokens cost, and bring newer prices
    Prices(PricesArgs),
    /// Bring a model to this machine, or list what is there
    Pull(PullArgs),
    /// Read one document from stdin, in a process that is limited: for 'tapri serve' alone
    #[command(hide = true)]
    ReadDocument(ReadArgs),
    /// Say whether the cache worked, from a log: by day, tenant, route and model
    Report(ReportArgs),
    /// Try, explain and label the semantic cache: may this answer be given to that question?
    Semantic(SemanticArgs),
    /// Serve a model over HTTP, with OpenAI's API
    Serve(Box<ServeArgs>),
    /// Replay a trace against caches of any size: how much KV memory do I need?
    Simulate(SimulateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The document
    pub(crate) file: PathBuf,
    /// A file of questions, one a line
    #[arg(long, value_name = "FILE")]
    pub(crate) questions: Option<PathBuf>,
    /// A question; may be given several times. Without this and --questions, questions come from stdin
    #[arg(long, value_name = "QUESTION")]
    pub(crate) ask: Vec<String>,
    /// Keep earlier questions and answers behind the document
    #[arg(long)]
    pub(crate) chat: bool,
    /// The model: a name from 'tapri pull', hf:OWNER/REPO:FILE, or a path
    #[arg(long, env = "TAPRI_MODEL", hide_env_values = true, default_value = "gemma-3-270m", value_parser = model)]
    pub(crate) model: ModelRef,
    /// The most tokens of an answer
    #[arg(long, value_name = "N", default_value = "64", value_parser = quantity::count)]
    pub(crate) max_tokens: NonZeroUsize,
    /// The prices to estimate costs with: example, bundled, a file (TOML or JSON), or a model's name
    #[arg(long, value_name = "PRICES", default_value = "example")]
    pub(crate) prices: String,
    /// Print the answers and figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PullArgs {
    /// The model: a name, hf:OWNER/REPO:FILE, or a path. Without it, the models are listed
    #[arg(value_parser = model)]
    pub(crate) model: Option<ModelRef>,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration [default: tapri.toml in the current folder, if it is there]
    #[arg(long, env = "TAPRI_CONFIG", hide_env_values = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// This is the engine process of one tenant: no configuration is read, and the process ends when stdin does
    #[arg(long, hide = true, value_name = "TENANT")]
    pub(crate) child_of_tapri: Option<String>,
    /// The model: a name from 'tapri pull', hf:OWNER/REPO:FILE, or a path
    #[arg(long, env = "TAPRI_MODEL", hide_env_values = true, default_value = "gemma-3-270m", value_parser = model)]
    pub(crate) model: ModelRef,
    /// The sentence encoder behind /v1/embeddings [default: all-minilm-l6-v2, if it was pulled]
    #[arg(long, env = "TAPRI_EMBED_MODEL", hide_env_values = true, value_name = "MODEL", value_parser = model)]
    pub(crate) embed_model: Option<ModelRef>,
    /// The address to listen on
    #[arg(long, env = "TAPRI_HOST", hide_env_values = true, default_value = "127.0.0.1")]
    pub(crate) host: String,
    /// The port to listen on; 0 takes a free one
    #[arg(long, env = "TAPRI_PORT", hide_env_values = true, default_value_t = 8080)]
    pub(crate) port: u16,
    /// What separates tenants: scopes of one engine's cache, or an engine process for each
    #[arg(long, env = "TAPRI_SERVER_ISOLATION", hide_env_values = true, value_enum, default_value_t = Isolation::Scope)]
    pub(crate) isolation: Isolation,
    /// A start to keep in the KV memory: a JSON body as for POST /cache/pins, or a document as 'tapri ask' lays it out;
    /// with tenants, TENANT=FILE. May be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) pin: Vec<String>,
    /// Leave out of every answer how many tokens came from the cache
    #[arg(long)]
    pub(crate) hide_cached_tokens: bool,
    /// The prices to estimate each call's cost with: example, bundled, a file, or a model's name
    #[arg(
        long,
        env = "TAPRI_PRICES",
        hide_env_values = true,
        value_name = "PRICES",
        default_value = "example"
    )]
    pub(crate) prices: String,
    #[command(flatten)]
    pub(crate) pages: PagesArgs,
    #[command(flatten)]
    pub(crate) exact: ExactArgs,
    #[command(flatten)]
    pub(crate) semantic: SemanticServeArgs,
    #[command(flatten)]
    pub(crate) alerts: AlertArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,
    #[command(flatten)]
    pub(crate) ledger: LedgerArgs,
}

/// The engine's settings, the same for every command that runs a model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine")]
pub(crate) struct EngineArgs {
    /// Compute every prompt from its first token
    #[arg(long)]
    pub(crate) no_prefix_cache: bool,
    /// The memory for the KV cache, never exceeded
    #[arg(long, env = "TAPRI_KV_MEMORY", hide_env_values = true, value_name = "SIZE", default_value = "2GiB", value_parser = quantity::bytes)]
    pub(crate) kv_memory: u64,
    /// How the KV cache stores its numbers: q8_0 takes 0.53 times the memory of bf16, and rounds more
    #[arg(long, env = "TAPRI_KV_TYPE", hide_env_values = true, value_name = "TYPE", default_value = "bf16", value_parser = kv_type())]
    pub(crate) kv_type: KvType,
    /// Forget a prefix this long after its last use (500ms, 90s, 10m, 1h) [default: never]
    #[arg(long, env = "TAPRI_PREFIX_TTL", hide_env_values = true, value_name = "TIME", value_parser = quantity::duration)]
    pub(crate) prefix_ttl: Option<Duration>,
    /// Keep KV blocks in this folder, to be warm after a restart [default: in memory alone]
    #[arg(long, env = "TAPRI_KV_DISK", hide_env_values = true, value_name = "DIR")]
    pub(crate) kv_disk: Option<PathBuf>,
    /// The most bytes of that folder
    #[arg(long, env = "TAPRI_KV_DISK_SIZE", hide_env_values = true, value_name = "SIZE", default_value = "8GiB", value_parser = quantity::bytes)]
    pub(crate) kv_disk_size: u64,
    /// The hash that names KV blocks
    #[arg(long, env = "TAPRI_PREFIX_HASH", hide_env_values = true, value_enum, default_value_t = HashArg::Sha256)]
    pub(crate) prefix_hash: HashArg,
    /// Tokens in a KV block
    #[arg(long, env = "TAPRI_BLOCK_SIZE", hide_env_values = true, value_name = "N", default_value = "16", value_parser = block_size)]
    pub(crate) block_size: usize,
    /// Calls that may wait for room; one more is told to come back later
    #[arg(long, env = "TAPRI_MAX_WAITING", hide_env_values = true, value_name = "N", default_value = "256", value_parser = quantity::count)]
    pub(crate) max_waiting: NonZeroUsize,
    /// The share of the KV memory that may be pinned, from 0 to 1
    #[arg(long, env = "TAPRI_PIN_LIMIT", hide_env_values = true, value_name = "SHARE", default_value = "0.25", value_parser = crate::report::period::share)]
    pub(crate) pin_limit: f64,
    /// Threads that compute [default: one for each core]
    #[arg(long, env = "TAPRI_THREADS", hide_env_values = true, value_name = "N", value_parser = quantity::count)]
    pub(crate) threads: Option<NonZeroUsize>,
    /// A LoRA adapter for the model (GGUF); may be given several times. 'serve' answers as NAME with it, 'ask' takes one
    #[arg(long, value_name = "NAME=FILE", value_parser = lora)]
    pub(crate) lora: Vec<AdapterFile>,
}

/// What separates tenants from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Isolation {
    /// Scopes of one engine's cache
    Scope,
    /// An engine process for each tenant
    Process,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HashArg {
    /// Safe between tenants that don't trust each other
    Sha256,
    /// Faster; not collision-safe between tenants
    Xxh3,
}

impl EngineArgs {
    /// As another process's command line takes them, but for the memory and the disk, which are each process's own.
    pub(crate) fn arguments(&self) -> Vec<String> {
        // Field by field, so that a new flag doesn't compile until someone decides about it.
        let EngineArgs {
            no_prefix_cache,
            kv_memory: _,
            kv_type,
            prefix_ttl,
            kv_disk: _,
            kv_disk_size: _,
            prefix_hash,
            block_size,
            max_waiting,
            pin_limit,
            threads,
            lora,
        } = self;
        let mut arguments = vec!["--block-size".to_owned(), block_size.to_string()];
        let mut say = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        say("--kv-type", kv_type.to_string());
        say("--max-waiting", max_waiting.to_string());
        if let Some(ttl) = prefix_ttl {
            say("--prefix-ttl", format!("{}ms", ttl.as_millis()));
        }
        say("--pin-limit", pin_limit.to_string());
        if let Some(threads) = threads {
            say("--threads", threads.to_string());
        }
        if *prefix_hash == HashArg::Xxh3 {
            say("--prefix-hash", "xxh3".to_owned());
        }
        for AdapterFile { name, path } in lora {
            say("--lora", format!("{name}={}", path.display()));
        }
        if *no_prefix_cache {
            arguments.push("--no-prefix-cache".to_owned());
        }
        arguments
    }

    /// As the engine takes them.
    pub(crate) fn config(&self) -> EngineConfig {
        let default = EngineConfig::default();
        EngineConfig {
            threads: self.threads.unwrap_or(default.threads),
            kv_memory: self.kv_memory,
            kv_type: self.kv_type,
            block_size: self.block_size,
            max_waiting: self.max_waiting.get(),
            prefix_cache: !self.no_prefix_cache,
            prefix_ttl: self.prefix_ttl,
            disk: self.kv_disk.clone().map(|folder| DiskConfig::new(folder, self.kv_disk_size)),
            pin_limit: self.pin_limit,
            prefix_hash: match self.prefix_hash {
                HashArg::Sha256 => PrefixHash::Sha256,
                HashArg::Xxh3 => PrefixHash::Xxh3,
            },
            adapters: self.lora.clone(),
            ..default
        }
    }
}

/// A model, as it is named on the command line.
pub(crate) fn model(text: &str) -> Result<ModelRef, String> {
    text.parse()
        .map_err(|error: tapri_registry::ReferenceError| format!("{error}\nhint: {}", error.hint()))
}

/// The types by name, as `--help` lists them.
pub(crate) fn kv_type() -> impl TypedValueParser<Value = KvType> {
    PossibleValuesParser::new(KvType::ALL.map(KvType::name)).try_map(|name| name.parse::<KvType>())
}

/// An adapter, as it is named on the command line and in `tapri.toml`.
pub(crate) fn lora(text: &str) -> Result<AdapterFile, String> {
    let wrong = || "it should be NAME=FILE, for example legal=adapters/legal.gguf".to_owned();
    let (name, path) = text.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || path.is_empty() {
        return Err(wrong());
    }
    if name.len() > 128 || name.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a name has 1 to 128 bytes and no spaces".to_owned());
    }
    Ok(AdapterFile { name: name.to_owned(), path: path.into() })
}

pub(crate) fn block_size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(size @ (16 | 32 | 64 | 128 | 256)) => Ok(size),
        _ => Err("it must be 16, 32, 64, 128 or 256".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_isolated_engine_gets_the_settings() {
        let line = ["tapri", "serve", "--kv-type", "q8_0", "--block-size", "32", "--threads", "3"];
        let Command::Serve(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command");
        };
        let arguments = args.engine.arguments();
        let again = Cli::try_parse_from(
            ["tapri", "serve"].into_iter().chain(arguments.iter().map(String::as_str)),
        );
        let Command::Serve(again) = again.unwrap().command else { panic!("another command") };
        assert_eq!(again.engine.kv_type, KvType::Q8_0);
        assert_eq!((again.engine.block_size, again.engine.threads), (32, args.engine.threads));
    }

    #[test]
    fn an_adapter_has_a_name_and_a_file() {
        let read = |text: &str| lora(text).map(|it| (it.name, it.path));
        assert_eq!(read("legal=a/b=c.gguf"), Ok(("legal".to_owned(), "a/b=c.gguf".into())));
        for wrong in ["legal", "=a.gguf", "legal=", "two words=a.gguf"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
