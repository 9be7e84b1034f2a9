//! Brings newer prices. Whatever comes is read whole and checked first; the file that is there is replaced by one
//! rename or not at all.

use std::fs::{self, File};
use std::io::{Read, Write, stdout};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tapri_insight::lines::decompressed;
use tapri_insight::prices::{Format, PriceBook, file, litellm};

use crate::failure::Failure;
use crate::prices::{FIELDS, folder};
use crate::quantity::show_count;

/// The longest list that is read: the largest known one has 3.5 MB.
const LARGEST: u64 = 64 << 20;

/// How long a download may take.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn run(from: &str, as_json: bool) -> Result<()> {
    let is_url = from.starts_with("https://") || from.starts_with("http://");
    let bytes = if is_url { download(from)? } else { read(Path::new(from))? };
    let book = checked(from, &bytes)?;
    let folder = folder()?;
    let path = folder.join("updated.json.gz");
    replace(&folder, &path, &book)
        .with_context(|| format!("failed to write {}", path.display()))?;
    let date = book.date.map(|date| date.to_string()).unwrap_or_default();
    let mut out = stdout().lock();
    if as_json {
        let whole =
            json!({"schema": "tapri.prices/1", "file": path, "models": book.len(), "date": date});
        writeln!(out, "{}", serde_json::to_string_pretty(&whole)?)?;
    } else {
        let models = show_count(book.len());
        writeln!(out, "{models} models with prices of {date}, in {}", path.display())?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let named = || format!("failed to read the price list {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .with_context(named)?
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .with_context(named)?;
    Ok(bytes)
}

fn download(url: &str) -> Result<Vec<u8>> {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build().into();
    let fetched = agent
        .get(url)
        .call()
        .and_then(|answer| answer.into_body().into_with_config().limit(LARGEST).read_to_vec());
    fetched.map_err(|error| {
        let error = anyhow!("failed to download {url}: {error}");
        Failure::new(error, Some("download it otherwise and give its file; the old prices stay"))
            .into()
    })
}

/// What was brought, as a book that is named, dated and sourced.
fn checked(from: &str, bytes: &[u8]) -> Result<PriceBook> {
    let bad =
        |error: anyhow::Error| Failure::new(error, Some(format!("the old prices stay; {FIELDS}")));
    let mut text = String::new();
    decompressed(bytes)
        .and_then(|reader| reader.take(LARGEST + 1).read_to_string(&mut text))
        .map_err(|error| bad(anyhow!("the price list {from} is not text: {error}")))?;
    if text.len() as u64 > LARGEST || bytes.len() as u64 > LARGEST {
        return Err(
            bad(anyhow!("the price list {from} is longer than {} MiB", LARGEST >> 20)).into()
        );
    }
    let book = if litellm::looks_like(&text) {
        litellm::read(from, &text, "updated")
    } else {
        // What comes from elsewhere under no telling name is JSON or TOML by its first character.
        let format = if text.trim_start().starts_with('{') { Format::Json } else { Format::Toml };
        file::read(from, &text, format)
    };
    let book = book.map_err(|error| bad(error.into()))?;
    if book.models().next().is_none() {
        let error =
            anyhow!("the price list {from} is one list for any model, and no book of models");
        bail!(bad(error));
    }
    let date = book.date.unwrap_or_else(|| jiff::ZonedDateTime::now().date());
    Ok(book.labelled("updated", date, from))
}

fn replace(folder: &Path, path: &Path, book: &PriceBook) -> Result<()> {
    fs::create_dir_all(folder)?;
    let partial = folder.join(format!(".updated.{}", std::process::id()));
    let written = write(&partial, book).and_then(|()| Ok(fs::rename(&partial, path)?));
    if written.is_err() {
        // What failed is the news; a leftover is not.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn write(partial: &Path, book: &PriceBook) -> Result<()> {
    let mut out = GzEncoder::new(File::create(partial)?, Compression::default());
    out.write_all(file::to_json(book).to_string().as_bytes())?;
    out.finish()?.sync_all()?;
    Ok(())
}
