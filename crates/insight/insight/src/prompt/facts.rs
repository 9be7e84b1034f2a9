//! What stands beside a prompt: the model, what parts the cache, who and when.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Partition, PartitionKind, PromptDoc, usage};

const PARTITIONS: [(&str, PartitionKind); 17] = [
    ("tenant", PartitionKind::Tenant),
    ("tenant_id", PartitionKind::Tenant),
    ("organization", PartitionKind::Tenant),
    ("organization_id", PartitionKind::Tenant),
    ("workspace_id", PartitionKind::Tenant),
    ("team_id", PartitionKind::Tenant),
    ("cache_salt", PartitionKind::Salt),
    ("prompt_cache_isolation_key", PartitionKind::Salt),
    ("prompt_cache_key", PartitionKind::CacheKey),
    ("adapter", PartitionKind::Adapter),
    ("adapter_name", PartitionKind::Adapter),
    ("lora", PartitionKind::Adapter),
    ("lora_name", PartitionKind::Adapter),
    ("lora_adapter", PartitionKind::Adapter),
    ("lora_request", PartitionKind::Adapter),
    ("tokenizer", PartitionKind::Tokenizer),
    ("chat_template", PartitionKind::Template),
];

const CONVERSATIONS: [&str; 10] = [
    "conversation_id",
    "conversation",
    "session_id",
    "sessionId",
    "thread_id",
    "chat_id",
    "litellm_session_id",
    "x-session-id",
    "trace_id",
    "litellm_trace_id",
];

const TIMES: [&str; 10] = [
    "timestamp",
    "created_at",
    "startTime",
    "start_time",
    "started_at",
    "request_time",
    "time",
    "at",
    "ts",
    "created",
];

/// When a prompt was read, or at the latest when its answer ended.
const FIRST_TOKEN: [&str; 6] =
    ["completionStartTime", "first_token_at", "endTime", "end_time", "completed_at", "ended_at"];

const RESPONSES: [&str; 6] =
    ["response", "response_body", "responseBody", "completion", "result", "raw_response"];

/// Adds what the request and the objects around it say.
pub(super) fn add(doc: &mut PromptDoc, body: &Map<String, Value>, outer: &[&Map<String, Value>]) {
    let mut around: Vec<&Map<String, Value>> = vec![body];
    around.extend(outer.iter().rev());
    let response = around.iter().find_map(|object| response_of(object));
    doc.model = around.iter().find_map(|object| text(object, "model"));
    for (field, kind) in PARTITIONS {
        for (object, prefix) in with_extra(&around) {
            if let Some(value) = object.get(field).and_then(scalar)
                && !doc.partitions.iter().any(|known| known.kind == kind)
            {
                let path = format!("{prefix}{field}");
                doc.partitions.push(Partition { kind, path, value });
            }
        }
    }
    doc.user = around.iter().find_map(|object| text(object, "user"));
    let nested =
        |field: &str| around.iter().find_map(|object| object.get(field).and_then(Value::as_object));
    let metadata = nested("metadata");
    doc.conversation = CONVERSATIONS
        .iter()
        .find_map(|field| {
            around
                .iter()
                .copied()
                .chain(metadata)
                .find_map(|object| object.get(*field).and_then(id))
        })
        .or_else(|| metadata.and_then(session_in_user));
    doc.id = response.and_then(|response| text(response, "id")).or_else(|| {
        let names = ["id", "request_id", "call_id", "custom_id", "litellm_call_id"];
        names.iter().find_map(|field| around.iter().find_map(|object| text(object, field)))
    });
    doc.at = TIMES
        .iter()
        .find_map(|field| around.iter().find_map(|object| time(object.get(*field)?)))
        .or_else(|| {
            let response = response?;
            ["created_at", "created"].iter().find_map(|field| time(response.get(*field)?))
        });
    let options = body.get("prompt_cache_options");
    doc.lifetime = options
        .and_then(|options| options.get("ttl"))
        .or_else(|| body.get("prompt_cache_retention"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    doc.first_token = FIRST_TOKEN
        .iter()
        .find_map(|field| around.iter().find_map(|object| time(object.get(*field)?)));
    doc.explicit_only =
        options.and_then(|options| options.get("mode")).and_then(Value::as_str) == Some("explicit");
    doc.bypassed = around.iter().any(|object| bypassed(object));
    let sources = response.into_iter().chain(around.iter().copied());
    for source in sources {
        doc.usage = doc.usage.or_else(|| usage::counts(source));
        if doc.diagnosis.is_none() {
            doc.diagnosis = usage::diagnosis(source);
        }
    }
}

/// The objects around a prompt, and the fields that SDKs pass through them, with what their paths begin with.
fn with_extra<'a>(
    around: &[&'a Map<String, Value>],
) -> impl Iterator<Item = (&'a Map<String, Value>, &'static str)> + use<'a> {
    let plain: Vec<_> = around.iter().map(|object| (*object, "")).collect();
    let extra: Vec<_> = around
        .iter()
        .filter_map(|object| Some((object.get("extra_body")?.as_object()?, "extra_body.")))
        .collect();
    plain.into_iter().chain(extra)
}

fn response_of(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let response = RESPONSES.iter().find_map(|field| object.get(*field)?.as_object())?;
    // OpenAI's batch files: `{"response": {"status_code": 200, "body": {...}}}`.
    Some(response.get("body").and_then(Value::as_object).unwrap_or(response))
}

/// Whether the caller said not to look: LiteLLM's `cache`, or a header that the log kept.
fn bypassed(object: &Map<String, Value>) -> bool {
    let cache = object.get("cache").and_then(Value::as_object);
    let told = cache.is_some_and(|cache| {
        ["no-cache", "no_cache"].iter().any(|field| cache.get(*field) == Some(&Value::Bool(true)))
    });
    let headers = object.get("headers").and_then(Value::as_object);
    told || headers.is_some_and(|headers| {
        headers.iter().any(|(name, value)| {
            name.eq_ignore_ascii_case("cache-control")
                && value.as_str().is_some_and(|value| {
                    value
                        .split(',')
                        .any(|directive| matches!(directive.trim(), "no-cache" | "no-store"))
                })
        })
    })
}

fn text(object: &Map<String, Value>, field: &str) -> Option<String> {
    object.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(object) => {
            ["lora_name", "name", "id"].iter().find_map(|field| text(object, field))
        }
        _ => None,
    }
}

fn id(value: &Value) -> Option<String> {
    match value {
        Value::Object(object) => text(object, "id"),
        other => scalar(other),
    }
}

/// Claude Code sends its session inside Anthropic's `metadata.user_id`: `user_…_session_…`.
fn session_in_user(metadata: &Map<String, Value>) -> Option<String> {
    let user = metadata.get("user_id")?.as_str()?;
    let (_, session) = user.rsplit_once("session_")?;
    Some(session.to_owned()).filter(|session| !session.is_empty())
}

fn time(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok().or_else(|| {
            let civil: jiff::civil::DateTime = text.parse().ok()?;
            jiff::tz::TimeZone::UTC.to_timestamp(civil).ok()
        }),
        Value::Number(number) => {
            if let Some(whole) = number.as_i64() {
                // Seconds reach 1e11 in the year 5138; what is larger counts smaller units.
                return match whole.unsigned_abs().checked_ilog10().unwrap_or(0) {
                    ..=10 => Timestamp::from_second(whole).ok(),
                    11..=13 => Timestamp::from_millisecond(whole).ok(),
                    14..=16 => Timestamp::from_microsecond(whole).ok(),
                    _ => Timestamp::from_nanosecond(i128::from(whole)).ok(),
                };
            }
            let seconds = number.as_f64().filter(|seconds| seconds.abs() < 1e11)?;
            Timestamp::from_microsecond((seconds * 1e6) as i64).ok()
        }
        _ => None,
    }
}
