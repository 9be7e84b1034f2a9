//! `tapri prices`, and the price list that any command is given.

mod show;
mod update;

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde_json::json;
use tapri_insight::prices::{Format, PriceBook, PriceList, UnknownModel};

use crate::data;
use crate::failure::Failure;

pub(crate) use crate::prices::show::named;

/// What is wrong with a price list, and what one looks like.
const FIELDS: &str = "the fields are name, currency, input, cached_input and output, and may be date, source, \
                      minimum, write, long, batch, flex and priority; the README has an example";
const NAMES: &str = "--prices takes example, bundled, a file, or a model's name; 'tapri prices search WORDS' finds names";

const EXAMPLES: &str = "\
Examples:
  tapri prices search sonnet
  tapri prices show claude-sonnet-4-5
  tapri prices show gpt-5.6 --json
  tapri prices update https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json
  tapri cost --prefix 32000 --question 200 --answer 500 --calls 20 --prices claude-sonnet-4-5

Your own prices go into overrides.toml in the folder that 'tapri prices' names; they win over all others.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PricesArgs {
    #[command(subcommand)]
    command: Option<PricesCommand>,
    /// The price list: example, bundled (with what was updated, and your overrides over it), or a file
    #[arg(long, global = true, value_name = "PRICES", default_value = "bundled")]
    prices: String,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum PricesCommand {
    /// List every model that has prices
    List,
    /// List the models whose names have all these words in them
    Search {
        #[arg(required = true)]
        words: Vec<String>,
    },
    /// Show a model's prices
    Show {
        /// The model's name
        model: String,
    },
    /// Replace the price list that stands over the bundled one
    Update {
        /// A file or a URL: LiteLLM's list, or one in Tapri's own form
        from: String,
    },
}

pub(crate) fn run(args: &PricesArgs) -> Result<ExitCode> {
    match &args.command {
        None => about(args)?,
        Some(PricesCommand::List) => show::rows(&open(&args.prices)?, &[], args.json)?,
        Some(PricesCommand::Search { words }) => {
            show::rows(&open(&args.prices)?, words, args.json)?;
        }
        Some(PricesCommand::Show { model }) => {
            let book = open(&args.prices)?;
            show::one(book.find(model).map_err(unknown)?, args.json)?;
        }
        Some(PricesCommand::Update { from }) => update::run(from, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The book that a `--prices` names.
pub(crate) fn open(prices: &str) -> Result<PriceBook> {
    match prices {
        "example" => Ok(PriceList::example().into()),
        "bundled" => stacked(&folder()?),
        _ => {
            let path = Path::new(prices);
            let ending = path.extension().and_then(|ending| ending.to_str());
            if path.is_file() || matches!(ending, Some("toml" | "json" | "gz")) {
                return read(path)?
                    .with_context(|| missing(path))
                    .map_err(|error| Failure::new(error, None::<String>).into());
            }
            let book = stacked(&folder()?)?;
            Ok(book.find(prices).map_err(unknown)?.clone().into())
        }
    }
}

/// The list that a `--prices` names, for one model.
pub(crate) fn list(prices: &str, model: &str) -> Result<PriceList> {
    Ok(open(prices)?.find(model).map_err(unknown)?.clone())
}

/// A model that has no prices, with what to do.
pub(crate) fn unknown(error: UnknownModel) -> Failure {
    Failure::new(error, Some(NAMES))
}

/// The folder of price lists.
///
/// ```text
/// updated.json.gz   what 'tapri prices update' brought
/// overrides.toml    a person's own
/// ```
fn folder() -> Result<PathBuf> {
    Ok(data::folder()?.join("prices"))
}

/// The bundled list, over it what was updated, over that a person's own.
fn stacked(folder: &Path) -> Result<PriceBook> {
    let mut book = PriceBook::bundled()?;
    for file in ["updated.json.gz", "overrides.toml"] {
        if let Some(over) = read(&folder.join(file))? {
            book = book.under(over);
        }
    }
    Ok(book)
}

/// A file's book; `None` where there is no such file.
fn read(path: &Path) -> Result<Option<PriceBook>> {
    let name = path.display().to_string();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| unreadable(path)),
    };
    let book = PriceBook::read(&name, &bytes, Format::of(&name));
    Ok(Some(book.map_err(|error| Failure::new(error, Some(FIELDS)))?))
}

fn unreadable(path: &Path) -> String {
    format!("failed to read the price list {}", path.display())
}

fn missing(path: &Path) -> String {
    format!("{}: there is no such file", unreadable(path))
}

/// What there is.
fn about(args: &PricesArgs) -> Result<()> {
    let folder = folder()?;
    let bundled = PriceBook::bundled()?;
    let updated = read(&folder.join("updated.json.gz"))?;
    let overrides = read(&folder.join("overrides.toml"))?;
    let layers: Vec<_> = [overrides, updated, Some(bundled)].into_iter().flatten().collect();
    let mut out = stdout().lock();
    if args.json {
        let layers: Vec<_> = layers
            .iter()
            .map(|book| {
                json!({
                    "name": book.name,
                    "models": book.len(),
                    "date": book.date.map(|date| date.to_string()),
                    "source": book.source,
                })
            })
            .collect();
        let whole = json!({"schema": "tapri.prices/1", "folder": folder, "lists": layers});
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
        return Ok(());
    }
    writeln!(out, "Price lists, the first that knows a model counts (in {}):\n", folder.display())?;
    writeln!(out, "{}\n", show::layers(&layers))?;
    writeln!(
        out,
        "Find a model with: tapri prices search WORDS\nBring newer prices with: tapri prices update FILE|URL"
    )?;
    Ok(())
}
