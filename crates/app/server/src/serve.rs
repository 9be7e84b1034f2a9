//! Listening and stopping.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tapri_pipeline::Pipeline;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};

use crate::routes::{App, operators, pins, router};
use crate::{ServerConfig, connections, history, log_line};

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
}

/// A port that is taken and not yet served on: clients that connect wait.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    admin: Option<(TcpListener, SocketAddr)>,
    config: ServerConfig,
}

/// Takes the port, and the operator's where one of its own is set.
pub async fn bind(config: ServerConfig) -> Result<Bound, ServeError> {
    let (listener, address) = listen(&config.host, config.port).await?;
    let admin = match &config.admin_listen {
        Some((host, port)) => Some(listen(host, *port).await?),
        None => None,
    };
    Ok(Bound { listener, address, admin, config })
}

async fn listen(host: &str, port: u16) -> Result<(TcpListener, SocketAddr), ServeError> {
    let at = |source: io::Error| {
        let address = format!("{host}:{port}");
        match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::InUse { address, source },
            io::ErrorKind::PermissionDenied => ServeError::Forbidden { address, source },
            _ => ServeError::Listen { address, source },
        }
    };
    let listener = TcpListener::bind((host, port)).await.map_err(at)?;
    let address = listener.local_addr().map_err(at)?;
    Ok((listener, address))
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

    /// Where the operator's paths are served, if apart from the others.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(|(_, address)| *address)
    }

    /// Serves until SIGTERM or SIGINT, then as [`Bound::run_until`]; a second signal ends the running calls at once.
    /// SIGHUP reads the configuration again.
    pub async fn run(self, pipeline: Pipeline) -> Result<(), ServeError> {
        let mut first = Signals::listen().map_err(ServeError::Signals)?;
        let mut second = Signals::listen().map_err(ServeError::Signals)?;
        let hurry = async move {
            // Both see every signal: the one that stopped the server is not the second.
            second.next().await;
            second.next().await;
        };
        let reloads = Arc::new(Notify::new());
        let hangups = tokio::spawn(hangups(Arc::clone(&reloads)).map_err(ServeError::Signals)?);
        let result =
            self.run_with(pipeline, async move { first.next().await }, hurry, reloads).await;
        hangups.abort();
        result
    }

    /// Serves until `stop` is ready. Then no connection is accepted any more, running calls get
    /// [`ServerConfig::shutdown_limit`] to end, and the rest end with an error that says why. The pipeline's
    /// backend is shut down when this returns.
    pub async fn run_until(
        self,
        pipeline: Pipeline,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), ServeError> {
        self.run_with(pipeline, stop, std::future::pending(), Arc::default()).await
    }

    async fn run_with(
        self,
        pipeline: Pipeline,
        stop: impl Future<Output = ()> + Send,
        hurry: impl Future<Output = ()> + Send,
        reloads: Arc<Notify>,
    ) -> Result<(), ServeError> {
        let app = App::new(&self.config, pipeline.clone());
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(log_line::run(pipeline.clone(), self.config.log_interval));
        // Only a page shows it.
        if app.pages().is_some() {
            tasks.spawn(history::run(app.clone(), pipeline.clone()));
        }
        tasks.spawn(reload(app.clone(), reloads));
        tasks.spawn(pins::at_start(app.clone(), self.config.pins.clone()));

        let (close, closed) = watch::channel(false);
        let rules = self.config.connections;
        let public = connections::serve(self.listener, router(app.clone()), rules, closed.clone());
        let operators = operators(&app);
        let admin = async {
            if let Some((listener, _)) = self.admin {
                connections::serve(listener, operators, rules, closed).await;
            }
        };
        // Questions of the pages run on without a connection, and have the same time to end.
        let questions = app.clone();
        let mut serving = pin!(async {
            tokio::join!(public, admin);
            questions.pages_idle().await;
        });
        tokio::select! {
            // It ends when it is told to.
            () = &mut serving => {}
            () = stop => {}
        }
        app.set_stopping();
        let limit = self.config.shutdown_limit;
        tracing::info!("stopping: running calls have {} s to end", limit.as_secs_f64());
        let _ = close.send(true);
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
        let _ = tokio::time::timeout(FLUSH_LIMIT, app.pages_idle()).await;
        let _ = tokio::task::spawn_blocking(move || app.stop_alerts(ALERT_LIMIT)).await;
        tasks.shutdown().await;
        Ok(())
    }
}

/// Reads the configuration again whenever it is asked to.
async fn reload(app: App, reloads: Arc<Notify>) {
    loop {
        reloads.notified().await;
        let app = app.clone();
        // Reading files blocks. A panic in it has been printed, and changes nothing.
        match tokio::task::spawn_blocking(move || app.reload()).await {
            Ok(Ok(())) => tracing::info!("the configuration was read again"),
            Ok(Err(error)) => {
                tracing::error!(
                    "the configuration was not reloaded, and the old one stays: {error}"
                );
            }
            Err(_) => {}
        }
    }
}

/// Asks for a reload at every SIGHUP.
#[cfg(unix)]
fn hangups(reloads: Arc<Notify>) -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        while hangup.recv().await.is_some() {
            reloads.notify_one();
        }
    })
}

#[cfg(not(unix))]
fn hangups(_: Arc<Notify>) -> io::Result<impl Future<Output = ()> + Send> {
    Ok(std::future::pending())
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
