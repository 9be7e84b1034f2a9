//! Documents to text, the prompt's layout, sessions of questions.
//!
//! A [`Document`] is a file's text, read from PDF, Markdown or plain text. A [`Session`] asks questions about
//! one: for each it makes the [`Prepared`] prompt whose start is the same as last time, so that only the first
//! question has the model read the file.
//!
//! Invariants:
//! - The same bytes give the same text, and the words are never changed: only spaces and blank lines are.
//! - A prompt is laid out from what never changes to what always does ([`layout`]).
//! - A session never drops or shortens the document; earlier turns go, the oldest first, in one large step.
//! - A document that can't be read in full is an error: a missing page would be a wrong answer.
//!
//! Map: [`document`] files to text; `pdf` and `docx` out of which formats; [`guard`] the same in a process
//! of its own; [`judgments`] search over a folder of past judgments; [`normal`] spaces and blank lines; [`layout`] the
//! order of a prompt; [`session`] questions, turns and the room they have; [`case`](mod@case) files, instructions and turns as they are
//! kept; [`store`] keeping them; [`sections`](mod@sections) what to choose from where a file is too long.
//!
//! ```
//! use tapri_casefile::{Document, Layout, Room, Session};
//!
//! let document = Document::from_bytes("note.txt", b"The tea is ready at five.\n")?;
//! let mut session = Session::new(document, Layout::Completion, Room { context: 100, answer: 20 });
//! // A tokenizer counts; here a word is a token.
//! let count = |prompt: &tapri_casefile::Prompt| match prompt {
//!     tapri_casefile::Prompt::Text(text) => Ok::<_, String>(text.split_whitespace().count()),
//!     _ => Err("a completion is text".to_owned()),
//! };
//! let prepared = session.prepare("When is the tea ready?", count).map_err(|error| error.to_string())?;
//! let tapri_casefile::Prompt::Text(text) = &prepared.prompt else { return Err("not text".into()) };
//! assert!(text.starts_with("The tea is ready at five."));
//! assert!(text.ends_with("Question: When is the tea ready?\nAnswer:"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod case;
pub mod document;
mod docx;
pub mod guard;
pub mod judgments;
pub mod layout;
pub mod normal;
mod pdf;
pub mod sections;
pub mod session;
pub mod store;

pub use case::{
    Case, CaseFile, CaseId, CaseTurn, CostFigures, ErrorFigures, Figures, ReasonFigures,
    SearchFigures, TurnState,
};
pub use document::{Document, DocumentError, Format};
pub use guard::Guard;
pub use judgments::{Found, Judgments, JudgmentsError};
pub use layout::{Layout, Parts, Turn, pages};
pub use pdf::EXTRACTION_THREAD;
pub use sections::{Sections, SectionsError};
pub use session::{Dropped, Prepared, Room, Session, SessionError};
pub use store::{NewFile, OpenError, SignIn, Store, StoreError};
pub use tapri_pipeline::api::Prompt;
