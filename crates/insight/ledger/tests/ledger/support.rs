use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tapri_ledger::{
    CacheOutcome, CacheResult, CallRecord, Cost, Ending, Entry, Explanation, Filter, Ledger,
    MissReason, Money, PartKind, PartPrint, Place, SetClock, Writer, WriterConfig,
};

/// Long enough for the slowest machine; nobody waits for it where all is well.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A moment that all tests begin at.
pub(crate) fn start() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().unwrap()
}

pub(crate) struct Bench {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<SetClock>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.sqlite");
        Bench { dir, path, clock: Arc::new(SetClock::new(start())) }
    }

    pub(crate) fn config(&self) -> WriterConfig {
        WriterConfig::new(&self.path)
    }

    pub(crate) fn writer(&self) -> Writer {
        self.writer_with(self.config())
    }

    pub(crate) fn writer_with(&self, config: WriterConfig) -> Writer {
        Writer::open(config, self.clock.clone()).unwrap()
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::open_read(&self.path).unwrap()
    }

    pub(crate) fn ids(&self, filter: &Filter) -> Vec<String> {
        self.ledger().records(filter).unwrap().into_iter().map(|record| record.id).collect()
    }

    /// Names in the folder, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// What SQLite itself says of a file.
pub(crate) fn integrity(path: &Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap()
}

pub(crate) fn entry(record: CallRecord) -> Entry {
    Entry::new(record)
}

/// A record in which every field has a value of its own.
pub(crate) fn full(id: &str) -> CallRecord {
    let mut record = CallRecord::new(id, start());
    record.tenant = "chai & co".to_owned();
    record.route = "/v1/chat/completions".to_owned();
    record.model = "gemma-3-270m".to_owned();
    record.upstream = "embedded".to_owned();
    record.conversation = Some("session 7".to_owned());
    record.ending = Ending::Error("kv_memory_exceeded".to_owned());
    record.tokens.prompt = Some(30_650);
    record.tokens.cached = Some(12_000);
    record.tokens.restored = Some(4_096);
    record.tokens.joined = Some(16);
    record.tokens.written = Some(18_624);
    record.tokens.answer = Some(0);
    record.ttft = Some(Duration::from_micros(112_345));
    record.total = Duration::from_micros(5_000_001);
    let cache =
        |outcome, reason: &str| Some(CacheResult { outcome, reason: Some(reason.to_owned()) });
    record.exact = cache(CacheOutcome::Miss, "never_seen");
    record.semantic = Some(CacheResult { outcome: CacheOutcome::Bypass, reason: None });
    record.prefix = cache(CacheOutcome::Partial, "first_difference");
    record.explanation = Some(Explanation {
        reason: MissReason::Time,
        nearest: Some("0d".repeat(16)),
        shared_tokens: Some(12_003),
        estimated: false,
        place: Some(Place {
            path: "messages[0].content".to_owned(),
            character: Some(14),
            page: Some(2),
        }),
        new: Some("10:42:07".to_owned()),
        old: Some("10:41:55".to_owned()),
        looks_like: Some("looks like a time of day".to_owned()),
        suggestion: "Move it behind what stays the same.".to_owned(),
    });
    record.cost = Some(Cost {
        paid: Money::new("3.0809".parse().unwrap(), "Rs"),
        without_cache: Money::new("68.4".parse().unwrap(), "Rs"),
        price_list: "example".to_owned(),
        price_date: Some("2026-11-01".to_owned()),
    });
    record.parts = vec![
        PartPrint {
            kind: PartKind::System,
            path: "messages[0].content".into(),
            chars: 7,
            print: 1,
        },
        PartPrint { kind: PartKind::Page, path: "file.pages[1]".into(), chars: 9, print: u64::MAX },
    ];
    record.trace = vec![u64::MAX, 0, 0x0123_4567_89ab_cdef];
    record.text = Some("{\"messages\": []}".to_owned());
    record
}

/// A record that a filter can tell from others.
pub(crate) fn call(id: &str, minutes: i64, prompt: u64, cached: u64) -> CallRecord {
    let mut record = CallRecord::new(id, start() + jiff::SignedDuration::from_mins(minutes));
    record.route = "ask".to_owned();
    record.model = "m".to_owned();
    record.upstream = "embedded".to_owned();
    record.tokens.prompt = Some(prompt);
    record.tokens.cached = Some(cached);
    let outcome = match cached {
        0 => CacheOutcome::Miss,
        _ if cached + 16 >= prompt => CacheOutcome::Hit,
        _ => CacheOutcome::Partial,
    };
    record.prefix = Some(CacheResult { outcome, reason: Some("never_seen".to_owned()) });
    record
}
