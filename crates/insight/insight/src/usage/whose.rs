//! Whose call it is, and how long it took.

use std::time::Duration;

use super::sketch::Sketch;

/// From the owner of many keys down to one person. Paths in dots.
const TENANT: [&[&str]; 17] = [
    &["tenant"],
    &["tenant_id"],
    &["org"],
    &["organization"],
    &["org_id"],
    &["metadata", "tenant"],
    &["team_alias"],
    &["team"],
    &["team_id"],
    &["metadata", "user_api_key_team_alias"],
    &["metadata", "user_api_key_alias"],
    &["key_alias"],
    &["api_key_alias"],
    &["metadata", "user_api_key_user_id"],
    &["user"],
    &["user_id"],
    &["metadata", "user_id"],
];
const ROUTE: [&[&str]; 9] = [
    &["route"],
    &["endpoint"],
    &["path"],
    &["url"],
    &["request", "url"],
    &["metadata", "user_api_key_request_route"],
    &["call_type"],
    &["operation"],
    &["attributes", "gen_ai.operation.name"],
];
const MODEL: [&[&str]; 12] = [
    &["model"],
    &["response", "model"],
    &["message", "model"],
    &["response", "body", "model"],
    &["result", "message", "model"],
    &["body", "model"],
    &["request", "model"],
    &["request", "body", "model"],
    &["modelVersion"],
    &["model_version"],
    &["attributes", "gen_ai.response.model"],
    &["attributes", "gen_ai.request.model"],
];
const CONVERSATION: [&[&str]; 9] = [
    &["conversation"],
    &["conversation_id"],
    &["session_id"],
    &["sessionId"],
    &["thread_id"],
    &["chat_id"],
    &["metadata", "session_id"],
    &["metadata", "conversation_id"],
    &["attributes", "gen_ai.conversation.id"],
];

/// Names of times and how many seconds their unit is. Without a unit in the name it is seconds.
const TTFT: [(&[&str], f64); 11] = [
    (&["ttft_ms"], 1e-3),
    (&["ttft_s"], 1.0),
    (&["ttft_seconds"], 1.0),
    (&["ttft"], 1.0),
    (&["time_to_first_token_ms"], 1e-3),
    (&["time_to_first_token"], 1.0),
    (&["first_token_ms"], 1e-3),
    (&["first_token_latency_ms"], 1e-3),
    (&["attributes", "gen_ai.response.time_to_first_chunk"], 1.0),
    (&["timings", "ttft_ms"], 1e-3),
    (&["metrics", "time_to_first_token"], 1.0),
];
const TOTAL: [(&[&str], f64); 11] = [
    (&["latency_ms"], 1e-3),
    (&["duration_ms"], 1e-3),
    (&["total_ms"], 1e-3),
    (&["total_seconds"], 1.0),
    (&["latency_s"], 1.0),
    (&["duration_s"], 1.0),
    (&["latency"], 1.0),
    (&["duration"], 1.0),
    (&["e2e_latency"], 1.0),
    (&["response_time"], 1.0),
    (&["total"], 1.0),
];

/// The longest time that is believed: a day.
const LONGEST: f64 = 86_400.0;

pub(super) fn tenant(line: &Sketch) -> Option<String> {
    named(line, &TENANT)
}

pub(super) fn model(line: &Sketch) -> Option<String> {
    named(line, &MODEL)
}

pub(super) fn conversation(line: &Sketch) -> Option<String> {
    named(line, &CONVERSATION)
}

/// A path; of an address only the path, so that one route isn't many.
pub(super) fn route(line: &Sketch) -> Option<String> {
    let route = named(line, &ROUTE)?;
    let path = match route.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => &route,
    };
    let end = path.find(['?', '#']).unwrap_or(path.len());
    Some(path[..end].to_owned())
}

pub(super) fn ttft(line: &Sketch) -> Option<Duration> {
    duration(line, &TTFT)
}

pub(super) fn total(line: &Sketch) -> Option<Duration> {
    duration(line, &TOTAL)
}

/// Claude Code writes a line for each block of an answer, with the same message, request and counts.
pub(super) fn repeats(line: &Sketch) -> Option<String> {
    let message = line.at(&["message", "id"])?.as_text()?;
    let request = line.text("requestId")?;
    Some(format!("{message} {request}"))
}

fn named(line: &Sketch, paths: &[&[&str]]) -> Option<String> {
    paths.iter().find_map(|path| match line.at(path)? {
        Sketch::Whole(number) => Some(number.to_string()),
        value => value.as_text().map(str::to_owned),
    })
}

fn duration(line: &Sketch, names: &[(&[&str], f64)]) -> Option<Duration> {
    names.iter().find_map(|(path, unit)| {
        let value = line.at(path)?;
        let seconds = match value {
            // As Rust's Duration is serialised.
            Sketch::Object(_) => {
                let part = |name| value.get(name).and_then(Sketch::as_number);
                part("secs")? + part("nanos")? * 1e-9
            }
            Sketch::Text(text) => text.trim().parse::<f64>().ok()? * unit,
            _ => value.as_number()? * unit,
        };
        (0.0..=LONGEST).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
    })
}
