//! The ledger: one record of every call, without its text.
//!
//! The record types are plain data that the floors above fill and that `tapri-insight` reads. Names that are stored
//! or printed are stable.
//!
//! Map: [`record`] a call; [`reason`] the closed list of why a call reused less than it could; [`money`] exact amounts.

pub mod money;
pub mod reason;
pub mod record;

pub use money::Money;
pub use reason::MissReason;
pub use record::{
    CacheOutcome, CacheResult, CallRecord, Cost, Ending, Explanation, PartKind, PartPrint, Place,
    TokenCounts,
};
