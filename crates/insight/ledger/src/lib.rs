//! The ledger: one record of every call, without its text, in SQLite.
//!
//! A [`Writer`] takes records from a running program and writes them in batches on a thread of its own; a [`Ledger`]
//! reads them, also while writers write. Many processes may share one file.
//!
//! Invariants:
//! - A call never waits for the ledger, and never fails for it: what can't be written is dropped and counted.
//! - The text of a prompt is not in the file, unless the ledger was told to keep texts. What is there instead are
//!   fingerprints, salted by a [`Secret`] that lies beside the file.
//! - A killed process loses what was not yet written, at most a second's records, and corrupts nothing.
//! - A file that isn't a ledger, or is one of a later version, is refused and left as it was. A corrupt one is set
//!   aside under another name, never deleted.
//! - Names that are stored or printed are stable; a change of the tables is a step from one version to the next.
//!
//! Map: [`record`] a call; [`reason`] the closed list of why a call reused less than it could; [`money`] exact amounts;
//! [`writer`] writing; [`reader`] reading; [`query`] which calls are wanted; [`secret`] fingerprints; [`schema`] the
//! tables; `row` a record as a row; `store` the file; [`prune`] the limits of size and age; [`clock`] the time.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use std::time::Duration;
//! use tapri_ledger::{CallRecord, Ending, Entry, Filter, Ledger, SystemClock, Writer, WriterConfig};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("ledger.sqlite");
//! let writer = Writer::open(WriterConfig::new(&path), Arc::new(SystemClock))?;
//! let mut record = CallRecord::new("4f1c", jiff::Timestamp::now());
//! record.tokens.prompt = Some(30_650);
//! record.tokens.cached = Some(30_592);
//! writer.record(Entry::new(record));
//! writer.flush(Duration::from_secs(10));
//!
//! let filter = Filter { hit_above: Some(0.9), ..Filter::default() };
//! let queried = Ledger::open_read(&path)?.query(&filter, |record| {
//!     assert_eq!((record.id.as_str(), record.ending), ("4f1c", Ending::Stop));
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(queried.records, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod clock;
mod digits;
pub mod money;
pub mod prune;
pub mod query;
pub mod reader;
pub mod reason;
pub mod record;
mod row;
pub mod schema;
mod seconds;
pub mod secret;
mod store;
pub mod writer;

pub use clock::{Clock, SetClock, SystemClock};
pub use money::Money;
pub use prune::Limits;
pub use query::{Cursor, CursorError, Detail, Filter, Order};
pub use reader::{Found, Ledger, Names, Page, Queried, QueryError};
pub use reason::MissReason;
pub use record::{
    CacheOutcome, CacheResult, CallRecord, Cost, Ending, Explanation, PartPrint, Place, TokenCounts,
};
pub use secret::{Secret, SecretError};
pub use store::OpenError;
pub use tapri_api::PartKind;
pub use writer::{Counts, Entry, EraseError, Explain, Writer, WriterConfig};
