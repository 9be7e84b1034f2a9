//! Whether one caller's prompt makes another's answer faster.
//!
//! The method of Gu et al., "Auditing Prompt Caching in Language Model APIs" (ICML 2025): a victim sends random prompts,
//! an attacker sends prompts that share most of such a prompt (hits) and others that share nothing (misses), in one
//! shuffled order, and a one-sided two-sample Kolmogorov-Smirnov test says whether the hits' times are smaller. Sending
//! and timing are the caller's; this is the plan and the judgement.
//!
//! Map: `ks` the test with exact p-values; `judge` what the times and the reported counts say; `samples` recorded times;
//! `prompt` the random prompts; `plan` who sends what when, and how much that is.

mod judge;
mod ks;
mod plan;
mod prompt;
mod samples;

pub use judge::{Judgement, Reported, Side, judge, judge_reported};
pub use ks::{Ks, KsError, ks_smaller, smallest_p};
pub use plan::{Plan, Sample};
pub use prompt::{Letters, Seeded};
pub use samples::{Samples, Stored};

/// The paper's threshold for p: small enough to need no other correction for the number of tests.
pub const THRESHOLD: f64 = 1e-8;
