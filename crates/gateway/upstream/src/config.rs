//! What can be set of upstreams. Plain values: where they come from is for the command line.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use tapri_api::Format;

use crate::breaker::BreakerConfig;
use crate::prefix::markers::Inject;
use crate::prefix::rules::Rules;

/// A text that never shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// A secret.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text, for whoever sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Which family of APIs an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// OpenAI's.
    OpenAi,
    /// Anthropic's.
    Anthropic,
}

/// What is known of the machine behind an address, for its prefix cache's sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A server of one's own that caches by itself: SGLang, llama-server.
    Server,
    /// vLLM: it gets a `cache_salt` of the gateway's making.
    Vllm,
    /// A hosted API, helped by the rules for its models.
    Hosted,
    /// A Tapri of one tenant behind this one: it gets the caller's salt and `Cache-Control` as they came.
    Tapri,
}

impl Kind {
    /// By the address: the two providers' own are hosted, everything else is a server.
    pub fn of_url(url: &str) -> Self {
        let host = url.split("://").nth(1).unwrap_or(url).split(['/', ':']).next().unwrap_or("");
        match host {
            "api.openai.com" | "api.anthropic.com" | "api.mistral.ai" => Kind::Hosted,
            _ => Kind::Server,
        }
    }
}

/// With what an upstream is asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credential {
    /// Nothing.
    #[default]
    None,
    /// One key for everyone. What one tenant sent is then in the same provider's cache as what another sends.
    Shared(Secret),
    /// A key for each tenant, by name. A tenant without one is refused.
    PerTenant(BTreeMap<String, Secret>),
}

/// A model that an upstream serves.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServedModel {
    /// The name that callers use. One that ends in `*` stands for all names that begin like it.
    pub name: String,
    /// The name that the upstream uses; by default the same.
    pub upstream_name: Option<String>,
    /// Other names that callers may use.
    pub aliases: Vec<String>,
    /// Tokens that prompt and answer may have together, where it is known.
    pub context: Option<usize>,
    /// Whether and where `cache_control` is put into requests.
    pub inject: Option<Inject>,
}

impl ServedModel {
    /// A model under its own name.
    pub fn named(name: impl Into<String>) -> Self {
        ServedModel { name: name.into(), ..ServedModel::default() }
    }
}

/// How long an upstream may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// Until its answer's headers: all of the prompt is read before, and without streaming all of the answer made.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub between: Duration,
    /// In all.
    pub total: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            connect: Duration::from_secs(5),
            // What the providers' own clients wait.
            first_byte: Duration::from_secs(600),
            between: Duration::from_secs(120),
            total: None,
        }
    }
}

/// How often an upstream is asked again. Only before the first byte of an answer: what was sent can't be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// So many times after the first.
    pub most: u32,
    /// The wait before the first retry; each further one is twice as long, and a part of each is drawn.
    pub base: Duration,
    /// A wait longer than this, also one that the upstream asks for, is the caller's to make.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { most: 2, base: Duration::from_millis(250), longest: Duration::from_secs(5) }
    }
}

/// How an upstream's health is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The path that answers 200 when it is well: `/health` at vLLM, SGLang and llama-server.
    pub path: String,
    /// How often.
    pub every: Duration,
    /// How long it may take.
    pub timeout: Duration,
}

impl Default for Health {
    fn default() -> Self {
        Health {
            path: "/health".to_owned(),
            every: Duration::from_secs(5),
            timeout: Duration::from_secs(2),
        }
    }
}

/// An upstream: one or several replicas of the same thing.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamConfig {
    /// Its name in records, metrics and logs.
    pub name: String,
    /// Where its replicas are, with or without `/v1`.
    pub urls: Vec<String>,
    /// Which family of APIs it speaks.
    pub api: Api,
    /// The formats that it answers. What comes in another is converted.
    pub formats: Vec<Format>,
    /// What it is.
    pub kind: Kind,
    /// With what it is asked.
    pub credential: Credential,
    /// What it serves; empty for every name there is.
    pub models: Vec<ServedModel>,
    /// Its share of the load among upstreams that serve the same model.
    pub weight: f64,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// How often it is asked again.
    pub retry: Retry,
    /// When it is left alone.
    pub breaker: BreakerConfig,
    /// How its health is asked for; `None` to learn it from calls alone.
    pub health: Option<Health>,
    /// How long its prefix cache keeps a start; `None` takes the provider's rule, else as long as there is room.
    pub cache_life: Option<Duration>,
    /// The secret under which `cache_salt` is made.
    pub salt_secret: Secret,
    /// Whether streams may be asked for their usage; a few old servers refuse `stream_options`.
    pub usage_in_streams: bool,
    /// More certificates to trust, in PEM: of a company's own authority.
    pub certificates: Vec<u8>,
}

impl UpstreamConfig {
    /// With the defaults for an API.
    pub fn new(name: impl Into<String>, url: impl Into<String>, api: Api) -> Self {
        let url = url.into();
        UpstreamConfig {
            name: name.into(),
            kind: Kind::of_url(&url),
            urls: vec![url],
            api,
            formats: match api {
                // Responses are said by name: not every server has them.
                Api::OpenAi => vec![Format::Chat, Format::Completion, Format::Embeddings],
                Api::Anthropic => vec![Format::Messages],
            },
            credential: Credential::None,
            models: Vec::new(),
            weight: 1.0,
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            breaker: BreakerConfig::default(),
            health: None,
            cache_life: None,
            salt_secret: Secret::default(),
            usage_in_streams: true,
            certificates: Vec::new(),
        }
    }

    /// What whoever runs it should know.
    pub fn warnings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if matches!(self.credential, Credential::Shared(_)) && self.kind != Kind::Vllm {
            found.push(format!(
                "upstream {}: one credential is shared by all tenants, and the provider's prompt cache with it: by the \
                 time of an answer and its cached tokens one tenant can tell whether another sent the same start. Give each \
                 tenant a credential of its own where tenants don't trust each other",
                self.name
            ));
        }
        if self.kind == Kind::Vllm && self.salt_secret.reveal().is_empty() {
            found.push(format!(
                "upstream {}: its cache salts are made without a secret: whoever reaches vLLM past Tapri can make them too",
                self.name
            ));
        }
        let plain = self.urls.iter().any(|url| url.starts_with("http://") && !is_loopback(url));
        if plain && self.credential != Credential::None {
            found.push(format!(
                "upstream {}: its credential goes over the network unencrypted (http://)",
                self.name
            ));
        }
        found
    }
}

/// Whether an address is this machine's own.
pub(crate) fn is_loopback(url: &str) -> bool {
    let host = url.split("://").nth(1).unwrap_or(url);
    let host = host.split('/').next().unwrap_or("");
    host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]")
}

/// All upstreams together.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// The upstreams. Those that serve the same name share its calls.
    pub upstreams: Vec<UpstreamConfig>,
    /// The upstreams that a route's calls may go to, by the route's name; a route that isn't here may use all.
    pub routes: HashMap<String, Vec<String>>,
    /// What providers promise.
    pub rules: Rules,
    /// Blocks of prompts' text (512 bytes each) that are remembered for the choice of replicas.
    pub index_blocks: usize,
    /// The largest event of a stream, in bytes.
    pub event_limit: usize,
    /// The largest body of an answer, in bytes.
    pub body_limit: usize,
}

impl Default for FleetConfig {
    fn default() -> Self {
        FleetConfig {
            upstreams: Vec::new(),
            routes: HashMap::new(),
            // A test reads them.
            rules: Rules::bundled().unwrap_or_default(),
            // 256 MB of text, in some 20 MB.
            index_blocks: 500_000,
            event_limit: 16 << 20,
            body_limit: 64 << 20,
        }
    }
}
