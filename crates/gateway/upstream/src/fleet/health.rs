//! Asking replicas how they are.

use std::sync::Arc;

use super::live::{Phase, Stopping};
use crate::config::Health;
use crate::http::endpoint::Endpoint;

/// So many checks in a row must fail: one may be lost on the way.
const FAILURES: u32 = 2;

/// Asks a replica until the fleet stops.
pub(crate) async fn watch(endpoint: Arc<Endpoint>, health: Health, mut stopping: Stopping) {
    let mut failures = 0;
    loop {
        let well = tokio::select! {
            well = endpoint.check(&health.path, health.timeout) => well,
            () = stopping.wait_for(Phase::Closing) => return,
        };
        failures = if well { 0 } else { failures + 1 };
        let now = failures < FAILURES;
        if now != endpoint.is_well() {
            if now {
                tracing::info!(upstream = endpoint.name, "it answers again");
            } else {
                tracing::warn!(upstream = endpoint.name, "it does not answer at {}", health.path);
            }
            endpoint.set_well(now);
        }
        tokio::select! {
            () = tokio::time::sleep(health.every) => {}
            () = stopping.wait_for(Phase::Closing) => return,
        }
    }
}
