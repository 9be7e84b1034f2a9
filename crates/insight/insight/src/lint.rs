//! What will break the cache: checks of one request, and of many that should begin alike.
//!
//! One request is checked by what it is: values that look like the present or the caller, markers that a provider
//! will not take, a start that is too short. Many are checked by observation: whatever differed between them in front
//! of what was equal. Every check has a [`Rule`] with a stable id. Nothing is ever changed; [`suggest`] prints another
//! order of the same text.
//!
//! ```
//! use tapri_insight::lint::{Linter, Rule};
//! use tapri_insight::prompt::PromptDoc;
//!
//! let rules = "Answer from the rules of the club. ".repeat(40);
//! let doc = PromptDoc::from_value(&serde_json::json!({"model": "m", "messages": [
//!     {"role": "system", "content": format!("The current time is 10:42:07.\n{rules}")},
//!     {"role": "user", "content": "Who may vote?"},
//! ]}))?;
//! let mut linter = Linter::new(None);
//! linter.add(doc, "line 1");
//! let found = linter.finish();
//! assert_eq!(found[0].rule, Rule::VolatileTime);
//! assert_eq!((found[0].path.as_str(), found[0].character), ("messages[0].content", Some(20)));
//! # Ok::<(), tapri_insight::prompt::PromptError>(())
//! ```
//!
//! Map: [`rule`] the rules; [`alone`] checks of one request; [`markers`] of its markers; [`many`] over a log;
//! [`locate`] a path's place in a file; [`sarif`] the findings for other tools; [`suggest`] a better order.

pub mod alone;
pub mod locate;
pub mod many;
pub mod markers;
pub mod rule;
pub mod sarif;
pub mod suggest;

pub use many::Linter;
pub use rule::{Finding, Rule, Severity, UnknownRule};
