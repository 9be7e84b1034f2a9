//! What can be set.

use std::sync::Arc;
use std::time::Duration;

use crate::admin::Reload;
use crate::tenants::Tenants;
use crate::{AlertConfig, PagesConfig};

/// Settings of the server. The default suits a laptop: loopback only, a fixed port.
#[derive(Clone)]
pub struct ServerConfig {
    /// The address or host name to listen on.
    pub host: String,
    /// The port; 0 takes a free one.
    pub port: u16,
    /// How large and how slow the body of a request may be.
    pub body_limit: BodyLimit,
    /// Whether answers say nothing of what was cached: a client could learn from it what others asked.
    pub hide_cached_tokens: bool,
    /// How long running calls may go on once the server is told to stop.
    pub shutdown_limit: Duration,
    /// How often a line with the hit rate is logged, if there was a call.
    pub log_interval: Duration,
    /// How hit rates are watched; `None` to leave it.
    pub alerts: Option<AlertConfig>,
    /// Who may call, and by which routes. Clones of a configuration share them.
    pub tenants: Arc<Tenants>,
    /// Where the operator's paths are served, apart from the public ones: an address and a port.
    pub admin_listen: Option<(String, u16)>,
    /// Reads the configuration again, on SIGHUP and when the operator asks; without it both do nothing.
    pub reload: Option<Reload>,
    /// How connections are limited.
    pub connections: Connections,
    /// What became of calls' traces, where they are sent to a collector.
    pub traces: Option<TraceCounts>,
    /// The pages for people; `None` to serve the APIs alone.
    pub pages: Option<PagesConfig>,
    /// Starts that are pinned when the server begins to serve, one after another.
    pub pins: Vec<StartPin>,
}

/// A start that is pinned when the server begins to serve.
#[derive(Debug, Clone)]
pub struct StartPin {
    /// What it is called in the log: its file.
    pub name: String,
    /// Whose it is; `None` where there is one tenant.
    pub tenant: Option<String>,
    /// What is pinned.
    pub start: Start,
}

/// What is pinned.
#[derive(Clone)]
pub enum Start {
    /// A body as for `POST /cache/pins`.
    Body(axum::body::Bytes),
    /// A document, laid out for questions as `tapri ask` lays it out.
    Document(Arc<tapri_casefile::Document>),
}

impl std::fmt::Debug for Start {
    /// Says which it is, and nothing of its text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Start::Body(_) => "Body",
            Start::Document(_) => "Document",
        })
    }
}

/// Reads what became of calls' traces: words for it, and how many calls.
pub type TraceCounts = Arc<dyn Fn() -> [(&'static str, u64); 3] + Send + Sync>;

/// What one connection may cost, and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// The most connections; more wait to be accepted.
    pub max: usize,
    /// How long a request's line and headers may take, from the connection's opening or the end of the answer before:
    /// it ends connections that nobody uses as well.
    pub header_timeout: Duration,
    /// The most bytes of a request's line and headers; beyond it is a 431.
    pub header_bytes: usize,
    /// The most headers of a request; beyond it is a 431.
    pub headers: usize,
}

/// How large and how slow a body may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit {
    /// The most bytes; beyond it is a 413.
    pub bytes: usize,
    /// How long it may take beside the time that its bytes earn at [`BodyLimit::rate`]; slower ones get a 408.
    pub timeout: Duration,
    /// The slowest it may come in the long run, in bytes a second.
    pub rate: u64,
}

impl Default for BodyLimit {
    fn default() -> Self {
        BodyLimit {
            // Some 4 million tokens of text: far more than any context, little enough to hold.
            bytes: 16 << 20,
            timeout: Duration::from_secs(30),
            // A modem's. A client that sends a byte now and then is gone after the half minute.
            rate: 4 << 10,
        }
    }
}

impl Default for Connections {
    fn default() -> Self {
        Connections {
            max: 4096,
            // Longer than the minute that load balancers keep a connection for: they should be the ones to end it.
            header_timeout: Duration::from_secs(75),
            header_bytes: 64 << 10,
            headers: 100,
        }
    }
}

impl std::fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerConfig")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("tenants", &self.tenants)
            .finish_non_exhaustive()
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            host: "127.0.0.1".to_owned(),
            port: 8080,
            body_limit: BodyLimit::default(),
            hide_cached_tokens: false,
            shutdown_limit: Duration::from_secs(30),
            log_interval: Duration::from_secs(10),
            alerts: Some(AlertConfig::default()),
            tenants: Arc::default(),
            admin_listen: None,
            reload: None,
            connections: Connections::default(),
            traces: None,
            pages: None,
            pins: Vec::new(),
        }
    }
}
