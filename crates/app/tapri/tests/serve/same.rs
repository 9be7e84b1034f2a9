//! Greedy answers over HTTP are the same with the prefix cache and without: chat, completions, streams, and eight
//! clients at once.

use serde_json::{Value, json};

use crate::process::Server;
use crate::{metric, post, read};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";

/// A document that all questions are about, of some 120 tokens.
fn document() -> String {
    "The tenant shall pay the rent on the first day of each month. The landlord shall keep the roof in repair. ".repeat(5)
}

/// Eight requests of both kinds, most of which begin alike.
fn requests() -> Vec<(&'static str, Value)> {
    let questions = [
        "Who pays the rent?",
        "Who repairs the roof?",
        "When is the rent due?",
        "What is a lease?",
    ];
    let chat = questions.map(|question| {
        let messages = json!([
            {"role": "system", "content": document()},
            {"role": "user", "content": question}]);
        let body = json!({"messages": messages, "max_tokens": 8, "temperature": 0, "logprobs": true, "top_logprobs": 3});
        (CHAT, body)
    });
    let text = questions.map(|question| {
        let prompt = format!("{}\nQuestion: {question}\nAnswer:", document());
        (TEXT, json!({"prompt": prompt, "max_tokens": 8, "temperature": 0, "logprobs": 3}))
    });
    chat.into_iter().chain(text).collect()
}

/// The choices of an answer, with their logprobs; of a stream, its text.
fn choices(reply: &str) -> Value {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{reply}");
    if !head.contains("text/event-stream") {
        return serde_json::from_str::<Value>(body).unwrap()["choices"].clone();
    }
    let lines = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let chunks = lines.filter(|data| *data != "[DONE]");
    let text: String = chunks
        .filter_map(|chunk| {
            let choice = &serde_json::from_str::<Value>(chunk).unwrap()["choices"][0];
            let piece = choice["text"].as_str().or_else(|| choice["delta"]["content"].as_str());
            piece.map(str::to_owned)
        })
        .collect();
    text.into()
}

fn text(choices: &Value) -> &Value {
    let first = &choices[0];
    if first["text"].is_string() { &first["text"] } else { &first["message"]["content"] }
}

/// What a server answers one after another, twice; all at once; and streamed.
fn answers(server: &Server) -> [Vec<Value>; 4] {
    let in_turn = || -> Vec<Value> {
        requests().iter().map(|(path, body)| choices(&read(post(server, path, body)))).collect()
    };
    let first = in_turn();
    let again = in_turn();
    let sent: Vec<_> = requests().iter().map(|(path, body)| post(server, path, body)).collect();
    let together = sent.into_iter().map(|stream| choices(&read(stream))).collect();
    let streamed = requests()
        .into_iter()
        .map(|(path, mut body)| {
            body["stream"] = true.into();
            choices(&read(post(server, path, &body)))
        })
        .collect();
    [first, again, together, streamed]
}

#[test]
fn for_chat_for_completions_and_for_eight_clients_at_once() {
    let cold_together: Vec<Value> = {
        // Eight clients of a server that has read nothing: they join what the first one reads.
        let server = Server::start(&[]);
        let sent: Vec<_> =
            requests().iter().map(|(path, body)| post(&server, path, body)).collect();
        sent.into_iter().map(|stream| choices(&read(stream))).collect()
    };
    let with = Server::start(&[]);
    let [first, again, together, streamed] = answers(&with);
    assert!(metric(&with, "vllm:prefix_cache_hits_total") > 20.0 * 80.0);
    drop(with);
    let without = Server::start(&["--no-prefix-cache"]);
    let expected = answers(&without);
    assert_eq!(metric(&without, "vllm:prefix_cache_hits_total"), 0.0);
    // Logprobs included: the same bits.
    for (what, answers) in
        [("first", &first), ("again", &again), ("together", &together), ("joined", &cold_together)]
    {
        assert_eq!(answers, &expected[0], "{what}");
    }
    assert_eq!([&expected[1], &expected[2]], [&expected[0]; 2], "without a cache as well");
    let texts: Vec<Value> = first.iter().map(|choices| text(choices).clone()).collect();
    // A small model may have nothing to say to one of them.
    let said = texts.iter().filter(|text| text.as_str().is_some_and(|text| !text.is_empty()));
    assert!(said.count() > texts.len() / 2, "{texts:?}");
    assert_eq!([&streamed, &expected[3]], [&texts; 2], "streamed");
}
