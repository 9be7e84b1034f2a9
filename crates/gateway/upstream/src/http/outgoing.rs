//! The body that an upstream gets: the caller's own, with only the edits that are needed.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tapri_api::convert::Dropped;
use tapri_api::{ApiError, Call, ErrorKind, Format, Inbound, Prompt, decode};

use super::splice::{Edit, splice};
use crate::config::{Kind, ServedModel, UpstreamConfig};
use crate::prefix::key::{KeyRule, Keys};
use crate::prefix::markers::{Reuse, inject};
use crate::prefix::rules::{Help, Rule};
use crate::prefix::salt;
use crate::prefix::walk::{self, Prefix};

/// A request as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Outgoing {
    pub(crate) format: Format,
    pub(crate) body: Bytes,
    pub(crate) options: decode::Options,
    /// What the upstream's API has no words for, and affects no answer.
    pub(crate) dropped: Vec<Dropped>,
    /// Bytes of text up to the last `cache_control` marker of what is sent: the caller's own, or one that was put in.
    pub(crate) marked: Option<usize>,
    /// The value of `Cache-Control`, for those who read it.
    pub(crate) directives: Option<&'static str>,
}

/// What helps with a body.
pub(crate) struct Helpers<'a> {
    pub(crate) rule: Option<&'a Rule>,
    pub(crate) keys: &'a Keys,
    pub(crate) reuse: &'a Reuse,
    /// How many tokens so many bytes are.
    pub(crate) tokens: &'a (dyn Fn(usize) -> usize + Sync),
    pub(crate) now: Instant,
}

/// The request of a call: as it came, or written down for one that came by hand.
pub(crate) fn inbound(call: &Call) -> Result<Arc<Inbound>, ApiError> {
    let (format, mut body) = match &call.prompt {
        Prompt::Request(inbound) => return Ok(Arc::clone(inbound)),
        Prompt::Chat(messages) => {
            let messages: Vec<Value> = messages
                .iter()
                .map(|message| json!({"role": message.role.as_str(), "content": message.text()}))
                .collect();
            (Format::Chat, json!({"messages": messages}))
        }
        Prompt::Text(text) => (Format::Completion, json!({"prompt": text})),
        Prompt::Tokens(ids) => (Format::Completion, json!({"prompt": ids})),
    };
    if !call.tools.is_empty() || call.output != tapri_api::OutputFormat::Text {
        return Err(ApiError::new(
            ErrorKind::Invalid,
            "Tools and schemas reach an upstream only in a request of an API",
        )
        .code("unsupported_call"));
    }
    body["stream"] = true.into();
    if let Some(most) = call.max_tokens {
        body["max_tokens"] = most.into();
    }
    body["temperature"] = call.sampling.temperature.into();
    if call.sampling.top_p < 1.0 {
        body["top_p"] = call.sampling.top_p.into();
    }
    if let Some(seed) = call.sampling.seed {
        body["seed"] = seed.into();
    }
    if !call.stop.strings.is_empty() {
        body["stop"] = call.stop.strings.clone().into();
    }
    if call.choices > 1 {
        body["n"] = call.choices.into();
    }
    Inbound::read(format, body.to_string().into(), Vec::new()).map(Arc::new)
}

/// The format that an upstream is asked in.
pub(crate) fn format(asked: Format, upstream: &UpstreamConfig) -> Result<Format, ApiError> {
    if upstream.formats.contains(&asked) {
        return Ok(asked);
    }
    let convertible = [Format::Chat, Format::Messages, Format::Responses];
    let target = convertible.into_iter().find(|format| upstream.formats.contains(format));
    match target {
        Some(target) if convertible.contains(&asked) => Ok(target),
        _ => Err(ApiError::new(
            ErrorKind::Invalid,
            format!("The upstream {} does not answer {}", upstream.name, asked.path()),
        )
        .code("unsupported_format")),
    }
}

/// What is sent for a call to a model of an upstream.
pub(crate) fn outgoing(
    call: &Call,
    inbound: &Inbound,
    upstream: &UpstreamConfig,
    served: &ServedModel,
    asked: &str,
    prefix: &Prefix,
    help: &Helpers<'_>,
) -> Result<Outgoing, ApiError> {
    let format = format(inbound.format, upstream)?;
    let converted;
    let mut dropped = Vec::new();
    let (body, bytes) = if format == inbound.format {
        (&inbound.body, &inbound.bytes)
    } else {
        (converted, dropped) = convert(inbound, format)?;
        (&converted.body, &converted.bytes)
    };
    let name = upstream_name(served, asked);
    let mut edits = Vec::new();
    if body.get("model").and_then(Value::as_str) != Some(name) {
        edits.push(Edit::set("model", Value::from(name)));
    }
    salt_edit(call, body, upstream, &mut edits);
    let client_usage = usage_edit(inbound, body, format, upstream, &mut edits);
    let mut marked = prefix.marked;
    // A call that is to leave nothing behind gets no help in being kept.
    if upstream.kind == Kind::Hosted
        && call.cache.may_store()
        && let Some(rule) = help.rule
    {
        key_edit(call, body, format, name, prefix, rule, help, &mut edits);
        if let (Some(plan), Help::CacheControl, Format::Messages) =
            (&served.inject, rule.help, format)
        {
            let scope = &call.scope.0;
            let changed = inject(body, plan, rule, help.reuse, scope, help.tokens, help.now);
            if !changed.is_empty() {
                marked = walk::marked(format, body, &changed);
            }
            edits.extend(changed.into_iter().map(|(field, value)| Edit::set(field, value)));
        }
    }
    let bytes = if edits.is_empty() {
        bytes.clone()
    } else {
        // What was read as an object is one.
        splice(bytes, &edits).map(Bytes::from).ok_or_else(|| {
            ApiError::new(ErrorKind::Internal, "The request's body could not be edited")
        })?
    };
    let choices = body.get("n").and_then(Value::as_u64).unwrap_or(1);
    let options =
        decode::Options { choices: usize::try_from(choices).unwrap_or(1).max(1), client_usage };
    let directives = (upstream.kind == Kind::Tapri).then(|| directives(call)).flatten();
    Ok(Outgoing { format, body: bytes, options, dropped, marked, directives })
}

/// The name that an upstream has for a model.
pub(crate) fn upstream_name<'a>(served: &'a ServedModel, asked: &'a str) -> &'a str {
    match &served.upstream_name {
        Some(name) => name,
        // A pattern passes names on as they are.
        None if served.name.ends_with('*') => asked,
        None => &served.name,
    }
}

fn convert(inbound: &Inbound, to: Format) -> Result<(Inbound, Vec<Dropped>), ApiError> {
    let converted = tapri_api::convert::request(inbound, to)?;
    let bytes = Value::Object(converted.body).to_string();
    // Headers are their own API's affair: `anthropic-beta` means nothing to OpenAI.
    Ok((Inbound::read(to, bytes.into(), Vec::new())?, converted.dropped))
}

/// A client's own salt is Tapri's to read; vLLM gets one that only the gateway can make.
fn salt_edit(
    call: &Call,
    body: &Map<String, Value>,
    upstream: &UpstreamConfig,
    edits: &mut Vec<Edit>,
) {
    let own = body.get("cache_salt").and_then(Value::as_str);
    if upstream.kind == Kind::Vllm {
        let client = call.salt.as_ref().map(|salt| salt.as_str()).or(own);
        // `no-store` and `no-cache`: under a salt of its own the call finds nothing, and nobody finds what it leaves.
        let alone = format!("only {}", call.id);
        let shared = call.cache.may_store() && call.cache.may_read();
        let client = if shared { client } else { Some(alone.as_str()) };
        let salt = salt::vllm(upstream.salt_secret.reveal().as_bytes(), &call.scope.0, client);
        edits.push(Edit::set("cache_salt", Value::from(salt)));
    } else if upstream.kind == Kind::Tapri {
        // A call that came by hand has it beside its body.
        if let Some(salt) = call.salt.as_ref().filter(|salt| own != Some(salt.as_str())) {
            edits.push(Edit::set("cache_salt", Value::from(salt.as_str())));
        }
    } else if body.contains_key("cache_salt") {
        edits.push(Edit::remove("cache_salt"));
    }
}

/// What a prefix cache behind this has to know of the caller's `Cache-Control`; the rest is done here.
fn directives(call: &Call) -> Option<&'static str> {
    match (call.cache.may_read(), call.cache.may_store()) {
        (true, true) => None,
        (false, true) => Some("no-cache"),
        (true, false) => Some("no-store"),
        (false, false) => Some("no-cache, no-store"),
    }
}

/// Asks for the usage of a stream. Gives whether the client asked as well.
fn usage_edit(
    inbound: &Inbound,
    body: &Map<String, Value>,
    format: Format,
    upstream: &UpstreamConfig,
    edits: &mut Vec<Edit>,
) -> bool {
    let options = body.get("stream_options");
    let asked =
        options.and_then(|options| options.get("include_usage")) == Some(&Value::Bool(true));
    let openai = matches!(format, Format::Chat | Format::Completion);
    if inbound.stream && openai && !asked && upstream.usage_in_streams {
        let mut options = options.cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
        options["include_usage"] = true.into();
        edits.push(Edit::set("stream_options", options));
    }
    // A body, and a stream of another API, always has its usage.
    asked || !inbound.stream || !openai
}

fn key_edit(
    call: &Call,
    body: &Map<String, Value>,
    format: Format,
    model: &str,
    prefix: &Prefix,
    rule: &Rule,
    help: &Helpers<'_>,
    edits: &mut Vec<Edit>,
) {
    let applies = rule.help == Help::PromptCacheKey
        && matches!(format, Format::Chat | Format::Responses)
        && !body.contains_key("prompt_cache_key")
        // What is too short to be cached needs no place of its own.
        && (help.tokens)(prefix.bytes) >= rule.minimum;
    if applies {
        let limits = KeyRule { rate: rule.key_rate, chars: rule.key_chars };
        let scope = &call.scope.0;
        let key = help.keys.key(scope, model, prefix, limits, help.now);
        edits.push(Edit::set("prompt_cache_key", Value::from(key)));
    }
}
