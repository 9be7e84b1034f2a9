//! Adapters of `tapri serve`: models of their own, with prefixes and stored answers of their own.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tapri_gguf::Gguf;
use tapri_model::ModelConfig;
use tapri_model::tiny::TinyAdapter;

use crate::process::Server;
use crate::tenants::call;
use crate::{get, post, read};

/// Writes a random adapter for smollm2, and names it as a flag does.
fn adapter(folder: &Path, name: &str, seed: u64) -> String {
    let model = Gguf::open(tapri_registry::test_model("smollm2")).unwrap();
    let config = ModelConfig::from_gguf(&model).unwrap();
    let adapter = TinyAdapter { rank: 4, ..TinyAdapter::of(&config).seed(seed) };
    let path = folder.join(format!("{name}.gguf"));
    adapter.writer().write(&path).unwrap();
    format!("{name}={}", path.display())
}

fn question(model: Option<&str>) -> Value {
    let text = "A lease is a contract by which one party conveys property to another. ".repeat(6);
    let mut body = json!({"prompt": text, "max_tokens": 8, "temperature": 0, "ignore_eos": true});
    if let Some(model) = model {
        body["model"] = json!(model);
    }
    body
}

/// The head of an answer, its text and the tokens of its prompt that were there.
fn parse(reply: &str) -> (String, String, u64) {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body["choices"][0]["text"].as_str().unwrap_or_else(|| panic!("{body}"));
    let cached = body["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    (head.to_ascii_lowercase(), text.to_owned(), cached)
}

fn ask(server: &Server, model: Option<&str>) -> (String, String, u64) {
    parse(&read(post(server, "/v1/completions", &question(model))))
}

#[test]
fn each_is_a_model_with_prefixes_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (red, blue) = (adapter(folder.path(), "red", 1), adapter(folder.path(), "blue", 2));
    let server = Server::start(&["--lora", &red, "--lora", &blue, "--no-pages"]);
    let models = get(&server, "/v1/models");
    let models: Value = serde_json::from_str(models.split_once("\r\n\r\n").unwrap().1).unwrap();
    let names: Vec<&str> =
        models["data"].as_array().unwrap().iter().filter_map(|it| it["id"].as_str()).collect();
    assert!(["red", "blue"].iter().all(|name| names.contains(name)), "{names:?}");
    let base = names[0];
    assert!(get(&server, "/v1/models/red").contains("\"id\":\"red\""));

    let mut first = Vec::new();
    for name in [None, Some("red"), Some("blue")] {
        let (_, text, cached) = ask(&server, name);
        assert_eq!(cached, 0, "{name:?} finds no other's prefix");
        assert!(
            first.iter().all(|(_, other)| *other != text),
            "{name:?} answers as another: {text}"
        );
        first.push((name, text));
    }
    first.push((Some(base), first[0].1.clone()));
    for (name, text) in &first {
        let (_, again, cached) = ask(&server, *name);
        assert!(cached > 50 && again == *text, "{name:?}: {cached} cached, {again:?} for {text:?}");
    }
    // Together, and streamed, as alone.
    let streams: Vec<_> = (first.iter().map(|(name, _)| {
        let mut body = question(*name);
        body["stream"] = json!(true);
        post(&server, "/v1/completions", &body)
    }))
    .collect();
    for (stream, (name, text)) in streams.into_iter().zip(&first) {
        let said: String = (read(stream).lines())
            .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
            .filter_map(|frame| frame["choices"][0]["text"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(said, *text, "{name:?}");
    }
    let unknown = read(post(&server, "/v1/completions", &question(Some("green"))));
    assert!(unknown.starts_with("HTTP/1.1 404") && unknown.contains("`red`"), "{unknown}");
}

#[test]
fn a_stored_answer_is_that_adapter_s_with_those_weights() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("exact.sqlite").display());
    let asked = |server: &Server, model: Option<&str>| {
        // An answer that was cut is not stored, and a grammar is what ends any adapter's.
        let mut body = json!({"messages": [{"role": "user", "content": "Is rent due?"}], "temperature": 0,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"enum": ["yes", "no"]}}}});
        if let Some(model) = model {
            body["model"] = json!(model);
        }
        let reply = read(post(server, "/v1/chat/completions", &body));
        let (head, _) = reply.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        head.lines().find_map(|line| line.strip_prefix("cache-status: ")).unwrap().to_owned()
    };
    let is_hit = |status: &str| status.contains("tapri-exact; hit");
    let serve = |seed: u64| {
        let red = adapter(folder.path(), "red", seed);
        // One data folder, since the scope of what is stored is made with the secret in it.
        let data = format!("export TAPRI_DATA='{}';", folder.path().display());
        Server::start_after(
            &data,
            &["--lora", &red, "--exact-cache", "always", "--exact-store", &store],
        )
    };
    let mut server = serve(1);
    for model in [None, Some("red")] {
        let (first, second) = (asked(&server, model), asked(&server, model));
        assert!(!is_hit(&first) && is_hit(&second), "{model:?}: {first}, then {second}");
    }
    // What is stored is on disk when the server has ended, and soon after the answer otherwise.
    server.terminate();
    assert!(server.wait().success());
    let server = serve(1);
    assert!(is_hit(&asked(&server, Some("red"))), "the same weights after a restart");
    drop(server);
    // The same name and file with other weights; the model is as it was.
    let server = serve(2);
    let (red, base) = (asked(&server, Some("red")), asked(&server, None));
    assert!(!is_hit(&red) && is_hit(&base), "{red}, {base}");
}

#[cfg(target_os = "linux")]
#[test]
fn each_tenant_s_process_has_them() {
    const KEY: &str = "tapri_red_red_red_red_red";
    let folder = tempfile::tempdir().unwrap();
    let lora = adapter(folder.path(), "legal", 1);
    fs::write(folder.path().join("key"), KEY).unwrap();
    let config = format!(
        "[server]\nisolation = \"process\"\n[engine]\nkv_memory = \"64MiB\"\nthreads = 1\nlora = [{lora:?}]\n\
         [[tenant]]\nname = \"red\"\nkeys = [\"file:key\"]\n"
    );
    let path = folder.path().join("tapri.toml");
    fs::write(&path, config).unwrap();
    let server = Server::start(&["--config", path.to_str().unwrap()]);
    let ask = |model: Option<&str>| {
        let (status, head, body) = call(&server, KEY, "/v1/completions", &question(model));
        assert_eq!(status, 200, "{body}");
        parse(&format!("{head}\r\n\r\n{body}"))
    };
    let (base, adapted) = (ask(None), ask(Some("legal")));
    assert_eq!((base.2, adapted.2), (0, 0));
    assert_ne!(base.1, adapted.1);
    let again = ask(Some("legal"));
    assert!(again.2 > 50 && again.1 == adapted.1, "{again:?}");
}
