//! What caching costs and saves: before it is built, from a plan, and afterwards, from the calls that were made.
//!
//! ```
//! use tapri_insight::cost::{Plan, estimate};
//! use tapri_insight::prices::PriceList;
//!
//! // A file of 32,000 tokens and 20 questions about it.
//! let plan = Plan::new(32_000, 200, 500, 20);
//! let estimate = estimate(&PriceList::example(), &plan);
//! assert_eq!(estimate.without.rounded(2), "Rs 68.40");
//! assert_eq!(estimate.with.rounded(2), "Rs 19.76");
//! ```
//!
//! Map: [`plan`] a plan's estimate; [`breakeven`] how many uses pay for a write, and how long to keep a start warm;
//! [`unhelpful`] when caching does not help; [`calls`] what is looked at of a call; [`policy`] the ways to keep a
//! start, replayed; `starts` which starts calls share; [`advice`] what is the cheapest for each.

pub mod advice;
pub mod breakeven;
pub mod calls;
pub mod plan;
pub mod policy;
mod starts;
pub mod unhelpful;

pub use advice::{Advice, Gathering, Group, StartAdvice};
pub use breakeven::{BreakEven, break_even};
pub use calls::{Piece, SeenCall};
pub use plan::{Estimate, Plan, best_lifetime, estimate};
pub use policy::Policy;
pub use unhelpful::Unhelpful;
