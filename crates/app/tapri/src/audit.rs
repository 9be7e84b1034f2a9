//! `tapri audit`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::failure::Failure;
use crate::quantity;

mod caller;
mod consent;
mod findings;
mod levels;
mod live;
mod recorded;
mod show;
mod stream;
mod target;

const EXAMPLES: &str = "\
Exit codes:
  0    no sharing between users was found, or recorded times were judged
  1    sharing was found
  2    wrongly used, or the audit could not be finished
  130  interrupted

Examples:
  tapri audit --url http://127.0.0.1:8080 --victim-salt one --attacker-salt two --samples 50 --prompt-tokens 1000
      two salts on a server of your own
  TAPRI_AUDIT_VICTIM_KEY=... TAPRI_AUDIT_ATTACKER_KEY=... tapri audit --url https://llm.example.com --i-own-this
      two users' keys on a deployment that is reached over the internet
  tapri audit --samples times.jsonl
      judge recorded times: lines with hit_seconds and miss_seconds";

/// The arguments. The method is that of Gu et al., 'Auditing Prompt Caching in Language Model APIs' (ICML 2025).
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AuditArgs {
    /// The server to audit, one of your own: its base address, with or without /v1
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// With --url: samples of each kind [default: 250]. Without: a file of recorded times to judge
    #[arg(long, value_name = "N|FILE", value_parser = samples)]
    samples: Option<SamplesArg>,
    /// The model to ask [default: the first that the server lists]
    #[arg(long)]
    model: Option<String>,
    /// Which API to ask through
    #[arg(long, value_enum, default_value_t = Api::Chat)]
    api: Api,
    /// Between whom to look [default: the same user, the organisation if a key or salt is given, strangers]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LEVEL")]
    level: Vec<LevelArg>,
    /// Tokens of a prompt, as letters of one token each
    #[arg(long, value_name = "N", default_value = "5000", value_parser = quantity::count)]
    prompt_tokens: NonZeroUsize,
    /// The share of the victim's prompt that the attacker's begins with, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0.95", value_parser = share)]
    prefix_fraction: f64,
    /// How often the victim sends its prompt before the attacker does; more than one number is tried in turn until sharing
    /// is found
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1", value_parser = quantity::count)]
    victim_requests: Vec<NonZeroUsize>,
    /// Pause between samples, in which others' requests pass [default: 1s; none: 0]
    #[arg(long, value_name = "TIME", value_parser = pause)]
    delay: Option<Duration>,
    /// p below this is a finding
    #[arg(long, value_name = "P", default_value = "1e-8", value_parser = threshold)]
    threshold: f64,
    /// Seed of the prompts and their order [default: a new one]. The same seed on the same server finds its own old prompts
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The most requests to send
    #[arg(long, value_name = "N", default_value = "10000", value_parser = quantity::count)]
    max_requests: NonZeroUsize,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::duration)]
    timeout: Duration,
    /// Prices to estimate the cost with: example, bundled, a file, or a model's name
    #[arg(long, value_name = "PRICES", default_value = "bundled")]
    prices: String,
    /// Don't ask before sending
    #[arg(long)]
    yes: bool,
    /// The server is yours to audit though its address is public
    #[arg(long)]
    i_own_this: bool,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    users: UserArgs,
}

/// Who victim and attacker are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Users")]
struct UserArgs {
    /// The victim's API key
    #[arg(long, env = "TAPRI_AUDIT_VICTIM_KEY", hide_env_values = true, value_name = "KEY")]
    victim_key: Option<String>,
    /// A file with the victim's API key
    #[arg(long, value_name = "FILE", conflicts_with = "victim_key")]
    victim_key_file: Option<PathBuf>,
    /// A stranger's API key
    #[arg(long, env = "TAPRI_AUDIT_ATTACKER_KEY", hide_env_values = true, value_name = "KEY")]
    attacker_key: Option<String>,
    /// A file with the stranger's API key
    #[arg(long, value_name = "FILE", conflicts_with = "attacker_key")]
    attacker_key_file: Option<PathBuf>,
    /// The API key of another user of the victim's organisation
    #[arg(long, env = "TAPRI_AUDIT_ORG_KEY", hide_env_values = true, value_name = "KEY")]
    org_key: Option<String>,
    /// A file with the API key of another user of the victim's organisation
    #[arg(long, value_name = "FILE", conflicts_with = "org_key")]
    org_key_file: Option<PathBuf>,
    /// The victim's cache_salt
    #[arg(long, value_name = "SALT")]
    victim_salt: Option<String>,
    /// The stranger's cache_salt
    #[arg(long, value_name = "SALT")]
    attacker_salt: Option<String>,
    /// The cache_salt of another user of the victim's organisation
    #[arg(long, value_name = "SALT")]
    org_salt: Option<String>,
}

/// What follows `--samples`.
#[derive(Debug, Clone)]
enum SamplesArg {
    Count(NonZeroUsize),
    File(PathBuf),
}

fn samples(text: &str) -> Result<SamplesArg, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return quantity::count(text).map(SamplesArg::Count);
    }
    Ok(SamplesArg::File(text.into()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Api {
    /// /v1/chat/completions
    Chat,
    /// /v1/completions
    Completions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum LevelArg {
    /// The victim itself: is anything cached at all?
    User,
    /// Another user of the victim's organisation
    Organisation,
    /// A stranger
    Strangers,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("it must be above 0 and at most 1, for example 0.95".to_owned()),
    }
}

fn threshold(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(p) if p > 0.0 && p < 1.0 => Ok(p),
        _ => Err("it must be between 0 and 1, for example 1e-8".to_owned()),
    }
}

fn pause(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { quantity::duration(text) }
}

/// The exit code of a finding.
const FOUND: u8 = 1;

/// The exit code of an audit that says nothing: so that 1 always means that sharing was found.
const UNFINISHED: u8 = 2;

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode> {
    let done = match (&args.url, &args.samples) {
        (Some(url), samples) => match samples {
            Some(SamplesArg::File(path)) => Err(Failure::usage(
                format!("--samples {} with --url", path.display()),
                "with --url it is a number; leave --url out to judge a file",
            )
            .into()),
            Some(SamplesArg::Count(count)) => live::run(args, url, count.get()),
            None => live::run(args, url, 250),
        },
        (None, Some(SamplesArg::File(path))) => recorded::run(args, path),
        (None, _) => Err(Failure::usage(
            "neither a server nor recorded times",
            "say --url URL to audit a server of your own, or --samples FILE to judge recorded times",
        )
        .into()),
    };
    done.map_err(|error| match error.downcast::<Failure>() {
        Ok(failure) => failure.with_code(UNFINISHED).into(),
        Err(error) => Failure::new(error, None::<String>).with_code(UNFINISHED).into(),
    })
}
