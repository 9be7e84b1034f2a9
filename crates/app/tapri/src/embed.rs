//! The sentence encoder beside the model, for `/v1/embeddings`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tapri_embed::{Embedder, MiniLm, minilm};
use tapri_registry::{Kind, ModelRef, Puller, Recheck, Sha256Digest, catalogue};
use tapri_upstream::sentences::{Sentences, SentencesCard};

use crate::failure::Failure;
use crate::{load, pull};

/// The encoder that is served where no other is named, if it is on this machine.
const DEFAULT: &str = "all-minilm-l6-v2";

/// The encoder that was asked for, brought if it is missing; without any, the usual one where it was pulled before.
/// It is opened by the first call.
pub(crate) fn encoder(asked: Option<&ModelRef>) -> Result<Option<Sentences>> {
    let (name, path) = match asked {
        Some(ModelRef::Named(model)) if model.kind != Kind::Encoder => {
            return Err(Failure::usage(
                format!("{} answers, and gives no vectors", model.name),
                format!("--embed-model {DEFAULT} does"),
            )
            .into());
        }
        Some(model) => {
            let path = pull::pulled(model, Recheck::No)?;
            (load::name(model, &path), path)
        }
        None => match pulled_before() {
            Some(path) => (DEFAULT.to_owned(), path),
            None => return Ok(None),
        },
    };
    let card = SentencesCard {
        id: name,
        context: minilm::MAX_TOKENS,
        fingerprint: fingerprint(asked, &path)?,
    };
    Ok(Some(Sentences::new(card, move || open(&path).map_err(|error| format!("{error:#}")))))
}

fn pulled_before() -> Option<PathBuf> {
    let puller = Puller::from_env().ok()?;
    puller.find(&ModelRef::Named(catalogue::find(DEFAULT)?))
}

/// A pinned file is what its pin says; another one is read.
fn fingerprint(model: Option<&ModelRef>, path: &Path) -> Result<String> {
    let digest = match model {
        None => catalogue::find(DEFAULT).map(|model| model.sha256),
        Some(ModelRef::Named(model)) => Some(model.sha256),
        Some(_) => None,
    };
    let digest = match digest {
        Some(digest) => digest,
        None => Sha256Digest::of_file(path).with_context(|| format!("read {}", path.display()))?,
    };
    Ok(digest.0.iter().take(5).map(|byte| format!("{byte:02x}")).collect())
}

fn open(path: &Path) -> Result<Embedder> {
    Ok(Embedder::checked(MiniLm::open(path)?)?)
}
