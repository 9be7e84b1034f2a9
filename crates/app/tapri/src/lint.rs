//! `tapri lint`.

mod files;
mod suggestion;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use tapri_insight::lint::sarif::{self, Located};
use tapri_insight::lint::{Rule, Severity};
use tapri_insight::numbers::counted;
use tapri_insight::rules::Rules;

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  tapri lint prompt.json
  tapri lint requests.jsonl --deny
  tapri lint prompts/ --deny TPL001 --format sarif > lint.sarif
  tapri lint requests.jsonl --suggest > better.jsonl

A file holds one request (OpenAI's or Anthropic's JSON), an array of them, or a log with one on each line.
Rules: TPL001 volatile-time, TPL002 volatile-id, TPL003 user-text, TPL004 tool-order, TPL005 unsorted-json,
TPL006 short-start, TPL007 after-last-marker, TPL008 too-many-markers, TPL009 marker-order, TPL010 lookback,
TPL011 stable-behind-volatile, TPL012 marker-missing, TPL013 unstable-start.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LintArgs {
    /// Files of requests, or folders of .json and .jsonl files
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,
    /// Exit with code 1 where a rule is broken: any warning or error, or this rule; may be given several times
    #[arg(long, value_name = "RULE", num_args = 0..=1, default_missing_value = ANY)]
    deny: Vec<String>,
    /// How findings are printed
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FormatArg::Text)]
    format: FormatArg,
    /// Print the requests in a better order instead; files are never changed
    #[arg(long, conflicts_with_all = ["deny", "format"])]
    suggest: bool,
    /// A file of provider rules that wins over the built-in one
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
}

/// What `--deny` without a rule means.
const ANY: &str = "any";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    /// For people
    Text,
    /// One object
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

/// Which findings make the command fail.
#[derive(Default)]
struct Denied {
    any: bool,
    rules: BTreeSet<Rule>,
}

impl Denied {
    fn has(&self, finding: &Located) -> bool {
        let finding = &finding.finding;
        self.rules.contains(&finding.rule) || (self.any && finding.severity > Severity::Note)
    }
}

pub(crate) fn run(args: &LintArgs) -> Result<ExitCode> {
    let (denied, mut paths) = denied(&args.deny)?;
    paths.extend(args.paths.iter().cloned());
    if paths.is_empty() {
        return Err(Failure::usage(
            "no file was given",
            "give a request, a folder of requests, or a log: tapri lint requests.jsonl",
        )
        .into());
    }
    let rules = rules(args.rules.as_deref())?;
    if args.suggest {
        suggestion::run(&paths)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut all = Vec::new();
    let (mut requests, mut files) = (0, 0);
    for path in files::expand(&paths)? {
        let linted = files::lint(&path, &rules)?;
        requests += linted.requests;
        files += 1;
        all.extend(linted.found);
    }
    let mut out = stdout().lock();
    match args.format {
        FormatArg::Text => write!(out, "{}", text(&all, requests, files))?,
        FormatArg::Json => {
            writeln!(out, "{}", serde_json::to_string_pretty(&data(&all, requests, files))?)?;
        }
        FormatArg::Sarif => {
            let log = sarif::render(&all, env!("CARGO_PKG_VERSION"));
            writeln!(out, "{}", serde_json::to_string_pretty(&log)?)?;
        }
    }
    Ok(if all.iter().any(|found| denied.has(found)) {
        ExitCode::from(1)
    } else {
        ExitCode::SUCCESS
    })
}

/// What is denied; a value that is no rule but a path is the path that follows a bare `--deny`.
fn denied(given: &[String]) -> Result<(Denied, Vec<PathBuf>)> {
    let (mut denied, mut paths) = (Denied::default(), Vec::new());
    for value in given {
        match value.parse::<Rule>() {
            _ if value == ANY => denied.any = true,
            Ok(rule) => {
                denied.rules.insert(rule);
            }
            Err(_) if Path::new(value).exists() => {
                denied.any = true;
                paths.push(PathBuf::from(value));
            }
            Err(error) => {
                let hint = "tapri lint --help lists the rules; a path goes in front of --deny";
                return Err(Failure::usage(error.to_string(), hint).into());
            }
        }
    }
    Ok((denied, paths))
}

fn rules(path: Option<&Path>) -> Result<Rules> {
    let bundled = Rules::bundled()?;
    let Some(path) = path else { return Ok(bundled) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("failed to read the rules {}", path.display()))?;
    let own = Rules::read(&text).with_context(|| path.display().to_string())?;
    Ok(bundled.under(own))
}

fn place(found: &Located) -> String {
    match found.position {
        Some(position) => format!("{}:{}:{}", found.file, position.line, position.column),
        None => format!("{} ({})", found.file, found.finding.at),
    }
}

fn text(all: &[Located], requests: u64, files: u64) -> String {
    let mut text = String::new();
    for found in all {
        let finding = &found.finding;
        let _ = writeln!(
            text,
            "{}: {} {} {}: {}",
            place(found),
            finding.severity.as_str(),
            finding.rule.id(),
            finding.rule.name(),
            finding.message
        );
        let character =
            finding.character.map_or_else(String::new, |at| format!(", character {at}"));
        let times = match finding.requests {
            1 => String::new(),
            n => format!(", in {n} requests"),
        };
        let _ = writeln!(text, "  at {}{character}{times}", finding.path);
        let _ = writeln!(text, "  {}", finding.suggestion);
    }
    let of =
        |severity| all.iter().filter(|found| found.finding.severity == severity).count() as u64;
    if !all.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "{} in {}: {}, {}, {} (token counts are estimates)",
        counted(requests, "request"),
        counted(files, "file"),
        counted(of(Severity::Error), "error"),
        counted(of(Severity::Warning), "warning"),
        counted(of(Severity::Note), "note"),
    );
    text
}

fn data(all: &[Located], requests: u64, files: u64) -> serde_json::Value {
    let findings: Vec<_> = all
        .iter()
        .map(|found| {
            let finding = &found.finding;
            json!({
                "rule": finding.rule.id(),
                "name": finding.rule.name(),
                "severity": finding.severity,
                "file": found.file,
                "line": found.position.map(|at| at.line),
                "column": found.position.map(|at| at.column),
                "at": finding.at,
                "path": finding.path,
                "character": finding.character,
                "message": finding.message,
                "suggestion": finding.suggestion,
                "requests": finding.requests,
            })
        })
        .collect();
    json!({"schema": "tapri.lint/1", "files": files, "requests": requests, "findings": findings, "estimated": ["token counts in messages"]})
}
