//! `[[upstream]]`, as the fleet takes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use tapri_pipeline::semantic::judge_route;
use tapri_server::tenants::secret::ServerSecret;
use tapri_upstream::prefix::markers::{Inject, Life, Place};
use tapri_upstream::{
    Api, Credential, FleetConfig, Health, Kind, Secret, ServedModel, UpstreamConfig,
};

use crate::config::Config;
use crate::config::sections::{Kind as Written, Route, Speaks, Upstream};

/// What scopes' salts for vLLM are made under: another purpose has another secret.
const SALTS: &str = "tapri upstream salt v1";

/// All upstreams; `None` where there are none.
pub(super) fn fleet(config: &Config, secret: &ServerSecret) -> Result<Option<FleetConfig>> {
    if config.sections.upstreams.is_empty() {
        return Ok(None);
    }
    let salts = secret.derive(SALTS);
    let upstreams = config
        .sections
        .upstreams
        .iter()
        .map(|upstream| {
            one(upstream, config, &salts).with_context(|| {
                format!("the upstream {:?} can't be asked as it is configured", upstream.name)
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let named = |route: &Route| Some((route.name.clone(), route.upstreams.clone()?));
    let routes = config.sections.routes.iter().filter_map(named);
    // Whoever judges is asked there and nowhere else.
    let names = config.sections.upstreams.iter().map(|upstream| upstream.name.clone());
    let judges = names.map(|name| (judge_route(&name), vec![name]));
    let routes = routes.chain(judges).collect();
    Ok(Some(FleetConfig { upstreams, routes, ..FleetConfig::default() }))
}

fn one(written: &Upstream, config: &Config, salts: &str) -> Result<UpstreamConfig> {
    let folder = config.folder();
    let api = match written.format {
        Speaks::OpenAi => Api::OpenAi,
        Speaks::Anthropic => Api::Anthropic,
    };
    let default = UpstreamConfig::new(&written.name, &written.url, api);
    let inject =
        config.sections.routes.iter().filter(|route| route.cache_control == Some(true)).any(
            |route| route.upstreams.as_ref().is_none_or(|names| names.contains(&written.name)),
        );
    let inject = inject.then(|| Inject {
        places: vec![Place::Tools, Place::System, Place::Document, Place::Conversation],
        life: Life::default(),
    });
    let models = written.models.iter().map(|name| {
        let (name, there) = match name.split_once('=') {
            Some((name, there)) => (name, Some(there.to_owned())),
            None => (name.as_str(), None),
        };
        ServedModel { upstream_name: there, inject: inject.clone(), ..ServedModel::named(name) }
    });
    let mut timeouts = default.timeouts;
    timeouts.connect = written.connect_timeout.unwrap_or(timeouts.connect);
    timeouts.first_byte = written.first_byte_timeout.unwrap_or(timeouts.first_byte);
    timeouts.between = written.chunk_timeout.unwrap_or(timeouts.between);
    timeouts.total = written.total_timeout.or(timeouts.total);
    let mut retry = default.retry;
    retry.most = written.retries.unwrap_or(retry.most);
    let mut breaker = default.breaker;
    breaker.in_a_row = written.breaker_failures.unwrap_or(breaker.in_a_row);
    breaker.open_for = written.breaker_pause.unwrap_or(breaker.open_for);
    Ok(UpstreamConfig {
        kind: match written.kind {
            Written::Any => default.kind,
            Written::OpenAi | Written::Anthropic => Kind::Hosted,
            Written::Vllm => Kind::Vllm,
            Written::Sglang | Written::LlamaServer => Kind::Server,
        },
        credential: credential(written, folder)?,
        models: models.collect(),
        weight: written.weight.unwrap_or(default.weight),
        timeouts,
        retry,
        breaker,
        health: written.health.clone().map(|path| Health { path, ..Health::default() }),
        cache_life: written.prefix_ttl,
        salt_secret: Secret::new(salts),
        ..default
    })
}

fn credential(written: &Upstream, folder: &Path) -> Result<Credential> {
    if !written.keys.is_empty() {
        let own = written.keys.iter().map(|(tenant, key)| {
            let key = key
                .read(folder)
                .with_context(|| format!("the tenant {tenant:?} has no key there"))?;
            Ok((tenant.clone(), Secret::new(key)))
        });
        return Ok(Credential::PerTenant(own.collect::<Result<BTreeMap<_, _>>>()?));
    }
    match &written.key {
        Some(key) => Ok(Credential::Shared(Secret::new(key.read(folder)?))),
        None => Ok(Credential::None),
    }
}
