//! `isolation = "process"`: an engine process for each tenant, as seen from outside.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde_json::json;

use crate::process::Server;
use crate::tenants::call;
use crate::wait_until;

const RED: &str = "tapri_red_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_blue";
const COMPLETIONS: &str = "/v1/completions";

/// The engine processes of a gateway: their ids.
fn children(gateway: u32) -> Vec<u32> {
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
