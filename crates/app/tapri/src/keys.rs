//! `tapri keys`: API keys for tenants, and the server's secret.

use std::fs::OpenOptions;
use std::io::{Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use tapri_server::tenants::key::{KeyHash, new_key};
use tapri_server::tenants::key_file;
use tapri_server::tenants::secret::ServerSecret;

use crate::config::Config;
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Debug, Subcommand)]
enum KeysCommand {
    /// Make an API key: it is shown once, and its hash is what the server keeps
    New(NewArgs),
    /// Print the hash of a key that is read from stdin
    Hash(HashArgs),
    /// Replace the server's secret: what was cached before is not found again
    RotateSecret(RotateArgs),
}

#[derive(Debug, Args)]
struct NewArgs {
    /// Whose it is
    #[arg(long, value_name = "NAME")]
    tenant: String,
    /// Add its line to this key file
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct HashArgs {
    /// Print a line for the key file, for this tenant
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

#[derive(Debug, Args)]
struct RotateArgs {
    /// The configuration that names the secret's file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: &KeysArgs) -> Result<ExitCode> {
    match &args.command {
        KeysCommand::New(args) => new(args),
        KeysCommand::Hash(args) => hash(args),
        KeysCommand::RotateSecret(args) => rotate(args),
    }
}

fn new(args: &NewArgs) -> Result<ExitCode> {
    let tenant = name(&args.tenant)?;
    let key = new_key().map_err(|error| anyhow!("the system gives no random bytes: {error}"))?;
    let line = key_file::line(tenant, KeyHash::of(&key));
    let mut out = stdout().lock();
    match &args.file {
        Some(path) => {
            append(path, &line).with_context(|| format!("{} can't be written", path.display()))?;
            writeln!(out, "{key}")?;
            eprintln!("the key is shown this once; its hash is in {}", path.display());
            eprintln!("a running server reads the file again on SIGHUP");
        }
        None => {
            writeln!(out, "{key}")?;
            write!(out, "{line}")?;
            eprintln!("the key is shown this once; the second line is for the server's key file");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds a line, on a line of its own. A new file is its owner's alone: hashes are no keys, and still nobody's business.
fn append(path: &Path, line: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let gap = if text.last().is_some_and(|last| *last != b'\n') { "\n" } else { "" };
    file.write_all(format!("{gap}{line}").as_bytes())
}

fn hash(args: &HashArgs) -> Result<ExitCode> {
    let mut key = String::new();
    stdin().read_to_string(&mut key).context("the key can't be read from stdin")?;
    let hash = KeyHash::of_chosen(key.trim()).map_err(|error| {
        let hint = "'tapri keys new' makes one that can't be guessed";
        Failure::new(anyhow!("{error}"), Some(hint))
    })?;
    match &args.tenant {
        Some(tenant) => write!(stdout(), "{}", key_file::line(name(tenant)?, hash))?,
        None => writeln!(stdout(), "{hash}")?,
    }
    Ok(ExitCode::SUCCESS)
}

fn rotate(args: &RotateArgs) -> Result<ExitCode> {
    let config = Config::load(Config::file(args.config.as_deref()))?;
    let path = config.secret_file()?;
    ServerSecret::rotate(&path)?;
    writeln!(stdout(), "{} has a new secret", path.display())?;
    eprintln!("a running server takes it on SIGHUP; what was cached before is not found again");
    Ok(ExitCode::SUCCESS)
}

/// A name that a line of the key file can hold.
fn name(name: &str) -> Result<&str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=64).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    let message = format!("{name:?} is no name for a tenant");
    let hint = "use 1 to 64 letters, digits, hyphens, underscores and full stops";
    Err(Failure::usage(message, hint).into())
}
