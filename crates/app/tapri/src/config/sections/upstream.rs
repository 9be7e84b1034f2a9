//! `[[upstream]]`: a server that answers calls.

use std::time::Duration;

use super::Names;
use crate::config::reader::{At, Section, nearest, number, text, word};
use crate::config::secret::Secret;
use crate::quantity;

/// `[[upstream]]`.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) name: String,
    /// Where its API begins: `https://api.openai.com/v1`.
    pub(crate) url: String,
    pub(crate) format: Speaks,
    /// What it is, where that changes what it can be told.
    pub(crate) kind: Kind,
    /// The key that all tenants share.
    pub(crate) key: Option<Secret>,
    /// Keys of tenants' own, by the tenant's name.
    pub(crate) keys: Vec<(String, Secret)>,
    /// The models it answers to: a name asked for, or with `=`, what it is asked for there (`gpt=gpt-4o`).
    pub(crate) models: Vec<String>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) first_byte_timeout: Option<Duration>,
    pub(crate) chunk_timeout: Option<Duration>,
    pub(crate) total_timeout: Option<Duration>,
    /// How often a call is tried again before its first byte.
    pub(crate) retries: Option<u32>,
    /// Its share among upstreams of the same model.
    pub(crate) weight: Option<f64>,
    /// Failures in a row after which it is left alone for a while.
    pub(crate) breaker_failures: Option<u32>,
    /// For how long.
    pub(crate) breaker_pause: Option<Duration>,
    /// Where its health is asked for.
    pub(crate) health: Option<String>,
    /// How long it keeps a prefix, as far as is known.
    pub(crate) prefix_ttl: Option<Duration>,
}

impl Upstream {
    /// The name by which routes mean the engine in this process.
    pub(crate) const EMBEDDED: &'static str = tapri_upstream::EMBEDDED;
}

/// Which API an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaks {
    /// OpenAI's.
    OpenAi,
    /// Anthropic's.
    Anthropic,
}

/// What an upstream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any server of its format.
    Any,
    /// OpenAI itself.
    OpenAi,
    /// Anthropic itself.
    Anthropic,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// llama.cpp's server.
    LlamaServer,
}

const FORMATS: &[(&str, Speaks)] = &[("openai", Speaks::OpenAi), ("anthropic", Speaks::Anthropic)];

const KINDS: &[(&str, Kind)] = &[
    ("any", Kind::Any),
    ("openai", Kind::OpenAi),
    ("anthropic", Kind::Anthropic),
    ("vllm", Kind::Vllm),
    ("sglang", Kind::Sglang),
    ("llama-server", Kind::LlamaServer),
];

pub(super) fn read(section: &Section<'_, '_>, names: &mut Names) -> Option<Upstream> {
    let name = names.take("upstream", section);
    if name.as_deref() == Some(Upstream::EMBEDDED) {
        let what = "`embedded` is the engine in this process";
        section.wrong("name", section.line(), what, Some("choose another name".to_owned()));
    }
    let url = section.required("url");
    let kind = section.or("kind", Kind::Any, word(KINDS));
    let anthropic = kind == Kind::Anthropic;
    let format = if anthropic { Speaks::Anthropic } else { Speaks::OpenAi };
    let keys = section.section("keys");
    let own = keys.names().into_iter().filter_map(|(tenant, At { value, line })| {
        let secret = Secret::parse(&value).map_err(|what| keys.wrong(&tenant, line, &what, None));
        Some((tenant, secret.ok()?))
    });
    let keys = own.collect();
    let upstream = Upstream {
        name: name.unwrap_or_default(),
        url: url.and_then(|url| address(section, url)).unwrap_or_default(),
        format: section.or("format", format, word(FORMATS)),
        kind,
        key: section.secret("key", Secret::parse),
        keys,
        models: listed(section, "models"),
        connect_timeout: section.get("connect_timeout", quantity::duration),
        first_byte_timeout: section.get("first_byte_timeout", quantity::duration),
        chunk_timeout: section.get("chunk_timeout", quantity::duration),
        total_timeout: section.get("total_timeout", quantity::duration),
        retries: section.get("retries", number),
        weight: section.get("weight", weight),
        breaker_failures: section.get("breaker_failures", number),
        breaker_pause: section.get("breaker_pause", quantity::duration),
        health: section.get("health", text),
        prefix_ttl: section.get("prefix_ttl", quantity::duration),
    };
    section.end();
    (!upstream.name.is_empty() && !upstream.url.is_empty()).then_some(upstream)
}

fn listed(section: &Section<'_, '_>, key: &'static str) -> Vec<String> {
    let listed = section.list(key, false, text).unwrap_or_default();
    listed.into_iter().map(|at| at.value).collect()
}

fn address(section: &Section<'_, '_>, url: At<String>) -> Option<String> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.value.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or("");
    if host.is_empty() || url.value.contains(char::is_whitespace) {
        let hint = "write it whole, for example https://api.openai.com/v1".to_owned();
        section.wrong("url", url.line, "it is no address", Some(hint));
        return None;
    }
    if host.contains('@') {
        let hint = "write the key as key = \"env:NAME\"".to_owned();
        section.wrong("url", url.line, "an address here holds no password", Some(hint));
        return None;
    }
    Some(url.value.trim_end_matches('/').to_owned())
}

/// Whether `upstream:NAME/MODEL` names one of these; a model's own name names none.
pub(super) fn model(written: &str, known: &[String]) -> Result<(), String> {
    let Some(rest) = written.strip_prefix("upstream:") else { return Ok(()) };
    let Some((name, _)) = rest.split_once('/').filter(|(_, model)| !model.is_empty()) else {
        return Err("write upstream:NAME/MODEL, with the name of an [[upstream]]".to_owned());
    };
    if known.iter().any(|it| it == name) {
        return Ok(());
    }
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("; did you mean {near:?}?"),
        None => String::new(),
    };
    Err(format!("there is no upstream {name:?}{hint}"))
}

fn weight(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(weight) if weight > 0.0 && weight.is_finite() => Ok(weight),
        _ => Err("a weight is a number above 0".to_owned()),
    }
}
