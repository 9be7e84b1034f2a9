use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tapri_api::{Outline, OutlinePart};
use tapri_ledger::{Counts, Entry, Filter, PartKind, Secret, WriterConfig};

use crate::support::{Bench, LONG, call, entry, full, integrity};

#[test]
fn every_field_comes_back() {
    let bench = Bench::new();
    let writer = bench.writer();
    let records = [full("a"), call("b", 1, 100, 90), call("c", 2, 0, 0)];
    records.iter().for_each(|record| writer.record(entry(record.clone())));
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts(), Counts { written: 3, ..Counts::default() });
    assert_eq!(bench.ledger().records(&Filter::default()).unwrap(), records);
    let json = serde_json::to_value(&records[0]).unwrap();
    assert_eq!(json["ttft_seconds"], 0.112345);
    assert_eq!(json["parts"][1]["print"], "ffffffffffffffff");
    assert_eq!(serde_json::from_value::<tapri_ledger::CallRecord>(json).unwrap(), records[0]);
}

#[test]
fn what_waits_is_written_when_the_last_writer_goes() {
    let bench = Bench::new();
    let writer = bench.writer_with(WriterConfig { interval: LONG, ..bench.config() });
    let other = writer.clone();
    writer.record(entry(call("a", 0, 1, 0)));
    drop(writer);
    other.record(entry(call("b", 1, 1, 0)));
    drop(other);
    assert_eq!(bench.names(), ["ledger.sqlite", "ledger.sqlite.secret"], "the log is folded in");
    assert_eq!(bench.ids(&Filter::default()), ["a", "b"]);
    assert_eq!(integrity(&bench.path), "ok");
}

#[cfg(unix)]
#[test]
fn every_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    let writer = bench.writer();
    writer.record(entry(call("a", 0, 1, 0)));
    assert!(writer.flush(LONG));
    let names = bench.names();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        let mode = std::fs::metadata(bench.dir.path().join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn written_without_being_asked() {
    let bench = Bench::new();
    let writer = bench.writer();
    writer.record(entry(call("a", 0, 1, 0)));
    let end = std::time::Instant::now() + LONG;
    while writer.counts().written == 0 && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(bench.ids(&Filter::default()), ["a"]);
}

#[test]
fn prints_of_parts_and_tokens_and_no_text() {
    let bench = Bench::new();
    let writer = bench.writer();
    let body = r#"{"messages": [{"role": "system", "content": "Masala chai for thirteen."}, {"role": "user", "content": "How hot?"}]}"#;
    let ids: Arc<[u32]> = (0..300).collect();
    writer.record(Entry {
        outline: Some(Outline::Body(Bytes::from_static(body.as_bytes()))),
        prompt_ids: Some(Arc::clone(&ids)),
        salt: Some("pinch of salt".to_owned()),
        ..entry(call("a", 0, 300, 0))
    });
    let page = OutlinePart::new(PartKind::Page, "file.pages[0]", "How hot?");
    writer.record(Entry {
        outline: Some(Outline::Parts([page].into())),
        ..entry(call("b", 1, 9, 0))
    });
    assert!(writer.flush(LONG));
    let records = bench.ledger().records(&Filter::default()).unwrap();
    let secret = Secret::of_ledger(&bench.path).unwrap();
    let parts: Vec<_> =
        records[0].parts.iter().map(|p| (p.kind, &*p.path, p.chars, p.print)).collect();
    assert_eq!(
        parts,
        [
            (
                PartKind::System,
                "messages[0].content",
                25,
                secret.print("Masala chai for thirteen.")
            ),
            (PartKind::Message, "messages[1].content", 8, secret.print("How hot?")),
        ]
    );
    assert_eq!(records[1].parts[0].print, parts[1].3, "equal texts have equal prints");
    assert_eq!(records[0].trace, secret.trace(&["m", "default", "pinch of salt"], &ids));
    assert_eq!(records[0].trace.len(), 2);
    assert_eq!(records[0].text, None);
    // Neither in the file nor in its log.
    for name in bench.names() {
        let bytes = std::fs::read(bench.dir.path().join(&name)).unwrap();
        for text in ["Masala", "How hot", "pinch"] {
            assert!(!bytes.windows(text.len()).any(|at| at == text.as_bytes()), "{text} in {name}");
        }
    }
}

#[test]
fn text_only_where_it_is_asked_for() {
    let bench = Bench::new();
    let writer = bench.writer_with(WriterConfig { keep_text: true, ..bench.config() });
    let body = r#"{"prompt": "Masala chai"}"#;
    let outline = Some(Outline::Body(Bytes::from_static(body.as_bytes())));
    writer.record(Entry { outline, ..entry(call("a", 0, 3, 0)) });
    assert!(writer.close(LONG));
    assert_eq!(bench.ledger().records(&Filter::default()).unwrap()[0].text.as_deref(), Some(body));
    writer.record(entry(call("late", 0, 3, 0)));
    assert_eq!((writer.counts().written, writer.counts().dropped), (1, 1), "closed is closed");
}

#[test]
fn texts_of_a_conversation_are_gone_from_every_file() {
    let bench = Bench::new();
    let writer = bench.writer_with(WriterConfig { keep_text: true, ..bench.config() });
    for (id, conversation) in [("a", "chai"), ("b", "coffee")] {
        let body = format!(r#"{{"prompt": "the secret of {conversation}"}}"#);
        let mut record = call(id, 0, 3, 0);
        record.conversation = Some(conversation.to_owned());
        writer.record(Entry { outline: Some(Outline::Body(Bytes::from(body))), ..entry(record) });
    }
    assert_eq!(writer.erase_texts("default", "chai", LONG), Ok(1), "what waits is written first");
    assert_eq!(writer.erase_texts("another", "coffee", LONG), Ok(0));
    let records = bench.ledger().records(&Filter::default()).unwrap();
    let kept: Vec<_> = records.iter().map(|it| (it.text.is_some(), it.tokens.prompt)).collect();
    assert_eq!(kept, [(false, Some(3)), (true, Some(3))], "the counts stay");
    for name in bench.names() {
        let bytes = std::fs::read(bench.dir.path().join(&name)).unwrap();
        let text = b"the secret of chai";
        assert!(!bytes.windows(text.len()).any(|at| at == text), "in {name}");
    }
    assert!(writer.close(LONG));
}

#[test]
fn a_full_queue_drops_and_counts_and_never_blocks() {
    let bench = Bench::new();
    let queue = WriterConfig { queue: 4, batch: 1, ..bench.config() };
    let writer = bench.writer_with(queue);
    // Another process holds the write lock, so the thread can't get on.
    let holder = rusqlite::Connection::open(&bench.path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    for n in 0..100 {
        writer.record(entry(call(&format!("{n:03}"), n, 1, 0)));
    }
    let dropped = writer.counts().dropped;
    assert!((80..100).contains(&dropped), "{dropped}");
    holder.execute_batch("COMMIT").unwrap();
    assert!(writer.flush(LONG));
    let counts = writer.counts();
    assert_eq!(counts.written + counts.dropped, 100);
    assert_eq!(bench.ids(&Filter::default()).len() as u64, counts.written);
    assert!(counts.written >= 4, "{counts:?}");
}

#[test]
fn prompts_that_wait_are_bounded_in_bytes() {
    let bench = Bench::new();
    let writer =
        bench.writer_with(WriterConfig { queue_bytes: 1000, interval: LONG, ..bench.config() });
    let holder = rusqlite::Connection::open(&bench.path).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let big = |n: i64| Entry {
        outline: Some(Outline::Body(Bytes::from(vec![b' '; 900]))),
        ..entry(call(&n.to_string(), n, 1, 0))
    };
    // The thread takes one and waits for the lock at the flush; of those behind it, one has room.
    writer.record(big(0));
    assert!(!writer.flush(Duration::from_millis(1)));
    for n in 1..10 {
        writer.record(big(n));
    }
    assert!(writer.counts().dropped >= 7, "{:?}", writer.counts());
    holder.execute_batch("COMMIT").unwrap();
    assert!(writer.flush(LONG));
    assert_eq!(writer.counts().written + writer.counts().dropped, 10);
}
