//! The semantic cache of `tapri serve`, with the real sentence encoder in front of a scripted upstream.

use serde_json::{Value, json};
use tapri_fake_upstream::Script;

use crate::gateway::{BLUE, CHAT, RED, Scene};
use crate::process::Server;
use crate::tenants::call;
use crate::{post_with, read, wait_until};

/// A route that serves after two labels without an error: a budget of nine in ten is no setting for people.
const SERVES: &str = r#"
[semantic]
embedder = "ENCODER"
[[upstream]]
name = "fake"
url = "URL0"
models = ["m"]
[[route]]
name = "cached"
[route.exact]
mode = "always"
[route.semantic]
mode = "serve"
budget = "90%"
"#;

const STORED: &str = "How do I cancel my plan?";
/// The same for the encoder, which reads no capitals: as near as the highest threshold asks for.
const NEAR: &str = "how do I cancel my plan?";
const SIMILAR: &str = "HOW do I cancel my plan?";

fn with_encoder(config: &str) -> String {
    let encoder = tapri_registry::test_model("all-minilm-l6-v2");
    config.replace("ENCODER", encoder.to_str().unwrap())
}

fn asks(question: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": question}]})
}

/// The head and the body of a call that was answered.
fn ask(server: &Server, key: &str, question: &str) -> (String, Value) {
    let (status, head, body) = call(server, key, CHAT, &asks(question));
    assert_eq!(status, 200, "{head} {body}");
    (head, serde_json::from_str(&body).unwrap())
}

fn cache_status(head: &str) -> &str {
    let line = head.lines().find(|line| line.starts_with("cache-status:"));
    line.unwrap_or_else(|| panic!("no Cache-Status: {head}"))
}

/// Asks until the tenant is served: what is learnt from a call is learnt after its answer.
fn until_served(server: &Server, key: &str, question: &str) {
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
    let (head, own) = ask(&server, BLUE, "how do i CANCEL my plan?");
    assert!(cache_status(&head).contains("tapri-semantic; hit"), "{head}");
    assert_eq!(own["choices"][0]["message"]["content"], "For blue: by post.");
}
