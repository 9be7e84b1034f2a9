//! What questions are compared by: a model of this machine, or an upstream's `/v1/embeddings`.

use std::time::Duration;

use anyhow::{Context, Result};
use tapri_embed::{CheckError, Embedder, UpstreamEmbedder};

use crate::config::Config;
use crate::config::sections::{Speaks, Upstream};
use crate::failure::Failure;
use crate::semantic::{EncoderArgs, encoder};

/// How long a call waits for an embedder elsewhere, where its upstream says nothing shorter: the model answers
/// instead.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The embedder that is configured, else the one of the flags. One that is degenerate is refused. One that is elsewhere
/// and can't be reached yet is checked when it can be: until then nothing is compared.
pub(super) fn embedder(config: &Config, flags: &EncoderArgs) -> Result<Embedder> {
    let Some(written) = config.sections.semantic.embedder.as_deref() else {
        return encoder(flags);
    };
    let Some(elsewhere) = written.strip_prefix("upstream:") else {
        return encoder(&EncoderArgs { encoder: written.to_owned() });
    };
    let embedder = Embedder::checked_later(upstream(config, elsewhere)?);
    match embedder.check() {
        Ok(()) => {}
        Err(CheckError::Failed(error)) => {
            eprintln!(
                "warning: semantic.embedder: {error}; it is checked when it answers, and no question is compared until then"
            );
        }
        Err(refused) => {
            let message = format!("semantic.embedder: {refused}");
            let hint = "name a sentence encoder that this upstream serves, or all-minilm-l6-v2 of this machine";
            return Err(Failure::usage(message, hint).into());
        }
    }
    Ok(embedder)
}

fn upstream(config: &Config, written: &str) -> Result<UpstreamEmbedder> {
    let refuse = |what: String, hint: String| {
        anyhow::Error::from(Failure::usage(format!("semantic.embedder: {what}"), hint))
    };
    // Whether the names are right was said when the file was read.
    let Some((upstream, model)) = find(config, written) else {
        return Err(refuse("there is no such upstream".to_owned(), FORM.to_owned()));
    };
    if upstream.format != Speaks::OpenAi {
        let what = format!(
            "the upstream {:?} doesn't speak OpenAI's API, which has embeddings",
            upstream.name
        );
        return Err(refuse(what, "name one that does, or a model of this machine".to_owned()));
    }
    if upstream.key.is_none() && !upstream.keys.is_empty() {
        let what = format!(
            "the upstream {:?} has keys of tenants alone, and questions of all tenants are embedded with one",
            upstream.name
        );
        return Err(refuse(
            what,
            "write a second [[upstream]] with `key` for embeddings".to_owned(),
        ));
    }
    let key = match &upstream.key {
        Some(key) => Some(key.read(config.folder()).with_context(|| {
            format!("the key of the upstream {:?} can't be read", upstream.name)
        })?),
        None => None,
    };
    // What it is called there.
    let there = upstream.models.iter().find_map(|named| {
        let (here, there) = named.split_once('=')?;
        (here == model).then_some(there)
    });
    let limits = [upstream.first_byte_timeout, upstream.total_timeout, Some(TIMEOUT)];
    let timeout = limits.into_iter().flatten().min().unwrap_or(TIMEOUT);
    Ok(UpstreamEmbedder::new(&upstream.url, there.unwrap_or(model), key, timeout))
}

const FORM: &str = "write upstream:NAME/MODEL, with the name of an [[upstream]]";

fn find<'a>(config: &'a Config, written: &'a str) -> Option<(&'a Upstream, &'a str)> {
    let (name, model) = written.split_once('/')?;
    let upstream = config.sections.upstreams.iter().find(|upstream| upstream.name == name)?;
    Some((upstream, model))
}
