use serde_json::Value;

use crate::Shell;

fn pairs(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    path.join("../../gateway/cache/data/pairs").join(name).to_str().unwrap().to_owned()
}

/// The shell, with the encoder that this machine has pulled.
fn shell() -> (Shell, String) {
    let encoder = tapri_registry::test_model("all-minilm-l6-v2");
    (Shell::new(), encoder.to_str().unwrap().to_owned())
}

#[test]
fn eval_of_the_public_pairs() {
    let (shell, encoder) = shell();
    let file = pairs("fow_pairs.jsonl");
    let said = shell.run(&["semantic", "eval", &file, "--json", "--encoder", &encoder]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let rows: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let good = rows.iter().any(|row| {
        row["wrong_share"].as_f64().unwrap() <= 0.01 && row["served_share"].as_f64().unwrap() >= 0.3
    });
    assert!(good, "{}", said.out);
    // What the data's authors report of plain all-MiniLM-L6-v2 on twice as many pairs, at 0.90: 48 percent served,
    // and 27 percent of those that must not be.
    let plain = |from: f64| {
        rows.iter()
            .find(|row| {
                row["guards"] == "none" && (row["threshold"].as_f64().unwrap() - from).abs() < 1e-3
            })
            .unwrap()
    };
    assert!((plain(0.9)["served_share"].as_f64().unwrap() - 0.48).abs() < 0.08);
    assert!((plain(0.9)["wrong_share"].as_f64().unwrap() - 0.27).abs() < 0.08);
    let said = shell.run(&["semantic", "eval", &file, "--encoder", &encoder]);
    for part in [
        "By similarity, with all guards",
        "tried on the fifth left out",
        "Each guard alone",
        "near_repeat",
    ] {
        assert!(said.out.contains(part), "{part} in {}", said.out);
    }
}

#[test]
fn eval_of_conversations_serves_none() {
    let (shell, encoder) = shell();
    let file = pairs("conversations_billing.jsonl");
    let said = shell.run(&["semantic", "eval", &file, "--json", "--encoder", &encoder]);
    let rows: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    assert!(rows.iter().all(|row| row["served"] == 0 && row["wrong"] == 0), "{}", said.out);
}

#[test]
fn explained_and_refused() {
    let (shell, encoder) = shell();
    let explain =
        |a: &str, b: &str| shell.run(&["semantic", "explain", a, b, "--encoder", &encoder]).all();
    let said = explain("How do I lock my card?", "How do I unlock my card?");
    assert!(said.contains("antonyms: 'lock' against 'unlock'"), "{said}");
    assert!(said.contains("never given"), "{said}");
    let said = explain("How do I cancel my plan?", "Hi, how can I cancel my plan please?");
    assert!(said.contains("No guard objects."), "{said}");
    let said =
        explain("Move 50 pounds from savings to current", "Move 50 pounds from current to savings");
    assert!(said.contains("order: "), "{said}");
    let said = shell.run(&["semantic", "eval", "missing.jsonl"]);
    assert!(said.code == Some(1) && said.err.contains("missing.jsonl"), "{}", said.err);
    shell.file("bad.jsonl", "{\"a\": \"x\"}\n");
    let said = shell.run(&["semantic", "eval", "bad.jsonl"]);
    assert!(said.err.contains("line 1") && said.err.contains("hint: a pair is"), "{}", said.err);
    let said = shell.run(&["semantic", "explain", "a", "b", "--encoder", "all-minilm"]);
    assert!(said.code == Some(2) && said.err.contains("all-minilm-l6-v2"), "{}", said.err);
    let said = shell.run(&["semantic", "status"]);
    assert!(said.code == Some(1) && said.err.contains("hint: "), "{}", said.err);
}

#[test]
fn pairs_wait_for_a_person() {
    use tapri_cache::semantic::store::{Label, Owner, Verdict};
    use tapri_cache::semantic::{Keeper, SemanticStore};
    let shell = Shell::new();
    let file = shell.dir.path().join("semantic.sqlite");
    let mut store = SemanticStore::open(&file).unwrap();
    let label = |verdict| Label {
        entry: 1,
        owner: Owner { route: "faq".to_owned(), ..Owner::default() },
        similarity: 0.99,
        verdict,
        by: "text",
        served: false,
        at: 0,
        stored: ["Where is it?".to_owned(), "In the shed.".to_owned()],
        asked: ["Where's it?".to_owned(), "It is in the shed.".to_owned()],
    };
    for _ in 0..400 {
        store.label(&label(Verdict::Same), 0).unwrap();
    }
    store.label(&label(Verdict::Unsettled), 0).unwrap();
    let pair = store.unsettled(1).unwrap()[0].id.to_string();
    drop(store);
    let run =
        |args: &[&str]| shell.run(&[&["semantic"], args, &["--file", "semantic.sqlite"]].concat());
    let said = run(&["status"]);
    assert!(said.out.contains("faq: may not serve yet"), "{}", said.all());
    assert!(said.out.contains("1 pairs wait") && said.out.contains("312 labels"), "{}", said.out);
    let said = run(&["label"]);
    assert!(said.out.contains("In the shed."), "{}", said.all());
    assert_eq!(run(&["label", &pair, "same"]).code, Some(0));
    assert_eq!(run(&["label", &pair, "wrong"]).code, Some(1));
    let said = run(&["status"]);
    assert!(said.out.contains("faq: may serve from a similarity of 0.70 up"), "{}", said.all());
}
