//! A configuration with routes, upstreams and tenants, end to end in front of a scripted upstream: what the exact cache
//! and single-flight share within a tenant and never between two, and which upstreams a route may take.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use serde_json::json;
use tapri_fake_upstream::{Fake, FakeConfig, Script};
use tempfile::TempDir;

use crate::process::Server;
use crate::tenants::{ADMIN, call};
use crate::{post_with, read, wait_until};

pub const RED: &str = "tapri_red_red_red_red_red";
pub const BLUE: &str = "tapri_blue_blue_blue_blue";
pub const CHAT: &str = "/v1/chat/completions";

/// Upstreams that live as long as this, and a folder for the configuration.
pub struct Scene {
    runtime: tokio::runtime::Runtime,
    pub fakes: Vec<Fake>,
    pub folder: TempDir,
}

impl Scene {
    pub fn new(fakes: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let fakes = (0..fakes)
            .map(|_| runtime.block_on(Fake::start(FakeConfig::default())).unwrap())
            .collect();
        Scene { runtime, fakes, folder: tempfile::tempdir().unwrap() }
    }

    pub fn serve(&self, config: &str) -> Server {
        let path = self.write(config);
        Server::start(&["--config", path.to_str().unwrap()])
    }

    /// Writes the configuration, with the upstreams' addresses and two tenants, and the file of the admin key.
    pub fn write(&self, config: &str) -> PathBuf {
        let mut config = config.to_owned();
        fs::write(self.folder.path().join("admin"), ADMIN).unwrap();
        for (at, fake) in self.fakes.iter().enumerate() {
            config = config.replace(&format!("URL{at}"), &format!("{}/v1", fake.url()));
        }
        for (name, key) in [("red", RED), ("blue", BLUE)] {
            fs::write(self.folder.path().join(name), key).unwrap();
            config.push_str(&format!("[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n"));
        }
        let path = self.folder.path().join("tapri.toml");
        fs::write(&path, config).unwrap();
        path
    }
}

/// What `/metrics` shows the operator of a server with tenants.
pub fn metrics(server: &Server) -> String {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    let request = format!(
        "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-api-key: {ADMIN}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let answer = read(stream);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

impl Drop for Scene {
    fn drop(&mut self) {
        for fake in self.fakes.drain(..) {
            self.runtime.block_on(fake.stop());
        }
    }
}

const ONE: &str = r#"
[[upstream]]
name = "fake"
kind = "vllm"
url = "URL0"
models = ["m"]
[[route]]
name = "cached"
[route.exact]
mode = "always"
ttl = "1h"
"#;

#[test]
fn the_exact_cache_and_the_salt_keep_tenants_apart() {
    let scene = Scene::new(1);
    let server = scene.serve(ONE);
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "What is a lease?"}]});
    let ask = |key: &str| call(&server, key, CHAT, &body);
    let status = |head: &str| {
        let line = head.lines().find(|line| line.starts_with("cache-status:")).unwrap_or("");
        line.contains("tapri-exact; hit")
    };
    let (code, head, first) = ask(RED);
    assert_eq!(code, 200, "{first}");
    assert!(!status(&head), "{head}");
    let (_, head, again) = ask(RED);
    assert!(status(&head) && head.contains("age:"), "within a tenant it hits: {head}");
    let (_, head, other) = ask(BLUE);
    assert!(!status(&head) && !head.contains("age:"), "{head}");
    assert!(again.contains("choices") && other.contains("choices"));
    let seen = scene.fakes[0].seen();
    assert_eq!(seen.len(), 2, "one call for each tenant reached the upstream");
    let salts: Vec<_> = seen.iter().map(|seen| seen.json()["cache_salt"].clone()).collect();
    assert!(
        salts.iter().all(|salt| salt.as_str().is_some_and(|salt| salt.len() >= 32)),
        "{salts:?}"
    );
    assert_ne!(salts[0], salts[1], "each tenant has its own salt");
}

#[test]
fn single_flight_is_within_a_tenant() {
    let scene = Scene::new(1);
    let server = scene.serve(ONE);
    scene.fakes[0].always(Script { delay_ms: 1500, ..Script::default() });
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "What is a deed?"}]});
    let begin =
        |key: &str| post_with(&server, CHAT, &format!("authorization: Bearer {key}\r\n"), &body);
    let leader = begin(RED);
    wait_until("the first call to be at the upstream", || scene.fakes[0].came() == 1);
    let (follower, stranger) = (begin(RED), begin(BLUE));
    wait_until("the stranger's call to be there as well", || scene.fakes[0].came() == 2);
    let (leader, follower, stranger) = (read(leader), read(follower), read(stranger));
    for answer in [&leader, &follower, &stranger] {
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    assert!(follower.contains("collapsed"), "{follower}");
    assert!(!stranger.contains("collapsed") && !leader.contains("collapsed"), "{stranger}");
    assert_eq!(scene.fakes[0].came(), 2, "the follower had the leader's answer");
}

#[test]
fn a_route_takes_its_own_upstreams() {
    let scene = Scene::new(2);
    let server = scene.serve(
        r#"
[[upstream]]
name = "one"
url = "URL0"
models = ["m"]
[[upstream]]
name = "two"
url = "URL1"
models = ["m", "only-two"]
[[route]]
name = "first"
upstreams = ["one"]
[[route]]
name = "second"
upstreams = ["two"]
"#,
    );
    let ask = |route: &str, model: &str, text: &str| {
        let headers = format!("authorization: Bearer {RED}\r\nx-tapri-route: {route}\r\n");
        let body = json!({"model": model, "messages": [{"role": "user", "content": text}]});
        read(post_with(&server, CHAT, &headers, &body))
    };
    for text in ["a", "b", "c"] {
        assert!(ask("first", "m", text).starts_with("HTTP/1.1 200"));
        assert!(ask("second", "m", text).starts_with("HTTP/1.1 200"));
    }
    assert_eq!([scene.fakes[0].came(), scene.fakes[1].came()], [3, 3]);
    let refused = ask("first", "only-two", "a");
    assert!(
        refused.starts_with("HTTP/1.1 404") && refused.contains("model_not_found"),
        "{refused}"
    );
    assert_eq!(scene.fakes[1].came(), 3);
}

/// The engine and an upstream serve one name: a route's own upstreams decide, also where no model is named. What the engine
/// keeps can be erased, and what the upstream did is counted, though there are two.
#[test]
fn a_route_decides_between_the_engine_and_an_upstream_of_the_same_model() {
    const NAME: &str = "SmolLM2-135M-Instruct.Q4_1";
    let scene = Scene::new(1);
    let server = scene.serve(&format!(
        r#"
[engine]
enabled = true
[admin]
key = "file:admin"
[[upstream]]
name = "out"
url = "URL0"
models = ["{NAME}"]
[[route]]
name = "out"
upstreams = ["out"]
[[route]]
name = "in"
upstreams = ["embedded"]
[[route]]
name = "any"
"#
    ));
    let text = "A lease is a contract by which one party conveys property to another. ".repeat(6);
    let ask = |route: &str, model: Option<&str>| {
        let headers = format!("authorization: Bearer {RED}\r\nx-tapri-route: {route}\r\n");
        let messages = json!([{"role": "user", "content": text}]);
        let mut body = json!({"messages": messages, "max_tokens": 2, "temperature": 0});
        if let Some(model) = model {
            body["model"] = model.into();
        }
        let before = scene.fakes[0].came();
        let answer = read(post_with(&server, CHAT, &headers, &body));
        assert!(answer.starts_with("HTTP/1.1 200"), "{route}: {answer}");
        (scene.fakes[0].came() > before, answer)
    };
    for (route, model, elsewhere) in [
        ("out", Some(NAME), true),
        ("in", Some(NAME), false),
        ("any", Some(NAME), false),
        ("out", None, true),
        ("in", None, false),
    ] {
        assert_eq!(ask(route, model).0, elsewhere, "{route} {model:?}");
    }
    let metrics = metrics(&server);
    assert!(metrics.contains("upstream=\"out\""), "{metrics}");
    let warm = ask("in", None).1;
    assert!(warm.contains("fwd=partial"), "{warm}");
    let purge = json!({"tenant": "red"});
    let (status, _, erased) = call(&server, ADMIN, "/admin/cache/purge", &purge);
    let erased: serde_json::Value = serde_json::from_str(&erased).unwrap();
    assert!(status == 200 && erased["kv_blocks"].as_u64().is_some_and(|n| n > 0), "{erased}");
    let cold = ask("in", None).1;
    assert!(!cold.contains("fwd=partial"), "{cold}");
}
