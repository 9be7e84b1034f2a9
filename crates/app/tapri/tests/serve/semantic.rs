//! The semantic cache of `tapri serve`, with the real sentence encoder in front of a scripted upstream.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use tapri_fake_upstream::Script;

use crate::gateway::{BLUE, CHAT, RED, Scene, metrics};
use crate::process::{Server, tapri};
use crate::tenants::call;
use crate::{post_with, read, wait_until};

/// A route that serves after two labels without an error, and the operator's key.
pub(crate) const SERVES: &str =
    concat!("[admin]\nkey = \"file:admin\"\n", include_str!("../semantic.toml"));

pub(crate) const STORED: &str = "How do I cancel my plan?";
/// The same for the encoder, which reads no capitals: as near as the highest threshold asks for.
pub(crate) const NEAR: &str = "how do I cancel my plan?";
const SIMILAR: &str = "HOW do I cancel my plan?";

pub(crate) fn with_encoder(config: &str) -> String {
    let encoder = tapri_registry::test_model("all-minilm-l6-v2");
    config.replace("ENCODER", encoder.to_str().unwrap())
}

pub(crate) fn asks(question: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": question}]})
}

/// The head and the body of a call that was answered.
pub(crate) fn ask(server: &Server, key: &str, question: &str) -> (String, Value) {
    let (status, head, body) = call(server, key, CHAT, &asks(question));
    assert_eq!(status, 200, "{head} {body}");
    (head, serde_json::from_str(&body).unwrap())
}

pub(crate) fn cache_status(head: &str) -> &str {
    let line = head.lines().find(|line| line.starts_with("cache-status:"));
    line.unwrap_or_else(|| panic!("no Cache-Status: {head}"))
}

/// Asks until the tenant is served: what is learnt from a call is learnt after its answer.
pub(crate) fn until_served(server: &Server, key: &str, question: &str) {
    let mut number = 0;
    wait_until("a stored answer is served", || {
        // A question that was asked before is the exact cache's: each is new, and means the same.
        number += 1;
        let (head, _) = ask(server, key, &format!("{question}{}", "?".repeat(number)));
        cache_status(&head).contains("tapri-semantic; hit")
    });
}

/// By tokens, by header, by usage and by error, nothing is known to one tenant of what another asked; within a tenant
/// it hits.
#[test]
fn a_question_of_one_tenant_never_answers_another() {
    let scene = Scene::new(1);
    let server = scene.serve(&with_encoder(SERVES));
    scene.fakes[0].always(Script::text("For red: in the settings."));
    ask(&server, RED, STORED);
    until_served(&server, RED, NEAR);
    // From here on the upstream says something else, so that an answer tells whose it is.
    scene.fakes[0].always(Script::text("For blue: by post."));
    let came = scene.fakes[0].came();
    let (head, own) = ask(&server, RED, SIMILAR);
    assert!(cache_status(&head).contains("tapri-semantic; hit"), "{head}");
    assert_eq!(own["choices"][0]["message"]["content"], "For red: in the settings.");

    // A stranger who asks the same, or what means the same, gets what it gets for a question that nobody asked.
    let (nobodys, unknown) = ask(&server, BLUE, "Which colour has the roof?");
    for question in [SIMILAR, STORED] {
        let (head, other) = ask(&server, BLUE, question);
        let said = &other["choices"][0]["message"]["content"];
        assert_eq!(said, "For blue: by post.", "{question}: {head}");
        if question == SIMILAR {
            assert_eq!(cache_status(&head), cache_status(&nobodys));
            assert!(cache_status(&head).contains("tapri-semantic; fwd=miss"), "{head}");
            assert!(!head.contains("age:"), "{head}");
            let details = |body: &Value| body["usage"]["prompt_tokens_details"].clone();
            assert_eq!(details(&other), details(&unknown));
        }
    }
    assert!(scene.fakes[0].came() >= came + 2, "the model answered the stranger");

    // An error says the same for what another has asked and for what nobody has.
    let only = |key: &str, question: &str| {
        let headers = format!("authorization: Bearer {key}\r\ncache-control: only-if-cached\r\n");
        let reply = read(post_with(&server, CHAT, &headers, &asks(question)));
        reply.split_once("\r\n\r\n").unwrap().1.to_owned()
    };
    ask(&server, RED, "Where can I park my bicycle?");
    let theirs = only(BLUE, "where can I park my bicycle?");
    assert!(theirs.contains("not_cached"), "{theirs}");
    assert_eq!(theirs, only(BLUE, "Which colour has the door?"));

    // Within the other tenant it hits as well, with that tenant's own answer.
    until_served(&server, BLUE, "how do i CANCEL my plan");
    let (head, own) = ask(&server, BLUE, "How do i CANCEL my plan?");
    assert!(cache_status(&head).contains("tapri-semantic; hit"), "{head}");
    assert_eq!(own["choices"][0]["message"]["content"], "For blue: by post.");
}

/// An upstream's embeddings instead of a model of this machine; what comes of it is in the metrics, and a reload changes
/// what routes do.
#[test]
fn an_upstreams_embeddings_metrics_and_reload() {
    let scene = Scene::new(2);
    // The second embeds, so that what the first is asked is questions alone.
    let config = SERVES.replace("\"ENCODER\"", "\"upstream:embeds/near\"")
        + "[[upstream]]\nname = \"embeds\"\nurl = \"URL1\"\nmodels = [\"near=e5\"]\n";
    scene.fakes[1].always(Script { letters: true, ..Script::default() });
    let server = scene.serve(&config);
    let (asked, seen) = (scene.fakes[1].seen(), scene.fakes[1].came());
    assert_eq!(seen, 1, "it was checked at the start");
    assert_eq!(asked[0].json()["model"], "e5", "by the name that it has there");
    scene.fakes[0].always(Script::text("In the settings."));
    ask(&server, RED, STORED);
    until_served(&server, RED, NEAR);
    // As near as can be for the letters, and another question.
    ask(&server, RED, "How do I cancel my plan 2?");
    let all = metrics(&server);
    // Labels of the whole server come first, so lines are found by their ends.
    let value = |name: &str, label: &str| {
        let all = metrics(&server);
        let line = all.lines().find(|line| line.starts_with(name) && line.contains(label));
        line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    let name = "tapri_semantic_lookups_total";
    assert_eq!(value(name, "outcome=\"hit\""), 1.0);
    assert!(value(name, "outcome=\"shadow\"") >= 2.0);
    assert_eq!(value(name, "outcome=\"guarded\""), 1.0);
    assert!(value(name, "outcome=\"nothing\"") >= 1.0, "the first question");
    assert_eq!(value("tapri_semantic_guard_refusals_total", "guard=\"numbers\""), 1.0, "{all}");
    assert!(value("tapri_semantic_labels_total", "verdict=\"same\"") >= 2.0);
    assert_eq!(value("tapri_semantic_labels_total", "verdict=\"wrong\""), 0.0);
    assert!(value("tapri_semantic_entries", "") >= 3.0);
    let bound = value("tapri_semantic_wrong_bound", "from=\"0.98\"");
    assert!(bound > 0.0 && bound < 0.9, "{bound}");
    assert_eq!(value("tapri_semantic_serves_from", "route=\"cached\""), 0.7);
    assert_eq!(value("tapri_semantic_errors_total", "store=\"sqlite\""), 0.0);

    // It dies: the model answers, and the failure is counted.
    scene.fakes[1].always(Script { status: Some(503), ..Script::default() });
    let (head, _) = ask(&server, RED, "How would I cancel my plan?");
    assert!(cache_status(&head).contains("tapri-semantic; fwd=miss"), "{head}");
    assert!(value(name, "outcome=\"failed\"") >= 1.0);
    assert!(value("tapri_semantic_errors_total", "store=\"sqlite\"") >= 1.0);

    // From serve to off, without a restart.
    scene.write(&config.replace("mode = \"serve\"", "mode = \"off\""));
    server.signal("HUP");
    let mut number = 0;
    wait_until("the route is off", || {
        number += 1;
        let (head, _) =
            ask(&server, RED, &format!("How do I cancel my plan{}", ".".repeat(number)));
        cache_status(&head).contains("tapri-semantic; fwd=bypass")
    });
    // A policy that can't be followed changes nothing.
    scene.write(&config.replace("budget = \"90%\"", "budget = 1.5"));
    server.signal("HUP");
    let (head, _) = ask(&server, RED, "How do I cancel my plan!!!");
    assert!(cache_status(&head).contains("tapri-semantic; fwd=bypass"), "{head}");
}

fn refused(config: &std::path::Path) -> Output {
    let data = config.parent().unwrap().join("data");
    let mut command = tapri(&["serve", "--port", "0", "--config", config.to_str().unwrap()]);
    command.env("TAPRI_DATA", data).output().unwrap()
}

/// The scripted upstream's usual vectors depend on the place of a text in its list alone: every question would be near
/// every other.
#[test]
fn a_degenerate_embedder_is_refused_at_the_start() {
    let scene = Scene::new(1);
    let config = scene.write(&SERVES.replace("ENCODER", "upstream:fake/m"));
    let said = refused(&config);
    let text = String::from_utf8_lossy(&said.stderr);
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains("semantic.embedder") && text.contains("degenerate"), "{text}");
    assert!(text.contains("hint: "), "{text}");
}

/// A file that is no database any more is set aside, and serving goes on.
#[test]
fn a_corrupt_file_is_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("semantic.sqlite");
    fs::write(&file, "not a database, not any more ".repeat(400)).unwrap();
    let scene = Scene::new(1);
    let store = format!("[semantic]\nstore = \"sqlite:{}\"", file.display());
    let server = scene.serve(&with_encoder(&SERVES.replace("[semantic]", &store)));
    ask(&server, RED, STORED);
    until_served(&server, RED, NEAR);
    let names = fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains(".corrupt-")).count();
    assert_eq!(aside, 1);
    let head = fs::read(&file).unwrap();
    assert!(head.starts_with(b"SQLite format 3"), "a new one was begun");
}

/// Questions in a Postgres that isn't there: every call is answered by the model, and the failure counted.
#[cfg(feature = "postgres")]
#[test]
fn a_shared_store_that_is_not_there_costs_no_call() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scene = Scene::new(1);
    let store = format!("[semantic]\nstore = \"postgres://tapri@{free}/tapri\"");
    let server = scene.serve(&with_encoder(&SERVES.replace("[semantic]", &store)));
    for question in [STORED, NEAR, SIMILAR] {
        let (head, _) = ask(&server, RED, question);
        assert!(cache_status(&head).contains("tapri-semantic; fwd=miss"), "{head}");
    }
    assert_eq!(scene.fakes[0].came(), 3);
    let all = metrics(&server);
    let errors = all.lines().find(|line| line.starts_with("tapri_semantic_errors_total")).unwrap();
    assert!(errors.contains("store=\"postgres\"") && !errors.ends_with(" 0"), "{errors}");
    let (head, _) = ask(&server, RED, STORED);
    assert!(cache_status(&head).contains("tapri-exact; hit"), "{head}");
}
