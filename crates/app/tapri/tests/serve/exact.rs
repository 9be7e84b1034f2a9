//! The exact cache of `tapri serve`, with the real engine: hits and their records, a full disk, a killed process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tapri_ledger::{CacheOutcome, Filter, Ledger};

use crate::process::{Server, tapri};
use crate::tenants::ADMIN;
use crate::{metric, post, post_with, read, wait_until};

const ON: [&str; 2] = ["--exact-cache", "always"];

/// A question whose answer ends by itself, at a stop string.
fn count(item: usize, stream: bool) -> Value {
    json!({"prompt": format!("Item {item}. 1, 2, 3, 4, 5, 6, 7,"), "max_tokens": 40, "temperature": 0,
           "stop": ["12"], "stream": stream})
}

/// The head of an answer, and its text.
fn ask(server: &Server, body: &Value) -> (String, String) {
    parse(&read(post(server, "/v1/completions", body)), body)
}

fn parse(reply: &str, body: &Value) -> (String, String) {
    let (head, rest) = reply.split_once("\r\n\r\n").unwrap_or((reply, ""));
    let text = if body["stream"] == true {
        let frames = rest.lines().filter_map(|line| line.strip_prefix("data: {"));
        frames
            .map(|frame| serde_json::from_str::<Value>(&format!("{{{frame}")).unwrap())
            .map(|frame| frame["choices"][0]["text"].as_str().unwrap_or("").to_owned())
            .collect()
    } else {
        let json: Value = serde_json::from_str(rest).unwrap_or_default();
        json["choices"][0]["text"].as_str().unwrap_or("").to_owned()
    };
    (head.to_ascii_lowercase(), text)
}

fn status(head: &str) -> &str {
    head.lines().find_map(|line| line.strip_prefix("cache-status: ")).unwrap_or("")
}

#[test]
fn the_same_question_is_computed_once_and_recorded_as_it_was() {
    let server = Server::start(&ON);
    let (first, text) = ask(&server, &count(1, false));
    assert!(status(&first).ends_with("tapri-exact; fwd=miss"), "{first}");
    assert!(!text.is_empty());
    let computed = metric(&server, "vllm:generation_tokens_total");
    for stream in [false, true] {
        let (head, again) = ask(&server, &count(1, stream));
        assert!(status(&head).starts_with("tapri-exact; hit; ttl="), "{head}");
        assert!(head.contains("\nage: "), "{head}");
        assert_eq!(again, text, "stream: {stream}");
    }
    assert_eq!(metric(&server, "vllm:generation_tokens_total"), computed, "nothing was computed");
    let records = || match Ledger::open_read(&server.ledger()) {
        Ok(ledger) => ledger.records(&Filter::default()).unwrap(),
        Err(_) => Vec::new(),
    };
    wait_until("the records are written", || records().len() == 3);
    let records = records();
    let outcomes: Vec<_> =
        records.iter().map(|record| record.exact.as_ref().unwrap().outcome).collect();
    assert_eq!(outcomes, [CacheOutcome::Miss, CacheOutcome::Hit, CacheOutcome::Hit]);
    let cost = |at: usize| records[at].cost.clone().unwrap();
    assert!(!cost(0).paid.amount.is_zero());
    assert!(cost(1).paid.amount.is_zero(), "nothing was computed for it");
    assert_eq!(cost(1).without_cache, cost(0).without_cache);
    assert_eq!(records[1].tokens.answer, records[0].tokens.answer);
    assert_eq!(records[1].prefix, None, "the prefix cache wasn't asked");
    // What was cut at the limit is no answer to keep.
    let cut = json!({"prompt": "Once", "max_tokens": 2, "temperature": 0, "ignore_eos": true});
    for _ in 0..2 {
        assert!(status(&ask(&server, &cut).0).ends_with("tapri-exact; fwd=miss"));
    }
    // Nor is anything left of a call that said so.
    for _ in 0..2 {
        let reply = read(post_with(
            &server,
            "/v1/completions",
            "cache-control: no-store\r\n",
            &count(2, false),
        ));
        assert!(status(&parse(&reply, &count(2, false)).0).ends_with("tapri-exact; fwd=miss"));
    }
}

/// Files may grow no more: answers aren't kept in the store, calls are answered; and then they may again.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_keeps_no_answers_and_costs_no_call() {
    use rustix::process::{Pid, Resource, Rlimit, prlimit};
    let log = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(log.path(), "\n".repeat(5000)).unwrap();
    let shell = format!("trap '' XFSZ; exec 2>>'{}';", log.path().display());
    let server = Server::start_after(
        &shell,
        &[&ON[..], &["--exact-memory", "1KiB", "--no-ledger"]].concat(),
    );
    let pid = Pid::from_raw(i32::try_from(server.id()).unwrap());
    let (_, text) = ask(&server, &count(1, false));
    wait_until("it is kept", || status(&ask(&server, &count(1, false)).0).contains("hit"));
    let full = Rlimit { current: Some(4096), maximum: None };
    let old = prlimit(pid, Resource::Fsize, full).unwrap();
    let before = metric(&server, "tapri_exact_store_errors_total");
    for item in 2..5 {
        let (head, text) = ask(&server, &count(item, false));
        assert!(head.starts_with("http/1.1 200") && !text.is_empty(), "{head}");
    }
    wait_until("it is counted", || metric(&server, "tapri_exact_store_errors_total") > before);
    prlimit(pid, Resource::Fsize, old).unwrap();
    wait_until("it is kept again", || status(&ask(&server, &count(5, false)).0).contains("hit"));
    assert_eq!(ask(&server, &count(1, false)).1, text, "what was kept before is as it was");
}

/// `kill -9` in the middle of writes: the file is sound, and each answer in it is the right one.
#[test]
fn killed_under_load_the_store_is_sound() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("exact.sqlite");
    let url = format!("sqlite:{}", store.display());
    let more = [&ON[..], &["--exact-store", &url, "--no-ledger"]].concat();
    // The folder holds the secret that the keys are made with.
    let folder_of = format!("export TAPRI_DATA='{}';", folder.path().display());
    let mut server = Server::start_after(&folder_of, &more);
    let answers: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (server, answers, stop) =
                (server.address().to_owned(), Arc::clone(&answers), Arc::clone(&stop));
            scope.spawn(move || {
                for item in (worker..).step_by(4) {
                    if stop.load(Ordering::SeqCst) {
                        return;
                    }
                    // A killed server may answer nothing.
                    let Some((head, text)) = try_ask(&server, &count(item, false)) else { return };
                    if head.starts_with("http/1.1 200") && !text.is_empty() {
                        answers.lock().unwrap().insert(item, text);
                    }
                }
            });
        }
        wait_until("answers come", || answers.lock().unwrap().len() >= 12);
        server.kill();
        stop.store(true, Ordering::SeqCst);
    });
    let connection = rusqlite::Connection::open(&store).unwrap();
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    drop(connection);
    let server = Server::start_after(&folder_of, &more);
    let answers = answers.lock().unwrap();
    let mut hits = 0;
    for (item, text) in answers.iter() {
        let (head, again) = ask(&server, &count(*item, false));
        assert_eq!(again, *text, "item {item}: {head}");
        hits += usize::from(status(&head).contains("hit"));
    }
    assert!(hits >= answers.len() / 2, "{hits} of {} outlived it", answers.len());
    assert_eq!(metric(&server, "tapri_exact_store_errors_total"), 0.0);
    let aside = std::fs::read_dir(folder.path()).unwrap();
    assert!(!aside.flatten().any(|file| file.file_name().to_string_lossy().contains("corrupt")));
}

fn try_ask(address: &str, body: &Value) -> Option<(String, String)> {
    use std::io::{Read, Write};
    let text = body.to_string();
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(parse(&reply, body))
}

/// `tapri cache` on the file of a server that runs: the server sees the erasure within its lease.
#[test]
fn the_command_line_erases_under_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("exact.sqlite").display());
    let server = Server::start(&[&ON[..], &["--exact-store", &url]].concat());
    ask(&server, &count(1, false));
    wait_until("it is kept", || status(&ask(&server, &count(1, false)).0).contains("hit"));
    let run = |args: &[&str]| {
        let output = tapri(&[&["cache"], args, &["--store", &url]].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&["stats"]).contains("1 answer"), "{}", run(&["stats"]));
    assert_eq!(
        run(&["purge", "--tenant", "nobody"]),
        "0 answers erased\nno KV blocks were touched\n"
    );
    assert!(status(&ask(&server, &count(1, false)).0).contains("hit"));
    assert_eq!(
        run(&["purge", "--tenant", "default"]),
        "1 answer erased\nno KV blocks were touched\n"
    );
    // Within a second nobody gets it any more. It is asked with a call that leaves nothing, so that the answer can't
    // come from what the asking itself left.
    wait_until("it is gone", || {
        let reply = read(post_with(
            &server,
            "/v1/completions",
            "cache-control: only-if-cached, no-store\r\n",
            &count(1, false),
        ));
        !status(&parse(&reply, &count(1, false)).0).contains("tapri-exact; hit")
    });
}

/// `tapri cache` on the operator's paths of a server: what it holds, and an erasure that reaches the KV blocks as well.
#[test]
fn the_command_line_asks_and_erases_through_a_running_server() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("admin"), ADMIN).unwrap();
    let config = folder.path().join("tapri.toml");
    std::fs::write(&config, "[admin]\nkey = \"file:admin\"\n").unwrap();
    let server = Server::start(&[&ON[..], &["--config", config.to_str().unwrap()]].concat());
    let url = format!("http://{}", server.address());
    let run = |key: &str, args: &[&str]| {
        let output = tapri(&[&["cache"], args, &["--server", &url]].concat())
            .env("TAPRI_ADMIN_KEY", key)
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let text = "A lease is a contract by which one party conveys property to another. ".repeat(6);
    let question = json!({"prompt": format!("{text} 1, 2, 3, 4, 5, 6, 7,"), "max_tokens": 40, "temperature": 0,
                          "stop": ["12"]});
    ask(&server, &question);
    wait_until("it is kept", || status(&ask(&server, &question).0).contains("tapri-exact; hit"));
    let (code, said, _) = run(ADMIN, &["stats"]);
    assert!(code == Some(0) && said.contains("1 answer") && said.contains("hits"), "{said}");
    let (_, said, _) = run(ADMIN, &["stats", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&said["exact"]["stored"], &said["exact"]["memory"]["entries"]),
        (&json!(1), &json!(1))
    );
    let (code, said, error) = run("tapri_wrong_wrong_wrong_wrong", &["stats"]);
    assert!(code == Some(1) && said.is_empty(), "{code:?} {said}");
    assert!(error.contains("401") && error.contains("TAPRI_ADMIN_KEY"), "{error}");
    let (_, said, _) = run(ADMIN, &["purge", "--tenant", "nobody"]);
    assert!(said.starts_with("0 answers erased\n"), "{said}");
    assert!(status(&ask(&server, &question).0).contains("tapri-exact; hit"), "others' are left");
    let (code, said, _) = run(ADMIN, &["purge", "--tenant", "default", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["answers"]), (Some(0), &json!(1)));
    assert!(said["kv_blocks"].as_u64().is_some_and(|blocks| blocks >= 5), "{said}");
    let (head, _) = ask(&server, &question);
    let after = status(&head);
    assert!(after.contains("tapri-exact; fwd=miss") && !after.contains("fwd=partial"), "{after}");
    // Where nobody listens, it says where.
    let output = tapri(&["cache", "stats", "--server", "http://127.0.0.1:1"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(1) && error.contains("http://127.0.0.1:1/admin/cache"),
        "{error}"
    );
}
