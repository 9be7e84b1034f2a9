//! The real traces of `examples/traces`.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use tapri_insight::lines::{Lines, decompressed};
use tapri_insight::simulate::{
    Counting, Curve, Format, Reader, Settings, Trace, belady, fifo, replay,
};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../examples/traces")
}

fn conversation() -> Trace {
    let file = File::open(folder().join("mooncake/conversation_trace.jsonl.gz")).unwrap();
    let mut reader = Reader::new(None, Duration::ZERO);
    let mut lines = Lines::new(decompressed(file).unwrap());
    reader.read_lines(&mut lines).unwrap();
    assert_eq!((lines.broken.count, reader.format()), (0, Some(Format::Mooncake)));
    reader.finish().unwrap()
}

fn sessions(stagger: Duration) -> Trace {
    let mut reader = Reader::new(None, stagger);
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder().join("claude-code"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    files.sort();
    assert_eq!(files.len(), 16);
    for file in files {
        let broken = reader.read_session(decompressed(File::open(file).unwrap()).unwrap()).unwrap();
        assert_eq!(broken.count, 0);
    }
    assert_eq!(reader.format(), Some(Format::Session));
    reader.finish().unwrap()
}

/// Held against figures of another program over the same file (a dictionary of ids and a loop).
#[test]
fn the_conversation_trace_in_an_endless_cache() {
    let trace = conversation();
    assert_eq!((trace.calls().len(), trace.distinct()), (12_031, 182_790));
    assert_eq!((trace.blocks(), trace.tokens()), (288_500, 144_793_823));
    let endless = Curve::new(&trace, Counting::Listed, |_| {}).endless();
    assert_eq!((endless.blocks, endless.tokens), (105_710, 54_098_411));
    let share = |part: u64, whole: u64| format!("{:.4}", part as f64 / whole as f64);
    assert_eq!(share(endless.blocks, trace.blocks()), "0.3664");
    assert_eq!(share(endless.tokens, trace.tokens()), "0.3736");
    // The engine shares full blocks only.
    let endless = Curve::new(&trace, Counting::Engine, |_| {}).endless();
    assert_eq!((endless.blocks, endless.tokens), (105_592, 54_063_104));
}

/// At the smallest capacity and at shares of what would hold everything.
fn check(trace: &Trace, counting: Counting, shares: &[usize]) {
    let curve = Curve::new(trace, counting, |_| {});
    for share in shares {
        let capacity = (curve.smallest() + 1).max(curve.largest() * share / 100);
        let settings = Settings { capacity: Some(capacity), ttl: None, counting };
        let replayed = replay(trace, settings, |_| {}).unwrap();
        assert_eq!(curve.at(capacity), Some(replayed.hits), "capacity {capacity}");
        let best = belady(trace, counting, capacity);
        let first_in = fifo(trace, counting, capacity);
        assert!(replayed.hits.blocks <= best.blocks && first_in.blocks <= best.blocks);
        assert!(best.blocks <= curve.endless().blocks);
    }
}

#[test]
fn one_pass_and_exact_replay_of_the_conversation_trace() {
    let trace = conversation();
    check(&trace, Counting::Listed, &[0, 10]);
    check(&trace, Counting::Engine, &[0, 40]);
}

#[test]
fn one_pass_and_exact_replay_of_recorded_sessions() {
    for stagger in [Duration::ZERO, Duration::from_secs(600)] {
        let trace = sessions(stagger);
        check(&trace, Counting::Listed, &[0, 30, 80]);
        check(&trace, Counting::Engine, &[0, 50]);
    }
}

#[test]
fn expiry_takes_from_an_endless_cache() {
    let trace = conversation();
    let after = |ttl: Option<u64>| {
        let ttl = ttl.map(Duration::from_secs);
        let settings = Settings { capacity: None, ttl, counting: Counting::Listed };
        replay(&trace, settings, |_| {}).unwrap().hits.blocks
    };
    let (five_minutes, an_hour, never) = (after(Some(300)), after(Some(3600)), after(None));
    // The trace is an hour long.
    assert_eq!(an_hour, never);
    assert!(five_minutes < an_hour && five_minutes > never / 2, "{five_minutes} of {never}");
}
