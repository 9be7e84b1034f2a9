//! `isolation = "process"`: an engine process for each tenant, as seen from outside.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::Server;
use crate::tenants::{ADMIN, call};
use crate::{post_with, read, wait_until};

const RED: &str = "tapri_red_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_blue";
const COMPLETIONS: &str = "/v1/completions";

/// The engine processes of a gateway: their ids.
pub fn children(gateway: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        if status.lines().any(|line| line == format!("PPid:\t{gateway}")) {
            found.push(id);
        }
    }
    found
}

fn lives(process: u32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
    // One that nobody waits for any more is dead as well.
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[cfg(target_os = "linux")]
#[test]
fn each_tenant_has_a_process_that_lives_and_dies_with_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = "[engine]\nkv_memory = \"64MiB\"\nthreads = 1\n".to_owned();
    for (name, key) in [("red", RED), ("blue", BLUE)] {
        fs::write(folder.path().join(name), key).unwrap();
        config.push_str(&format!(
            "[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n[tenant.limits]\nkv_share = 0.5\n"
        ));
    }
    let path = folder.path().join("tapri.toml");
    fs::write(&path, config).unwrap();
    let encoder = tapri_registry::test_model("all-minilm-l6-v2");
    let mut server = Server::start(&[
        "--config",
        path.to_str().unwrap(),
        "--isolation",
        "process",
        "--embed-model",
        encoder.to_str().unwrap(),
    ]);
    assert!(children(server.id()).is_empty(), "none before a tenant's first call");
    let text = "A lease is a contract by which one party conveys property to another. ".repeat(6);
    let body = json!({"prompt": text, "max_tokens": 2, "temperature": 0});
    let ask = |server: &Server, key: &str| {
        let (status, _, body) = call(server, key, COMPLETIONS, &body);
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        let cached = body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
        (status, cached, body["choices"][0]["text"].clone())
    };
    let (status, cached, said) = ask(&server, RED);
    assert_eq!((status, cached), (200, Some(0)), "{said}");
    assert_eq!(children(server.id()).len(), 1);
    let (_, cached, again) = ask(&server, RED);
    assert!(cached.is_some_and(|cached| cached > 50) && again == said, "{cached:?}");
    assert_eq!(ask(&server, BLUE), (200, Some(0), said.clone()), "another process, another cache");
    let both = children(server.id());
    assert_eq!(both.len(), 2);
    the_other_paths_are_the_processes_too(&server);
    // One dies: its tenant's next calls find a new one, the other's goes on.
    let red = both[0];
    let status =
        std::process::Command::new("kill").args(["-KILL", &red.to_string()]).status().unwrap();
    assert!(status.success());
    wait_until("the dead process to be replaced", || {
        let now = children(server.id());
        now.len() == 2 && !now.contains(&red)
    });
    wait_until("both to answer", || ask(&server, RED).0 == 200 && ask(&server, BLUE).0 == 200);
    // However the gateway ends, they end.
    let both = children(server.id());
    server.kill();
    wait_until("the processes to end with the gateway", || {
        !both.iter().any(|process| lives(*process))
    });
}

/// Texts are read, and sentences embedded, by each tenant's own process.
#[cfg(target_os = "linux")]
fn the_other_paths_are_the_processes_too(server: &Server) {
    let post = |path: &str, body: serde_json::Value| {
        let (status, _, body) = call(server, RED, path, &body);
        (status, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    let (status, read) = post("/tokenize", json!({"prompt": "The tenant pays the rent."}));
    assert!(status == 200 && read["max_model_len"].as_u64().is_some(), "{read}");
    let tokens = read["tokens"].as_array().unwrap();
    assert_eq!(tokens.len() as u64, read["count"].as_u64().unwrap());
    let (status, text) = post("/detokenize", json!({"tokens": tokens}));
    assert_eq!((status, &text["prompt"]), (200, &json!("The tenant pays the rent.")));
    let messages = json!([{"role": "user", "content": "Hello"}]);
    let (status, longer) = post("/tokenize", json!({ "messages": messages }));
    assert!(status == 200 && longer["count"].as_u64().unwrap() > 5, "with the template: {longer}");
    let (status, error) = post("/detokenize", json!({"tokens": [4_000_000]}));
    assert_eq!((status, &error["error"]["param"]), (400, &json!("tokens[0]")), "{error}");
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let head = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close";
    write!(stream, "{head}\r\nx-api-key: {RED}\r\n\r\n").unwrap();
    let answer = crate::read(stream);
    let models: serde_json::Value =
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let names: Vec<&str> =
        models["data"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let body = json!({"model": names[1], "input": ["A lease.", "A contract of lease."]});
    let (status, vectors) = post("/v1/embeddings", body);
    assert_eq!(status, 200, "{vectors}");
    assert_eq!(vectors["data"][1]["embedding"].as_array().unwrap().len(), 384);
    // Without a name the model is meant, though there are two.
    let (status, answer) = post(COMPLETIONS, json!({"prompt": "Hello", "max_tokens": 1}));
    assert_eq!(status, 200, "{answer}");
}

/// Two tenants in `tapri.toml`, each with a process of its own, and an operator.
fn two() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let mut config = "[server]\nisolation = \"process\"\n[admin]\nkey = \"file:admin\"\n\
                      [engine]\nkv_memory = \"64MiB\"\nthreads = 1\n"
        .to_owned();
    for (name, key) in [("red", RED), ("blue", BLUE)] {
        config.push_str(&format!("[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n"));
        write(name, key);
    }
    write("admin", ADMIN);
    write("tapri.toml", &config);
    folder
}

fn lease() -> String {
    "A lease is a contract by which one party conveys property to another. ".repeat(8)
}

/// How many tokens of a prompt were there, with fields and header lines of the call's own.
fn cached(server: &Server, key: &str, more: &Value, headers: &str) -> u64 {
    let mut body = json!({"prompt": lease(), "max_tokens": 1, "temperature": 0});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let headers = format!("authorization: Bearer {key}\r\n{headers}");
    let reply = read(post_with(server, COMPLETIONS, &headers, &body));
    let body: Value = serde_json::from_str(reply.split_once("\r\n\r\n").unwrap().1).unwrap();
    body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect(&reply)
}

fn told(answer: (u16, String, String)) -> Value {
    let (status, _, body) = answer;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn an_erasure_reaches_the_processes_of_those_it_concerns_and_no_other() {
    let folder = two();
    let config = folder.path().join("tapri.toml");
    let server = Server::start(&["--config", config.to_str().unwrap()]);
    let ask = |key: &str| cached(&server, key, &json!({}), "");
    let purge = |filter: Value| told(call(&server, ADMIN, "/admin/cache/purge", &filter));
    // Nobody has called: there is nothing, and no process is started to say so.
    let nothing = purge(json!({"all": true}));
    assert_eq!((&nothing["kv_blocks"], children(server.id()).len()), (&json!(0), 0), "{nothing}");

    assert_eq!((ask(RED), ask(BLUE)), (0, 0));
    let warm = (ask(RED), ask(BLUE));
    assert!(warm.0 > 100 && warm.1 == warm.0, "{warm:?}");
    let blocks = purge(json!({"tenant": "red"}))["kv_blocks"].as_u64().unwrap();
    // The last token of a prompt is never found, so a block more may be held than was.
    let held = blocks * 16;
    assert!(
        held == warm.0 || held == warm.0 + 16,
        "all of red's, and no other's: {held}, {warm:?}"
    );
    assert_eq!(purge(json!({"tenant": "red"}))["kv_blocks"], 0, "they are gone");
    assert_eq!((ask(RED), ask(BLUE)), (0, warm.0));
    // Blocks don't know of conversations, documents and routes: all go.
    for filter in ["session", "document", "route"] {
        assert_eq!((ask(RED), ask(BLUE)), warm);
        assert_eq!(purge(json!({filter: "any"}))["kv_blocks"], 2 * blocks, "{filter}");
        assert_eq!((ask(RED), ask(BLUE)), (0, 0), "{filter}");
    }
    // A tenant erases its own.
    let reset = told(call(&server, RED, "/cache/reset", &json!({})));
    let said = (&reset["reset"], &reset["blocks_dropped"], &reset["pins_dropped"]);
    assert_eq!(said, (&json!(true), &json!(blocks), &json!(0)));
    assert_eq!((ask(RED), ask(BLUE)), (0, warm.0));

    // What a call says of the caches reaches the process as well: a salt narrows, and `no-store` leaves nothing.
    let salted = |salt: &str| cached(&server, RED, &json!({"cache_salt": salt}), "");
    assert_eq!((salted("a"), salted("b"), salted("a")), (0, 0, warm.0));
    let unseen = |headers: &str| cached(&server, RED, &json!({"cache_salt": "c"}), headers);
    assert_eq!((unseen("cache-control: no-store\r\n"), unseen("")), (0, 0));
    assert_eq!((unseen("cache-control: no-cache\r\n"), unseen("")), (0, warm.0));

    // A process that is gone has nothing left.
    for process in children(server.id()) {
        let process = process.to_string();
        let killed = std::process::Command::new("kill").args(["-KILL", &process]).status();
        assert!(killed.unwrap().success());
    }
    wait_until("the erasure to find nothing", || {
        let (status, _, body) = call(&server, ADMIN, "/admin/cache/purge", &json!({"all": true}));
        // In the moment of its end a process can't be asked, and isn't known to be gone: that is said.
        assert!(status == 200 || body.contains("does not answer"), "{body}");
        status == 200 && body.contains("\"kv_blocks\":0,")
    });
}

#[cfg(target_os = "linux")]
#[test]
fn each_process_has_the_pins_of_its_tenant() {
    let folder = two();
    let start = folder.path().join("start.json");
    fs::write(&start, json!({"prompt": lease()}).to_string()).unwrap();
    let config = folder.path().join("tapri.toml");
    let pin = format!("red={}", start.display());
    let server =
        Server::start(&["--config", config.to_str().unwrap(), "--pin", &pin, "--pin-limit", "0.5"]);
    let ask = |method: &str, key: &str, path: &str| {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close");
        write!(stream, "{head}\r\nauthorization: Bearer {key}\r\n\r\n").unwrap();
        let reply = read(stream);
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str::<Value>(body).unwrap())
    };
    let pins = |key: &str| {
        let (status, shown) = ask("GET", key, "/cache/pins");
        assert_eq!(status, 200, "{shown}");
        shown["data"].as_array().unwrap().clone()
    };
    // Its process was started for it, before any call.
    wait_until("the start to be pinned", || !pins(RED).is_empty());
    assert_eq!(pins(BLUE), Vec::<Value>::new());
    let warm = cached(&server, RED, &json!({}), "");
    assert!(warm > 100, "{warm}");
    assert_eq!(cached(&server, BLUE, &json!({}), ""), 0);

    // By hand, with the model's name of the gateway, which is another than its process's.
    let (_, models) = ask("GET", RED, "/v1/models");
    let model = &models["data"][0]["id"];
    let start = json!({"model": model, "prompt": lease(), "cache_salt": "mine"});
    let made = told(call(&server, BLUE, "/cache/pins", &start));
    assert_eq!((&made["tenant"], &made["cached_tokens"]), (&json!("blue"), &json!(0)), "{made}");
    let shown = pins(BLUE);
    assert!(shown.len() == 1 && shown[0]["blocks"] == made["blocks"], "{shown:?}");
    assert!(cached(&server, BLUE, &json!({"cache_salt": "mine"}), "") >= warm);
    let path = format!("/cache/pins/{}", made["id"].as_str().unwrap());
    assert_eq!(ask("DELETE", BLUE, "/cache/pins/pin_999").0, 404);
    assert_eq!(
        ask("DELETE", BLUE, &path),
        (200, json!({"id": made["id"], "object": "pin", "deleted": true}))
    );
    assert_eq!((pins(BLUE).len(), pins(RED).len()), (0, 1), "each has its own");
    // An erasure takes pins along.
    let purged = told(call(&server, ADMIN, "/admin/cache/purge", &json!({"tenant": "red"})));
    assert_eq!((&purged["pins"], pins(RED).len()), (&json!(1), 0), "{purged}");
    assert_eq!(cached(&server, RED, &json!({}), ""), 0);
    // What is too much is refused in the words of whoever counts.
    let long = json!({"prompt": lease().repeat(12)});
    let (status, _, said) = call(&server, RED, "/cache/pins", &long);
    assert!(status >= 400 && said.contains("pin"), "{status} {said}");
}
