//! Over a real socket: what only a connection can show.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tapri_api::ReuseStop;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{ServeError, ServerConfig, bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::CHAT;
use super::scripted::*;
use super::wire::{HI, HI_STREAM};

fn any_port() -> ServerConfig {
    ServerConfig { port: 0, shutdown_limit: Duration::from_millis(200), ..ServerConfig::default() }
}

async fn request(address: std::net::SocketAddr, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).await.unwrap();
    stream
}

#[tokio::test]
async fn a_port_in_use_is_said_plainly() {
    let bound = bind(any_port()).await.unwrap();
    let config = ServerConfig { port: bound.address().port(), ..any_port() };
    let error = bind(config).await.unwrap_err();
    assert!(matches!(error, ServeError::InUse { .. }));
    let port = bound.address().port();
    assert_eq!(error.to_string(), format!("127.0.0.1:{port} is in use by another program"));
    let config = ServerConfig { host: "no.such.host.invalid".into(), ..any_port() };
    assert!(matches!(bind(config).await.unwrap_err(), ServeError::Listen { .. }));
}

/// Told to stop, a server lets calls end; those that don't end with an error that says why.
#[tokio::test]
async fn stopping_ends_calls_with_a_reason() {
    for (body, expected) in [(HI_STREAM, "200 OK"), (HI, "503 Service Unavailable")] {
        let backend =
            Scripted::plays(vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Hang]);
        let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
        let bound = bind(any_port()).await.unwrap();
        let address = bound.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(bound.run_until(pipeline, async { stopped.await.unwrap() }));
        let mut client = request(address, body).await;
        while backend.calls.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.send(()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{answer}");
        assert!(answer.contains("shutting_down") && !answer.contains("[DONE]"), "{answer}");
        server.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "no longer listening");
    }
}

/// A client that leaves, waiting or in mid-stream, cancels its call and nobody else's.
#[tokio::test]
async fn leaving_cancels() {
    for (body, script) in [
        (HI, vec![Step::Hang]),
        (HI, vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Hang]),
        (HI_STREAM, vec![admitted(0, ReuseStop::NeverSeen), token("He"), Step::Hang]),
    ] {
        let backend = Scripted::plays(script);
        let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
        let bound = bind(any_port()).await.unwrap();
        let address = bound.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(bound.run_until(pipeline, async { stopped.await.unwrap() }));
        let stays = request(address, body).await;
        let leaves = request(address, body).await;
        while backend.calls.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        drop(leaves);
        while backend.dropped.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(backend.dropped.load(Ordering::SeqCst), 1);
        let mut scrape = TcpStream::connect(address).await.unwrap();
        scrape
            .write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let mut metrics = String::new();
        scrape.read_to_string(&mut metrics).await.unwrap();
        let abort =
            metrics.lines().find(|line| line.contains("finished_reason=\"abort\"")).unwrap();
        assert!(abort.ends_with(" 1"), "{abort}");
        drop(stays);
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
