//! `tapri config`: is the configuration right, and where does each value come from?

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, Subcommand};
use serde_json::json;
use tapri_server::ServerConfig;

use super::reader::{Setting, Source};
use super::{Config, FILE, flags};
use crate::cli::Cli;
use crate::failure::Failure;
use crate::quantity::{show_memory, show_seconds};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Check a configuration: every key, value and name in it
    Check(CheckArgs),
    /// Show every value and where it comes from; secrets as ***
    Show(ShowArgs),
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The file [default: tapri.toml]
    file: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The file [default: tapri.toml, if it is there]
    file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<ExitCode> {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Show(args) => show(args),
    }
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    let file = Config::file(args.file.as_deref()).ok_or_else(|| {
        Failure::usage(format!("there is no {FILE} here"), "name the file: tapri config check FILE")
    })?;
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::new(anyhow!("{} can't be read: {error}", file.display()), None::<String>)
    })?;
    match Config::parse(Some(file.clone()), &text) {
        Ok(config) => {
            crate::serve::semantic::check(&config)?;
            let sections = &config.sections;
            let count = |count: usize, what: &str| match count {
                1 => format!("1 {what}"),
                count => format!("{count} {what}s"),
            };
            writeln!(
                stdout(),
                "{} is right: {}, {}, {}",
                file.display(),
                count(sections.upstreams.len(), "upstream"),
                count(sections.routes.len(), "route"),
                count(sections.tenants.len(), "tenant"),
            )?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            for problem in &problems {
                eprintln!("error: {problem}");
                if let Some(hint) = &problem.hint {
                    eprintln!("hint: {hint}");
                }
            }
            Ok(ExitCode::FAILURE)
        }
    }
}

/// A value, and where it comes from.
struct Row {
    key: String,
    value: String,
    source: From,
}

enum From {
    Default,
    Line(usize),
    Variable(String),
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    let config = Config::load(Config::file(args.file.as_deref()))?;
    let rows = rows(&config)?;
    let file = config.file.clone().unwrap_or_default();
    let mut out = stdout().lock();
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| match &row.source {
                From::Default => json!({ "key": row.key, "value": row.value, "source": "default" }),
                From::Line(line) => json!({
                    "key": row.key, "value": row.value, "source": "file", "file": file, "line": line,
                }),
                From::Variable(name) => json!({
                    "key": row.key, "value": row.value, "source": "environment", "variable": name,
                }),
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|row| row.key.len() + row.value.len()).max().unwrap_or(0).min(60);
    for Row { key, value, source } in &rows {
        let source = match source {
            From::Default => "default".to_owned(),
            From::Line(line) => format!("{}:{line}", file.display()),
            From::Variable(name) => name.clone(),
        };
        let gap = (width + 2).saturating_sub(key.len() + value.len()).max(2);
        writeln!(out, "{key} = {value}{:gap$}# {source}", "")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn rows(config: &Config) -> Result<Vec<Row>> {
    let command = flags::with_defaults(Cli::command(), config)?;
    let matches = command.try_get_matches_from(["tapri", "serve"])?;
    let serve = matches.subcommand_matches("serve");
    let mut rows = Vec::new();
    for (section, key, id, opposite, hidden) in flags::all() {
        let Some(serve) = serve.filter(|serve| serve.try_contains_id(id).is_ok()) else { continue };
        let given = config.flags.iter().find(|given| given.id == id);
        let source = match (serve.value_source(id), given) {
            (Some(ValueSource::EnvVariable), _) => {
                let variable = flags::variable(id).unwrap_or_default();
                From::Variable(variable)
            }
            (_, Some(given)) => given.line.map_or(From::Default, From::Line),
            _ => From::Default,
        };
        let raw = serve.try_get_raw(id).ok().flatten().and_then(|mut values| values.next());
        let value = match raw.map(|value| value.to_string_lossy().into_owned()) {
            None => "-".to_owned(),
            Some(_) if hidden => "***".to_owned(),
            Some(value) if opposite => (value != "true").to_string(),
            Some(value) => value,
        };
        rows.push(Row { key: format!("{section}.{key}"), value, source });
    }
    let is_flag = |key: &str| rows.iter().any(|row| row.key == key);
    let rest: Vec<&Setting> =
        config.settings.iter().filter(|setting| !is_flag(&setting.key)).collect();
    for (key, value) in defaults() {
        if !rest.iter().any(|setting| setting.key == key) {
            rows.push(Row { key: key.to_owned(), value, source: From::Default });
        }
    }
    rows.extend(rest.into_iter().map(|setting| Row {
        key: setting.key.clone(),
        value: setting.value.clone(),
        source: match &setting.source {
            Source::Line(line) => From::Line(*line),
            Source::Variable(name) => From::Variable(name.clone()),
        },
    }));
    // Sections together, each in the order of its keys; lists as they were written.
    rows.sort_by_key(|row| order(&row.key));
    Ok(rows)
}

/// The sections' order.
fn order(key: &str) -> usize {
    let section = key.split(['.', '[']).next().unwrap_or(key);
    let all = [
        "server",
        "admin",
        "engine",
        "ledger",
        "alerts",
        "pages",
        "prices",
        "budgets",
        "cache",
        "semantic",
        "telemetry",
        "upstream",
        "route",
        "tenant",
    ];
    all.iter().position(|known| *known == section).unwrap_or(all.len())
}

/// What holds where nothing is said, of the keys that are no flags.
fn defaults() -> Vec<(&'static str, String)> {
    let server = ServerConfig::default();
    let (body, connections) = (server.body_limit, server.connections);
    vec![
        ("server.body_limit", show_memory(body.bytes as u64)),
        ("server.body_timeout", show_seconds(body.timeout)),
        ("server.max_connections", connections.max.to_string()),
        ("server.header_timeout", show_seconds(connections.header_timeout)),
        ("server.max_header_bytes", connections.header_bytes.to_string()),
        ("server.max_headers", connections.headers.to_string()),
        ("server.shutdown_limit", show_seconds(server.shutdown_limit)),
    ]
}
