//! The semantic cache: another question that means the same, asked in the very same circumstances.
//!
//! Plain similarity can't tell "how do I lock my card" from "how do I unlock my card", so it decides nothing alone.
//! A stored answer may be given to another question only if
//!
//! 1. everything but the question's text is the very same (the hard scope),
//! 2. the questions' vectors are near,
//! 3. no guard objects ([`guards`]): same numbers, names, negations, and every word with its counterpart, and
//! 4. the route has shown, by labels of shadow runs, that hits from that similarity up are wrong in no more than its
//!    budget ([`evidence`]).
//!
//! It is off unless a route turns it on ([`policy`]).
//!
//! Map: [`question`] what a question says; [`lexicon`] what words mean; [`guards`] what must be the same; [`index`] the
//! nearest stored question; [`evidence`] bounds on wrong answers; [`policy`] what a route does; [`evaluate`] figures
//! over labelled pairs. The cache itself: [`scope`] what is asked and what must be the very same; [`cache`] what is near, what
//! may be served and what is learnt; [`store`] where they are kept; [`answers`] whether two answers are the same text.
//!
//! ```
//! use tapri_cache::semantic::{Question, objections};
//!
//! let asked = Question::read("How do I unlock my card?");
//! assert!(objections(&Question::read("Hi, how can I unlock my card please?"), &asked).is_empty());
//! assert!(!objections(&Question::read("How do I lock my card?"), &asked).is_empty());
//! ```

pub mod answers;
pub mod cache;
pub mod evaluate;
pub mod evidence;
pub mod guards;
pub mod index;
pub mod lexicon;
pub mod policy;
pub mod question;
pub mod scope;
pub mod store;

pub use cache::{SemanticCache, SemanticCounts, SemanticError, SemanticPolicies};
pub use evidence::{Band, Evidence, Tally};
pub use guards::{Guard, Objection, objections};
pub use index::{FlatIndex, Index, Near, RowId};
pub use policy::{Judge, PolicyError, SemanticMode, SemanticPolicy};
pub use question::Question;
pub use store::{Keeper, SemanticStore, SemanticStoreError, Shared};

use crate::exact::entry::millis;
