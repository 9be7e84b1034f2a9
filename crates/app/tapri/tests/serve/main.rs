//! `tapri serve` end to end: the real binary on a port of its own with the smollm2 model, raw sockets and the
//! official OpenAI SDK against it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

mod adapters;
mod audit;
mod disk;
mod exact;
mod explain;
mod gateway;
mod isolation;
mod ledger;
mod pins;
#[cfg(feature = "postgres")]
#[allow(dead_code)]
#[path = "../../../../gateway/cache/tests/redis/port.rs"]
mod port;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
#[allow(dead_code)]
#[path = "../../../../gateway/cache/tests/postgres/server.rs"]
mod postgres_server;
mod process;
mod same;
mod sdk;
mod semantic;
mod stopping;
mod telemetry;
mod tenants;
mod upstream;
#[path = "../python/venv.rs"]
mod venv;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use process::Server;
use serde_json::{Value, json};

/// A POST, and the connection it went out on.
fn post(server: &Server, path: &str, body: &Value) -> TcpStream {
    post_with(server, path, "", body)
}

/// The same with header lines of its own.
fn post_with(server: &Server, path: &str, headers: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

fn get(server: &Server, path: &str) -> String {
    get_with(server, path, "")
}

/// The same with header lines of its own.
fn get_with(server: &Server, path: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n").unwrap();
    read(stream)
}

fn read(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// The value of the metric whose line begins like this.
fn metric(server: &Server, start: &str) -> f64 {
    value(&get(server, "/metrics"), start)
}

/// The same where metrics are the operator's alone.
fn metric_for(server: &Server, key: &str, start: &str) -> f64 {
    let metrics = get_with(server, "/metrics", &format!("authorization: Bearer {key}\r\n"));
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    value(&metrics, start)
}

fn value(metrics: &str, start: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(start));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn story(tokens: usize) -> Value {
    json!({"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": tokens, "temperature": 0,
           "ignore_eos": true, "stream": true})
}

#[test]
fn a_client_that_leaves_harms_nobody_and_its_call_is_cancelled() {
    let server = Server::start(&[]);
    let question =
        json!({"prompt": "The capital of France is", "max_tokens": 12, "temperature": 0});
    let text = |reply: String| {
        let body: Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
        body["choices"][0]["text"].as_str().unwrap().to_owned()
    };
    let alone = text(read(post(&server, "/v1/completions", &question)));
    let mut leaves = post(&server, "/v1/chat/completions", &story(6000));
    // Until it is well in its answer.
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while seen.windows(5).filter(|window| window == b"data:").count() < 5 {
        let n = leaves.read(&mut buffer).unwrap();
        assert!(n > 0, "the stream ended early");
        seen.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(metric(&server, "vllm:num_requests_running"), 1.0);
    let stays = post(&server, "/v1/completions", &question);
    drop(leaves);
    assert_eq!(text(read(stays)), alone, "in company as alone, and undisturbed");
    wait_until("the call to be cancelled", || {
        let metrics = get(&server, "/metrics");
        let aborts = metrics.lines().find(|line| line.contains("finished_reason=\"abort\""));
        aborts.is_some_and(|line| line.ends_with(" 1"))
    });
    wait_until("its blocks to be free", || {
        metric(&server, "vllm:num_requests_running") == 0.0
            && metric(&server, "tapri_kv_used_bytes") == 0.0
    });
    assert!(metric(&server, "vllm:generation_tokens_total") < 6000.0);
}

#[test]
fn the_same_text_with_the_prefix_cache_and_without() {
    let body = json!({"messages": [{"role": "user", "content": "Explain in one paragraph what a lease is. ".repeat(12)}],
                      "max_tokens": 32, "temperature": 0});
    let ask = |server: &Server| {
        let reply = read(post(server, "/v1/chat/completions", &body));
        let body: Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
        (
            body["choices"].clone(),
            body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
        )
    };
    let with = Server::start(&[]);
    let ((cold, none), (warm, some)) = (ask(&with), ask(&with));
    drop(with);
    let without = Server::start(&["--no-prefix-cache"]);
    let ((first, _), (second, never)) = (ask(&without), ask(&without));
    assert!(none == 0 && some > 50 && never == 0, "cached: {none}, {some}, {never}");
    assert_eq!([&cold, &warm, &first], [&first, &second, &second]);
}

#[test]
fn a_port_in_use_is_said_before_a_model_is_loaded() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = process::tapri(&["serve", "--model", "no-such-file.gguf", "--port", &port])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(
        said.contains(&format!("127.0.0.1:{port} is in use")) && said.contains("--port"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn sigterm_ends_calls_cleanly() {
    let mut server = Server::start(&[]);
    // One that ends by itself within the limit.
    let short = post(&server, "/v1/chat/completions", &story(100));
    wait_until("the call to run", || metric(&server, "vllm:num_requests_running") == 1.0);
    server.terminate();
    let answer = read(short);
    assert!(answer.contains("data: [DONE]"), "it had time to finish: {answer}");
    assert!(server.wait().success());
    assert!(TcpStream::connect(server.address()).is_err());
}
