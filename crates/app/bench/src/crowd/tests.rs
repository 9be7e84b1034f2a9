#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::client::Completion;
use crate::session::Session;

/// What a server saw.
#[derive(Default)]
struct Seen {
    /// Path and body of each request but those for metrics.
    requests: Vec<(String, Value)>,
    running: usize,
    most_running: usize,
}

/// A server on loopback that answers as Tapri and llama-server do: completions as streams of three tokens, metrics, slots. It holds back answers
/// until `together` of them run, the first time.
struct Fake {
    url: String,
    seen: Arc<(Mutex<Seen>, Condvar)>,
}

impl Fake {
    fn start(together: usize, with_metrics: bool) -> Fake {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<(Mutex<Seen>, Condvar)>::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let seen = Arc::clone(&shared);
                std::thread::spawn(move || answer(stream, &seen, together, with_metrics));
            }
        });
        Fake { url, seen }
    }

    fn requests(&self) -> Vec<(String, Value)> {
        self.seen.0.lock().unwrap().requests.clone()
    }
}

fn answer(
    mut stream: TcpStream,
    seen: &(Mutex<Seen>, Condvar),
    together: usize,
    with_metrics: bool,
) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut head = "HTTP/1.1 200 OK\r\nconnection: close\r\n".to_owned();
    let content = match path.as_str() {
        "/metrics" if with_metrics => {
            let running = seen.0.lock().unwrap().running;
            format!("tapri_kv_used_bytes{{model_name=\"m\"}} {}\n", 1000 + 10 * running)
        }
        "/metrics" => {
            head = "HTTP/1.1 501 Not Implemented\r\nconnection: close\r\n".to_owned();
            String::new()
        }
        "/v1/completions" => completion(&path, &body, seen, together),
        _ => {
            let body = serde_json::from_slice(&body).unwrap();
            seen.0.lock().unwrap().requests.push((path, body));
            "{}".to_owned()
        }
    };
    write!(stream, "{head}content-length: {}\r\n\r\n{content}", content.len()).ok()
}

fn completion(path: &str, body: &[u8], seen: &(Mutex<Seen>, Condvar), together: usize) -> String {
    let body: Value = serde_json::from_slice(body).unwrap();
    let mut state = seen.0.lock().unwrap();
    // The first of all reads the file.
    let cached =
        if state.requests.iter().any(|(path, _)| path == "/v1/completions") { 96 } else { 0 };
    state.requests.push((path.to_owned(), body));
    state.running += 1;
    state.most_running = state.most_running.max(state.running);
    seen.1.notify_all();
    let state = seen
        .1
        .wait_timeout_while(state, Duration::from_secs(20), |s| s.most_running < together)
        .unwrap();
    drop(state);
    // Long enough for a look at the metrics, which is bounded in time itself.
    let looked = Instant::now();
    while looked.elapsed() < Duration::from_millis(120) {
        std::thread::yield_now();
    }
    seen.0.lock().unwrap().running -= 1;
    let mut events = String::new();
    for text in ["a", "b", "c"] {
        events +=
            &format!("data: {{\"choices\":[{{\"text\":\"{text}\",\"finish_reason\":null}}]}}\n\n");
    }
    events += &format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":100,\"completion_tokens\":3,\
         \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}\n\ndata: [DONE]\n\n"
    );
    events
}

fn crowd(users: usize, resident: usize) -> Crowd {
    let questions = (0..9).map(|i| format!("What of {i}?")).collect();
    let session = Session { file: "A file.".to_owned(), questions, max_tokens: 3, model: None };
    Crowd { session, users, resident, rest: "Something else entirely. ".repeat(200) }
}

#[test]
fn all_users_ask_at_once_and_then_one_alone() {
    let fake = Fake::start(4, true);
    let turn = crowd(4, 0).turn(&fake.url, false).unwrap();
    assert_eq!(fake.seen.0.lock().unwrap().most_running, 4);
    assert_eq!((turn.prompt_tokens, turn.cached_tokens), (400, Some(3 * 96)));
    assert_eq!(turn.kv_bytes, Some(1040));
    assert_eq!(turn.alone.kv_bytes, Some(1010));
    assert!(turn.among_residents.is_none() && turn.by_hand_seconds == 0.0);
    assert!(turn.ttft_seconds.max <= turn.total_seconds);
    // Seven questions, each asked once, and nobody is told which slot to take.
    let mut prompts: Vec<String> = Vec::new();
    for (_, body) in fake.requests() {
        assert!(body.get("id_slot").is_none());
        prompts.push(body["prompt"].as_str().unwrap().to_owned());
    }
    prompts.sort();
    prompts.dedup();
    assert_eq!(prompts.len(), 7);
}

#[test]
fn by_hand_the_file_is_read_once_and_put_into_each_slot() {
    let fake = Fake::start(3, false);
    let turn = crowd(3, 0).turn(&fake.url, true).unwrap();
    assert_eq!(turn.kv_bytes, None);
    assert!(turn.by_hand_seconds > 0.0 && turn.by_hand_seconds < turn.total_seconds);
    let requests = fake.requests();
    let paths: Vec<&str> = requests.iter().take(4).map(|(path, _)| path.as_str()).collect();
    let want = [
        "/completion",
        "/slots/0?action=save",
        "/slots/1?action=restore",
        "/slots/2?action=restore",
    ];
    assert_eq!(paths, want);
    assert_eq!(requests[0].1["prompt"], "A file.");
    let mut slots: Vec<u64> =
        requests[4..7].iter().map(|(_, body)| body["id_slot"].as_u64().unwrap()).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    assert!(requests[7..].iter().all(|(_, body)| body["id_slot"] == 0));
}

#[test]
fn other_prompts_begin_differently() {
    let fake = Fake::start(1, true);
    let turn = crowd(1, 5).turn(&fake.url, false).unwrap();
    assert!(turn.among_residents.is_some());
    // One user, three alone, five others, the file again, three alone.
    let requests = fake.requests();
    assert_eq!(requests.len(), 1 + 3 + 5 + 1 + 3);
    let mut others: Vec<String> = requests[4..9]
        .iter()
        .map(|(_, body)| body["prompt"].as_str().unwrap().chars().take(10).collect())
        .collect();
    others.dedup();
    assert_eq!(others.len(), 5);
    assert!(others.iter().all(|start| !start.contains("A file")));
}

fn call(begun: Instant, from_ms: u64, step_ms: u64, events: u64, tokens: u64) -> Completion {
    let moments =
        (0..events).map(|i| begun + Duration::from_millis(from_ms + i * step_ms)).collect();
    Completion {
        ttft_seconds: 1.0,
        answer_seconds: 1.0,
        total_seconds: 2.0,
        prompt_tokens: 10,
        answer_tokens: tokens,
        cached_tokens: None,
        answer: String::new(),
        moments,
    }
}

#[test]
fn together_is_the_time_in_which_all_decode() {
    let begun = Instant::now();
    // The second begins at 100 ms; the first ends at 200 ms: 10 and 5 events in these 100 ms, the second's of two tokens each.
    let calls = [call(begun, 0, 10, 21, 21), call(begun, 100, 20, 11, 22)];
    assert_eq!(turn::together(&calls), Some(200.0));
    let apart = [call(begun, 0, 10, 3, 3), call(begun, 500, 10, 3, 3)];
    assert_eq!(turn::together(&apart), None);
}

fn measured(name: &str, turns: &[(f64, Option<f64>, Option<u64>)]) -> Measured {
    let turn = |&(total_seconds, together, kv_bytes): &(f64, Option<f64>, Option<u64>)| Turn {
        total_seconds,
        by_hand_seconds: 0.0,
        ttft_seconds: Spread { min: 1.0, median: 2.0, max: 3.0 },
        prompt_tokens: 100,
        cached_tokens: kv_bytes.map(|_| 90),
        answer_tokens_per_second: 1.0,
        together_tokens_per_second: together,
        kv_bytes,
        alone: turn::Alone { tokens_per_second: Some(50.0), kv_bytes: kv_bytes.map(|_| 100) },
        among_residents: None,
    };
    Measured { name: name.to_owned(), turns: turns.iter().map(turn).collect() }
}

#[test]
fn the_table_holds_what_is_known() {
    let servers = vec![
        measured("ours", &[(1.0, Some(200.0), Some(110)), (2.0, Some(300.0), Some(110))]),
        measured("theirs", &[(8.0, None, None), (8.0, Some(25.0), None)]),
    ];
    let ratios = ratios(&servers);
    let total = ratios.iter().find(|r| r.measure == Measure::Total).unwrap();
    assert_eq!(total.ratio, Spread { min: 0.125, median: 0.1875, max: 0.25 });
    // Not in each round.
    assert!(ratios.iter().all(|r| r.measure != Measure::Together));
    let text = table(&Crowds { users: 8, resident: 0, servers, ratios });
    let row = |label: &str| {
        let line = text.lines().find(|line| line.contains(label)).unwrap();
        line.split('|')
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        row("all answered"),
        ["all answered, s", "1.500 (1.000-2.000)", "8.000 (8.000-8.000)", "0.188 (0.125-0.250)"]
    );
    assert_eq!(row("together / one alone")[1..], ["5.000 (4.000-6.000)", "-", "-"]);
    assert_eq!(row("KV memory, all together / one")[1..], ["1.100 (1.100-1.100)", "-", "-"]);
    assert_eq!(row("computed")[1..], ["10", "the server does not say"]);
    assert!(!text.contains("resident"));
}
