//! `tapri serve`.

pub(crate) mod alert;
mod answerer;
pub(crate) mod exact;
mod isolation;
pub(crate) mod pages;
mod pins;
pub(crate) mod semantic;
mod telemetry;

use std::io::{Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, anyhow};
use clap::{CommandFactory, FromArgMatches};
use tapri_pipeline::cache::exact::ExactCache;
use tapri_pipeline::cache::semantic::SemanticCache;
use tapri_server::{BodyLimit, Connections, Reload, ServeError, ServerConfig, Tenants};
use tracing_subscriber::EnvFilter;

use self::exact::ExactArgs;
use self::semantic::SemanticServeArgs;
use crate::cli::{Cli, Command, Isolation, ServeArgs};
use crate::config::access::Access;
use crate::config::{Config, flags};
use crate::failure::{self, Failure};
use crate::ledger;
use crate::load;
use crate::prices;

/// The variable that says what is logged; see the documentation of `tracing_subscriber::EnvFilter`.
const LOG_VARIABLE: &str = "TAPRI_LOG";

/// Reads the configuration, and runs with its values as the flags' defaults.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    if let Some(tenant) = &args.child_of_tapri {
        let key = std::env::var(isolation::CHILD_KEY).map_err(|_| {
            Failure::usage("a gateway starts this", "start 'tapri serve' without it")
        })?;
        let secret = std::env::var(isolation::CHILD_SECRET).ok();
        isolation::end_with_stdin();
        return serve(args, Config::default(), Config::child(tenant, &key, secret.as_deref())?);
    }
    let config = Config::load(Config::file(args.config.as_deref()))?;
    let matches = flags::with_defaults(Cli::command(), &config)?.get_matches();
    match Cli::from_arg_matches(&matches)?.command {
        Command::Serve(mut args) => {
            if args.engine.lora.is_empty() {
                args.engine.lora.clone_from(&config.sections.engine.lora);
            }
            let access = config.access()?;
            serve(&args, config, access)
        }
        _ => Err(anyhow!("the same arguments were read as another command")),
    }
}

fn serve(args: &ServeArgs, config: Config, access: Access) -> Result<ExitCode> {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // A log on a full disk is no reason for a thread to panic: lines are lost until there is room again.
        .log_internal_errors(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(file) = &config.file {
        tracing::info!("the configuration is {}", file.display());
    }
    raise_file_limit();
    let Access { config: tenants, secret, warnings } = access;
    warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let tenants = Tenants::new(tenants).map_err(|error| {
        Failure::usage(error.to_string(), "'tapri config show' says what is configured")
    })?;
    not_here(args, &config)?;
    let exact = args.exact.cache(&config)?;
    let semantic = args.semantic.cache(&config, &args.exact.policies(&config))?;
    let caches = Caches { exact: exact.clone(), semantic: semantic.clone() };
    // The engine process of a tenant is asked by its gateway alone.
    let (pages, telemetry) = match args.child_of_tapri {
        None => (args.pages.config(&secret)?, telemetry::start(&config)?),
        Some(_) => (None, None),
    };
    let server = ServerConfig {
        tenants: Arc::new(tenants),
        pages,
        traces: telemetry.as_ref().map(telemetry::counts),
        ..server(args, &config, caches)?
    };
    let has_pages = server.pages.is_some();
    runtime.block_on(async {
        // The port before the model: that it is taken should be known at once.
        let bound = tapri_server::bind(server).await.map_err(serve_failure)?;
        let prices = prices::list(&args.prices, &args.model.to_string())?;
        let load::Recorded { name, pipeline, recorder } = tokio::task::block_in_place(|| {
            load::recorded_with(|| answerer::load(args, &config, &secret), &args.ledger, &prices)
        })?;
        let pipeline = match exact {
            Some(exact) => pipeline.cached(exact),
            None => pipeline,
        };
        let pipeline = match semantic {
            Some(semantic) => pipeline.semantic(semantic),
            None => pipeline,
        };
        let pipeline = match &telemetry {
            Some(telemetry) => pipeline.observed(telemetry.observer()),
            None => pipeline,
        };
        announce(&name, bound.address(), has_pages)?;
        if let Some(admin) = bound.admin_address() {
            writeln!(stdout(), "the operator's paths are on http://{admin}/admin")?;
        }
        let served = bound.run(pipeline).await;
        tokio::task::block_in_place(|| {
            ledger::close(&recorder);
            telemetry.iter().for_each(telemetry::close);
        });
        served.map_err(serve_failure)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What is configured and can't be done is refused, not left out.
fn not_here(args: &ServeArgs, config: &Config) -> Result<()> {
    let sections = &config.sections;
    let shares = sections.tenants.iter().any(|tenant| tenant.limits.kv_share.is_some());
    let engine = sections.engine.enabled.unwrap_or(sections.upstreams.is_empty());
    if !args.pin.is_empty() && !engine && args.isolation == Isolation::Scope {
        let message =
            "--pin keeps starts in the KV memory of the embedded engine, and the engine is off";
        let hint = "write enabled = true in [engine], or take --pin out";
        return Err(Failure::usage(message, hint).into());
    }
    if shares && !engine && args.isolation == Isolation::Scope {
        let message = "kv_share is a share of the embedded engine's memory, and the engine is off";
        let hint = "write enabled = true in [engine], or take kv_share out";
        return Err(Failure::usage(message, hint).into());
    }
    let isolated = args.isolation == Isolation::Process;
    if !args.engine.lora.is_empty() && !engine && !isolated {
        let message = "an adapter is for the embedded engine, and the engine is off";
        let hint = "write enabled = true in [engine], or take --lora out";
        return Err(Failure::usage(message, hint).into());
    }
    Ok(())
}

/// The server's settings, but for the tenants.
fn server(args: &ServeArgs, config: &Config, caches: Caches) -> Result<ServerConfig> {
    let given = &config.sections.server;
    let default = ServerConfig::default();
    let (body, connections) = (default.body_limit, default.connections);
    let bytes = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok(ServerConfig {
        host: args.host.clone(),
        port: args.port,
        hide_cached_tokens: args.hide_cached_tokens,
        alerts: args.alerts.config()?,
        body_limit: BodyLimit {
            bytes: given.body_limit.map_or(body.bytes, bytes),
            timeout: given.body_timeout.unwrap_or(body.timeout),
            ..body
        },
        connections: Connections {
            max: given.max_connections.map_or(connections.max, Into::into),
            header_timeout: given.header_timeout.unwrap_or(connections.header_timeout),
            header_bytes: given.max_header_bytes.map_or(connections.header_bytes, bytes),
            headers: given.max_headers.map_or(connections.headers, Into::into),
        },
        shutdown_limit: given.shutdown_limit.unwrap_or(default.shutdown_limit),
        // A tenant's process pins its own.
        pins: match args.isolation {
            Isolation::Scope => pins::read(&args.pin)?,
            Isolation::Process => Vec::new(),
        },
        admin_listen: config.sections.admin.listen.clone(),
        reload: Some(reload(config, args.exact.clone(), args.semantic.clone(), caches)),
        ..default
    })
}

/// The caches whose policies a reload changes.
struct Caches {
    exact: Option<ExactCache>,
    semantic: Option<SemanticCache>,
}

/// Reads the file again. Flags keep their values until the next start; what differs is said.
fn reload(
    first: &Config,
    exact_flags: ExactArgs,
    semantic_flags: SemanticServeArgs,
    caches: Caches,
) -> Reload {
    let running = first.flags.clone();
    let adapters = first.sections.engine.lora.clone();
    let file = first.file.clone();
    Arc::new(move || {
        let read = || {
            let config = Config::load(file.clone())?;
            let access = config.access()?;
            Ok::<_, anyhow::Error>((config, access))
        };
        let (config, access) = read().map_err(|error| failure::chain(&error))?;
        for warning in &access.warnings {
            tracing::warn!("{warning}");
        }
        let value = |given: &[flags::Given], id| {
            given.iter().find(|given| given.id == id).map(|given| given.value.clone())
        };
        for (section, key, id, ..) in flags::all() {
            if value(&running, id) != value(&config.flags, id) {
                tracing::warn!("{section}.{key} has changed, and holds from the next start");
            }
        }
        if adapters != config.sections.engine.lora {
            tracing::warn!("engine.lora has changed, and holds from the next start");
        }
        let exact = exact_flags.policies(&config);
        // Before anything is changed: a reload is whole or not at all.
        let semantic =
            semantic_flags.policies(&config, &exact).map_err(|error| failure::chain(&error))?;
        match &caches.semantic {
            Some(cache) => cache.set_policies(semantic),
            None if semantic::are_off(&semantic) => {}
            None => tracing::warn!(
                "the semantic cache was off at the start, and is on from the next one"
            ),
        }
        match &caches.exact {
            Some(cache) => cache.set_policies(exact),
            None if exact.are_off() => {}
            None => {
                tracing::warn!("the exact cache was off at the start, and is on from the next one")
            }
        }
        Ok(access.config)
    })
}

/// As many open files as the system lets this process have: each connection is one. Failing is no harm here; there is
/// room for fewer connections then.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!("the limit of open files stays: {error}");
    }
}

#[cfg(not(unix))]
fn raise_file_limit() {}

fn serve_failure(error: ServeError) -> Failure {
    let hint = match error {
        ServeError::InUse { .. } => {
            Some("choose another one with --port; --port 0 takes a free one")
        }
        _ => None,
    };
    Failure::new(error, hint)
}

/// Says where it listens, and one line to try it with.
fn announce(name: &str, address: SocketAddr, pages: bool) -> Result<()> {
    // An address that means "every one" can't be connected to everywhere.
    let reach = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], address.port()))
        }
        _ => address,
    };
    let mut out = stdout().lock();
    writeln!(out, "serving {name} on http://{address}")?;
    if pages {
        writeln!(out, "for people: open http://{reach}/ in a browser")?;
    }
    writeln!(
        out,
        "try it: curl http://{reach}/v1/completions -H 'content-type: application/json' \
         -d '{{\"prompt\": \"The capital of France is\", \"max_tokens\": 16}}'"
    )?;
    out.flush()?;
    Ok(())
}
