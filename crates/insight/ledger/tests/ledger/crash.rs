//! `kill -9` under load.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapri_ledger::{Filter, SystemClock, Writer, WriterConfig};

use crate::child;
use crate::support::{Bench, call, entry, integrity};

/// What a killed process may lose.
const SECOND: Duration = Duration::from_secs(1);

/// How often the process is killed.
const ROUNDS: u64 = 6;

/// Hands over thousands of records a second, and says each one's name and time, until it is killed.
#[test]
#[ignore = "the process that is killed"]
fn victim() {
    let Some(path) = child::ledger() else { return };
    let writer = Writer::open(WriterConfig::new(path), Arc::new(SystemClock)).unwrap();
    let start = Instant::now();
    for n in 0_u64.. {
        writer.record(entry(call(&format!("{}-{n}", std::process::id()), 0, 1000, 0)));
        child::say(&format!("{} {}-{n}", start.elapsed().as_micros(), std::process::id()));
        if n.is_multiple_of(8) {
            // The load of a busy server, not of a benchmark of pipes.
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(writer.counts().dropped, 0);
    }
}

#[test]
fn a_killed_process_loses_at_most_the_last_second_and_breaks_nothing() {
    let bench = Bench::new();
    for round in 0..ROUNDS {
        let mut victim = child::run("crash::victim", &bench.path, "");
        let mut handed_over = Vec::new();
        // Another moment each time: between batches, in one, at a checkpoint.
        let end = SECOND + Duration::from_millis(200 + 137 * round);
        while let Some(said) = victim.next() {
            let (micros, id) = said.split_once(' ').unwrap();
            let at = Duration::from_micros(micros.parse().unwrap());
            handed_over.push((at, id.to_owned()));
            if at >= end {
                break;
            }
        }
        victim.child.kill().unwrap();
        victim.child.wait().unwrap();
        // It died no earlier than this, so what is older by a second has to be there.
        let died = handed_over.last().unwrap().0;
        assert!(died >= end, "it ended by itself");

        assert_eq!(integrity(&bench.path), "ok", "round {round}");
        let written: HashSet<_> = bench.ids(&Filter::default()).into_iter().collect();
        let lost: Vec<_> = handed_over
            .iter()
            .filter(|(at, id)| *at + SECOND < died && !written.contains(id))
            .collect();
        assert!(lost.is_empty(), "round {round}, died at {died:?}: {lost:?}");
        let survived = handed_over.iter().filter(|(_, id)| written.contains(id)).count();
        assert!(survived > 100, "round {round}: {survived} of {}", handed_over.len());
    }
    // Nobody had to set anything aside, and the next one writes on.
    assert!(bench.names().iter().all(|name| !name.contains("corrupt")), "{:?}", bench.names());
    assert_eq!(bench.writer().aside(), None);
}
