//! What clients of the scripted upstream see, over sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tapri_fake_upstream::{CacheConfig, Ending, Fake, FakeConfig, Script, ToolScript, UsageScript};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn send(fake: &Fake, path: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut stream = TcpStream::connect(fake.address()).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// The status line and headers, and the body with the marks of chunked encoding left out.
async fn ask(fake: &Fake, path: &str, body: &Value) -> (String, String) {
    let mut stream = send(fake, path, body).await;
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let body = if head.contains("chunked") { unchunked(body) } else { body.to_owned() };
    (head.to_owned(), body)
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        // A body that was cut ends in the middle of a chunk.
        let Some(chunk) = rest.get(..size).filter(|chunk| !chunk.is_empty()) else { break };
        whole.push_str(chunk);
        body = rest.get(size + 2..).unwrap_or("");
    }
    whole
}

async fn fake(script: Script) -> Fake {
    Fake::start(FakeConfig { script, ..FakeConfig::default() }).await.unwrap()
}

async fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn every_format_as_body_and_as_stream() {
    let script = Script {
        text: Some("Two words".into()),
        thinking: Some("Hm.".into()),
        tool_calls: vec![ToolScript { name: "look".into(), arguments: r#"{"at":1}"#.into() }],
        ..Script::default()
    };
    let fake = fake(script).await;
    let mut all = String::new();
    for path in ["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"] {
        for stream in [false, true] {
            let body = json!({"model": "m", "stream": stream, "stream_options": {"include_usage": true},
                              "messages": [{"role": "user", "content": "Hello"}]});
            let (_, answer) = ask(&fake, path, &body).await;
            all.push_str(&format!("=== {path} stream={stream}\n{answer}\n"));
        }
    }
    let (_, vectors) =
        ask(&fake, "/v1/embeddings", &json!({"model": "m", "input": ["a", "b"]})).await;
    let (_, count) =
        ask(&fake, "/v1/messages/count_tokens", &json!({"model": "m", "messages": []})).await;
    all.push_str(&format!("=== embeddings\n{vectors}\n=== count\n{count}\n"));
    insta::assert_snapshot!(all);
    fake.stop().await;
}

#[tokio::test]
async fn troubles_as_scripted() {
    let fake = fake(Script::default()).await;
    let chat =
        |model: &str, stream: bool| json!({"model": model, "stream": stream, "messages": []});
    let path = "/v1/chat/completions";
    let (head, body) = ask(&fake, path, &chat("m@status=429,retry_after=7", false)).await;
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("retry-after: 7"), "{head}");
    assert!(
        head.contains("x-request-id: req_fake_00000000") && body.contains("rate_limit_exceeded")
    );
    let (head, body) = ask(&fake, "/v1/messages", &chat("m@status=529", false)).await;
    assert!(head.contains("request-id: req_fake_") && body.contains("overloaded_error"), "{body}");
    let (head, _) = ask(&fake, path, &chat("m@hang_up", false)).await;
    assert_eq!(head, "", "no answer at all");
    let (_, body) = ask(&fake, path, &chat("m@cut_after=2", true)).await;
    assert!(body.matches("data: ").count() == 2 && !body.contains("[DONE]"), "{body}");
    assert_eq!(fake.last().unwrap().ending, Ending::Cut);
    let (_, body) = ask(&fake, path, &chat("m@error_after=1", true)).await;
    assert!(body.contains("The server had an error"), "{body}");
    for _ in 0..2 {
        let (head, _) = ask(&fake, path, &chat("m@status=500,first=2", false)).await;
        assert!(head.starts_with("HTTP/1.1 500"));
    }
    let (head, _) = ask(&fake, path, &chat("m@status=500,first=2", false)).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    fake.push(Script { usage: UsageScript::Absent, ..Script::default() });
    let (_, body) = ask(&fake, path, &chat("m", false)).await;
    assert!(!body.contains("usage"), "{body}");
    let (_, body) = ask(&fake, path, &chat("m", false)).await;
    assert!(body.contains("\"usage\""), "the queue is empty: {body}");
    let (_, body) = ask(&fake, path, &chat("m@split=3,crlf,comments", true)).await;
    assert!(body.contains(": a comment\r\n") && body.contains("data: [DONE]\r\n"), "{body}");
    fake.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_is_seen() {
    let fake = fake(Script { stall_after: Some(2), ..Script::default() }).await;
    let body = json!({"model": "m", "stream": true, "messages": []});
    let mut stream = send(&fake, "/v1/chat/completions", &body).await;
    let mut buffer = [0; 64];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    assert_eq!((fake.last().unwrap().ending, fake.running().0), (Ending::Running, 1));
    drop(stream);
    wait_until("the client to be missed", || fake.last().unwrap().ending == Ending::ClientGone)
        .await;
    assert_eq!(fake.running(), (0, 1));
    assert_eq!(fake.last().unwrap().json()["model"], "m");
    fake.stop().await;
}

#[tokio::test]
async fn scripts_and_requests_over_http() {
    let config = FakeConfig { cache: Some(CacheConfig::default()), ..FakeConfig::default() };
    let fake = Fake::start(config).await.unwrap();
    let orders = json!({"queue": [{"status": 503}], "default": {"text": "By order"}}).to_string();
    let mut stream = TcpStream::connect(fake.address()).await.unwrap();
    let head = format!(
        "PUT /__script HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{orders}",
        orders.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let long = "a long start ".repeat(100);
    let body =
        json!({"model": "m", "cache_salt": "s", "messages": [{"role": "user", "content": long}]});
    let path = "/v1/chat/completions";
    assert!(ask(&fake, path, &body).await.0.starts_with("HTTP/1.1 503"));
    let (_, first) = ask(&fake, path, &body).await;
    assert!(first.contains("By order") && first.contains(r#""cached_tokens":0"#), "{first}");
    let (_, second) = ask(&fake, path, &body).await;
    assert!(!second.contains(r#""cached_tokens":0"#), "{second}");
    let mut other = body.clone();
    other["cache_salt"] = "t".into();
    assert!(ask(&fake, path, &other).await.1.contains(r#""cached_tokens":0"#));
    other["cache_salt"] = "a/b".into();
    assert!(ask(&fake, path, &other).await.0.starts_with("HTTP/1.1 400"));
    let mut stream = TcpStream::connect(fake.address()).await.unwrap();
    stream
        .write_all(b"GET /__requests HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let list: Vec<Value> = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(list.len(), 5);
    assert_eq!(
        (&list[2]["ending"], &list[2]["body"]["cache_salt"]),
        (&json!("answered"), &json!("s"))
    );
    assert!(list[2]["cached"].as_u64().unwrap() > 200);
    fake.stop().await;
}
