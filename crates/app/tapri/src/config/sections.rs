//! What can be written in `tapri.toml`, besides the keys that are flags.

mod route;
mod tenant;
mod upstream;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use tapri_engine::AdapterFile;

pub(crate) use route::{Exact, ExactMode, Route, SemanticMode};
pub(crate) use tenant::{Key, Tenant};
pub(crate) use upstream::{Kind, Speaks, Upstream};

use super::flags::{self, Given};
use super::reader::{At, Section, nearest, number, text, truth};
use super::secret::Secret;
use crate::quantity;

/// The sections of a file.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pub(crate) server: Server,
    pub(crate) engine: Engine,
    pub(crate) admin: Admin,
    pub(crate) cache: Cache,
    pub(crate) semantic: Semantic,
    pub(crate) budgets: Budgets,
    pub(crate) telemetry: Telemetry,
    pub(crate) upstreams: Vec<Upstream>,
    pub(crate) routes: Vec<Route>,
    pub(crate) tenants: Vec<Tenant>,
}

/// `[server]`, but for its flags.
#[derive(Debug, Default)]
pub(crate) struct Server {
    pub(crate) key_file: Option<PathBuf>,
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) body_limit: Option<u64>,
    pub(crate) body_timeout: Option<Duration>,
    pub(crate) max_connections: Option<NonZeroUsize>,
    pub(crate) header_timeout: Option<Duration>,
    pub(crate) max_header_bytes: Option<u64>,
    pub(crate) max_headers: Option<NonZeroUsize>,
    pub(crate) shutdown_limit: Option<Duration>,
}

/// `[engine]`, but for its flags.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    /// Whether the embedded engine runs; without a word, where no upstream is configured.
    pub(crate) enabled: Option<bool>,
    /// `NAME=FILE` of each adapter; one `--lora` goes before all of them.
    pub(crate) lora: Vec<AdapterFile>,
}

/// `[admin]`.
#[derive(Debug, Default)]
pub(crate) struct Admin {
    pub(crate) listen: Option<(String, u16)>,
    pub(crate) key: Option<Secret>,
}

/// `[cache]`: where stored answers are.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    /// `sqlite:PATH`, `redis://...`; `memory:`; without one, a file in the data folder.
    pub(crate) store: Option<Secretive>,
    /// How long a store may take before it counts as a miss.
    pub(crate) timeout: Option<Duration>,
}

/// `[semantic]`: what questions are compared by, and where.
#[derive(Debug, Default)]
pub(crate) struct Semantic {
    /// A model of this machine, or an upstream's: `upstream:NAME/MODEL`.
    pub(crate) embedder: Option<String>,
    /// `postgres://...` or `sqlite:FILE`; without one, a file in the data folder.
    pub(crate) store: Option<Secretive>,
}

/// `[budgets]`: what may be spent, in bytes and in wrong answers.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    /// Memory for stored answers.
    pub(crate) cache_memory: Option<u64>,
    /// Disk for stored answers.
    pub(crate) cache_disk: Option<u64>,
    /// The share of semantic hits that may be wrong, for routes that don't say.
    pub(crate) semantic_wrong: Option<f64>,
}

/// `[telemetry]`: traces and token counts for an OpenTelemetry collector.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Telemetry {
    /// Where the collector listens for OTLP/HTTP; `OTEL_EXPORTER_OTLP_ENDPOINT` goes before it.
    pub(crate) endpoint: Option<String>,
    /// Headers of every request, `name=value,name=value`: a collector's credential, say.
    pub(crate) headers: Option<Secret>,
    /// The program's name in traces.
    pub(crate) service: Option<String>,
    /// How long a trace may wait for others to be sent with it.
    pub(crate) delay: Option<Duration>,
    /// How often token counts are sent.
    pub(crate) interval: Option<Duration>,
    /// How long the collector may take for a request.
    pub(crate) timeout: Option<Duration>,
}

impl Telemetry {
    /// Whether anything of it was written.
    pub(crate) fn is_written(&self) -> bool {
        *self != Telemetry::default()
    }
}

/// An address that may hold a password: written as it is, or kept elsewhere.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Secretive {
    /// As it is.
    Plain(String),
    /// Elsewhere.
    Kept(Secret),
}

impl Secretive {
    fn parse(written: &str) -> Result<Self, String> {
        match Secret::parse(written) {
            Ok(secret) => Ok(Secretive::Kept(secret)),
            Err(_) if has_password(written) => {
                Err("it holds a password, which is not written here: name where the address is, as env:NAME or file:PATH".to_owned())
            }
            Err(_) => text(written).map(Secretive::Plain),
        }
    }

    /// The address itself. Relative paths of secrets start from a folder.
    pub(crate) fn read(&self, folder: &std::path::Path) -> anyhow::Result<String> {
        match self {
            Secretive::Plain(address) => Ok(address.clone()),
            Secretive::Kept(secret) => secret.read(folder),
        }
    }
}

impl std::fmt::Debug for Secretive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Secretive::Plain(_) => f.write_str("***"),
            Secretive::Kept(secret) => secret.fmt(f),
        }
    }
}

/// `scheme://user:password@host`.
fn has_password(address: &str) -> bool {
    let Some((_, rest)) = address.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or("");
    host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

/// Reads all sections. What is wrong is the reader's to say.
pub(crate) fn read(root: &Section<'_, '_>, given: &mut Vec<Given>) -> Sections {
    let server = server(&root.section("server"), given);
    let engine = {
        let section = root.section("engine");
        flags::read_section("engine", &section, given);
        let engine = Engine { enabled: section.get("enabled", truth), lora: adapters(&section) };
        section.end();
        engine
    };
    for name in ["ledger", "alerts", "pages", "prices"] {
        let section = root.section(name);
        flags::read_section(name, &section, given);
        section.end();
    }
    let section = root.section("admin");
    let admin =
        Admin { listen: section.get("listen", address), key: section.secret("key", Secret::parse) };
    section.end();
    let section = root.section("cache");
    let cache = Cache {
        store: section.get("store", Secretive::parse),
        timeout: section.get("timeout", quantity::duration),
    };
    section.end();
    let section = root.section("budgets");
    let budgets = Budgets {
        cache_memory: section.get("cache_memory", quantity::bytes),
        cache_disk: section.get("cache_disk", quantity::bytes),
        semantic_wrong: section.get("semantic_wrong", crate::report::period::share),
    };
    section.end();

    let section = root.section("telemetry");
    let telemetry = Telemetry {
        endpoint: section.get("endpoint", text),
        headers: section.secret("headers", Secret::parse),
        service: section.get("service", text),
        delay: section.get("delay", quantity::duration),
        interval: section.get("interval", quantity::duration),
        timeout: section.get("timeout", quantity::duration),
    };
    section.end();

    let mut names = Names::default();
    let upstreams: Vec<Upstream> = root
        .sections("upstream")
        .iter()
        .filter_map(|section| upstream::read(section, &mut names))
        .collect();
    // Also of those that have something else wrong with them: that is said once.
    let mut known = names.of("upstream");
    let section = root.section("semantic");
    let semantic = Semantic {
        embedder: section.get("embedder", |written| {
            let written = text(written)?;
            upstream::model(&written, &known).map(|()| written)
        }),
        store: section.get("store", Secretive::parse),
    };
    section.end();
    known.push(Upstream::EMBEDDED.to_owned());
    let routes: Vec<Route> = root
        .sections("route")
        .iter()
        .filter_map(|section| route::read(section, &known, &mut names))
        .collect();
    let known = names.of("route");
    let tenants = root
        .sections("tenant")
        .iter()
        .filter_map(|section| tenant::read(section, &known, &mut names))
        .collect();
    Sections {
        server,
        engine,
        admin,
        cache,
        semantic,
        budgets,
        telemetry,
        upstreams,
        routes,
        tenants,
    }
}

/// The adapters of `[engine]`. Each has a name of its own.
fn adapters(section: &Section<'_, '_>) -> Vec<AdapterFile> {
    let mut adapters: Vec<AdapterFile> = Vec::new();
    for At { value, line } in section.list("lora", false, crate::cli::lora).unwrap_or_default() {
        if adapters.iter().any(|before| before.name == value.name) {
            let what = format!("another adapter has the name {:?}", value.name);
            section.wrong("lora", line, &what, None);
        }
        adapters.push(value);
    }
    adapters
}

fn server(section: &Section<'_, '_>, given: &mut Vec<Given>) -> Server {
    flags::read_section("server", section, given);
    let path = |written: &str| text(written).map(PathBuf::from);
    let server = Server {
        key_file: section.get("key_file", path),
        secret_file: section.get("secret_file", path),
        body_limit: section.get("body_limit", quantity::bytes),
        body_timeout: section.get("body_timeout", quantity::duration),
        max_connections: section.get("max_connections", quantity::count),
        header_timeout: section.get("header_timeout", quantity::duration),
        max_header_bytes: section.get("max_header_bytes", quantity::bytes),
        max_headers: section.get("max_headers", number),
        shutdown_limit: section.get("shutdown_limit", quantity::duration),
    };
    section.end();
    server
}

/// `127.0.0.1:9090`, `[::1]:9090` or `localhost:9090`.
fn address(written: &str) -> Result<(String, u16), String> {
    let wrong = || "write an address and a port, for example 127.0.0.1:9090".to_owned();
    let (host, port) = written.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong());
    }
    Ok((host.to_owned(), port.parse().map_err(|_| wrong())?))
}

/// The names that were given, and in which line: each is given once.
#[derive(Default)]
struct Names(HashMap<(&'static str, String), Option<usize>>);

impl Names {
    /// The names of a kind, in the order of the alphabet.
    fn of(&self, kind: &str) -> Vec<String> {
        let mut names: Vec<String> = self
            .0
            .keys()
            .filter(|(known, _)| *known == kind)
            .map(|(_, name)| name.clone())
            .collect();
        names.sort();
        names
    }

    /// The name of one of a list of tables, which must be there and be its own.
    fn take(&mut self, kind: &'static str, section: &Section<'_, '_>) -> Option<String> {
        let name = section.required("name")?;
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.value.is_empty() || name.value.len() > 64 || !name.value.chars().all(fits) {
            let what = "a name has 1 to 64 letters, digits, hyphens, underscores and full stops";
            section.wrong("name", name.line, what, None);
            return None;
        }
        if let Some(before) = self.0.get(&(kind, name.value.clone())) {
            let at = before.map_or_else(String::new, |line| format!(", in line {line}"));
            let what = format!("another {kind} has the name {:?}{at}", name.value);
            section.wrong("name", name.line, &what, None);
        }
        self.0.insert((kind, name.value.clone()), name.line);
        Some(name.value)
    }
}

/// A list of names that must be among those known. `None` where it isn't set.
fn named(
    section: &Section<'_, '_>,
    key: &'static str,
    what: &str,
    known: &[String],
) -> Option<Vec<String>> {
    let listed = section.list(key, false, text)?;
    let mut names = Vec::new();
    for name in listed {
        if known.contains(&name.value) {
            names.push(name.value);
            continue;
        }
        let hint = match nearest(&name.value, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near:?}?"),
            None if known.is_empty() => format!("there is none: write [[{what}]]"),
            None => format!("there are {}", known.join(", ")),
        };
        let problem = format!("there is no {what} {:?}", name.value);
        section.wrong(key, name.line, &problem, Some(hint));
    }
    Some(names)
}
