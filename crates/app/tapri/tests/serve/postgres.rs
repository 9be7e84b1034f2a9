//! The semantic cache in a real Postgres with pgvector that two servers share: what one learns the other serves, an
//! erasure through one is an erasure, and a database that isn't there, or dies, costs no call.

use serde_json::{Value, json};
use tapri_fake_upstream::Script;

use crate::gateway::{BLUE, CHAT, RED, Scene, metrics};
use crate::port::free_port;
use crate::postgres_server::Server as Postgres;
use crate::process::Server;
use crate::semantic::{self, NEAR, SERVES, STORED, asks, cache_status, until_served, with_encoder};
use crate::tenants::{ADMIN, call};
use crate::{post_with, read, wait_until};

/// What servers that share answers have in common, before the route and the encoder: one secret, so that a tenant's scope is the same
/// in each, and one store. Lookups may take as long as a busy machine needs.
const SHARED: &str = r#"
[server]
secret_file = "scope.secret"
[cache]
store = "sqlite:ANSWERS"
timeout = "20s"
[semantic]
store = "POSTGRES"
"#;

const SAID: &str = "In the settings.";

/// One upstream, and the configuration of all servers.
fn scene(postgres: &str) -> (Scene, String) {
    let scene = Scene::new(1);
    scene.fakes[0].always(Script::text(SAID));
    let answers = scene.folder.path().join("answers.sqlite");
    let shared = SHARED.replace("ANSWERS", answers.to_str().unwrap()).replace("POSTGRES", postgres);
    let config = with_encoder(&SERVES.replace("[semantic]", &shared));
    (scene, config)
}

/// Whether a stored answer to another question was served, and the answer.
fn ask(server: &Server, key: &str, question: &str) -> (bool, String) {
    let (head, body) = semantic::ask(server, key, question);
    let said = body["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
    (cache_status(&head).contains("tapri-semantic; hit"), said)
}

/// The value of a metric of the semantic cache.
fn count(server: &Server, name: &str, label: &str) -> f64 {
    let all = metrics(server);
    let line = all.lines().find(|line| line.starts_with(name) && line.contains(label));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn purge(server: &Server, filter: &Value) -> (u16, String) {
    let (status, _, body) = call(server, ADMIN, "/admin/cache/purge", filter);
    (status, body)
}

#[test]
fn two_servers_share_questions_and_an_erasure() {
    let postgres = Postgres::start();
    let (scene, config) = scene(&postgres.url());
    let (one, two) = (scene.serve(&config), scene.serve(&config));
    assert!(!ask(&one, RED, STORED).0);
    until_served(&one, RED, NEAR);

    // The first question that the other server sees is compared with what it never saw.
    ask(&two, RED, "HOW do I cancel my plan?");
    let lookups = |outcome: &str| {
        count(&two, "tapri_semantic_lookups_total", &format!("outcome=\"{outcome}\""))
    };
    assert_eq!((lookups("nothing"), lookups("hit") + lookups("shadow")), (0.0, 1.0));
    until_served(&two, RED, "How do i cancel my plan");
    // From here on the upstream says something else, so that an answer tells where it is from.
    scene.fakes[0].always(Script::text("By post."));
    let came = scene.fakes[0].came();
    assert_eq!(ask(&two, RED, "How do I CANCEL my plan?"), (true, SAID.to_owned()));
    assert_eq!(ask(&two, BLUE, "How do I CANCEL my plan?"), (false, "By post.".to_owned()));
    assert_eq!(scene.fakes[0].came(), came + 1, "the model answered the stranger alone");
    ask(&two, BLUE, "Where is my parcel?");
    wait_until("all is written", || {
        let held = postgres.everything();
        held.contains("parcel") && held.contains("How do I CANCEL my plan?")
    });

    // Erased through one server, it is nowhere, and the other doesn't serve it.
    let (status, said) = purge(&two, &json!({"tenant": "blue"}));
    assert_eq!(status, 200, "{said}");
    let held = postgres.everything();
    assert!(!held.contains("parcel") && held.contains("cancel my plan"), "{held}");
    let (status, said) = purge(&two, &json!({"tenant": "red"}));
    assert_eq!(status, 200, "{said}");
    assert_eq!(postgres.everything(), "");
    assert_eq!(ask(&one, RED, "how do I cancel MY plan?"), (false, "By post.".to_owned()));
}

#[test]
fn calls_go_on_while_the_database_is_away() {
    let port = free_port();
    let url = format!("postgres://tapri@127.0.0.1:{port}/postgres");
    let (scene, config) = scene(&url);
    // It isn't there at the start: every call is answered by the model, and the failure counted.
    let server = scene.serve(&config);
    for number in 1..4 {
        assert_eq!(ask(&server, RED, &format!("Is it there {number}?")), (false, SAID.to_owned()));
    }
    assert_eq!(scene.fakes[0].came(), 3);
    let errors = || count(&server, "tapri_semantic_errors_total", "store=\"postgres\"");
    assert!(errors() >= 1.0);
    let (status, said) = purge(&server, &json!({"tenant": "red"}));
    assert!(status == 503 && said.contains("purge_incomplete"), "{said}");

    // It comes, and is used without a restart.
    let mut postgres = Postgres::start_at(port);
    let (mut number, known) = (0, "SELECT to_regclass('tapri_semantic_questions') IS NOT NULL");
    wait_until("a question to be kept", || {
        number += 1;
        ask(&server, RED, &format!("Is it here {number}?"));
        postgres.sql(known) == "t" && postgres.questions() > 0
    });
    ask(&server, RED, STORED);
    until_served(&server, RED, NEAR);

    // It dies while a call is on its way, and others follow.
    scene.fakes[0].always(Script { delay_ms: 1500, ..Script::text(SAID) });
    let came = scene.fakes[0].came();
    let headers = format!("authorization: Bearer {RED}\r\n");
    let running = post_with(&server, CHAT, &headers, &asks("What is a deed?"));
    wait_until("the call to be at the upstream", || scene.fakes[0].came() > came);
    postgres.kill();
    let before = errors();
    scene.fakes[0].always(Script::text("By post."));
    for number in 1..4 {
        let (served, said) = ask(&server, RED, &format!("How do I cancel my plan {number}?"));
        assert_eq!((served, said.as_str()), (false, "By post."));
    }
    let answer = read(running);
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(SAID), "{answer}");
    assert!(errors() > before);
    let (status, said) = purge(&server, &json!({"all": true}));
    assert!(status == 503 && said.contains("semantic cache still holds"), "{said}");

    // It comes back with what it had, and an erasure that was refused can be made.
    scene.fakes[0].always(Script::text(SAID));
    postgres.start_again();
    assert!(postgres.everything().contains("cancel my plan"));
    wait_until("the erasure to succeed", || purge(&server, &json!({"all": true})).0 == 200);
    assert_eq!(postgres.everything(), "");
    ask(&server, RED, STORED);
    until_served(&server, RED, NEAR);
}
