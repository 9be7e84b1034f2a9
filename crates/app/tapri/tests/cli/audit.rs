//! `tapri audit`: recorded times, what it refuses, and servers that misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::Value;

use crate::{Said, Shell};

fn recorded() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/audit/timing_samples.jsonl");
    path.to_str().unwrap().to_owned()
}

#[test]
fn recorded_times() {
    let said = Shell::new().run(&["audit", "--samples", &recorded()]);
    insta::assert_snapshot!("recorded", said.all());
}

#[test]
fn recorded_times_as_json() {
    let said = Shell::new().run(&["audit", "--samples", &recorded(), "--json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&json["schema"], &json["broken"]), (&"tapri.audit/1".into(), &0.into()));
    let tests = json["tests"].as_array().unwrap();
    assert_eq!(tests.len(), 31);
    for test in tests {
        let near = |ours: &Value, theirs: &Value| {
            (ours.as_f64().unwrap() / theirs.as_f64().unwrap() - 1.0).abs() < 1e-9
        };
        assert!(near(&test["p"], &test["stored"]["ks_p_one_sided"]), "{test}");
        assert!(near(&test["statistic"], &test["stored"]["ks_statistic"]), "{test}");
    }
    insta::assert_snapshot!(
        "recorded_first_json",
        serde_json::to_string_pretty(&tests[0]).unwrap()
    );
}

#[test]
fn what_is_refused() {
    let shell = Shell::new();
    shell.file("none.jsonl", "{\"a\": 1}\n");
    shell.file("slow.jsonl", slower_hits());
    shell.file("key", "two words");
    let said: Vec<String> = [
        vec![],
        vec!["--samples", "20"],
        vec!["--samples", "none.jsonl"],
        vec!["--samples", "slow.jsonl"],
        vec!["--samples", "missing.jsonl"],
        vec!["--url", "http://127.0.0.1:1", "--samples", "none.jsonl"],
        vec!["--url", "http://127.0.0.1:1", "--samples", "10"],
        vec!["--url", "http://127.0.0.1:1", "--samples", "5000"],
        vec!["--url", "http://127.0.0.1:1", "--level", "organisation"],
        vec!["--url", "http://127.0.0.1:1", "--victim-key-file", "key"],
        vec!["--url", "http://127.0.0.1:1", "--prefix-fraction", "0"],
        vec!["--url", "http://127.0.0.1:1"],
        vec!["--url", "http://8.8.8.8", "--victim-key", "a-secret", "--yes"],
        vec!["--url", "127.0.0.1:8080"],
        vec!["--url", "http://a@127.0.0.1:8080"],
    ]
    .iter()
    .map(|args| shell.run(&[&["audit"], &args[..]].concat()).all())
    .collect();
    let said = said.join("\n");
    assert!(!said.contains("a-secret"));
    insta::assert_snapshot!("refused", said);
}

/// Times as CacheProbe had them for one provider: hits slower than misses.
fn slower_hits() -> String {
    let times = |from: f64| (0..60).map(|i| from + f64::from(i) * 1e-3).collect::<Vec<_>>();
    serde_json::json!({"provider": "p", "hit_seconds": times(0.766), "miss_seconds": times(0.46)})
        .to_string()
}

/// A server that answers each connection's requests as it is told, and tells what it was asked.
struct Scripted {
    url: String,
    asked: Receiver<String>,
}

impl Scripted {
    /// `answer` makes the bytes of the answer from the number of the request; nothing cuts the connection.
    fn start(answer: impl Fn(usize) -> Vec<u8> + Send + 'static) -> Self {
        Self::reading(move |number, _| answer(number))
    }

    /// The same, from the request as well.
    fn reading(mut answer: impl FnMut(usize, &str) -> Vec<u8> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (tell, asked) = mpsc::channel();
        thread::spawn(move || {
            let mut number = 0;
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(request) = request(&mut stream) {
                    let bytes = answer(number, &request);
                    if tell.send(request).is_err() {
                        return;
                    }
                    number += 1;
                    if bytes.is_empty() || stream.get_mut().write_all(&bytes).is_err() {
                        break;
                    }
                }
            }
        });
        Scripted { url, asked }
    }
}

/// A request's head and body; `None` at the end.
fn request(stream: &mut BufReader<TcpStream>) -> Option<String> {
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(text + std::str::from_utf8(&body).unwrap())
}

fn answer(status: &str, more: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{more}\r\n{body}", body.len()).into_bytes()
}

/// One token, and what the server says it had cached.
fn token(cached: u64) -> Vec<u8> {
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"x\"}},\"finish_reason\":\"length\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":50,\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}\n\n\
         data: [DONE]\n\n"
    );
    answer("200 OK", "content-type: text/event-stream\r\n", &body)
}

fn audit(url: &str, more: &[&str]) -> Said {
    let shell = Shell::new();
    let args = ["audit", "--url", url, "--model", "m", "--yes", "--delay", "0", "--samples", "16"];
    let small = ["--prompt-tokens", "40", "--level", "strangers"];
    shell.run(&[&args[..], &small[..], more].concat())
}

/// Without the port, which is another one each time.
fn all(said: &Said, url: &str) -> String {
    said.all().replace(url, "http://127.0.0.1:PORT")
}

#[test]
fn keys_and_salts_go_where_they_belong() {
    let server = Scripted::start(|_| token(0));
    let users = ["--victim-key", "key-of-the-victim", "--attacker-key", "key-of-the-attacker"];
    let salts = ["--victim-salt", "salt-v", "--attacker-salt", "salt-a", "--seed", "7"];
    let said = audit(&server.url, &[&users[..], &salts[..]].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(!said.all().contains("key-of-the"), "keys are never printed");
    let asked: Vec<String> = server.asked.try_iter().collect();
    // One to begin with; 16 hits with a request of the victim before; 16 misses.
    assert_eq!(asked.len(), 1 + 32 + 16);
    let (mut victims, mut last) = (0, String::new());
    for request in asked {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
        assert_eq!((&body["max_tokens"], &body["temperature"]), (&1.into(), &1.into()));
        assert_eq!(prompt.split(' ').count(), 40);
        let shared = prompt.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
        if head.contains("Bearer key-of-the-victim") {
            assert_eq!(body["cache_salt"], "salt-v");
            victims += 1;
            last = prompt;
        } else {
            assert!(head.contains("Bearer key-of-the-attacker"));
            assert_eq!(body["cache_salt"], "salt-a");
            // 38 letters of the victim's 40 with the spaces behind them, right after the victim's request.
            assert!(shared == 76 || last.is_empty() || shared < 20, "{shared}");
            last.clear();
        }
    }
    assert_eq!(victims, 16);
}

#[test]
fn sharing_is_found_by_what_the_server_reports() {
    // As if what came twice were cached: the attacker's request after the victim's has its start.
    let server = Scripted::start(|_| token(38));
    let said = audit(&server.url, &["--json"]);
    let json: Value = serde_json::from_str(&said.out).unwrap();
    // Everything is reported as cached, misses too: that is no sign of sharing.
    assert_eq!((said.code, &json["sharing"]), (Some(0), &false.into()), "{}", said.out);
    assert_eq!(json["tests"][0]["reported"]["hits_cached"], 1.0);
    assert_eq!(json["tests"][0]["reported"]["found"], false);
}

/// A server with a cache for each `group` of keys, which takes 40 ms less where it has a prompt's start, and says so in a
/// header; `tells` says it in the usage too.
fn caching(group: impl Fn(&str) -> String + Send + 'static, tells: bool) -> Scripted {
    let mut seen: Vec<(String, String)> = Vec::new();
    Scripted::reading(move |number, request| {
        let key =
            request.lines().find_map(|line| line.strip_prefix("authorization: Bearer ")).unwrap();
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        let prompt = body["messages"][0]["content"].as_str().unwrap().to_owned();
        let shared =
            |earlier: &str| prompt.bytes().zip(earlier.bytes()).take_while(|(a, b)| a == b).count();
        let group = group(key);
        let hit = seen.iter().any(|(of, earlier)| *of == group && shared(earlier) >= 76);
        seen.push((group, prompt));
        // No two times are the same.
        let ms = if hit { 10.0 } else { 50.0 } + number as f64 / 100.0;
        let usage = if tells { if hit { 38 } else { 0 } } else { 0 };
        let text = String::from_utf8(token(usage)).unwrap();
        text.replacen("\r\n", &format!("\r\nopenai-processing-ms: {ms}\r\n"), 1).into_bytes()
    })
}

const KEYS: [&str; 6] = ["--victim-key", "one-a", "--org-key", "one-b", "--attacker-key", "two-c"];

fn levels(server: &Scripted, more: &[&str]) -> (Option<i32>, Value) {
    let args = ["audit", "--url", &server.url, "--model", "m", "--yes", "--json", "--delay", "0"];
    let small = ["--samples", "20", "--prompt-tokens", "40"];
    let said = Shell::new().run(&[&args[..], &small[..], &KEYS[..], more].concat());
    let json = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    (said.code, json)
}

/// Level after level, until one shows nothing.
#[test]
fn who_shares_with_whom() {
    let found = |json: &Value| -> Vec<(String, bool)> {
        let tests = json["tests"].as_array().unwrap().iter();
        tests.map(|t| (t["level"].as_str().unwrap().to_owned(), t["found"] == true)).collect()
    };
    let level = |name: &str, found| (name.to_owned(), found);
    // One cache for all.
    let (code, json) = levels(&caching(|_| String::new(), false), &[]);
    let all =
        [level("same user", true), level("same organisation", true), level("strangers", true)];
    assert_eq!((code, found(&json)), (Some(1), all.to_vec()), "{json}");
    let own = &json["tests"][2]["server_times"];
    assert_eq!((&own["statistic"], &own["found"]), (&1.0.into(), &true.into()));
    // One for each organisation.
    let (code, json) = levels(&caching(|key| key[..3].to_owned(), true), &[]);
    assert_eq!((code, found(&json)[2].1), (Some(1), false), "{json}");
    assert_eq!(json["tests"][1]["reported"]["found"], true);
    let verdict = json["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("sharing found between users of one organisation, by "),
        "{verdict}"
    );
    // One for each user: strangers need not be asked.
    let (code, json) = levels(&caching(str::to_owned, true), &[]);
    let two = [level("same user", true), level("same organisation", false)];
    assert_eq!((code, found(&json)), (Some(0), two.to_vec()), "{json}");
    assert_eq!(json["caching"], true);
    // None: what can't be seen can't be judged.
    let (code, json) = levels(&Scripted::start(|_| token(0)), &["--victim-requests", "1,3"]);
    assert_eq!((code, found(&json)), (Some(0), vec![level("same user", false)]), "{json}");
    assert_eq!(
        (&json["caching"], &json["tests"][0]["victim_requests"]),
        (&false.into(), &3.into())
    );
}

#[test]
fn servers_that_say_no() {
    let refusal = |status: &'static str, more: &'static str, body: &'static str| {
        let server = Scripted::start(move |_| answer(status, more, body));
        all(&audit(&server.url, &[]), &server.url)
    };
    let said = [
        refusal("401 Unauthorized", "", "{\"error\":{\"message\":\"no key\"}}"),
        refusal("404 Not Found", "", "{\"error\":{\"message\":\"no model m\"}}"),
        refusal("400 Bad Request", "", "{\"error\":{\"message\":\"the context has 32 tokens\"}}"),
        refusal("307 Temporary Redirect", "location: http://8.8.8.8/\r\n", ""),
        refusal("429 Too Many Requests", "retry-after: 0\r\n", "slow down"),
        refusal("200 OK", "", "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"),
        refusal("200 OK", "", "<html>"),
    ];
    insta::assert_snapshot!("says_no", said.join("\n"));
}

#[test]
fn a_connection_that_is_cut() {
    // Cut once, then served; a limit once, then served.
    let server = Scripted::start(|number| match number {
        0 => Vec::new(),
        1 => answer("429 Too Many Requests", "retry-after: 0\r\n", ""),
        _ => token(0),
    });
    let said = audit(&server.url, &[]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(said.err.matches("trying again").count(), 2, "{}", said.err);
    // The last one, which is always the attacker's and timed: the server may have kept its prompt.
    let server = Scripted::start(|number| if number == 48 { Vec::new() } else { token(0) });
    let said = audit(&server.url, &[]);
    assert!(said.out.contains("only when asked again: 1."), "{}", said.out);
    // Cut each time.
    let server = Scripted::start(|_| Vec::new());
    let said = audit(&server.url, &[]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("given up after 4 tries"), "{}", said.err);
    assert!(said.out.is_empty());
}

#[test]
fn a_server_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let said = audit(&url, &["--timeout", "300ms"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("hint: it may need longer: --timeout"), "{}", said.err);
}

#[test]
fn nobody_agrees() {
    let server = Scripted::start(|_| token(0));
    let said = Shell::new().run(&["audit", "--url", &server.url, "--model", "gpt-4o"]);
    insta::assert_snapshot!("nobody_agrees", all(&said, &server.url));
    assert_eq!(server.asked.try_iter().count(), 0);
}

#[cfg(unix)]
#[test]
fn ctrl_c_stops_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shell = Shell::new();
    let mut command =
        shell.command(&["audit", "--url", &url, "--model", "m", "--yes", "--delay", "0"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has sent its first request and waits for the answer.
    let (stream, _) = listener.accept().unwrap();
    assert!(request(&mut BufReader::new(stream.try_clone().unwrap())).is_some());
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let said = Said::from(child.wait_with_output().unwrap());
    assert_eq!((said.code, said.out.as_str()), (Some(130), ""), "{}", said.err);
    assert!(said.err.contains("interrupted after 0 requests"), "{}", said.err);
}
