//! What questions are compared by: a model of this machine, or an upstream's `/v1/embeddings`.

use std::time::Duration;

use anyhow::{Context, Result};
use tapri_embed::{CheckError, Embedder, UpstreamEmbedder};

use crate::config::Config;
use crate::config::sections::{Speaks, Upstream};
use crate::failure::Failure;
use crate::semantic::{DEFAULT_ENCODER, EncoderArgs, encoder};

/// How long a call waits for an embedder elsewhere, where its upstream says nothing shorter: the model answers
/// instead.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The embedder of the flag, else the one that is configured. One that is degenerate is refused. One that is elsewhere
/// and can't be reached yet is checked when it can be: until then nothing is compared.
pub(super) fn embedder(config: &Config, flag: Option<&str>) -> Result<Embedder> {
    let (said, written) = chosen(config, flag);
    let Some(elsewhere) = written.strip_prefix("upstream:") else {
        return encoder(&EncoderArgs { encoder: written.to_owned() });
    };
    let embedder = Embedder::checked_later(upstream(config, said, elsewhere)?);
    match embedder.check() {
        Ok(()) => {}
        Err(CheckError::Failed(error)) => {
            eprintln!(
                "warning: {said}: {error}; it is checked when it answers, and no question is compared until then"
            );
        }
        Err(refused) => {
            let message = format!("{said}: {refused}");
            let hint = "name a sentence encoder that this upstream serves, or all-minilm-l6-v2 of this machine";
            return Err(Failure::usage(message, hint).into());
        }
    }
    Ok(embedder)
}

/// What is written, and where: a flag or its variable goes before the file.
fn chosen<'a>(config: &'a Config, flag: Option<&'a str>) -> (&'static str, &'a str) {
    match (flag, config.sections.semantic.embedder.as_deref()) {
        (Some(written), _) => ("--encoder", written),
        (None, Some(written)) => ("semantic.embedder", written),
        (None, None) => ("--encoder", DEFAULT_ENCODER),
    }
}

fn upstream(config: &Config, said: &str, written: &str) -> Result<UpstreamEmbedder> {
    let refuse = |what: String, hint: String| {
        anyhow::Error::from(Failure::usage(format!("{said}: {what}"), hint))
    };
    // Whether a file's names are right was said when it was read.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_goes_before_the_file() {
        let config = |text: &str| Config::parse(None, text).unwrap();
        let (file, none) = (config("[semantic]\nembedder = \"of-the-file\"\n"), config(""));
        assert_eq!(chosen(&file, Some("of-the-flag")), ("--encoder", "of-the-flag"));
        assert_eq!(chosen(&file, None), ("semantic.embedder", "of-the-file"));
        assert_eq!(chosen(&none, None), ("--encoder", DEFAULT_ENCODER));
        // One that isn't there is refused by the name under which it was given.
        for (config, flag, said) in [
            (&file, "upstream:gpu/minilm", "--encoder: there is no such upstream"),
            (&file, "nowhere.safetensors", "nowhere.safetensors"),
        ] {
            let error = format!("{:#}", embedder(config, Some(flag)).err().unwrap());
            assert!(error.contains(said), "{error}");
        }
    }
}
