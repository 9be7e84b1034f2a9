//! Why a call was not reused, and what that cost.
//!
//! Pure functions over records, prompts and traces: no network, no clock, no database. The server and the command
//! line both use them, on Tapri's own ledger and on other people's logs.
//!
//! Map: [`lines`] files of JSON lines, streamed; [`recent`] the prompts that a new one is compared
//! with; [`prints`] the same by fingerprints alone.

pub mod lines;
pub mod prints;
pub mod recent;

pub use tapri_ledger as ledger;
