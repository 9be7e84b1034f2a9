//! What `tapri serve` leaves in the ledger.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tapri_ledger::{CacheOutcome, CallRecord, Ending, Filter, Ledger};

use crate::process::Server;
use crate::{get, post, read, story, wait_until};

fn records(server: &Server) -> Vec<CallRecord> {
    match Ledger::open_read(&server.ledger()) {
        Ok(ledger) => ledger.records(&Filter::default()).unwrap(),
        Err(_) => Vec::new(),
    }
}

pub(crate) fn records_of(server: &Server, calls: usize) -> Vec<CallRecord> {
    wait_until("every call has its record", || records(server).len() >= calls);
    let records = records(server);
    assert_eq!(records.len(), calls, "{records:?}");
    records
}

/// What `/metrics` says became of so many records.
fn counted(server: &Server, outcome: &str) -> f64 {
    let outcome = format!("outcome=\"{outcome}\"");
    let metrics = get(server, "/metrics");
    metrics
        .lines()
        .find(|line| line.starts_with("tapri_ledger_records_total{") && line.contains(&outcome))
        .and_then(|line| line.rsplit(' ').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no {outcome} in {metrics}"))
}

/// The head and the JSON of an answer.
fn ask(server: &Server, path: &str, body: &Value) -> (String, Value) {
    let reply = read(post(server, path, body));
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), serde_json::from_str(body).unwrap())
}

fn id(head: &str) -> &str {
    head.lines().find_map(|line| line.strip_prefix("x-request-id: ")).unwrap()
}

#[test]
fn every_call_is_a_record_and_no_text_is_in_the_file() {
    let mut server = Server::start(&[]);
    let chat = |model: &str, question: &str| {
        json!({"model": model, "max_tokens": 6, "temperature": 0, "metadata": {"session_id": "s7"},
               "messages": [{"role": "system", "content": "Kahwa with saffron, always."},
                            {"role": "user", "content": question}]})
    };
    let name = "SmolLM2-135M-Instruct.Q4_1";
    let mut expected = Vec::new();
    for question in ["Which tea is brewed for Gulmarg?", "Which tea is brewed for Gulmarg?"] {
        expected.push(ask(&server, "/v1/chat/completions", &chat(name, question)));
    }
    let streamed = {
        let mut body = json!({"prompt": "Darjeeling grows at", "max_tokens": 5, "temperature": 0, "stream": true});
        body["stream_options"] = json!({"include_usage": true});
        read(post(&server, "/v1/completions", &body))
    };
    let refused = [
        ask(&server, "/v1/chat/completions", &chat("gpt-9", "Which?")),
        ask(&server, "/v1/completions", &json!({"prompt": "x", "suffix": "y"})),
        ask(&server, "/v1/completions", &json!({"prompt": "tea ".repeat(9000), "model": name})),
    ];
    let records = records_of(&server, 6);

    for (record, (head, body)) in records.iter().zip(&expected) {
        let usage = &body["usage"];
        assert_eq!(record.id, id(head));
        assert_eq!(usage["prompt_tokens"], record.tokens.prompt.unwrap());
        assert_eq!(usage["completion_tokens"], record.tokens.answer.unwrap());
        let reused = record.tokens.reused().unwrap();
        assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], reused);
        assert_eq!((record.tokens.joined, record.tokens.restored), (Some(0), Some(0)));
        assert_eq!((&*record.route, &*record.model), ("/v1/chat/completions", name));
        assert_eq!(record.conversation.as_deref(), Some("s7"));
        assert!(record.ttft.unwrap() <= record.total && record.cost.is_some());
        let paths: Vec<_> = record.parts.iter().map(|part| &*part.path).collect();
        assert_eq!(paths, ["messages[0].content", "messages[1].content"]);
    }
    assert_eq!(records[0].parts, records[1].parts);
    assert_eq!(records[0].prefix.as_ref().unwrap().outcome, CacheOutcome::Miss);
    assert_eq!(records[1].prefix.as_ref().unwrap().outcome, CacheOutcome::Hit);
    assert_eq!(records[1].tokens.written, Some(0));

    let usage: Value = streamed
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .find_map(|chunk| chunk.get("usage").filter(|usage| !usage.is_null()).cloned())
        .unwrap();
    assert_eq!(usage["prompt_tokens"], records[2].tokens.prompt.unwrap());
    assert_eq!(usage["completion_tokens"], records[2].tokens.answer.unwrap());
    assert_eq!(records[2].route, "/v1/completions");

    let codes = ["model_not_found", "unsupported_field", "context_length_exceeded"];
    for ((record, (head, body)), code) in records[3..].iter().zip(&refused).zip(codes) {
        assert_eq!(record.ending, Ending::Error(code.to_owned()));
        assert_eq!(body["error"]["code"], code);
        assert_eq!(record.id, id(head), "what a client is told leads to the record");
    }
    assert_eq!(counted(&server, "written"), 6.0);
    assert_eq!(counted(&server, "dropped"), 0.0);

    // The log that still lies beside the file, and the file after the end.
    let texts = ["Kahwa", "saffron", "Gulmarg", "Darjeeling", "tea tea"];
    let ledger = server.ledger();
    let search = || {
        for entry in std::fs::read_dir(ledger.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            for text in texts {
                let found = bytes.windows(text.len()).any(|at| at == text.as_bytes());
                assert!(!found, "'{text}' is in {}", path.display());
            }
        }
    };
    search();
    server.terminate();
    assert!(server.wait().success());
    search();
}

#[test]
fn a_client_that_leaves_is_a_record_too() {
    let server = Server::start(&[]);
    let mut stream = post(&server, "/v1/chat/completions", &story(2000));
    let mut start = [0; 600];
    stream.read_exact(&mut start).unwrap();
    drop(stream);
    let records = records_of(&server, 1);
    assert_eq!(records[0].ending, Ending::Abort);
    assert!(records[0].tokens.answer.unwrap() >= 1 && records[0].ttft > Some(Duration::ZERO));
}

#[test]
fn what_waits_is_written_at_the_end() {
    let mut server = Server::start(&[]);
    ask(&server, "/v1/completions", &json!({"prompt": "Tea", "max_tokens": 1}));
    server.terminate();
    assert!(server.wait().success());
    assert_eq!(records(&server).len(), 1);
}

#[test]
fn without_a_ledger_calls_are_served_and_drops_are_counted() {
    let server = Server::start(&["--ledger", "/dev/null/ledger.sqlite"]);
    let (_, body) = ask(&server, "/v1/completions", &json!({"prompt": "Tea", "max_tokens": 1}));
    assert_eq!(body["usage"]["completion_tokens"], 1);
    wait_until("the record is counted", || counted(&server, "dropped") == 1.0);
}

/// Asks until the server is gone, and gives each answer's id and time.
fn load(server: &Server, start: Instant, one: u64, gone: &AtomicBool) -> Vec<(Duration, String)> {
    let mut answered = Vec::new();
    for n in 0.. {
        let body = json!({"prompt": format!("Tea number {one} {n} is"), "max_tokens": 2});
        let body = body.to_string();
        let length = body.len();
        let Ok(mut stream) = TcpStream::connect(server.address()) else { break };
        let head = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let mut reply = String::new();
        let whole = stream.write_all((head + &body).as_bytes()).is_ok()
            && stream.read_to_string(&mut reply).is_ok()
            && reply.starts_with("HTTP/1.1 200")
            && reply.ends_with('}');
        if !whole || gone.load(Ordering::Relaxed) {
            break;
        }
        let head = reply.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase();
        answered.push((start.elapsed(), id(&head).to_owned()));
    }
    answered
}

#[test]
fn a_killed_server_loses_at_most_the_last_second() {
    const SECOND: Duration = Duration::from_secs(1);
    for round in 0..2_u32 {
        let mut server = Server::start(&[]);
        let start = Instant::now();
        let gone = AtomicBool::new(false);
        let (answered, died) = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..4)
                .map(|one| {
                    scope.spawn({
                        let (server, gone) = (&server, &gone);
                        move || load(server, start, one, gone)
                    })
                })
                .collect();
            // Records that are old enough to have to be there, and a second more of them.
            wait_until("some calls are answered", || records(&server).len() >= 20);
            std::thread::sleep(SECOND + Duration::from_millis(100 + 300 * u64::from(round)));
            let died = start.elapsed();
            std::process::Command::new("kill")
                .args(["-KILL", &server.id().to_string()])
                .status()
                .unwrap();
            gone.store(true, Ordering::Relaxed);
            let answered: Vec<_> =
                clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
            (answered, died)
        });
        server.kill();
        let written: Vec<String> = records(&server).into_iter().map(|record| record.id).collect();
        let lost: Vec<_> = answered
            .iter()
            .filter(|(at, id)| *at + SECOND < died && !written.contains(id))
            .collect();
        assert!(lost.is_empty(), "died at {died:?}: {lost:?}");
        assert!(answered.iter().filter(|(at, _)| *at + SECOND < died).count() >= 20);
        let connection = rusqlite::Connection::open(server.ledger()).unwrap();
        let integrity: String =
            connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(integrity, "ok");
    }
}

/// Files may grow no more, the ledger's and the log: records are dropped and counted, calls are answered; and then they
/// may again.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_drops_records_and_no_calls() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let log = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(log.path(), "\n".repeat(5000)).unwrap();
    let shell = format!("trap '' XFSZ; exec 2>>'{}';", log.path().display());
    let server = Server::start_after(&shell, &[]);
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
    let one = || {
        let (_, body) = ask(&server, "/v1/completions", &json!({"prompt": "Tea", "max_tokens": 1}));
        assert_eq!(body["usage"]["completion_tokens"], 1, "{body}");
    };
    one();
    wait_until("it is written", || counted(&server, "written") == 1.0);
    let full = Rlimit { current: Some(4096), maximum: None };
    let old = prlimit(pid, Resource::Fsize, full).unwrap();
    for n in 1..=3 {
        one();
        wait_until("it is dropped", || counted(&server, "dropped") == f64::from(n));
    }
    prlimit(pid, Resource::Fsize, old).unwrap();
    one();
    wait_until("it is written again", || counted(&server, "written") == 2.0);
    assert_eq!(counted(&server, "dropped"), 3.0);
    assert_eq!(records(&server).len(), 2);
}
