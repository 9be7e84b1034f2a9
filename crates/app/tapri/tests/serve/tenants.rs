//! Tenants end to end: who is let in, what is shared within a tenant and never between two, reload and the operator.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::audit::audit;
use crate::process::{Server, tapri};
use crate::{post_with, read, wait_until};

const RED: &str = "tapri_red_red_red_red_red";
const BLUE: &str = "tapri_blue_blue_blue_blue";
pub const ADMIN: &str = "tapri_admin_admin_admin_admin";

/// A configuration with two tenants, in a folder of its own.
struct Two {
    folder: TempDir,
}

impl Two {
    fn new(more: &str) -> Self {
        let two = Two { folder: tempfile::tempdir().unwrap() };
        two.write(&[("red", RED, ""), ("blue", BLUE, "")], more);
        two
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, tenants: &[(&str, &str, &str)], more: &str) {
        let mut text = format!(
            "[server]\nsecret_file = \"scope.secret\"\n[admin]\nkey = \"file:admin\"\n{more}\n"
        );
        fs::write(self.path("admin"), ADMIN).unwrap();
        for (name, key, lines) in tenants {
            fs::write(self.path(name), key).unwrap();
            text.push_str(&format!(
                "[[tenant]]\nname = \"{name}\"\nkeys = [\"file:{name}\"]\n{lines}\n"
            ));
        }
        fs::write(self.path("tapri.toml"), text).unwrap();
    }

    fn serve(&self, more: &[&str]) -> Server {
        let config = self.path("tapri.toml");
        let mut args = vec!["--config", config.to_str().unwrap()];
        args.extend(more);
        Server::start(&args)
    }
}

/// Status, head and body of a call with a key.
pub fn call(server: &Server, key: &str, path: &str, body: &Value) -> (u16, String, String) {
    let reply = read(post_with(server, path, &format!("authorization: Bearer {key}\r\n"), body));
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), body.to_owned())
}

fn prompt(text: &str) -> Value {
    json!({"prompt": text, "max_tokens": 2, "temperature": 0})
}

fn cached(body: &str) -> u64 {
    let body: Value = serde_json::from_str(body).unwrap();
    body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

const COMPLETIONS: &str = "/v1/completions";

/// The same prompt from two tenants: by tokens, by header and by error text nothing is known of the other's; within
/// a tenant it hits. (litellm#29955, semantic-router#1448.)
#[test]
fn what_one_tenant_sent_is_never_found_by_another() {
    let two = Two::new("");
    let server = two.serve(&[]);
    let text = "A lease is a contract by which one party conveys property to another. ".repeat(8);
    let asked = prompt(&text);
    let (status, _, first) = call(&server, RED, COMPLETIONS, &asked);
    assert_eq!((status, cached(&first)), (200, 0), "{first}");
    let (_, head, own) = call(&server, RED, COMPLETIONS, &asked);
    assert!(cached(&own) > 50 && head.contains("fwd=partial"), "within a tenant it hits: {own}");
    let (_, head, other) = call(&server, BLUE, COMPLETIONS, &asked);
    assert_eq!(cached(&other), 0, "{other}");
    assert!(head.contains("fwd=miss") && head.contains("never seen"), "{head}");
    // The salt of another's choice is no way in, whatever it says.
    let secret = fs::read_to_string(two.path("scope.secret")).unwrap();
    for salt in ["red", RED, secret.trim()] {
        let mut salted = asked.clone();
        salted["cache_salt"] = salt.into();
        assert_eq!(cached(&call(&server, BLUE, COMPLETIONS, &salted).2), 0);
    }
    // An error says the same for what another has and for what nobody has.
    let only = |text: &str| {
        let headers =
            format!("authorization: Bearer {BLUE}\r\ncache-control: only-if-cached, no-store\r\n");
        read(post_with(&server, COMPLETIONS, &headers, &prompt(text)))
    };
    let another = "A note of hand is a promise in writing to pay a sum on demand. ".repeat(8);
    let (status, ..) = call(&server, RED, COMPLETIONS, &prompt(&another));
    assert_eq!(status, 200);
    let nobodys = another.replace("writing", "chalking");
    let error =
        |reply: String| reply.split_once("\r\n\r\n").unwrap().1.replace(char::is_numeric, "#");
    let (theirs, nobodys) = (error(only(&another)), error(only(&nobodys)));
    assert!(theirs.contains("not_cached"), "{theirs}");
    assert_eq!(theirs, nobodys);
}

/// By the times of two tenants' calls, with the statistics of the paper: no sharing between them, and sharing within.
#[test]
fn the_audit_finds_nothing_between_two_tenants() {
    let two = Two::new("");
    let server = two.serve(&[]);
    let (code, apart) = audit(&server, &["--victim-key", RED, "--attacker-key", BLUE]);
    assert_eq!((code, &apart["sharing"]), (Some(0), &false.into()), "{apart}");
    assert_eq!(apart["tests"][0]["reported"]["hits_cached"], 0.0, "{apart}");
    let (code, one) = audit(&server, &["--victim-key", RED, "--attacker-key", RED]);
    assert_eq!((code, &one["sharing"]), (Some(1), &true.into()), "{one}");
}

#[test]
fn a_reload_takes_keys_limits_and_a_new_secret_and_drops_no_call() {
    let two = Two::new("");
    let server = two.serve(&[]);
    let text = prompt(&"Every notice shall be in writing and shall be served by hand. ".repeat(8));
    assert_eq!(call(&server, RED, COMPLETIONS, &text).0, 200);
    assert!(cached(&call(&server, RED, COMPLETIONS, &text).2) > 50);
    assert_eq!(call(&server, "tapri_nobody_nobody_nobody", COMPLETIONS, &text).0, 401);
    let headers = format!("authorization: Bearer {RED}\r\n");
    let story = json!({"prompt": "Once upon a time", "max_tokens": 150, "temperature": 0, "ignore_eos": true, "stream": true});
    let running = post_with(&server, COMPLETIONS, &headers, &story);

    let config = two.path("tapri.toml");
    let rotated =
        tapri(&["keys", "rotate-secret", "--config", config.to_str().unwrap()]).output().unwrap();
    assert!(rotated.status.success(), "{}", String::from_utf8_lossy(&rotated.stderr));
    let red = "tapri_another_red_red_red";
    two.write(
        &[("red", red, "[tenant.limits]\nrequests_per_minute = 1000"), ("blue", BLUE, "")],
        "",
    );
    server.signal("HUP");
    wait_until("the new key to be known", || {
        call(&server, red, COMPLETIONS, &prompt("x")).0 == 200
    });
    assert_eq!(call(&server, RED, COMPLETIONS, &text).0, 401, "the old key is gone");
    let (_, head, body) = call(&server, red, COMPLETIONS, &text);
    assert_eq!(cached(&body), 0, "a new scope");
    assert!(head.contains("x-ratelimit-limit-requests: 1000"), "{head}");
    assert!(cached(&call(&server, red, COMPLETIONS, &text).2) > 50, "and it hits within itself");
    let answer = read(running);
    assert!(answer.contains("data: [DONE]"), "the call that ran was left alone: {answer}");

    // A file that is wrong changes nothing, and the operator is told so.
    fs::write(&config, "[server]\nprot = 1\n").unwrap();
    let (status, _, body) = call(&server, ADMIN, "/admin/reload", &json!({}));
    assert!(
        status == 400 && body.contains("server.prot") && body.contains(":2:"),
        "{status} {body}"
    );
    assert_eq!(call(&server, red, COMPLETIONS, &prompt("x")).0, 200);
}

#[test]
fn the_operator_has_a_listener_of_its_own() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let two = Two { folder: tempfile::tempdir().unwrap() };
    two.write(
        &[("red", RED, "sees_hits = false"), ("blue", BLUE, "")],
        &format!("listen = \"{free}\""),
    );
    let server = two.serve(&[]);
    let (_, head, body) = call(&server, RED, COMPLETIONS, &prompt("x"));
    assert!(!head.contains("cache-status") && !body.contains("cached"), "{head} {body}");
    let ask = |address: &str, key: &str| {
        use std::io::Write;
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET /admin/tenants HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\nconnection: close\r\n\r\n").unwrap();
        read(stream)
    };
    let listed = ask(&free.to_string(), ADMIN);
    assert!(listed.starts_with("HTTP/1.1 200") && listed.contains("\"red\""), "{listed}");
    assert!(!listed.contains("sha256") && !listed.contains(RED), "{listed}");
    assert!(ask(&free.to_string(), RED).starts_with("HTTP/1.1 401"));
    assert!(ask(server.address(), RED).starts_with("HTTP/1.1 401"));
}

/// One tenant may have three tenths of the memory: however much it asks, what another left stays, and its own goes first.
#[test]
fn a_tenants_share_of_the_memory_costs_no_other_tenant_anything() {
    let two = Two { folder: tempfile::tempdir().unwrap() };
    let share = "[tenant.limits]\nkv_share = 0.3";
    two.write(&[("red", RED, share), ("blue", BLUE, "")], "[engine]\nkv_memory = \"32MiB\"");
    let server = two.serve(&[]);
    let text = |name: &str, sentences: usize| {
        let sentence =
            "The lessee shall keep the premises in good repair and pay the rent on time. ";
        prompt(&format!("{name}. {}", sentence.repeat(sentences)))
    };
    let (status, _, first) = call(&server, BLUE, COMPLETIONS, &text("The other deed", 14));
    assert_eq!(status, 200, "{first}");
    for deed in 0..9 {
        let (status, _, said) =
            call(&server, RED, COMPLETIONS, &text(&format!("Deed number {deed}"), 14));
        assert_eq!(status, 200, "{said}");
    }
    let own = text("Deed number 8", 14);
    assert!(cached(&call(&server, RED, COMPLETIONS, &own).2) > 200, "within its share it hits");
    let (_, _, again) = call(&server, BLUE, COMPLETIONS, &text("The other deed", 14));
    assert!(cached(&again) > 200, "what the other left is there: {again}");
    let (status, _, refused) = call(&server, RED, COMPLETIONS, &text("A long deed", 60));
    assert!(status == 400 && refused.contains("kv_share_exceeded"), "{status} {refused}");
    assert_eq!(call(&server, BLUE, COMPLETIONS, &text("A long deed", 60)).0, 200);
}
