use std::sync::atomic::{AtomicBool, Ordering};

use tapri_ledger::Filter;

use crate::support::{Bench, LONG, call, entry, integrity};

#[test]
fn many_writers_of_one_file() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let bench = &bench;
            scope.spawn(move || {
                let own = bench.writer();
                for n in 0..500 {
                    own.record(entry(call(&format!("{writer}-{n:03}"), n, 1, 0)));
                    if n % 50 == 0 {
                        assert!(own.flush(LONG));
                    }
                }
                assert!(own.close(LONG));
                assert_eq!((own.counts().written, own.counts().dropped), (500, 0));
            });
        }
    });
    assert_eq!(bench.ids(&Filter::default()).len(), 2000);
    assert_eq!(integrity(&bench.path), "ok");
}

#[cfg(unix)]
#[test]
#[ignore = "one of several processes"]
fn one_of_several() {
    let Some(path) = crate::child::ledger() else { return };
    let config = tapri_ledger::WriterConfig::new(path);
    let writer = tapri_ledger::Writer::open(config, std::sync::Arc::new(tapri_ledger::SystemClock));
    let writer = writer.unwrap();
    crate::child::say("open");
    for n in 0..1000 {
        writer.record(entry(call(&format!("{}-{n:04}", std::process::id()), n, 1, 0)));
        if n % 20 == 0 {
            assert!(writer.flush(LONG));
        }
    }
    assert!(writer.close(LONG));
    assert_eq!((writer.counts().written, writer.counts().dropped), (1000, 0));
}

/// Processes that begin a ledger together, and write to it together: nobody loses anything.
#[cfg(unix)]
#[test]
fn several_processes_write_one_file() {
    let bench = Bench::new();
    let mut processes: Vec<_> =
        (0..3).map(|_| crate::child::run("sharing::one_of_several", &bench.path, "")).collect();
    for process in &mut processes {
        assert_eq!(process.next().as_deref(), Some("open"));
    }
    processes.into_iter().for_each(crate::child::Running::end);
    assert_eq!(bench.ids(&Filter::default()).len(), 3000);
    assert_eq!(integrity(&bench.path), "ok");
    assert_eq!(bench.names(), ["ledger.sqlite", "ledger.sqlite.secret"], "one secret, no draft");
}

#[test]
fn readers_while_a_writer_writes() {
    let bench = Bench::new();
    let writer = bench.writer();
    assert!(writer.flush(LONG));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let ledger = bench.ledger();
                let mut last = 0;
                while !done.load(Ordering::Relaxed) {
                    let records = ledger.records(&Filter::default()).unwrap();
                    // Batches are whole, and nothing that was seen goes away again.
                    assert!(
                        records.len() >= last && records.len().is_multiple_of(100),
                        "{}",
                        records.len()
                    );
                    last = records.len();
                }
                assert_eq!(ledger.records(&Filter::default()).unwrap().len(), 3000);
            });
        }
        for batch in 0..30 {
            for n in 0..100 {
                writer.record(entry(call(&format!("{batch}-{n}"), n, 1, 0)));
            }
            assert!(writer.flush(LONG));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!((writer.counts().written, writer.counts().dropped), (3000, 0));
}
