//! What can be set.

use std::time::Duration;

use crate::AlertConfig;

/// Settings of the server. The default suits a laptop: loopback only, a fixed port.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The address or host name to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// The largest body of a request, in bytes.
    pub body_limit: usize,
    /// Whether answers say nothing of what was cached: a client could learn from it what others asked.
    pub hide_cached_tokens: bool,
    /// How long running calls may go on once the server is told to stop.
    pub shutdown_limit: Duration,
    /// How often a line with the hit rate is logged, if there was a call.
    pub log_interval: Duration,
    /// How hit rates are watched; `None` to leave it.
    pub alerts: Option<AlertConfig>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            // Some 4 million tokens of text: far more than any context, little enough to hold.
            body_limit: 16 << 20,
            hide_cached_tokens: false,
            shutdown_limit: Duration::from_secs(30),
            log_interval: Duration::from_secs(10),
            alerts: Some(AlertConfig::default()),
        }
    }
}
