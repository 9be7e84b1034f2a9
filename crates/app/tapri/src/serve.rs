//! `tapri serve`.

pub(crate) mod alert;

use std::io::{Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;

use anyhow::Result;
use tapri_server::{ServeError, ServerConfig};
use tracing_subscriber::EnvFilter;

use crate::cli::ServeArgs;
use crate::failure::Failure;
use crate::ledger;
use crate::load;
use crate::prices;

/// The variable that says what is logged; see the documentation of `tracing_subscriber::EnvFilter`.
const LOG_VARIABLE: &str = "TAPRI_LOG";

pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode> {
    let filter = EnvFilter::try_from_env(LOG_VARIABLE).unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        // A log on a full disk is no reason for a thread to panic: lines are lost until there is room again.
        .log_internal_errors(false)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let config = ServerConfig {
        host: args.host.clone(),
        port: args.port,
        hide_cached_tokens: args.hide_cached_tokens,
        alerts: args.alerts.config()?,
        ..ServerConfig::default()
    };
    runtime.block_on(async {
        // The port before the model: that it is taken should be known at once.
        let bound = tapri_server::bind(config).await.map_err(failure)?;
        let prices = prices::list(&args.prices, &args.model.to_string())?;
        let load::Recorded { name, pipeline, recorder } = tokio::task::block_in_place(|| {
            load::recorded(&args.model, &args.engine, &args.ledger, &prices)
        })?;
        announce(&name, bound.address())?;
        let served = bound.run(pipeline).await;
        tokio::task::block_in_place(|| ledger::close(&recorder));
        served.map_err(failure)?;
        Ok(ExitCode::SUCCESS)
    })
}

fn failure(error: ServeError) -> Failure {
    let hint = match error {
        ServeError::InUse { .. } => {
            Some("choose another one with --port; --port 0 takes a free one")
        }
        _ => None,
    };
    Failure::new(error, hint)
}

/// Says where it listens, and one line to try it with.
fn announce(name: &str, address: SocketAddr) -> Result<()> {
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
    writeln!(
        out,
        "try it: curl http://{reach}/v1/completions -H 'content-type: application/json' \
         -d '{{\"prompt\": \"The capital of France is\", \"max_tokens\": 16}}'"
    )?;
    out.flush()?;
    Ok(())
}
