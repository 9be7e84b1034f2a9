//! `--kv-disk` end to end: a server that was stopped or killed answers warm when it is there again, what is erased is gone
//! from disk too, and a disk that takes no more costs no answer.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::ledger::records_of;
use crate::process::{Server, tapri};
use crate::tenants::{ADMIN, call};
use crate::{metric_for, wait_until};

const RED: &str = "tapri_red_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_blue";
const COMPLETIONS: &str = "/v1/completions";

/// Two tenants and a folder for KV pages, which outlive each server.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new(more: &str) -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        let mut config = format!(
            "[server]\nsecret_file = \"scope.secret\"\n{more}\n[admin]\nkey = \"file:admin\"\n\
             [engine]\nkv_memory = \"256MiB\"\nkv_disk = {:?}\n",
            bench.disk()
        );
        for (name, key) in [("red", RED), ("blue", BLUE)] {
            config.push_str(&format!("[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n"));
            fs::write(bench.path(name), key).unwrap();
        }
        fs::write(bench.path("admin"), ADMIN).unwrap();
        fs::write(bench.path("tapri.toml"), config).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn disk(&self) -> PathBuf {
        self.path("kv")
    }

    fn serve(&self, shell: &str) -> Server {
        self.start(shell, &["--no-ledger"])
    }

    fn start(&self, shell: &str, more: &[&str]) -> Server {
        let config = self.path("tapri.toml");
        Server::start_after(shell, &[&["--config", config.to_str().unwrap()], more].concat())
    }
}

fn lease(question: &str) -> String {
    "A lease is a contract by which one party conveys property to another. ".repeat(10) + question
}

/// A question about a lease: its cached tokens and the answer.
fn ask(server: &Server, key: &str, question: &str) -> (u64, String) {
    let body = json!({"prompt": lease(question), "max_tokens": 12, "temperature": 0});
    let (status, _, body) = call(server, key, COMPLETIONS, &body);
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let cached = body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    (cached, body["choices"][0]["text"].as_str().unwrap().to_owned())
}

/// Whether the folder's pages are all zeros, or there are none.
fn is_erased(folder: &Path) -> bool {
    ["tapri-kv.records", "tapri-kv.pages"].iter().all(|name| {
        let raw = fs::read(folder.join(name)).unwrap();
        raw.iter().skip(4096).all(|&byte| byte == 0)
    })
}

#[cfg(unix)]
#[test]
fn a_server_that_starts_again_is_warm_until_it_is_told_to_forget() {
    let bench = Bench::new("");
    let mut server = bench.serve("");
    let (cached, first) = ask(&server, RED, "Who pays?");
    assert_eq!(cached, 0);
    // The folder is one server's.
    let model = tapri_registry::test_model("smollm2");
    let disk = bench.disk();
    let args = ["serve", "--model", model.to_str().unwrap(), "--port", "0", "--no-ledger"];
    let second = tapri(&args)
        .arg("--kv-disk")
        .arg(&disk)
        .env("TAPRI_DATA", bench.path("data"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(!second.status.success());
    assert!(said.contains("is in use by another process") && said.contains("--kv-disk"), "{said}");
    server.terminate();
    assert!(server.wait().success());

    let mut server = bench.serve("");
    let (cached, other) = ask(&server, RED, "Who lives there?");
    assert!(cached > 100, "{cached}");
    assert_eq!(metric_for(&server, ADMIN, "tapri_kv_disk_restored_tokens_total"), cached as f64);
    let (cached, again) = ask(&server, RED, "Who pays?");
    assert!(cached > 100 && again == first, "{cached}: {again:?}, and first {first:?}");
    // Another tenant has nothing of it.
    assert_eq!(ask(&server, BLUE, "Who pays?"), (0, first));
    server.terminate();
    assert!(server.wait().success());

    // It says where the tokens came from: in its answers, and in the ledger.
    let mut server = bench.start("", &[]);
    let body = json!({"prompt": lease("Who pays?"), "max_tokens": 2});
    let head = call(&server, RED, COMPLETIONS, &body).1.to_ascii_lowercase();
    let status = head.lines().find(|line| line.starts_with("cache-status: ")).unwrap();
    assert!(status.contains(" from disk"), "{status}");
    assert!(!call(&server, RED, COMPLETIONS, &body).1.contains(" from disk"), "memory has it now");
    let records = records_of(&server, 2);
    let cached = records[0].tokens.cached;
    assert!(cached > Some(100) && records[0].tokens.restored == cached, "{records:?}");
    assert!(records[1].tokens.cached >= cached && records[1].tokens.restored == Some(0));
    server.terminate();
    assert!(server.wait().success());

    let server = bench.serve("");
    let pages = metric_for(&server, ADMIN, "tapri_kv_disk_pages");
    assert!(pages > 0.0 && !is_erased(&disk));
    let purge = |tenant: &str| {
        let (status, _, said) =
            call(&server, ADMIN, "/admin/cache/purge", &json!({"tenant": tenant}));
        assert_eq!(status, 200, "{said}");
    };
    purge("blue");
    assert!(metric_for(&server, ADMIN, "tapri_kv_disk_pages") < pages && !is_erased(&disk));
    purge("red");
    assert!(metric_for(&server, ADMIN, "tapri_kv_disk_pages") == 0.0 && is_erased(&disk));
    assert_eq!(ask(&server, RED, "Who lives there?"), (0, other));
}

#[test]
fn a_server_that_was_killed_finds_what_it_wrote_while_it_had_nothing_to_do() {
    let bench = Bench::new("");
    let mut server = bench.serve("");
    let (_, first) = ask(&server, RED, "Who pays?");
    wait_until("all blocks to be written", || {
        let pages = metric_for(&server, ADMIN, "tapri_kv_disk_pages");
        pages >= 8.0 && metric_for(&server, ADMIN, "tapri_kv_disk_written_total") == pages
    });
    server.kill();
    let server = bench.serve("");
    let (cached, again) = ask(&server, RED, "Who pays?");
    assert!(cached > 100 && again == first, "{cached}: {again:?}, and first {first:?}");
}

/// Files that may not grow beyond a megabyte, which is less than three pages. (The signal that comes with the limit is
/// ignored; a file on a full disk gets none.)
#[cfg(unix)]
#[test]
fn a_disk_that_takes_no_more_costs_no_answer() {
    let bench = Bench::new("");
    let server = bench.serve("trap '' XFSZ; ulimit -f 2000;");
    let (_, first) = ask(&server, RED, "Who pays?");
    wait_until("a page to be refused", || {
        metric_for(&server, ADMIN, "tapri_kv_disk_dropped_total") > 0.0
    });
    let (cached, again) = ask(&server, RED, "Who pays?");
    assert!(cached > 100 && again == first, "{cached}");
    server.terminate();
    let mut server = server;
    assert!(server.wait().success());
    let server = bench.serve("");
    assert_eq!(ask(&server, RED, "Who pays?").1, first);
}

/// A file system of two megabytes, of which the pages take all: the system says that no space is left on the device.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_without_room_costs_no_answer_and_is_erased_all_the_same() {
    let bench = Bench::new("");
    fs::create_dir(bench.disk()).unwrap();
    let mount = format!("mount -t tmpfs -o size=2m none \"{}\"", bench.disk().display());
    let possible = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &mount]).status();
    if !possible.is_ok_and(|status| status.success()) {
        eprintln!("NOT TRIED: this system lets no user mount a small file system (unshare -rm)");
        return;
    }
    let shell = format!("exec unshare -rm sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\";");
    let mut server = bench.serve(&shell);
    let (_, first) = ask(&server, RED, "Who pays?");
    let metric = |name: &str| metric_for(&server, ADMIN, name);
    wait_until("some pages to be written and one to be refused", || {
        metric("tapri_kv_disk_dropped_total") > 0.0 && metric("tapri_kv_disk_written_total") > 0.0
    });
    let (cached, again) = ask(&server, RED, "Who pays?");
    assert!(cached > 100 && again == first, "{cached}");
    let purge = json!({"tenant": "red"});
    let (status, _, said) = call(&server, ADMIN, "/admin/cache/purge", &purge);
    assert_eq!(status, 200, "what was written is overwritten, which needs no room: {said}");
    assert_eq!(metric("tapri_kv_disk_pages"), 0.0);
    assert_eq!(ask(&server, RED, "Who pays?"), (0, first));
    server.terminate();
    assert!(server.wait().success());
}

#[cfg(target_os = "linux")]
#[test]
fn each_process_of_a_tenant_has_a_folder_and_is_warm_again() {
    let bench = Bench::new("isolation = \"process\"");
    let mut server = bench.serve("");
    let (_, first) = ask(&server, RED, "Who pays?");
    assert_eq!(ask(&server, BLUE, "Who pays?"), (0, first.clone()));
    server.terminate();
    assert!(server.wait().success());
    for tenant in ["tenant-red", "tenant-blue"] {
        assert!(!is_erased(&bench.disk().join(tenant)), "{tenant}");
    }
    // What a tenant that is no more has left.
    let gone = bench.disk().join("tenant-gone");
    fs::create_dir(&gone).unwrap();
    for name in ["tapri-kv.records", "tapri-kv.pages"] {
        fs::copy(bench.disk().join("tenant-blue").join(name), gone.join(name)).unwrap();
    }
    let mut server = bench.serve("");
    let (cached, again) = ask(&server, RED, "Who pays?");
    assert!(cached > 100 && again == first, "{cached}");

    // An erasure reaches the folder of a process that runs, of one that doesn't, and of a tenant that is no more.
    let purge = |filter: Value| {
        let (status, _, said) = call(&server, ADMIN, "/admin/cache/purge", &filter);
        assert_eq!(status, 200, "{said}");
        serde_json::from_str::<Value>(&said).unwrap()["kv_blocks"].as_u64().unwrap()
    };
    let erased = |tenant: &str| is_erased(&bench.disk().join(tenant));
    assert!(purge(json!({"tenant": "red"})) > 0);
    assert_eq!(
        [erased("tenant-red"), erased("tenant-blue"), erased("tenant-gone")],
        [true, false, false]
    );
    assert!(purge(json!({"tenant": "gone"})) > 0);
    assert_eq!([erased("tenant-blue"), erased("tenant-gone")], [false, true]);
    assert!(purge(json!({"all": true})) > 0);
    assert!(erased("tenant-blue"));
    assert_eq!(crate::isolation::children(server.id()).len(), 1, "none was started for it");
    assert_eq!(purge(json!({"all": true})), 0);
    assert_eq!((ask(&server, RED, "Who pays?").0, ask(&server, BLUE, "Who pays?").0), (0, 0));
    server.terminate();
    assert!(server.wait().success());
}
