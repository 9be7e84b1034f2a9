//! What a ledger costs: handing a record over, writing, opening, reading.
//!
//! `cargo run -p tapri-ledger --example ledger_figures [RECORDS]`. The prompts are as long as a case file of 30,000
//! tokens on 40 pages. Figures are of one run on a machine that may have had other things to do.
#![allow(clippy::print_stdout, reason = "it prints figures")]

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tapri_api::{Outline, OutlinePart, PartKind};
use tapri_ledger::{
    CallRecord, Detail, Entry, Filter, Ledger, Order, SystemClock, Writer, WriterConfig,
};

fn main() -> Result<(), Box<dyn Error>> {
    let records: u64 = std::env::args().nth(1).map_or(Ok(20_000), |n| n.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ledger.sqlite");
    let page: Arc<str> = "The tenant keeps the stall clean and pays the rent. ".repeat(60).into();
    let mut parts: Vec<_> = (0..40)
        .map(|n| OutlinePart::new(PartKind::Page, format!("file.pages[{n}]"), Arc::clone(&page)))
        .collect();
    parts.push(OutlinePart::new(PartKind::Message, "question", "How much is the rent?"));
    let outline = Outline::Parts(parts.into());
    let ids: Arc<[u32]> = (0..30_745).collect();

    let open = || Writer::open(WriterConfig::new(&path), Arc::new(SystemClock));
    let writer = open()?;
    let (mut handing, mut longest) = (Duration::ZERO, Duration::ZERO);
    let begun = Instant::now();
    for n in 0..records {
        let mut record = CallRecord::new(format!("{n:032x}"), jiff::Timestamp::now());
        record.tokens.prompt = Some(30_745);
        record.tokens.cached = Some(30_592);
        let entry = Entry {
            outline: Some(outline.clone()),
            prompt_ids: Some(Arc::clone(&ids)),
            ..Entry::new(record)
        };
        let start = Instant::now();
        writer.record(entry);
        let took = start.elapsed();
        handing += took;
        longest = longest.max(took);
        if n % 64 == 63 {
            writer.flush(Duration::from_secs(60));
        }
    }
    let took = begun.elapsed();
    println!(
        "handing a record over: {:?} in the mean, {longest:?} at most",
        handing / records as u32
    );
    println!(
        "fingerprints and writing, by the 64: {:.0} records/s; {:?}",
        records as f64 / took.as_secs_f64(),
        writer.counts()
    );
    writer.close(Duration::from_secs(60));
    drop(writer);
    let bytes = std::fs::metadata(&path)?.len();
    println!("size: {bytes} bytes, {} a record", bytes / records);

    let start = Instant::now();
    let writer = open()?;
    let took = start.elapsed();
    println!(
        "opening with its check: {took:?}; {:.2} s for 1 GiB at this rate",
        took.as_secs_f64() * (1u64 << 30) as f64 / bytes as f64
    );
    writer.close(Duration::from_secs(60));

    let ledger = Ledger::open_read(&path)?;
    for (what, filter) in [
        ("all of every record", Filter::default()),
        ("figures of every record", Filter { detail: Detail::Figures, ..Filter::default() }),
        (
            "the newest 50",
            Filter {
                detail: Detail::Figures,
                order: Order::NewestFirst,
                limit: Some(50),
                ..Filter::default()
            },
        ),
    ] {
        let start = Instant::now();
        let queried = ledger.query(&filter, |_| ControlFlow::Continue(()))?;
        println!("reading {what}: {} in {:?}", queried.records, start.elapsed());
    }
    Ok(())
}
