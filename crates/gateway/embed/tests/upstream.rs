//! The embedder elsewhere, against a scripted server on loopback.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tapri_embed::{CheckError, Embed, EmbedError, Embedder, UpstreamEmbedder};

/// Answers each request with the next of these; gives back what was asked.
fn serve(answers: Vec<(u16, String)>) -> (String, thread::JoinHandle<Vec<(String, Value)>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let mut asked = Vec::new();
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line.trim().is_empty() {
                    break;
                }
                head += &line;
            }
            let mut bytes = vec![0; length];
            reader.read_exact(&mut bytes).unwrap();
            asked.push((head, serde_json::from_slice(&bytes).unwrap()));
            write!(
                stream,
                "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            )
            .unwrap();
        }
        asked
    });
    (url, served)
}

fn client(url: &str) -> UpstreamEmbedder {
    UpstreamEmbedder::new(url, "m", Some("s3cret".to_owned()), Duration::from_secs(10))
}

#[test]
fn vectors_come_in_the_order_of_the_texts_and_have_length_1() {
    let body = json!({"data": [
        {"index": 1, "embedding": [0.0, 2.0]}, {"index": 0, "embedding": [3.0, 4.0]}]});
    let (url, served) = serve(vec![(200, body.to_string())]);
    let embedder = client(&url);
    assert_eq!(embedder.dimensions(), None);
    let found = embedder.embed(&["a", "b"]).unwrap();
    assert_eq!(&*found[0].vector, [0.6, 0.8]);
    assert_eq!(&*found[1].vector, [0.0, 1.0]);
    assert_eq!(embedder.dimensions(), Some(2));
    let asked = served.join().unwrap();
    assert!(asked[0].0.contains("POST /v1/embeddings"));
    assert!(asked[0].0.contains("Bearer s3cret"));
    assert_eq!(asked[0].1["input"], json!(["a", "b"]));
    assert!(!format!("{embedder:?}").contains("s3cret"));
}

#[test]
fn what_is_no_answer_is_an_error() {
    let two = json!({"data": [{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [1.0]}]});
    let longer =
        json!({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 0.0]}]});
    let cases = [
        (500, "{}".to_owned(), "status 500"),
        (200, "{".to_owned(), "no list of vectors"),
        (200, json!({"data": []}).to_string(), "0 vectors for 2 texts"),
        (200, two.to_string(), "out of turn"),
        (200, longer.to_string(), "2 numbers after one of 1"),
    ];
    let (url, served) = serve(cases.iter().map(|(s, b, _)| (*s, b.clone())).collect());
    for (_, _, expected) in &cases {
        let error = client(&url).embed(&["a", "b"]).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    served.join().unwrap();
    let error = client(&url).embed(&["a"]).unwrap_err();
    assert!(matches!(error, EmbedError::Upstream { .. }), "{error}");
}

/// One that is not there at the start is checked when it comes; one that then turns out to be degenerate is refused for
/// good, and after a failure it is left alone for a moment.
#[test]
fn one_that_comes_later_is_checked_then() {
    let embedder = Embedder::checked_later(client("http://127.0.0.1:1/v1"));
    assert!(matches!(embedder.check(), Err(CheckError::Failed(_))));
    assert!(matches!(embedder.embed_one("a"), Err(EmbedError::Resting { .. })));
    // The same vector for every text.
    let same: Vec<Value> =
        (0..13).map(|at| json!({"index": at, "embedding": [1, 0, 0, 0, 0, 0, 0, 0]})).collect();
    let (url, served) = serve(vec![(200, json!({"data": same}).to_string())]);
    let embedder = Embedder::checked_later(client(&url));
    for _ in 0..2 {
        let error = embedder.embed_one("a").unwrap_err();
        assert!(
            matches!(&error, EmbedError::Refused(why) if why.contains("degenerate")),
            "{error}"
        );
    }
    assert_eq!(served.join().unwrap().len(), 1, "asked once");
}
