use std::fs;

use tapri_ledger::{Filter, Ledger, MissReason, OpenError, Writer, schema};

use crate::support::{Bench, LONG, call, entry, full, integrity, start};

/// A ledger as version 1 left it; see `SOURCE.txt`.
const VERSION_1: &[u8] = include_bytes!("../data/version-1.sqlite");

fn version(bench: &Bench) -> i32 {
    let connection = rusqlite::Connection::open(&bench.path).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

fn old() -> Bench {
    let bench = Bench::new();
    fs::write(&bench.path, VERSION_1).unwrap();
    assert_eq!(version(&bench), 1);
    bench
}

/// All that version 1 wrote is still there, and what later versions added is filled in.
fn check(bench: &Bench) {
    assert_eq!(version(bench), schema::VERSION);
    // Where tokens came from was not told then.
    let mut first = full(&"a1".repeat(16));
    first.tokens.restored = None;
    let mut second = full(&"b2".repeat(16));
    second.tokens.restored = None;
    second.explanation = None;
    second.at = start() + jiff::SignedDuration::from_secs(1);
    let expected = [first, second, call(&"c3".repeat(16), 1, 100, 90)];
    assert_eq!(bench.ledger().records(&Filter::default()).unwrap(), expected);
    let by_reason = Filter { reason: Some(MissReason::Time), ..Filter::default() };
    assert_eq!(bench.ids(&by_reason), ["a1".repeat(16)]);
    assert_eq!(integrity(&bench.path), "ok");
}

#[test]
fn version_1_is_brought_up_by_a_writer() {
    let bench = old();
    let writer = bench.writer();
    assert_eq!(writer.aside(), None);
    check(&bench);
    writer.record(entry(call("new", 5, 1, 0)));
    assert!(writer.flush(LONG));
    assert_eq!(bench.ids(&Filter::default()).len(), 4);
}

#[test]
fn version_1_is_brought_up_by_a_reader() {
    let bench = old();
    drop(bench.ledger());
    check(&bench);
}

#[test]
fn version_1_is_brought_up_by_many_at_once() {
    let bench = old();
    std::thread::scope(|scope| {
        for n in 0..4 {
            let bench = &bench;
            scope.spawn(move || match n % 2 {
                0 => drop(bench.writer()),
                _ => drop(bench.ledger()),
            });
        }
    });
    check(&bench);
}

#[test]
fn the_tables_are_the_same_however_they_came_about() {
    let tables = |bench: &Bench| {
        let connection = rusqlite::Connection::open(&bench.path).unwrap();
        let mut statement =
            connection.prepare("SELECT name, sql FROM sqlite_master ORDER BY name").unwrap();
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
    };
    let (old, new) = (old(), Bench::new());
    drop((old.writer(), new.writer()));
    assert_eq!(tables(&old), tables(&new));
}

#[test]
fn a_later_version_is_refused_and_left_as_it_was() {
    let bench = Bench::new();
    drop(bench.writer());
    let connection = rusqlite::Connection::open(&bench.path).unwrap();
    connection.execute_batch("PRAGMA user_version = 99; CREATE TABLE of_the_future (x)").unwrap();
    drop(connection);
    let (bytes, names) = (fs::read(&bench.path).unwrap(), bench.names());
    for error in [
        Writer::open(bench.config(), bench.clock.clone()).unwrap_err(),
        Ledger::open_read(&bench.path).err().unwrap(),
    ] {
        assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
        assert!(
            error.to_string().ends_with("has version 99, and this Tapri knows up to version 3")
        );
    }
    assert_eq!(fs::read(&bench.path).unwrap(), bytes);
    assert_eq!(bench.names(), names);
}

/// The version may stand in the log alone, while the other Tapri runs.
#[test]
fn a_later_version_that_is_still_in_the_log_is_refused_too() {
    let bench = Bench::new();
    drop(bench.writer());
    let running = rusqlite::Connection::open(&bench.path).unwrap();
    running.execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA user_version = 99").unwrap();
    let bytes = fs::read(&bench.path).unwrap();
    let error = Writer::open(bench.config(), bench.clock.clone()).unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error:?}");
    assert_eq!(fs::read(&bench.path).unwrap(), bytes);
}
