//! Why a call was not reused, and what that cost.
//!
//! Pure functions over records, prompts and traces: no network, no clock, no database. The server and the command
//! line both use them, on Tapri's own ledger and on other people's logs.
//!
//! Map:
//! - [`alert`]: a tenant's or a route's hit rate fell, or is low.
//! - [`audit`]: whether one caller's prompt makes another's answer faster.
//! - [`compare`]: two prompts side by side, and a better order.
//! - [`cost`]: what caching costs and saves.
//! - [`explain`]: why one prompt could not reuse another.
//! - [`histogram`]: durations in bounded memory.
//! - [`history`]: a log of calls, each against the nearest one before it.
//! - [`lines`]: files of JSON lines, streamed.
//! - [`numbers`]: counts, as people read them.
//! - [`plot`]: figures as SVG.
//! - [`lint`]: what will break the cache, and a better order.
//! - [`prices`]: what tokens cost.
//! - [`prints`]: how far two calls share a start, by fingerprints alone.
//! - [`prompt`]: a request as the model reads it.
//! - [`prompt_map`]: a call's prompt as a strip of what was cached and what was computed.
//! - [`recent`]: the prompts that a new one is compared with.
//! - [`report`]: whether the cache worked, for whom, and what it saved.
//! - [`rules`]: what hosted APIs cache, and for how long.
//! - [`savings`]: tokens, money and waiting time saved, by day and name.
//! - [`simulate`]: block traces against caches of any size.
//! - [`usage`]: the token counts of any log, in one form.

pub mod alert;
pub mod audit;
pub mod compare;
pub mod cost;
pub mod explain;
pub mod histogram;
pub mod history;
pub mod lines;
pub mod lint;
pub mod numbers;
pub mod plot;
pub mod prices;
pub mod prints;
pub mod prompt;
pub mod prompt_map;
pub mod recent;
pub mod report;
pub mod rules;
pub mod savings;
pub mod simulate;
pub mod usage;

pub use tapri_ledger as ledger;
