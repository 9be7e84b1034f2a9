//! The hub's part, against a hub of our own on this machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tapri_registry::{ModelFolder, ModelRef, PullError, PullEvent, Puller, Recheck, Sha256Digest};

use crate::support::digest;

const BODY: &[u8] = b"GGUF from the hub";

/// A hub that serves one file and announces this digest for it. It lives as long as the test process.
fn hub(announced: Sha256Digest) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that hangs up early has what it wanted.
            let _ = answer(stream.unwrap(), announced);
        }
    });
    format!("http://{address}")
}

fn answer(mut stream: TcpStream, announced: Sha256Digest) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let mut last = BODY.len() - 1;
    for line in lines {
        let line = line?.to_ascii_lowercase();
        if line == "range: bytes=0-0" {
            last = 0;
        }
        if line.is_empty() {
            break;
        }
    }
    if !request.starts_with("GET /owner/repo/resolve/main/model.gguf ") {
        return write!(
            stream,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    }
    let part = &BODY[..=last];
    write!(
        stream,
        "HTTP/1.1 206 Partial Content\r\netag: \"{announced}\"\r\nx-repo-commit: 0123abcd\r\n\
         content-range: bytes 0-{last}/{}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        BODY.len(),
        part.len()
    )?;
    stream.write_all(part)
}

fn puller(dir: &tempfile::TempDir, endpoint: &str) -> Puller {
    Puller::new(ModelFolder::at(dir.path().join("models")))
        .with_hub(endpoint, dir.path().join("hub"))
}

#[test]
fn a_file_of_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let model: ModelRef = "hf:owner/repo:model.gguf".parse().unwrap();
    let mut most = (0, 0);
    let path = puller(&dir, &hub(digest(BODY)))
        .get(&model, Recheck::No, &mut |event| {
            if let PullEvent::Downloading { done, total, .. } = event {
                most = most.max((done, total));
            }
        })
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), BODY);
    assert_eq!(most, (BODY.len() as u64, BODY.len() as u64));
    // Found again without the hub.
    let offline = puller(&dir, "http://127.0.0.1:1");
    assert_eq!(offline.get(&model, Recheck::No, &mut |_| ()).unwrap(), path);
    assert_eq!(offline.find(&model), Some(path));
}

#[test]
fn a_wrong_checksum_from_the_hub() {
    let dir = tempfile::tempdir().unwrap();
    let model: ModelRef = "hf:owner/repo:model.gguf".parse().unwrap();
    let puller = puller(&dir, &hub(digest(b"another")));
    let error = puller.get(&model, Recheck::No, &mut |_| ()).unwrap_err();
    assert!(matches!(error, PullError::WrongChecksum { .. }), "{error}");
    assert_eq!(puller.find(&model), None);
}

#[test]
fn a_file_the_hub_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let model: ModelRef = "hf:owner/repo:other.gguf".parse().unwrap();
    let error = puller(&dir, &hub(digest(BODY))).get(&model, Recheck::No, &mut |_| ()).unwrap_err();
    assert!(matches!(&error, PullError::Hub { unreachable: false, .. }), "{error:?}");
    assert!(
        error.to_string().contains("404") && error.to_string().contains("hf:owner/repo:other.gguf"),
        "{error}"
    );
}

#[test]
fn no_hub_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let model: ModelRef = "hf:owner/repo:model.gguf".parse().unwrap();
    let error =
        puller(&dir, "http://127.0.0.1:1").get(&model, Recheck::No, &mut |_| ()).unwrap_err();
    assert!(matches!(&error, PullError::Hub { unreachable: true, .. }), "{error:?}");
}
