//! Starts that stay, through the binary with a real model.

use std::fs;
use std::io::Write;
use std::net::TcpStream;

use serde_json::{Value, json};

use super::{metric, post, read, wait_until};
use crate::process::Server;

fn body(reply: &str) -> Value {
    serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn cached(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// Some 170 tokens.
fn document(name: &str) -> String {
    format!("This is the lease of {name}. ").repeat(20)
}

fn question(document: &str) -> Value {
    json!({
        "messages": [
            {"role": "system", "content": document},
            {"role": "user", "content": "Whose lease is it?"},
        ],
        "max_tokens": 8,
        "temperature": 0,
    })
}

#[test]
fn a_start_that_is_pinned_is_warm_when_everything_else_was_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lease.json");
    let start = json!({"messages": [{"role": "system", "content": document("Anna")}]});
    fs::write(&file, start.to_string()).unwrap();
    let text = folder.path().join("lease.txt");
    fs::write(&text, document("Bela")).unwrap();
    // Room for some 1,800 tokens; half of it may be pinned.
    let server = Server::start(&[
        "--kv-memory",
        "40MiB",
        "--pin-limit",
        "0.5",
        "--pin",
        file.to_str().unwrap(),
        "--pin",
        text.to_str().unwrap(),
    ]);
    wait_until("both to be pinned", || metric(&server, "tapri_kv_pins") == 2.0);
    let before = metric(&server, "tapri_kv_pinned_bytes");
    let third = json!({"messages": [{"role": "system", "content": document("Clara")}]});
    let made = body(&read(post(&server, "/cache/pins", &third)));
    assert!(made["tokens"].as_u64().unwrap() > 100, "{made}");
    assert!(metric(&server, "tapri_kv_pinned_bytes") > before);
    let first = body(&read(post(&server, "/v1/chat/completions", &question(&document("Anna")))));
    // Other prompts take all of the rest, more than once.
    for number in 0..20 {
        let prompt = format!("{number} {}", "Nothing like it was said before. ".repeat(30));
        let other = json!({"prompt": prompt, "max_tokens": 1});
        read(post(&server, "/v1/completions", &other));
    }
    // The first of its lines is for want of room.
    assert!(metric(&server, "tapri_kv_blocks_evicted_total") > 110.0);
    for name in ["Anna", "Clara"] {
        let answer = body(&read(post(&server, "/v1/chat/completions", &question(&document(name)))));
        assert!(cached(&answer) > 100, "{name}: {answer}");
        if name == "Anna" {
            assert_eq!(answer["choices"], first["choices"], "a hit changes nothing");
        }
    }
    let id = made["id"].as_str().unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    write!(stream, "DELETE /cache/pins/{id} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(body(&read(stream))["deleted"], true);
    assert_eq!(metric(&server, "tapri_kv_pins"), 2.0);
    let report = body(&read(post(&server, "/cache/reset", &json!({}))));
    assert_eq!((&report["reset"], &report["pins_dropped"]), (&json!(true), &json!(2)));
    assert_eq!(metric(&server, "tapri_kv_used_bytes"), 0.0);
}

#[test]
fn a_later_question_is_tokenised_from_where_it_differs() {
    let server = Server::start(&[]);
    let long = document("Anna").repeat(6);
    let known = || metric(&server, "tapri_tokenized_text_known_bytes_total");
    for asked in ["Whose lease is it?", "Is it a lease at all?"] {
        let mut question = question(&long);
        question["messages"][1]["content"] = asked.into();
        question["max_tokens"] = 1.into();
        assert_eq!(
            body(&read(post(&server, "/v1/chat/completions", &question)))["object"],
            "chat.completion"
        );
    }
    assert!(known() > long.len() as f64 - 1000.0, "{} of {}", known(), long.len());
}
