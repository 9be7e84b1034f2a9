//! A disk without room, and with room again.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tapri_ledger::{Filter, SystemClock, Writer, WriterConfig};

use crate::child;
use crate::support::{Bench, LONG, call, entry, integrity};

/// Writes records of a few hundred bytes until the writer can't, then has room made and goes on.
fn fill(path: &Path, room_again: impl FnOnce()) {
    let writer = Writer::open(WriterConfig::new(path), Arc::new(SystemClock)).unwrap();
    let mut n = 0;
    let mut write = || {
        for _ in 0..50 {
            n += 1;
            let mut record = call(&format!("{n:05}"), n, 1000, 0);
            record.trace = vec![n as u64; 40];
            writer.record(entry(record));
        }
        assert!(writer.flush(LONG));
        writer.counts()
    };
    let mut counts = write();
    assert_eq!((counts.written, counts.dropped), (50, 0), "there is room at first");
    // Folding the log in may make room once more; then it stays full for a while: every batch is dropped, every record
    // is counted, nobody waits.
    let mut full = 0;
    while full < 3 {
        assert!(counts.written < 100_000, "the disk never filled up");
        let before = counts;
        counts = write();
        let taken = (counts.written - before.written, counts.dropped - before.dropped);
        full = if taken == (0, 50) { full + 1 } else { 0 };
    }
    let written = counts.written;
    assert!(writer.last_error().is_some());
    room_again();
    let after = write();
    assert_eq!((after.written, after.dropped), (written + 50, counts.dropped), "written again");
    assert!(writer.close(LONG));
    child::say(&format!("written {}", after.written));
}

fn check(bench: &Bench, mut child: child::Running) {
    let said = child.next().unwrap_or_default();
    child.end();
    let written: usize = said.strip_prefix("written ").expect(&said).parse().unwrap();
    let ids = bench.ids(&Filter::default());
    assert_eq!(ids.len(), written);
    assert_eq!(integrity(&bench.path), "ok");
    assert!(bench.names().iter().all(|name| !name.contains("corrupt")), "{:?}", bench.names());
}

#[test]
#[ignore = "the process that may write no large files"]
fn under_a_limit() {
    let Some(path) = child::ledger() else { return };
    let old = getrlimit(Resource::Fsize);
    let limit = Rlimit { current: Some(300 << 10), ..old };
    setrlimit(Resource::Fsize, limit).unwrap();
    fill(&path, || setrlimit(Resource::Fsize, old).unwrap());
}

/// The system refuses to make the file any longer: an error of writing. (The signal that comes with it is ignored,
/// as a server would; a file on a quota gets no signal.)
#[test]
fn a_file_that_may_not_grow() {
    let bench = Bench::new();
    check(&bench, child::run("full_disk::under_a_limit", &bench.path, "trap '' XFSZ;"));
}

#[test]
#[ignore = "the process with a small disk"]
fn on_a_small_disk() {
    let Some(path) = child::ledger() else { return };
    let ballast = path.with_file_name("ballast");
    fs::write(&ballast, vec![7; 256 << 10]).unwrap();
    fill(&path, || fs::remove_file(&ballast).unwrap());
    // The disk is this process's alone, and gone with it.
    assert_eq!(integrity(&path), "ok");
}

/// A file system of a megabyte, in a namespace of its own: SQLite finds it full.
#[test]
fn a_full_disk() {
    let bench = Bench::new();
    let folder = bench.dir.path().join("disk");
    fs::create_dir(&folder).unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none '{}'", folder.display());
    let possible = std::process::Command::new("unshare").args(["-rm", "sh", "-c", &mount]).status();
    if !possible.is_ok_and(|status| status.success()) {
        // Not every system lets a user make one; what a file that can't grow does is tried everywhere.
        return;
    }
    let mount = mount.replace('\'', "\"");
    let shell = format!("exec unshare -rm sh -c '{mount} && exec \"$0\" \"$@\"' \"$0\" \"$@\";");
    let mut child = child::run("full_disk::on_a_small_disk", &folder.join("ledger.sqlite"), &shell);
    assert!(child.next().is_some_and(|said| said.starts_with("written ")));
    child.end();
}
