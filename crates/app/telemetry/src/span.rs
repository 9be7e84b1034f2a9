//! A call as spans.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use tapri_ledger::{CacheResult, Ending};

use crate::call::{Call, digits};
use crate::value::{count, list, number, text, truth};

/// Whom an upstream's name stands for.
pub(crate) fn provider<'a>(upstream: &'a str, providers: &'a HashMap<String, String>) -> &'a str {
    match providers.get(upstream) {
        Some(provider) => provider,
        // The engine in this process is Tapri's own.
        None if upstream == tapri_pipeline::EMBEDDED => "tapri",
        None => upstream,
    }
}

/// The call's span first, then its children.
pub(crate) fn spans(call: &Call, providers: &HashMap<String, String>) -> Vec<Span> {
    // A call's own name is drawn at random, and is the trace's where the caller has none: who knows the name from an
    // answer's header finds the trace.
    let own: [u8; 16] = digits(&call.id).unwrap_or([1; 16]);
    let trace = call.parent.map_or(own, |parent| parent.trace);
    let mut root_id = [0; 8];
    root_id.copy_from_slice(&own[8..]);
    let id = |child: u64| {
        // An odd step through all numbers of 64 bits: no two of a call's spans have one.
        let at =
            u64::from_be_bytes(root_id).wrapping_add(child.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        at.max(1).to_be_bytes().to_vec()
    };
    let nanos = |since: Duration| {
        let since_epoch = call.began.duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from((since_epoch + since).as_nanos()).unwrap_or(u64::MAX)
    };
    let mut children = 0;
    let mut span = |name: String, kind: SpanKind, from: Duration, to: Duration| {
        let root = children == 0;
        let span = Span {
            trace_id: trace.to_vec(),
            span_id: id(children),
            parent_span_id: match (root, call.parent) {
                (true, Some(parent)) => parent.span.to_vec(),
                (true, None) => Vec::new(),
                (false, _) => id(0),
            },
            flags: 1 | match (root, call.parent) {
                (true, Some(_)) => {
                    SpanFlags::ContextHasIsRemoteMask as u32 | SpanFlags::ContextIsRemoteMask as u32
                }
                _ => SpanFlags::ContextHasIsRemoteMask as u32,
            },
            name,
            kind: kind as i32,
            start_time_unix_nano: nanos(from),
            end_time_unix_nano: nanos(to.max(from)),
            ..Span::default()
        };
        children += 1;
        span
    };
    let provider = provider(&call.upstream, providers);
    let called = |operation: &str| format!("{operation} {}", call.model).trim_end().to_owned();
    let mut root = span(called(call.operation), SpanKind::Server, Duration::ZERO, call.total);
    root.attributes = attributes(call, provider);
    root.status = status(&call.ending);
    let mut all = vec![root];
    let looks =
        [("exact", call.exact_step, &call.exact), ("semantic", call.semantic_step, &call.semantic)];
    for (cache, step, result) in looks {
        let Some((from, to)) = step else { continue };
        let mut look = span(format!("cache lookup {cache}"), SpanKind::Internal, from, to);
        look.attributes.push(text("tapri.cache.name", cache));
        if let Some(result) = result {
            look.attributes.extend(cache_result(result));
        }
        all.push(look);
    }
    if let Some(from) = call.sent_on {
        let elsewhere = call.upstream != tapri_pipeline::EMBEDDED;
        let (name, kind) = match elsewhere {
            true => (called("upstream"), SpanKind::Client),
            false => (called("engine"), SpanKind::Internal),
        };
        let mut answer = span(name, kind, from, call.total);
        answer.attributes.push(text("gen_ai.provider.name", provider));
        answer.attributes.push(text("tapri.upstream", call.upstream.as_str()));
        if let Some(prefix) = &call.prefix {
            answer.attributes.push(text("tapri.cache.name", "prefix"));
            answer.attributes.extend(cache_result(prefix));
        }
        answer.status = status(&call.ending);
        all.push(answer);
    }
    all
}

fn cache_result(result: &CacheResult) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let mut found = vec![text("tapri.cache.outcome", result.outcome.as_str())];
    found.extend(result.reason.as_ref().map(|reason| text("tapri.cache.reason", reason.as_str())));
    found
}

/// An error has its word as the status; one that the client made by leaving is none.
fn status(ending: &Ending) -> Option<Status> {
    match ending {
        Ending::Error(word) => {
            Some(Status { message: word.clone(), code: StatusCode::Error as i32 })
        }
        Ending::Stop | Ending::Length | Ending::Abort => None,
    }
}

fn attributes(
    call: &Call,
    provider: &str,
) -> Vec<opentelemetry_proto::tonic::common::v1::KeyValue> {
    let mut all = vec![
        text("gen_ai.operation.name", call.operation),
        text("gen_ai.provider.name", provider),
        text("tapri.call.id", call.id.as_str()),
        text("tapri.tenant", call.tenant.as_str()),
        text("tapri.route", call.route.as_str()),
        text("tapri.upstream", call.upstream.as_str()),
    ];
    if !call.model.is_empty() {
        all.push(text("gen_ai.request.model", call.model.as_str()));
    }
    all.extend(call.conversation.as_ref().map(|it| text("gen_ai.conversation.id", it.as_str())));
    match &call.ending {
        Ending::Stop | Ending::Length => {
            all.push(list("gen_ai.response.finish_reasons", &[call.ending.word()]));
        }
        Ending::Error(word) => all.push(text("error.type", word.as_str())),
        Ending::Abort => all.push(truth("tapri.client_left", true)),
    }
    let tokens = &call.tokens;
    for (name, tokens) in [
        ("gen_ai.usage.input_tokens", tokens.prompt),
        ("gen_ai.usage.output_tokens", tokens.answer),
        ("gen_ai.usage.cache_read.input_tokens", tokens.reused()),
        ("gen_ai.usage.cache_write.input_tokens", tokens.written),
        ("tapri.usage.joined.input_tokens", tokens.joined),
        ("tapri.usage.restored.input_tokens", tokens.restored),
    ] {
        // Unknown is absent, and zero is 0.
        all.extend(tokens.map(|tokens| count(name, tokens)));
    }
    if let Some(ttft) = call.ttft {
        all.push(number("gen_ai.response.time_to_first_chunk", ttft.as_secs_f64()));
    }
    for (name, result) in [
        ("tapri.cache.exact", &call.exact),
        ("tapri.cache.semantic", &call.semantic),
        ("tapri.cache.prefix", &call.prefix),
    ] {
        all.extend(result.as_ref().map(|result| text(name, result.outcome.as_str())));
    }
    all
}

/// Nanoseconds since 1970.
pub(crate) fn unix_nanos(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
