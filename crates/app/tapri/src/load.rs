//! From a model's name to a pipeline.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tapri_engine::{AdapterFile, AdapterStartError, DiskError, Engine, StartError};
use tapri_insight::prices::PriceList;
use tapri_pipeline::{Pipeline, Recorder};
use tapri_registry::{ModelRef, Recheck};
use tapri_upstream::{Backend, Embedded, Several};

use crate::cli::{EngineArgs, HashArg};
use crate::failure::Failure;
use crate::ledger::LedgerArgs;
use crate::pull;
use crate::quantity::show_memory;

/// A model that is loaded.
pub(crate) struct Loaded {
    /// The name it is served under.
    pub(crate) name: String,
    pub(crate) pipeline: Pipeline,
}

/// What answers beside an engine.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) backends: Vec<Arc<dyn Backend>>,
    /// The upstreams that routes' calls may go to.
    pub(crate) routes: HashMap<String, Vec<String>>,
}

impl Beside {
    /// These, with this one before them. What answers alone sees to its routes itself.
    pub(crate) fn behind(self, first: Arc<dyn Backend>) -> Arc<dyn Backend> {
        match self.backends.is_empty() {
            true => first,
            false => Arc::new(Several::new(first, self.backends).routed(self.routes)),
        }
    }
}

/// Brings the model's file if it is missing, and starts an engine on it, with other backends beside it.
pub(crate) fn load(model: &ModelRef, args: &EngineArgs, beside: Beside) -> Result<Loaded> {
    if args.prefix_hash == HashArg::Xxh3 {
        eprintln!(
            "warning: --prefix-hash xxh3 is not collision-safe between tenants that don't trust each other"
        );
    }
    let path = pull::pulled(model, Recheck::No)?;
    let config = args.config();
    let threads = config.threads;
    let engine = Engine::start(&path, config).map_err(failure)?;
    let info = engine.model();
    eprintln!(
        "{}: {} on {} thread{}, KV memory {} in {}",
        path.file_name().unwrap_or_default().to_string_lossy(),
        info.isa,
        threads,
        if threads.get() == 1 { "" } else { "s" },
        show_memory(info.kv_bytes as u64),
        info.kv_type,
    );
    for adapter in &info.adapters {
        eprintln!(
            "adapter {}: rank {}, {} matrices, {} of memory, digest {}",
            adapter.name,
            adapter.rank,
            adapter.matrices,
            show_memory(adapter.bytes as u64),
            digits(&adapter.digest),
        );
    }
    if let Some(refused) = &info.disk_refused {
        eprintln!("warning: the KV cache does without its disk: {refused}");
    }
    if let (Some(folder), Some(disk)) = (&args.kv_disk, engine.stats().disk) {
        eprintln!("KV on disk in {}: {}", folder.display(), show_memory(disk.bytes));
    }
    let name = name(model, &path);
    let mut aliases = vec![info.name.clone()];
    aliases.retain(|alias| *alias != name);
    distinct(&args.lora, std::iter::once(&name).chain(&aliases))?;
    let embedded = Arc::new(Embedded::new(engine, name.clone(), aliases));
    Ok(Loaded { name, pipeline: Pipeline::new(beside.behind(embedded)) })
}

/// A model that is loaded, and whose calls are recorded and explained.
pub(crate) struct Recorded {
    /// The name it is served under.
    pub(crate) name: String,
    pub(crate) pipeline: Pipeline,
    /// To be closed at the end.
    pub(crate) recorder: Recorder,
}

/// [`load`], and opens the ledger meanwhile: checking a large one takes seconds as well.
pub(crate) fn recorded(
    model: &ModelRef,
    engine: &EngineArgs,
    ledger: &LedgerArgs,
    prices: &PriceList,
) -> Result<Recorded> {
    recorded_with(|| load(model, engine, Beside::default()), ledger, prices)
}

/// The same for whoever answers.
pub(crate) fn recorded_with(
    load: impl FnOnce() -> Result<Loaded>,
    ledger: &LedgerArgs,
    prices: &PriceList,
) -> Result<Recorded> {
    let (loaded, recorder) = std::thread::scope(|scope| {
        let opening = scope.spawn(|| ledger.recorder(prices));
        let loaded = load();
        // A panic in it has been printed by its own hook; the calls go on without records.
        (loaded, opening.join().unwrap_or_default())
    });
    let Loaded { name, pipeline } = loaded?;
    let pipeline = pipeline.recorded(recorder.clone()).explained(ledger.explainer());
    Ok(Recorded { name, pipeline, recorder })
}

/// The name that a model is served under.
pub(crate) fn name(model: &ModelRef, path: &Path) -> String {
    match model {
        ModelRef::Named(model) => model.name.to_owned(),
        _ => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    }
}

/// Refuses an adapter that has one of the model's own names, which a request could not mean.
pub(crate) fn distinct<'a>(
    adapters: &[AdapterFile],
    mut names: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    let taken = names.find(|name| adapters.iter().any(|adapter| adapter.name == **name));
    match taken {
        None => Ok(()),
        Some(name) => Err(Failure::usage(
            format!("the model itself has the name {name:?}, and an adapter can't have it too"),
            format!("give it another name with --lora, for example --lora {name}-lora=FILE"),
        )),
    }
}

/// Enough of a digest to tell builds apart.
pub(crate) fn digits(digest: &[u8; 32]) -> String {
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn adapter_failure(error: AdapterStartError) -> Failure {
    let hint = match &error {
        AdapterStartError::Twice(_) => "give each --lora a name of its own",
        AdapterStartError::File { .. } => "it should be a GGUF file: check the path of --lora",
        _ => {
            "an adapter is a GGUF file that llama.cpp's convert_lora_to_gguf.py made for this very model"
        }
    };
    Failure::new(error, Some(hint))
}

fn failure(error: StartError) -> Failure {
    let error = match error {
        StartError::Adapter(error) => return adapter_failure(error),
        error => error,
    };
    let hint = match &error {
        StartError::File { .. } => {
            Some("it should be a GGUF file; pull it again if it came from a pull, or copy it again")
        }
        StartError::Model { .. } | StartError::Tokenizer { .. } | StartError::Template { .. } => {
            Some("'tapri pull' lists models that run")
        }
        StartError::KvMemory { .. } | StartError::KvStore(_) => {
            Some("set --kv-memory, for example --kv-memory 2GiB")
        }
        StartError::Disk(DiskError::InUse { .. }) => {
            Some("give each process a folder of its own with --kv-disk")
        }
        StartError::Disk(DiskError::TooSmall { .. }) => {
            Some("set --kv-disk-size, for example --kv-disk-size 8GiB")
        }
        StartError::Disk(DiskError::Hash(_)) => Some("leave --prefix-hash out, or --kv-disk"),
        StartError::Isa(_) => Some("unset TAPRI_ISA to take the best path of this machine"),
        _ => None,
    };
    Failure::new(error, hint)
}
