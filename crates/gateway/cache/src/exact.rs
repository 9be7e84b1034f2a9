//! The exact cache: the same request of the same tenant gets the same answer, and nothing is forwarded.
//!
//! - A [`Key`] covers the tenant's scope, the whole request and what the route made of it. What isn't known makes a
//!   new key.
//! - An answer is stored after its last event, if it is one that the model meant to give ([`Rejected`] says why not),
//!   and given again as the events that came.
//! - The same calls at the same time share one call to the model ([`flight`]), which lives apart from any client.
//! - [`store`] keeps answers: memory, and SQLite or Redis behind it. Neither can make a call fail, or make it wrong.
//! - What is stored is erased by tenant, route, model, session, document or age ([`ExactCache::purge`]).
//!
//! Map: [`cache`] one call's way; [`key`] what makes calls the same; [`policy`] what a route does; [`admission`] what
//! is stored; [`entry`] a stored answer; [`counts`] what is counted; [`clock`] the time.

pub mod admission;
pub mod cache;
mod canon;
pub mod clock;
pub mod counts;
pub mod entry;
pub mod flight;
pub mod key;
pub mod policy;
pub mod store;

pub use admission::Rejected;
pub use cache::{Bypass, ExactCache, ExactConfig, Hit, Lead, Look, Why};
pub use clock::{Clock, SystemClock};
pub use counts::ExactStats;
pub use entry::{DecodeError, Entry, FORM, Tags};
pub use flight::{Events, Kept, Reader};
pub use key::{Key, NoKey, Resolved};
pub use policy::{ExactPolicy, Mode, Policies};
pub use store::{Filter, GuardConfig, Store, StoreError, StoreStats};
