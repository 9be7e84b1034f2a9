//! The pages of `tapri serve`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tapri_casefile::{DocumentError, Guard, Judgments, OpenError, Store};
use tapri_server::PagesConfig;
use tapri_server::tenants::secret::ServerSecret;

use crate::data;
use crate::failure::Failure;
use crate::quantity;
use crate::read;

/// The pages for people.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pages")]
pub(crate) struct PagesArgs {
    /// Serve the APIs alone, without the pages for people at /
    #[arg(long)]
    no_pages: bool,
    /// Where the case files, questions and answers of the pages are kept [default: casefiles.sqlite in the data folder]
    #[arg(long, env = "TAPRI_CASES", hide_env_values = true, value_name = "FILE")]
    cases: Option<PathBuf>,
    /// A folder of past judgments (PDF, DOCX, Markdown, text) that models may search, for every tenant
    #[arg(long, env = "TAPRI_JUDGMENTS", hide_env_values = true, value_name = "FOLDER")]
    judgments: Option<PathBuf>,
    /// The most that may be uploaded at once
    #[arg(long, env = "TAPRI_UPLOAD_LIMIT", hide_env_values = true, value_name = "SIZE", default_value = "64MiB", value_parser = quantity::bytes)]
    upload_limit: u64,
    /// The most tokens of an answer on the pages
    #[arg(long, env = "TAPRI_ANSWER_TOKENS", hide_env_values = true, value_name = "N", default_value = "512", value_parser = quantity::count)]
    answer_tokens: NonZeroUsize,
}

impl PagesArgs {
    /// The pages, where they are on. Cases that can't be opened are an error: they are somebody's work.
    pub(crate) fn config(&self, secret: &ServerSecret) -> Result<Option<PagesConfig>> {
        if self.no_pages {
            return Ok(None);
        }
        let path = match &self.cases {
            Some(path) => path.clone(),
            None => data::folder()?.join("casefiles.sqlite"),
        };
        let store = Store::open(&path).map_err(failure)?;
        let guard = read::guard()?;
        let judgments = self.judgments.as_deref().map(|folder| judgments(folder, &guard));
        Ok(Some(PagesConfig {
            store: Arc::new(store),
            reader: Arc::new(move |name, bytes| guard.read(name, bytes)),
            judgments: judgments.transpose()?,
            secret: secret.derive("pages"),
            upload_limit: usize::try_from(self.upload_limit).unwrap_or(usize::MAX),
            answer_tokens: self.answer_tokens.get(),
        }))
    }
}

/// Takes in the judgments, each read as carefully as an upload.
fn judgments(folder: &Path, guard: &Guard) -> Result<Arc<Judgments>> {
    let judgments = Judgments::open(folder, |path| {
        let bytes = std::fs::read(path)
            .map_err(|source| DocumentError::Io { path: path.to_owned(), source })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        guard.read(&name, &bytes)
    })
    .map_err(|error| {
        Failure::new(
            error,
            Some("name a folder of PDF, DOCX, Markdown or text files with --judgments"),
        )
    })?;
    for (path, error) in judgments.skipped() {
        eprintln!("warning: {} is no part of the search: {error}", path.display());
    }
    let files = judgments.files();
    eprintln!("{files} judgment{} to search in", if files == 1 { "" } else { "s" });
    Ok(Arc::new(judgments))
}

fn failure(error: OpenError) -> Failure {
    let hint = match &error {
        OpenError::Newer { .. } => "use the newer Tapri, or name another file with --cases",
        OpenError::Foreign { .. } => "name another file with --cases",
        _ => "name another file with --cases, or serve without pages: --no-pages",
    };
    Failure::new(error, Some(hint))
}
