#![allow(clippy::unwrap_used)]

use super::*;

fn problems(text: &str) -> String {
    let problems = Config::parse(Some("tapri.toml".into()), text).unwrap_err();
    let lines: Vec<String> = problems
        .iter()
        .map(|problem| match &problem.hint {
            Some(hint) => format!("{problem}\n    hint: {hint}"),
            None => problem.to_string(),
        })
        .collect();
    lines.join("\n")
}

#[test]
fn everything_that_is_wrong_is_said_at_once_with_its_line() {
    insta::assert_snapshot!(problems(
        r#"
[server]
prot = 8080
host = ["a"]
body_limit = "many"

[engine]
kv_memory = "2 bananas"
block_size = 17
prefix_cache = "maybe"

[sever]

[[upstream]]
name = "openai"
url = "api.openai.com"
keys = { red = "sk-in-the-clear" }

[[upstream]]
name = "openai"
url = "https://me:pass@api.openai.com/v1"
kind = "vlm"

[[route]]
name = "legal"
upstreams = ["opnai", "embedded"]
exact.mode = "allways"
semantic = { mode = "off", budged = 0.01 }

[[tenant]]
name = "red team"
keys = ["sk-in-the-clear", 7]

[[tenant]]
keys = ["sha256:abc"]
routes = ["leagl"]
limits = { concurrent = 0, kv_share = 0.0, requests_per_minute = -1 }

[cache]
store = "redis://user:password@host"
"#
    ));
}

#[test]
fn what_is_no_toml_has_its_line() {
    insta::assert_snapshot!(problems("[server]\nport = \n"), @r"
    tapri.toml:2: string values must be quoted, expected literal string
        hint: the file should be TOML: see https://toml.io
    ");
}

#[test]
fn secrets_are_neither_quoted_nor_shown() {
    let said = problems(
        "[admin]\nkey = \"hunter2-hunter2\"\n[[tenant]]\nname = \"a\"\nkeys = [\"hunter2-hunter2\"]\n[cache]\nstore = \"redis://u:hunter2@h\"\n[[upstream]]\nname = \"u\"\nurl = \"https://x\"\nkey = \"hunter2\"\n",
    );
    assert!(!said.contains("hunter2"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("tapri.toml:")).count(), 4, "{said}");
    let text =
        "[admin]\nkey = \"env:HUNTER2\"\n[[tenant]]\nname = \"a\"\nkeys = [\"env:HUNTER2\"]\n";
    let config = Config::parse(None, text).unwrap();
    let shown: Vec<_> = config.settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
    assert_eq!(shown, ["admin.key=***", "tenant[0].name=a", "tenant[0].keys=[***]"]);
}

#[test]
fn a_file_with_every_key_is_read() {
    let config = Config::parse(None, include_str!("tests/every_key.toml")).unwrap();
    let sections = &config.sections;
    assert_eq!(config.flags.len(), flags::all().count(), "every key that is a flag");
    insta::assert_debug_snapshot!(sections);
}
