use std::time::Duration;

use tapri_ledger::{Filter, Limits, WriterConfig};

use crate::support::{Bench, LONG, call, entry, integrity};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn old_records_go_with_time() {
    let bench = Bench::new();
    let config =
        WriterConfig { limits: Limits { age: 10 * DAY, ..Limits::default() }, ..bench.config() };
    let writer = bench.writer_with(config.clone());
    for day in 0..12 {
        writer.record(entry(call(&format!("{day:02}"), day * 24 * 60, 1, 0)));
    }
    assert!(writer.flush(LONG));
    assert_eq!(bench.ids(&Filter::default()).len(), 12, "none is ten days old");
    bench.clock.advance(14 * DAY + Duration::from_secs(1));
    writer.record(entry(call("now", 14 * 24 * 60, 1, 0)));
    assert!(writer.flush(LONG));
    // Days 0 to 4 are more than ten days ago.
    assert_eq!(bench.ids(&Filter::default())[..2], ["05", "06"]);
    assert_eq!(writer.counts().pruned, 5);
    // An idle one is pruned when it is opened again.
    drop(writer);
    bench.clock.advance(5 * DAY);
    let writer = bench.writer_with(config);
    assert!(writer.flush(LONG));
    assert_eq!(bench.ids(&Filter::default())[0], "10");
}

#[test]
fn a_ledger_keeps_to_its_size() {
    let bench = Bench::new();
    let limit = 512 * 1024;
    let limits = Limits { bytes: limit, ..Limits::default() };
    let writer = bench.writer_with(WriterConfig { limits, ..bench.config() });
    for n in 0..6000_i64 {
        let mut record = call(&format!("{n:032}"), n, 1, 0);
        record.trace = vec![7; 60];
        writer.record(entry(record));
        if n % 1000 == 999 {
            assert!(writer.flush(LONG));
        }
    }
    assert!(writer.close(LONG));
    let size = std::fs::metadata(&bench.path).unwrap().len();
    assert!(size <= limit, "{size}");
    assert!(size > limit / 2, "no more than needed goes: {size}");
    let ids = bench.ids(&Filter::default());
    let counts = writer.counts();
    assert_eq!((counts.written, counts.dropped), (6000, 0));
    assert_eq!(counts.pruned as usize + ids.len(), 6000);
    // The newest are there without a gap.
    let first: usize = ids[0].parse().unwrap();
    assert_eq!(ids.len(), 6000 - first);
    assert_eq!(integrity(&bench.path), "ok");
}

#[test]
fn pruned_bytes_are_overwritten() {
    let bench = Bench::new();
    let limits = Limits { age: DAY, ..Limits::default() };
    let writer = bench.writer_with(WriterConfig { limits, ..bench.config() });
    for n in 0..50 {
        let mut record = call(&format!("{n}"), 0, 1, 0);
        record.conversation = Some("the secret garden".to_owned());
        writer.record(entry(record));
    }
    assert!(writer.flush(LONG));
    bench.clock.advance(2 * DAY);
    assert!(writer.flush(LONG));
    assert!(writer.close(LONG));
    let bytes = std::fs::read(&bench.path).unwrap();
    assert!(!bytes.windows(13).any(|at| at == b"secret garden"));
}
