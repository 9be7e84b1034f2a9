//! SIGTERM with many calls under way: those that can end do, the others end with an error that says why, and all are in the
//! ledger.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::thread;

use serde_json::json;
use tapri_ledger::{Ending, Filter, Ledger};

use crate::process::Server;
use crate::upstream::Upstream;
use crate::{post_with, story};

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "authorization: Bearer tapri_team_team_team_team\r\n";

#[cfg(unix)]
#[test]
fn sigterm_with_many_streams_running_ends_all_of_them_cleanly() {
    let upstream = Upstream::start(&["--keep", "0"]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("team"), "tapri_team_team_team_team").unwrap();
    let config = format!(
        r#"
[server]
shutdown_limit = "8s"
[engine]
enabled = true
[[tenant]]
name = "team"
keys = ["file:team"]
[[upstream]]
name = "fake"
url = "{}/v1"
models = ["fake@*"]
"#,
        upstream.url()
    );
    let path = folder.path().join("tapri.toml");
    fs::write(&path, config).unwrap();
    let mut server = Server::start(&["--config", path.to_str().unwrap()]);
    // Some that end within the limit, some that never would, and one of the embedded engine.
    let streams = |count: usize, model: &str| -> Vec<TcpStream> {
        let body = json!({"model": model, "stream": true, "messages": [{"role": "user", "content": "Go on."}]});
        (0..count).map(|_| post_with(&server, CHAT, KEY, &body)).collect()
    };
    let short = streams(60, "fake@words=20,chunk_delay_ms=50");
    let endless = streams(20, "fake@words=100000,chunk_delay_ms=50");
    let own = post_with(&server, CHAT, KEY, &story(20));
    let readers: Vec<_> = short
        .into_iter()
        .map(|stream| (stream, true))
        .chain(endless.into_iter().map(|stream| (stream, false)))
        .chain([(own, true)])
        .map(|(stream, ends)| (ends, thread::spawn(move || begun(stream))))
        .collect();
    // Each has said something: then the signal.
    let (mut running, mut rest) = (Vec::new(), readers);
    while let Some((ends, reader)) = rest.pop() {
        running.push((ends, reader.join().unwrap()));
    }
    server.terminate();
    let readers: Vec<_> = running
        .into_iter()
        .map(|(ends, (stream, begun))| (ends, thread::spawn(move || whole(stream, begun))))
        .collect();
    for (ends, reader) in readers {
        let said = reader.join().unwrap();
        assert_eq!(said.contains("data: [DONE]"), ends, "{}", tail(&said));
        assert_eq!(said.contains("shutting_down"), !ends, "{}", tail(&said));
        // The last chunk of the transfer itself: the connection was closed in good order.
        assert!(said.ends_with("\r\n0\r\n\r\n"), "{:?}", tail(&said));
    }
    assert_eq!(server.wait().code(), Some(0));
    assert!(TcpStream::connect(server.address()).is_err());
    let records = Ledger::open_read(&server.ledger()).unwrap().records(&Filter::default()).unwrap();
    let with = |ending: &dyn Fn(&Ending) -> bool| {
        records.iter().filter(|record| ending(&record.ending)).count()
    };
    assert_eq!(records.len(), 81);
    assert_eq!(with(&|ending| matches!(ending, Ending::Stop | Ending::Length)), 61);
    assert_eq!(with(&|ending| *ending == Ending::Error("shutting_down".to_owned())), 20);
}

/// A stream, once it has said something of its answer.
fn begun(mut stream: TcpStream) -> (TcpStream, Vec<u8>) {
    let mut said = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&said).contains("data: ") {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "it ended before it began: {}", String::from_utf8_lossy(&said));
        said.extend_from_slice(&buffer[..n]);
    }
    (stream, said)
}

fn whole(mut stream: TcpStream, mut said: Vec<u8>) -> String {
    stream.read_to_end(&mut said).unwrap();
    String::from_utf8_lossy(&said).into_owned()
}

fn tail(text: &str) -> String {
    text.chars().rev().take(300).collect::<Vec<_>>().into_iter().rev().collect()
}
