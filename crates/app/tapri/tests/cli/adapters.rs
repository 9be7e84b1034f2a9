//! `--lora` on the command line and in `tapri.toml`.

use serde_json::Value;
use tapri_gguf::Gguf;
use tapri_model::ModelConfig;
use tapri_model::tiny::{TinyAdapter, TinyModel};

use crate::{Said, Shell};

/// A tiny model and adapters for it, in the shell's folder.
fn files(shell: &Shell) {
    let model = TinyModel { layers: 2, ..TinyModel::llama() };
    shell.file("tiny.gguf", model.to_bytes());
    let config = ModelConfig::from_gguf(&model.gguf()).unwrap();
    let adapter = |seed| TinyAdapter::of(&config).seed(seed).writer().to_bytes();
    shell.file("red.gguf", adapter(1));
    shell.file("blue.gguf", adapter(2));
    let gemma = Gguf::from_bytes(TinyModel::gemma3().to_bytes()).unwrap();
    let foreign = TinyAdapter::of(&ModelConfig::from_gguf(&gemma).unwrap());
    shell.file("foreign.gguf", foreign.writer().to_bytes());
    shell.file("lease.md", "# Lease\n\nThe rent is 4,000 rupees a month, due on the first day.\n");
}

fn ask(shell: &Shell, more: &[&str]) -> Said {
    let args = ["ask", "lease.md", "--model", "tiny.gguf", "--ask", "How much?", "--ask", "When?"];
    let last = ["--max-tokens", "8", "--no-ledger", "--kv-memory", "64MiB", "--threads", "1"];
    shell.run(&[&args[..], &last, more].concat())
}

#[test]
fn questions_are_asked_with_the_adapter() {
    let shell = Shell::new();
    files(&shell);
    let answers = |more: &[&str]| {
        let said = ask(&shell, &[more, &["--json"]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        let json: Value = serde_json::from_str(&said.out).unwrap();
        let questions = json["questions"].as_array().unwrap();
        assert_eq!(questions[0]["cached_tokens"], 0);
        assert!(questions[1]["cached_tokens"].as_u64().unwrap() > 16, "{json}");
        let texts: Vec<_> = questions.iter().map(|it| it["answer"].clone()).collect();
        (texts, said.err)
    };
    let (base, said) = answers(&[]);
    assert!(!said.contains("adapter"), "{said}");
    let (red, said) = answers(&["--lora", "red=red.gguf"]);
    assert!(said.contains("adapter red: rank 8, 14 matrices, "), "{said}");
    assert!(said.contains("MiB of memory, digest "), "{said}");
    let (blue, _) = answers(&["--lora", "blue=blue.gguf"]);
    assert!(base != red && base != blue && red != blue);
}

#[test]
fn what_cannot_be_is_said_with_a_way_out() {
    let shell = Shell::new();
    files(&shell);
    shell.file("tapri.toml", "[engine]\nlora = [\"a=x.gguf\", \"a=y.gguf\", \"nothing\"]\n");
    let serve = |more: &[&str]| {
        let base = ["serve", "--model", "tiny.gguf", "--port", "0", "--config", "empty.toml"];
        shell.run(&[&base[..], more].concat())
    };
    shell.file("empty.toml", "");
    shell.file(
        "off.toml",
        "[[upstream]]\nname = \"u\"\nurl = \"http://127.0.0.1:1\"\nmodels = [\"m\"]\n",
    );
    let all = [
        ask(&shell, &["--lora", "red"]),
        ask(&shell, &["--lora", "red=red.gguf", "--lora", "blue=blue.gguf"]),
        ask(&shell, &["--lora", "red=missing.gguf"]),
        ask(&shell, &["--lora", "red=tiny.gguf"]),
        ask(&shell, &["--lora", "red=foreign.gguf"]),
        ask(&shell, &["--lora", "tiny=red.gguf"]),
        serve(&["--lora", "red=red.gguf", "--lora", "red=blue.gguf"]),
        serve(&["--lora", "tiny=red.gguf", "--isolation", "process"]),
        serve(&["--lora", "red=missing.gguf", "--isolation", "process"]),
        shell.run(&["serve", "--port", "0", "--config", "off.toml", "--lora", "red=red.gguf"]),
        shell.run(&["config", "check"]),
    ];
    // What loading says of the model depends on the machine.
    let said: Vec<String> = (all.iter())
        .map(|said| {
            let lines = said.err.lines();
            let lines = lines.filter(|line| !line.contains("KV memory ") && !line.contains("INFO"));
            let lines: Vec<_> = lines.filter(|line| !line.starts_with("lease.md:")).collect();
            format!("exit code: {}\n{}\n", said.code.unwrap(), lines.join("\n"))
        })
        .collect();
    insta::assert_snapshot!("bad_adapters", said.join("\n"));
}

#[test]
fn the_file_s_adapters_are_shown_with_their_line() {
    let shell = Shell::new();
    shell.file("tapri.toml", "[engine]\nthreads = 1\nlora = [\"red=red.gguf\"]\n");
    let said = shell.run(&["config", "show", "--json"]);
    let rows: Value = serde_json::from_str(&said.out).unwrap();
    let row = rows.as_array().unwrap().iter().find(|row| row["key"] == "engine.lora").unwrap();
    assert_eq!((&row["value"], &row["line"]), (&"[\"red=red.gguf\"]".into(), &3.into()));
}
