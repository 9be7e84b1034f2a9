//! What a connection may cost: headers and bodies that are large or slow, many that do nothing, and the end under load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tapri_api::ReuseStop;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{BodyLimit, Connections, ServerConfig, bind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::CHAT;
use super::scripted::*;
use super::wire::{HI, HI_STREAM};

/// A server on a port of its own.
struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
}

impl Running {
    async fn start(backend: &Arc<Scripted>, config: ServerConfig) -> Self {
        let pipeline = Pipeline::new(Arc::clone(backend) as Arc<dyn Backend>);
        let bound = bind(ServerConfig { port: 0, ..config }).await.unwrap();
        let address = bound.address();
        let (stop, stopped) = oneshot::channel::<()>();
        let done = tokio::spawn(async move {
            bound.run_until(pipeline, async { stopped.await.unwrap() }).await.unwrap();
        });
        Running { address, stop, done }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn say(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        // A server that refuses closes before all is written.
        let _ = stream.write_all(text.as_bytes()).await;
        read(stream).await
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.done.await.unwrap();
    }
}

async fn read(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    // A reset after the answer is an end as well.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(body: &str, more: &str) -> String {
    let length = body.len();
    format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n"
    )
}

#[tokio::test]
async fn large_and_many_headers_are_a_431() {
    let backend = Scripted::plays(whole_call());
    let running = Running::start(&backend, ServerConfig::default()).await;
    let long = format!("x-long: {}\r\n", "a".repeat(80 << 10));
    let reply = running.say(&(head(HI, &long) + HI)).await;
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let many: String = (0..120).map(|n| format!("x-{n}: 1\r\n")).collect();
    let reply = running.say(&(head(HI, &many) + HI)).await;
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let some: String = (0..60).map(|n| format!("x-{n}: {}\r\n", "a".repeat(500))).collect();
    let reply = running.say(&(head(HI, &(some + "connection: close\r\n")) + HI)).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
    running.stop().await;
}

#[tokio::test]
async fn an_oversized_body_is_refused_before_it_is_read_and_in_the_middle() {
    let backend = Scripted::plays(whole_call());
    let body_limit = BodyLimit { bytes: 1000, ..BodyLimit::default() };
    let running = Running::start(&backend, ServerConfig { body_limit, ..Default::default() }).await;
    // Announced: refused though nothing of it comes.
    let announced = head(&"a".repeat(1001), "");
    let reply = running.say(&announced).await;
    assert!(reply.starts_with("HTTP/1.1 413") && reply.contains("body_too_large"), "{reply}");
    // Not announced: refused when it becomes too large, though it never ends.
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{}\r\n",
        "a".repeat(1001)
    );
    let reply = running.say(&chunked).await;
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
    assert!(backend.calls.lock().unwrap().is_empty());
    running.stop().await;
}

/// Byte by byte, in headers and in a body: both are ended, and meanwhile others are served.
#[tokio::test]
async fn slow_loris_is_cut_off() {
    let backend = Scripted::plays(whole_call());
    let connections =
        Connections { header_timeout: Duration::from_millis(300), ..Connections::default() };
    let body_limit =
        BodyLimit { timeout: Duration::from_millis(300), rate: 1 << 20, ..BodyLimit::default() };
    let config = ServerConfig { connections, body_limit, ..ServerConfig::default() };
    let running = Running::start(&backend, config).await;
    let mut slow_head = running.connect().await;
    slow_head.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nx-a: ").await.unwrap();
    let mut slow_body = running.connect().await;
    slow_body.write_all((head(HI, "") + &HI[..10]).as_bytes()).await.unwrap();
    let mut silent = running.connect().await;
    let quick = running.say(&(head(HI, "connection: close\r\n") + HI)).await;
    assert!(quick.starts_with("HTTP/1.1 200"), "{quick}");
    // All three end by themselves; one that would not makes the test hang.
    let mut end = [0; 1];
    assert!(matches!(silent.read(&mut end).await, Ok(0) | Err(_)));
    assert!(matches!(slow_head.read(&mut end).await, Ok(0) | Err(_)));
    let refused = read(slow_body).await;
    assert!(refused.starts_with("HTTP/1.1 408") && refused.contains("body_timeout"), "{refused}");
    assert_eq!(backend.calls.lock().unwrap().len(), 1);
    running.stop().await;
}

/// A body that comes steadily is read however long it takes, as long as it keeps the pace.
#[tokio::test(start_paused = true)]
async fn a_body_in_pieces_has_its_time() {
    let limit = BodyLimit { bytes: 1 << 20, timeout: Duration::from_secs(10), rate: 10 };
    let backend = Scripted::plays(whole_call());
    let app = app(&backend, ServerConfig { body_limit: limit, ..ServerConfig::default() });
    // 300 bytes of white space, 10 a piece, at `gap` seconds a piece.
    let send = |gap: u64| {
        let pieces = futures_util::stream::unfold(0, move |sent| async move {
            tokio::time::sleep(Duration::from_secs(gap)).await;
            let piece = if sent < 30 { " ".repeat(10) } else { HI.to_owned() };
            (sent <= 30).then_some((Ok::<_, std::io::Error>(piece), sent + 1))
        });
        super::http::send(
            app.clone(),
            super::http::post(CHAT, &[], axum::body::Body::from_stream(pieces)),
        )
    };
    assert_eq!(send(1).await.status, 200, "10 bytes a second is the pace");
    assert_eq!(send(3).await.status, 408);
}

/// 1,000 connections that do nothing: each is a task and a socket, and others are served beside them. All are gone at
/// once when the server stops.
#[cfg(unix)]
#[tokio::test]
async fn a_thousand_idle_connections_cost_little() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    assert!(maximum.is_none_or(|most| most >= 2_500), "this test needs 2,500 open files");
    let backend = Scripted::plays(whole_call());
    let running = Running::start(&backend, ServerConfig::default()).await;
    let before = resident();
    let mut idle = Vec::new();
    for _ in 0..1000 {
        let mut stream = running.connect().await;
        // Half of a request, so that the server has accepted it and set its buffers aside.
        stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n").await.unwrap();
        idle.push(stream);
    }
    let reply = running.say(&(head(HI, "connection: close\r\n") + HI)).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let each = resident().saturating_sub(before) / 1000;
    assert!(each < 64 << 10, "{each} bytes for each connection, client and server together");
    // The other half comes, and is answered.
    let mut last = idle.pop().unwrap();
    let length = HI.len();
    let rest = format!("connection: close\r\ncontent-length: {length}\r\n\r\n{HI}");
    last.write_all(rest.as_bytes()).await.unwrap();
    assert!(read(last).await.starts_with("HTTP/1.1 200"));
    drop(idle);
    running.stop().await;
}

/// Resident bytes of this process; 0 where the system doesn't say.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// With all places taken, more connections wait, and are served when one ends.
#[tokio::test]
async fn beyond_the_most_connections_more_wait() {
    let backend = Scripted::plays(whole_call());
    let connections = Connections { max: 2, ..Connections::default() };
    let running =
        Running::start(&backend, ServerConfig { connections, ..Default::default() }).await;
    let (first, second) = (running.connect().await, running.connect().await);
    let mut third = running.connect().await;
    third.write_all((head(HI, "connection: close\r\n") + HI).as_bytes()).await.unwrap();
    let early = tokio::time::timeout(Duration::from_millis(100), third.peek(&mut [0; 1])).await;
    assert!(early.is_err(), "it waits");
    drop(first);
    assert!(read(third).await.starts_with("HTTP/1.1 200"));
    drop(second);
    running.stop().await;
}

/// Told to stop with many answers in flight: each one that can end ends whole, idle connections close, and nobody new
/// is let in.
#[tokio::test]
async fn answers_in_flight_end_cleanly_when_the_server_stops() {
    let slow: Vec<Step> = std::iter::once(admitted(0, ReuseStop::NeverSeen))
        .chain((0..20).map(|_| token("word ")))
        .chain([finished()])
        .collect();
    let backend = Scripted::plays_slowly(slow);
    let running = Running::start(&backend, ServerConfig::default()).await;
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = running.connect().await;
        stream.write_all((head(HI_STREAM, "") + HI_STREAM).as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let mut idle = running.connect().await;
    while backend.calls.lock().unwrap().len() < 40 {
        tokio::task::yield_now().await;
    }
    let address = running.address;
    running.stop.send(()).unwrap();
    let mut end = [0; 1];
    assert!(matches!(idle.read(&mut end).await, Ok(0) | Err(_)), "an idle one closes at once");
    backend.go_on();
    for stream in streams {
        let answer = read(stream).await;
        assert_eq!(answer.matches("word ").count(), 20, "{answer}");
        assert!(answer.contains("data: [DONE]"), "{answer}");
    }
    running.done.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}
