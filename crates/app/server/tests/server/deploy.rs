//! The rules and the dashboard in `deploy/` speak of metrics that the server has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tapri_server::{AlertConfig, ServerConfig, WebhookConfig};

use super::CHAT;
use super::http::*;
use super::scripted::*;
use super::wire::HI;

/// Names of metrics in a text: what begins as ours or as vLLM's do.
fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    text.split(|c| !word(c))
        .filter(|name| name.starts_with("tapri_") || name.starts_with("vllm:"))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_metric_of_the_rules_and_the_dashboard_is_there() {
    let alerts = AlertConfig {
        webhook: Some(WebhookConfig::new("http://127.0.0.1:1/")),
        ..AlertConfig::default()
    };
    let config = ServerConfig { alerts: Some(alerts), ..ServerConfig::default() };
    let app = app(&Scripted::plays(whole_call()), config);
    // A block of calls, so that there is a hit rate to show.
    for _ in 0..16 {
        send(app.clone(), post(CHAT, &[], HI)).await;
    }
    let mut shown = BTreeSet::new();
    // The watch counts calls on a thread of its own.
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let metrics = send(app.clone(), get("/metrics")).await.body;
        let lines: Vec<&str> = metrics.lines().filter(|line| !line.starts_with('#')).collect();
        shown = names(&lines.join("\n"));
        if lines.iter().any(|line| line.starts_with("tapri_hit_rate{")) {
            break;
        }
        std::thread::yield_now();
    }
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy");
    for file in ["prometheus/tapri.rules.yml", "grafana/tapri.json"] {
        let text = fs::read_to_string(deploy.join(file)).unwrap();
        let asked = names(&text);
        assert!(asked.len() >= 5, "{file}: {asked:?}");
        let missing: Vec<&String> = asked.difference(&shown).collect();
        assert!(missing.is_empty(), "{file} asks for {missing:?}, which the server doesn't have");
    }
}
