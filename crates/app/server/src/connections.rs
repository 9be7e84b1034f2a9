//! Sockets: accepting them, and what each may cost.
//!
//! A connection that sends its headers slowly, or none, is ended after [`Connections::header_timeout`]; headers that
//! are too long or too many get a 431. With [`Connections::max`] connections open, more wait in the system's queue.

mod in_place;

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use self::in_place::InPlace;
use crate::config::Connections;

/// How long to wait when the system has no more files to give: connections that end free some.
const NO_FILES: Duration = Duration::from_millis(100);

/// Serves connections until `closing` turns true; then none is accepted any more, idle ones end at once and the
/// others after their answer. Dropping the future ends all.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    rules: Connections,
    mut closing: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(rules.max));
    let mut open = JoinSet::new();
    loop {
        // The place first: a connection that was accepted and can't be served is worse than one that waits.
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => match accepted {
                Ok((stream, _)) => {
                    let (router, closing) = (router.clone(), closing.clone());
                    open.spawn(InPlace::new(async move {
                        let _place = place;
                        connection(stream, router, rules, closing).await;
                    }));
                }
                Err(error) => failed(&error).await,
            },
            () = closed(&mut closing) => break,
            Some(_) = open.join_next() => {}
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Waits for the end. The sender gone means the same.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// A client that left before it was accepted is no trouble; anything else lasts a while.
async fn failed(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        tracing::warn!("a connection can't be accepted: {error}");
        tokio::time::sleep(NO_FILES).await;
    }
}

async fn connection(
    stream: TcpStream,
    router: Router,
    rules: Connections,
    mut closing: watch::Receiver<bool>,
) {
    // Without it the system holds a token back until the client has confirmed the one before: up to 40 ms each.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!("a connection keeps its delays: {error}");
    }
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(rules.header_timeout)
        .max_headers(rules.headers)
        .max_header_size(rules.header_bytes)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = pin!(serving);
    let ended = tokio::select! {
        result = serving.as_mut() => Some(result),
        () = closed(&mut closing) => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = result {
        tracing::debug!("a connection ended: {error}");
    }
}
