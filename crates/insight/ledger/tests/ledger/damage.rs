use std::fs;
use std::os::unix::fs::FileExt;

use tapri_ledger::{Filter, OpenError, Writer};

use crate::support::{Bench, LONG, call, entry, integrity};

/// A ledger of some hundred pages.
fn filled() -> Bench {
    let bench = Bench::new();
    let writer = bench.writer();
    for n in 0..2000 {
        writer.record(entry(call(&format!("{n:032}"), n, 100, 0)));
    }
    assert!(writer.close(LONG));
    bench
}

fn overwrite(bench: &Bench, from: u64, bytes: usize) {
    let file = fs::OpenOptions::new().write(true).open(&bench.path).unwrap();
    file.write_all_at(&vec![0xa5; bytes], from).unwrap();
}

fn set_aside(bench: &Bench, writer: &Writer) {
    let aside = writer.aside().expect("it was corrupt").to_owned();
    assert_eq!(aside.file_name().unwrap(), "ledger.sqlite.corrupt-20261130T100000Z");
    assert!(fs::metadata(&aside).unwrap().len() > 0, "never deleted");
    writer.record(entry(call("new", 0, 1, 0)));
    assert!(writer.flush(LONG));
    assert_eq!(bench.ids(&Filter::default()), ["new"]);
    assert_eq!(integrity(&bench.path), "ok");
}

#[test]
fn a_damaged_page_is_found_at_opening() {
    let bench = filled();
    let bytes = fs::read(&bench.path).unwrap();
    overwrite(&bench, 20 * 4096, 8 * 4096);
    let damaged = fs::read(&bench.path).unwrap();
    assert_ne!(bytes, damaged);
    let writer = bench.writer();
    set_aside(&bench, &writer);
    assert_eq!(fs::read(writer.aside().unwrap()).unwrap(), damaged, "as it was found");
}

#[test]
fn a_damaged_head_is_found_at_opening() {
    let bench = filled();
    overwrite(&bench, 0, 4096);
    set_aside(&bench, &bench.writer());
}

#[test]
fn a_cut_file_is_found_at_opening() {
    let bench = filled();
    let file = fs::OpenOptions::new().write(true).open(&bench.path).unwrap();
    file.set_len(10 * 4096 + 17).unwrap();
    set_aside(&bench, &bench.writer());
}

#[test]
fn two_in_one_second_get_names_of_their_own() {
    let bench = filled();
    overwrite(&bench, 0, 4096);
    drop(bench.writer());
    overwrite(&bench, 0, 4096);
    let writer = bench.writer();
    let aside = writer.aside().unwrap().file_name().unwrap().to_str().unwrap();
    assert_eq!(aside, "ledger.sqlite.corrupt-20261130T100000Z-1");
    assert_eq!(bench.names().iter().filter(|name| name.contains("corrupt")).count(), 2);
}

#[test]
fn the_prints_go_on_in_a_new_file() {
    let bench = filled();
    let secret = fs::read(bench.dir.path().join("ledger.sqlite.secret")).unwrap();
    overwrite(&bench, 0, 4096);
    drop(bench.writer());
    assert_eq!(fs::read(bench.dir.path().join("ledger.sqlite.secret")).unwrap(), secret);
}

#[test]
fn damage_under_a_running_writer() {
    let bench = filled();
    let writer = bench.writer();
    writer.record(entry(call("before", 0, 1, 0)));
    assert!(writer.flush(LONG));
    // All pages but the log's; the writer's own cache knows some of them.
    let length = fs::metadata(&bench.path).unwrap().len();
    overwrite(&bench, 0, length as usize);
    for n in 0..500 {
        writer.record(entry(call(&format!("{n}"), 0, 1, 0)));
        assert!(writer.flush(LONG));
    }
    drop(writer);
    // Whatever was still possible: calls went on, and the next opening has a sound ledger.
    let writer = bench.writer();
    writer.record(entry(call("after", 0, 1, 0)));
    assert!(writer.close(LONG));
    assert_eq!(integrity(&bench.path), "ok");
    assert!(bench.ids(&Filter::default()).contains(&"after".to_owned()));
    assert!(bench.names().iter().any(|name| name.contains(".corrupt-")), "{:?}", bench.names());
}

#[test]
fn a_file_that_never_was_a_ledger_is_not_moved() {
    let bench = Bench::new();
    fs::write(&bench.path, "my only copy of a novel").unwrap();
    let error = Writer::open(bench.config(), bench.clock.clone()).unwrap_err();
    assert!(matches!(error, OpenError::NoLedger { .. }), "{error:?}");
    assert_eq!(fs::read(&bench.path).unwrap(), b"my only copy of a novel");
    assert_eq!(bench.names(), ["ledger.sqlite"]);
}

#[test]
fn another_programs_database_is_not_touched() {
    let bench = Bench::new();
    let connection = rusqlite::Connection::open(&bench.path).unwrap();
    connection.execute_batch("PRAGMA application_id = 77; CREATE TABLE t (x)").unwrap();
    drop(connection);
    let bytes = fs::read(&bench.path).unwrap();
    let error = Writer::open(bench.config(), bench.clock.clone()).unwrap_err();
    assert!(matches!(error, OpenError::NoLedger { .. }), "{error:?}");
    assert_eq!(fs::read(&bench.path).unwrap(), bytes);
}

#[test]
fn a_file_that_is_taken_away_is_made_again() {
    let bench = Bench::new();
    let writer = bench.writer();
    writer.record(entry(call("a", 0, 1, 0)));
    assert!(writer.flush(LONG));
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(bench.dir.path().join(format!("ledger.sqlite{ending}"))).unwrap();
    }
    writer.record(entry(call("b", 0, 1, 0)));
    assert!(writer.flush(LONG));
    assert_eq!(bench.ids(&Filter::default()), ["b"]);
}

#[test]
fn a_folder_that_can_not_be_made() {
    let bench = Bench::new();
    fs::write(bench.dir.path().join("file"), "").unwrap();
    let path = bench.dir.path().join("file/ledger.sqlite");
    let config = tapri_ledger::WriterConfig::new(path);
    let error = Writer::open(config, bench.clock.clone()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
}
