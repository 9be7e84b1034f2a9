use std::fs;
use std::io::Write;
use std::net::TcpListener;

use crate::{Said, Shell};

const BOOK: &str = r#"
name = "ours"
currency = "Rs"
date = "2026-07-01"
[models."chai-1"]
input = "100"
cached_input = "20"
output = "400"
write = { "5m" = "125", "1h" = "200" }
batch = { input = "50", output = "200" }
long = [{ above = 200000, input = "200", output = "600" }]
minimum = 1024
[models."chai-1-mini"]
input = "10"
output = "40"
"#;

const LITELLM: &str = r#"{
    "sample_spec": {"mode": "chat", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    "chai-2": {"mode": "chat", "input_cost_per_token": 1.2e-06, "output_cost_per_token": 3e-06}
}"#;

/// Without the folder's own name, which is another in every run.
fn neutral(shell: &Shell, said: &Said) -> String {
    said.all().replace(shell.dir.path().to_str().unwrap(), "DIR")
}

#[test]
fn prices_are_found_and_shown() {
    let shell = Shell::new();
    shell.file("ours.toml", BOOK);
    let said = [
        vec!["prices"],
        vec!["prices", "search", "sonnet", "4-5", "2025"],
        vec!["prices", "search", "no-such-thing"],
        vec!["prices", "show", "claude-sonnet-4-5"],
        vec!["prices", "show", "openai/gpt-5.6"],
        vec!["prices", "show", "gpt-56"],
        vec!["prices", "list", "--prices", "ours.toml"],
        vec!["prices", "show", "chai-1", "--prices", "ours.toml"],
        vec!["prices", "show", "chai-1", "--prices", "ours.toml", "--json"],
        vec!["prices", "show", "anything", "--prices", "example"],
        vec!["prices", "--json"],
    ]
    .map(|args| neutral(&shell, &shell.run(&args)));
    insta::assert_snapshot!("prices", said.join("\n"));
}

#[test]
fn an_update_stands_over_the_bundled_list_and_overrides_over_it() {
    let shell = Shell::new();
    shell.file("new.json", LITELLM);
    shell.file("ours.toml", BOOK);
    let updated = shell.run(&["prices", "update", "new.json"]);
    assert_eq!(updated.code, Some(0), "{}", updated.err);
    assert!(
        updated.out.starts_with("1 models") || updated.out.starts_with("2 models"),
        "{}",
        updated.out
    );
    assert!(shell.run(&["prices", "show", "chai-2"]).out.contains("'updated' of 20"));
    // What the newer list doesn't have comes from the bundled one.
    assert!(
        shell.run(&["prices", "show", "claude-sonnet-4-5"]).out.contains("'bundled' of 2026-11-30")
    );

    // A list with a date keeps it.
    assert_eq!(shell.run(&["prices", "update", "ours.toml"]).code, Some(0));
    let shown = shell.run(&["prices", "show", "chai-1"]).out;
    assert!(
        shown.contains("'updated' of 2026-07-01") && shown.contains("Rs for a million"),
        "{shown}"
    );
    let over = "name = 'mine'\ncurrency = 'EUR'\n[models.chai-1]\ninput = 9\noutput = 9\n";
    fs::write(shell.dir.path().join("data/prices/overrides.toml"), over).unwrap();
    assert!(shell.run(&["prices", "show", "chai-1"]).out.contains("'mine'"));
    assert!(shell.run(&["prices", "show", "chai-1-mini"]).out.contains("'updated'"));
    let about = shell.run(&["prices"]).out;
    let order: Vec<_> = ["mine", "updated", "bundled"].map(|name| about.find(name).unwrap()).into();
    assert!(order.is_sorted(), "{about}");
}

#[test]
fn a_bad_update_leaves_the_old_list() {
    let shell = Shell::new();
    shell.file("new.json", LITELLM);
    assert_eq!(shell.run(&["prices", "update", "new.json"]).code, Some(0));
    let kept = shell.dir.path().join("data/prices/updated.json.gz");
    let before = fs::read(&kept).unwrap();
    shell.file("broken.json", &LITELLM[..100]);
    shell.file("negative.json", LITELLM.replace("1.2e-06", "-1.2e-06"));
    shell.file("empty.json", "{}");
    shell.file("text.txt", "this is no price list");
    shell.file("bytes.json", b"\xff\xfe\x00");
    shell.file("one.toml", "name='x'\ncurrency='Rs'\ninput=1\noutput=1\n");
    let said = [
        "broken.json",
        "negative.json",
        "empty.json",
        "text.txt",
        "bytes.json",
        "one.toml",
        "missing.json",
    ]
    .map(|file| {
        let said = shell.run(&["prices", "update", file]);
        assert_eq!(fs::read(&kept).unwrap(), before, "{file}");
        neutral(&shell, &said)
    });
    insta::assert_snapshot!("bad_updates", said.join("\n"));
    assert_eq!(fs::read_dir(kept.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn an_update_from_a_url() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/prices.json", server.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        for (status, body) in [("200 OK", LITELLM), ("404 Not Found", "gone")] {
            let (mut stream, _) = server.accept().unwrap();
            let mut head = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut head).unwrap();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
    });
    let shell = Shell::new();
    let update = || -> Said {
        let mut command = shell.command(&["prices", "update", &url]);
        command.env("NO_PROXY", "*").env("no_proxy", "*");
        command.output().unwrap().into()
    };
    let said = update();
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(shell.run(&["prices", "show", "chai-2"]).out.contains(&url));
    let said = update();
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("404") && said.err.contains("the old prices stay"), "{}", said.err);
    assert!(shell.run(&["prices", "show", "chai-2"]).out.contains("'updated'"));
    answering.join().unwrap();
}
