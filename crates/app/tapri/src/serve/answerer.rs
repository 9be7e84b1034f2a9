//! Who answers the calls of `tapri serve`: the engine in this process, upstreams, both, or a process for each tenant.

mod upstreams;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tapri_engine::{AdapterFile, AdapterStartError};
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::tenants::secret::ServerSecret;
use tapri_upstream::{Fleet, FleetConfig};
use tokio::runtime::Handle;

use super::isolation::{Disk, Isolated, Shares};
use super::pins;
use crate::cli::{Isolation, ServeArgs};
use crate::config::Config;
use crate::embed;
use crate::failure::Failure;
use crate::load::{self, Beside, Loaded};

/// Loads what answers. Blocks; to be called inside a runtime.
pub(super) fn load(args: &ServeArgs, config: &Config, secret: &ServerSecret) -> Result<Loaded> {
    let sections = &config.sections;
    if args.isolation == Isolation::Process {
        return isolated(args, config, secret);
    }
    let fleet = upstreams::fleet(config, secret)?;
    let encoder = embed::encoder(args.embed_model.as_ref())?;
    let mut beside = Beside::default();
    beside.backends.extend(encoder.map(|it| Arc::new(it) as Arc<dyn Backend>));
    let engine = sections.engine.enabled.unwrap_or(fleet.is_none());
    let Some(fleet) = fleet else {
        if !engine {
            return Err(nobody().into());
        }
        return load::load(&args.model, &args.engine, beside);
    };
    let names: Vec<&str> =
        sections.upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    let name = names.join(", ");
    beside.routes.clone_from(&fleet.routes);
    let fleet: Arc<dyn Backend> = Arc::new(start(fleet)?);
    if engine {
        beside.backends.push(fleet);
        let loaded = load::load(&args.model, &args.engine, beside)?;
        return Ok(Loaded { name: format!("{}, {name}", loaded.name), ..loaded });
    }
    Ok(Loaded { name, pipeline: Pipeline::new(beside.behind(fleet)) })
}

fn start(mut config: FleetConfig) -> Result<Fleet> {
    let runtime = Handle::current();
    runtime.block_on(Fleet::discover(&mut config));
    let fleet = Fleet::new(config)?;
    fleet.warnings().iter().for_each(|warning| eprintln!("warning: {warning}"));
    let _inside = runtime.enter();
    fleet.watch();
    Ok(fleet)
}

fn isolated(args: &ServeArgs, config: &Config, secret: &ServerSecret) -> Result<Loaded> {
    if !config.sections.upstreams.is_empty() {
        let hint = "take the upstreams out, or leave isolation at \"scope\"";
        return Err(Failure::usage(
            "isolation = \"process\" is for the embedded engine alone",
            hint,
        )
        .into());
    }
    let names = config.tenant_names()?;
    let split = |bytes| {
        Shares::split(bytes, &names)
            .map_err(|error| Failure::usage(error.to_string(), "lower kv_share in [tenant.limits]"))
    };
    let shares = split(args.engine.kv_memory)?;
    let disk = match args.engine.kv_disk.clone() {
        Some(folder) => Some(Disk { folder, shares: split(args.engine.kv_disk_size)? }),
        None => None,
    };
    let model = args.model.to_string();
    let name = load::name(&args.model, Path::new(&model));
    let adapters = adapters(&args.engine.lora, &[&model, &name])?;
    // Each process opens an encoder of its own; here its name alone is needed.
    let encoder = embed::encoder(args.embed_model.as_ref())?;
    let encoder = encoder.and_then(|encoder| encoder.models().into_iter().next());
    let mut arguments = args.engine.arguments();
    if let Some(model) = &args.embed_model {
        arguments.extend(["--embed-model".to_owned(), model.to_string()]);
    }
    let isolated = Isolated::new(
        model.clone(),
        encoder.as_deref(),
        adapters,
        arguments,
        shares,
        secret.clone(),
        disk,
        pins::of_processes(&args.pin, &names)?,
    )?;
    Ok(Loaded { name: model, pipeline: Pipeline::new(Arc::new(isolated)) })
}

/// The adapters' names with their digests. Each process loads them; what is wrong with a file is said here already.
fn adapters(files: &[AdapterFile], names: &[&String]) -> Result<Vec<(String, String)>> {
    load::distinct(files, names.iter().copied())?;
    let mut adapters: Vec<(String, String)> = Vec::new();
    for file in files {
        if adapters.iter().any(|(name, _)| *name == file.name) {
            let twice = AdapterStartError::Twice(file.name.clone());
            return Err(load::adapter_failure(twice).into());
        }
        let digest = file.digest().map_err(load::adapter_failure)?;
        adapters.push((file.name.clone(), load::digits(&digest)));
    }
    Ok(adapters)
}

fn nobody() -> Failure {
    Failure::usage(
        "the engine is off, and there is no upstream: nobody could answer",
        "write an [[upstream]], or leave `enabled` in [engine] out",
    )
}
