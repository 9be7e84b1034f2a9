//! The pages of `tapri serve`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tapri_casefile::{OpenError, Store};
use tapri_server::PagesConfig;
use tapri_server::tenants::secret::ServerSecret;

use crate::data;
use crate::failure::Failure;
use crate::quantity;

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
        Ok(Some(PagesConfig {
            store: Arc::new(store),
            secret: secret.derive("pages"),
            upload_limit: usize::try_from(self.upload_limit).unwrap_or(usize::MAX),
            answer_tokens: self.answer_tokens.get(),
        }))
    }
}

fn failure(error: OpenError) -> Failure {
    let hint = match &error {
        OpenError::Newer { .. } => "use the newer Tapri, or name another file with --cases",
        OpenError::Foreign { .. } => "name another file with --cases",
        _ => "name another file with --cases, or serve without pages: --no-pages",
    };
    Failure::new(error, Some(hint))
}
