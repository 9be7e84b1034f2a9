//! The operator's paths of a running server.

use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::{Value, json};
use tapri_pipeline::cache::exact::Filter;

use crate::failure::Failure;

/// The variable with the operator's key. It is no flag, since flags can be read by all who list processes.
const KEY_VARIABLE: &str = "TAPRI_ADMIN_KEY";

/// How long a server may take to look through a large store.
const PATIENCE: Duration = Duration::from_secs(120);

/// `GET /admin/cache`.
pub(super) fn stats(server: &str) -> Result<Value> {
    let url = url(server, "/admin/cache");
    let mut request = agent().get(&url);
    if let Some(key) = key() {
        request = request.header("authorization", key);
    }
    read(&url, request.call())
}

/// `POST /admin/cache/purge`.
pub(super) fn purge(server: &str, filter: &Filter) -> Result<Value> {
    let url = url(server, "/admin/cache/purge");
    let mut request = agent().post(&url).header("content-type", "application/json");
    if let Some(key) = key() {
        request = request.header("authorization", key);
    }
    let Filter { tenant, route, model, session, document, older_than } = filter;
    let mut body = serde_json::Map::new();
    let named = [
        ("tenant", tenant),
        ("route", route),
        ("model", model),
        ("session", session),
        ("document", document),
    ];
    for (name, value) in named {
        if let Some(value) = value {
            body.insert(name.to_owned(), json!(value));
        }
    }
    if let Some(age) = older_than {
        body.insert("older_than_seconds".to_owned(), json!(age.as_secs()));
    }
    if filter.is_all() {
        body.insert("all".to_owned(), json!(true));
    }
    read(&url, request.send(Value::Object(body).to_string()))
}

fn url(server: &str, path: &str) -> String {
    format!("{}{path}", server.trim_end_matches('/'))
}

fn key() -> Option<String> {
    std::env::var(KEY_VARIABLE)
        .ok()
        .filter(|key| !key.is_empty())
        .map(|key| format!("Bearer {key}"))
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into()
}

fn read(url: &str, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Value> {
    let hint = "--server names the server's address for operators; --store names the store itself";
    let mut answer = answer
        .map_err(|error| Failure::new(anyhow!("{url} can't be reached: {error}"), Some(hint)))?;
    let status = answer.status();
    let text = answer.body_mut().read_to_string()?;
    let body: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    if status.is_success() {
        return Ok(body);
    }
    let message = body["error"]["message"].as_str().unwrap_or("it said nothing that can be read");
    let hint = match status.as_u16() {
        401 | 403 => format!("set {KEY_VARIABLE} to the operator's key"),
        404 => format!("{hint}; the configuration's [admin] opens these paths"),
        _ => hint.to_owned(),
    };
    Err(Failure::new(anyhow!("{url} said {}: {message}", status.as_u16()), Some(hint)).into())
}
