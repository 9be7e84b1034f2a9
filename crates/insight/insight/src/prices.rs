//! Price lists: what a million tokens cost, as exact decimals, with a date.
//!
//! A [`PriceList`] is one model's prices; a [`PriceBook`] holds many and finds the one for a model's name. Both are
//! data: the built-in example, the bundled snapshot, a snapshot that a user brought later, a user's own file. What a
//! call used is a [`Billed`]; a list turns it into money.
//!
//! ```
//! use tapri_insight::prices::{Billed, PriceList};
//!
//! let list = PriceList::example();
//! let call = Billed { uncached: 200, cached: 32_000, answer: 500, ..Billed::default() };
//! assert_eq!(list.cost(&call).rounded(2), "Rs 0.86");
//! assert_eq!(list.without_cache(&call).rounded(2), "Rs 3.42");
//! ```
//!
//! Map: [`billed`] what a call used; [`rates`] what a million tokens cost; [`list`] one model; [`book`] many;
//! [`file`](mod@file) both as TOML or JSON; [`litellm`] the format of the list that most tools share.

pub mod billed;
pub mod book;
mod field;
pub mod file;
pub mod list;
pub mod litellm;
pub mod rates;

pub use billed::{Billed, Tier, Written};
pub use book::{PriceBook, UnknownModel};
pub use file::{Format, PriceError};
pub use list::{PriceList, Split};
pub use rates::{Lifetime, Rates, UnknownLifetime};
