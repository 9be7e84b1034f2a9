//! Listening and stopping.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::serve::ListenerExt;
use tapri_pipeline::Pipeline;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::routes::{App, router};
use crate::{ServerConfig, log_line};

/// How long clients have to read the end of their answers, once all calls have ended.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// How long alerts that wait may take to be sent, once all calls have ended.
const ALERT_LIMIT: Duration = Duration::from_secs(5);

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another program has the port.
    #[error("{address} is in use by another program")]
    InUse {
        /// Where it was to listen.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The port is not this user's to take.
    #[error("may not listen on {address}: ports below 1024 are the administrator's")]
    Forbidden {
        /// Where it was to listen.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address can't be listened on.
    #[error("can't listen on {address}: {source}")]
    Listen {
        /// Where it was to listen.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The signals that stop the server can't be listened for.
    #[error("can't wait for signals: {0}")]
    Signals(#[source] io::Error),
    /// The server broke.
    #[error("the server broke: {0}")]
    Serve(#[source] io::Error),
}

/// A port that is taken and not yet served on: clients that connect wait.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    config: ServerConfig,
}

/// Takes the port.
pub async fn bind(config: ServerConfig) -> Result<Bound, ServeError> {
    let at = |source: io::Error| {
        let address = format!("{}:{}", config.host, config.port);
        match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { address, source },
            io::ErrorKind::PermissionDenied => ServeError::Forbidden { address, source },
            _ => ServeError::Listen { address, source },
        }
    };
    let listener = TcpListener::bind((config.host.as_str(), config.port)).await.map_err(at)?;
    let address = listener.local_addr().map_err(at)?;
    Ok(Bound { listener, address, config })
}

/// Takes the port, says where (`on_bound`), and serves until SIGTERM or SIGINT.
///
/// For a model that is loaded already; [`bind`] and [`Bound::run`] take the port before that.
pub async fn serve(
    config: ServerConfig,
    pipeline: Pipeline,
    on_bound: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let bound = bind(config).await?;
    on_bound(bound.address());
    bound.run(pipeline).await
}

impl Bound {
    /// Where it listens: with port 0 in the configuration, the port that was free.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until SIGTERM or SIGINT, then as [`Bound::run_until`]; a second signal ends the running calls at once.
    pub async fn run(self, pipeline: Pipeline) -> Result<(), ServeError> {
        let mut first = Signals::listen().map_err(ServeError::Signals)?;
        let mut second = Signals::listen().map_err(ServeError::Signals)?;
        let hurry = async move {
            // Both see every signal: the one that stopped the server is not the second.
            second.next().await;
            second.next().await;
        };
        self.run_with(pipeline, async move { first.next().await }, hurry).await
    }

    /// Serves until `stop` is ready. Then no connection is accepted any more, running calls get
    /// [`ServerConfig::shutdown_limit`] to end, and the rest end with an error that says why. The pipeline's
    /// backend is shut down when this returns.
    pub async fn run_until(
        self,
        pipeline: Pipeline,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.run_with(pipeline, stop, std::future::pending()).await
    }

    async fn run_with(
        self,
        pipeline: Pipeline,
        stop: impl Future<Output = ()> + Send,
        hurry: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        let app = App::new(&self.config, pipeline.clone());
        let mut log = tokio::task::JoinSet::new();
        log.spawn(log_line::run(pipeline.clone(), self.config.log_interval));

        let (close, closed) = oneshot::channel::<()>();
        // Without it the system holds a token back until the client has confirmed the one before: up to 40 ms each.
        let listener = self.listener.tap_io(|connection| {
            if let Err(error) = connection.set_nodelay(true) {
                tracing::debug!("a connection keeps its delays: {error}");
            }
        });
        let serving = axum::serve(listener, router(app.clone())).with_graceful_shutdown(async {
            // An error means that the sender is gone, which is a reason to close as well.
            let _ = closed.await;
        });
        let mut serving = pin!(serving.into_future());
        tokio::select! {
            result = &mut serving => return result.map_err(ServeError::Serve),
            () = stop => {}
        }
        app.set_stopping();
        let limit = self.config.shutdown_limit;
        tracing::info!("stopping: running calls have {} s to end", limit.as_secs_f64());
        let _ = close.send(());
        let done = tokio::select! {
            result = tokio::time::timeout(limit, &mut serving) => result.is_ok(),
            () = hurry => false,
        };
        // With every connection gone there is nothing to wait for; else the calls that are left end now, and
        // their clients get to read so.
        let backend = tokio::task::spawn_blocking(move || pipeline.shutdown(Duration::ZERO));
        if !done {
            tracing::warn!("stopping: the calls that still run are ended");
            let _ = tokio::time::timeout(FLUSH_LIMIT, &mut serving).await;
        }
        // A panic of the backend's own thread has been reported by it.
        let _ = backend.await;
        let _ = tokio::task::spawn_blocking(move || app.stop_alerts(ALERT_LIMIT)).await;
        log.shutdown().await;
        Ok(())
    }
}

/// The signals that ask a server to stop.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn listen() -> io::Result<Self> {
        Ok(Signals {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        // Where Ctrl-C can't be waited for, the process is ended from outside.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
