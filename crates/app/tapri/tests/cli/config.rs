//! `tapri config` and `tapri keys` through the real binary.

use std::path::Path;
use std::process::Stdio;

use crate::{Said, Shell};

fn example(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/config").join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_examples_are_right() {
    let shell = Shell::new();
    for (name, counts) in [
        ("laptop.toml", "0 upstreams, 1 route, 0 tenants"),
        ("team-redis.toml", "2 upstreams, 2 routes, 2 tenants"),
        ("fleet.toml", "2 upstreams, 1 route, 2 tenants"),
    ] {
        let said = shell.run(&["config", "check", &example(name)]);
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        assert!(said.out.contains(counts), "{}", said.out);
    }
    // A ready route for law: nothing that only looks alike is ever served on it.
    for name in ["team-redis.toml", "fleet.toml"] {
        let text = std::fs::read_to_string(example(name)).unwrap();
        let toml: toml::Table = text.parse().unwrap();
        let routes = toml["route"].as_array().unwrap();
        let legal = routes.iter().find(|route| route["name"].as_str() == Some("legal")).unwrap();
        assert_eq!(legal["semantic"]["mode"].as_str(), Some("off"));
    }
}

#[test]
fn a_wrong_file_names_itself_the_line_the_key_and_the_fix() {
    let shell = Shell::new();
    shell.file("tapri.toml", "[server]\nport = 8081\nhots = \"::1\"\n");
    let checked = shell.run(&["config", "check"]);
    insta::assert_snapshot!(checked.all());
    let served = shell.run(&["serve", "--model", "none.gguf"]);
    assert_eq!(served.code, Some(2));
    assert_eq!(
        served.err,
        "error: tapri.toml:3: `server.hots`: there is no such key\nhint: did you mean `host`?\n"
    );
    let missing = shell.run(&["serve", "--config", "no.toml"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.err.contains("no.toml can't be read"), "{}", missing.err);
}

#[test]
fn each_value_comes_from_somewhere() {
    let shell = Shell::new();
    shell.file(
        "tapri.toml",
        "[server]\nport = 8081\nhost = \"::1\"\n[engine]\nprefix_cache = false\nkv_memory = \"1GiB\"\n\
         [admin]\nkey = \"env:SOMEWHERE\"\n[[route]]\nname = \"a\"\nmodels = [\"x\"]\n",
    );
    let mut command = shell.command(&["config", "show"]);
    let said = Said::from(
        command.env("TAPRI_PORT", "8082").env("TAPRI_ADMIN_LISTEN", "[::1]:1").output().unwrap(),
    );
    insta::assert_snapshot!(said.all());
    let json = Said::from(shell.command(&["config", "show", "--json"]).output().unwrap());
    let rows: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let row = |key: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{key}")).clone()
    };
    assert_eq!(row("server.port")["line"], 2);
    assert_eq!(row("engine.prefix_cache")["value"], "false");
    assert_eq!(row("engine.block_size")["source"], "default");
    assert_eq!(row("admin.key")["value"], "***");
}

#[test]
fn keys_are_shown_once_and_kept_as_hashes() {
    let shell = Shell::new();
    let made = shell.run(&["keys", "new", "--tenant", "red"]);
    assert_eq!(made.code, Some(0), "{}", made.err);
    let (key, line) = made.out.trim_end().split_once('\n').unwrap();
    let hash_of = |key: &str| {
        let mut command = shell.command(&["keys", "hash", "--tenant", "red"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), key.as_bytes()).unwrap();
        Said::from(child.wait_with_output().unwrap())
    };
    assert_eq!(hash_of(key).out.trim_end(), line);
    let weak = hash_of("secret");
    assert_eq!(weak.code, Some(1));
    assert!(
        weak.err.contains("at least 20 characters") && !weak.err.contains("secret "),
        "{}",
        weak.err
    );

    for _ in 0..2 {
        let made = shell.run(&["keys", "new", "--tenant", "red", "--file", "tapri.keys"]);
        assert_eq!(made.out.lines().count(), 1, "the key alone");
    }
    let file = shell.dir.path().join("tapri.keys");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|line| line.starts_with("red sha256:")).count(), 2, "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert_eq!(shell.run(&["keys", "new", "--tenant", "red team"]).code, Some(2));

    let rotate = || shell.run(&["keys", "rotate-secret"]);
    let secret = || std::fs::read_to_string(shell.dir.path().join("data/scope.secret")).unwrap();
    assert_eq!(rotate().code, Some(0));
    let first = secret();
    assert_eq!(rotate().code, Some(0));
    assert!(first != secret() && first.trim().len() == 64);
}

/// What is written of the semantic cache is done, or refused with a reason: by the check, and before anything starts.
#[test]
fn what_the_semantic_cache_cannot_do_is_refused() {
    let shell = Shell::new();
    let cases = [
        ("[semantic]\nembedder = \"upstream:far/e5\"\n", "there is no upstream \"far\""),
        ("[semantic]\nembedder = \"upstream:near\"\n", "upstream:NAME/MODEL"),
        ("[semantic]\nstore = \"redis://h\"\n", "names no store of questions"),
        ("[semantic]\nstore = \"postgres://u:p@h/d\"\n", "holds a password"),
        (
            "[[route]]\nname = \"a\"\n[route.semantic]\nmode = \"shadow\"\njudge = \"upstream:nera/m\"\n",
            "did you mean \"near\"?",
        ),
        (
            "[[route]]\nname = \"a\"\n[route.exact]\nmode = \"off\"\n[route.semantic]\nmode = \"serve\"\n",
            "the exact cache of this route is off",
        ),
    ];
    for (lines, wanted) in cases {
        let near = "[[upstream]]\nname = \"near\"\nurl = \"http://h:1/v1\"\n";
        shell.file("tapri.toml", format!("{lines}{near}"));
        let said = shell.run(&["config", "check"]);
        assert!(said.code != Some(0) && said.err.contains(wanted), "{lines}: {}", said.all());
        assert!(!said.err.contains("u:p"), "{}", said.err);
    }
    // An address that is kept elsewhere is looked at where it is there.
    let example = example("fleet.toml");
    for (address, right) in [("postgres://tapri@h/d", true), ("mysql://h", false)] {
        let mut command = shell.command(&["config", "check", &example]);
        let said = Said::from(command.env("TAPRI_POSTGRES", address).output().unwrap());
        assert_eq!(said.code == Some(0), right, "{address}: {}", said.all());
    }
}
