//! `isolation = "process"`: an engine process for each tenant, as seen from outside.

use std::fs;
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
    let mut config =
        "[server]\nisolation = \"process\"\n[engine]\nkv_memory = \"64MiB\"\nthreads = 1\n"
            .to_owned();
    for (name, key) in [("red", RED), ("blue", BLUE)] {
        fs::write(folder.path().join(name), key).unwrap();
        config.push_str(&format!(
            "[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n[tenant.limits]\nkv_share = 0.5\n"
        ));
    }
    let path = folder.path().join("tapri.toml");
    fs::write(&path, config).unwrap();
    let mut server = Server::start(&["--config", path.to_str().unwrap()]);
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
