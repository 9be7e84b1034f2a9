//! A request of one API in the words of another.
//!
//! Every request is read into a neutral form, in which nothing that affects the answer is lost, and written from there.
//! What the other API has no words for is an error that names it, unless it doesn't affect the answer. Cache markers are
//! the one thing that costs money in silence: each is carried over or named in [`Converted::dropped`].
//!
//! ```
//! use tapri_api::{Format, Inbound, convert};
//!
//! let body = br#"{"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stop": "x"}"#;
//! let inbound = Inbound::read(Format::Chat, body.to_vec().into(), Vec::new())?;
//! let converted = convert::request(&inbound, Format::Messages)?;
//! assert_eq!(converted.body["stop_sequences"][0], "x");
//! assert_eq!(converted.body["messages"][0]["content"][0]["text"], "Hi");
//! # Ok::<(), tapri_api::ApiError>(())
//! ```

mod chat;
mod messages;
mod neutral;
mod read;
mod responses;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use crate::{ApiError, Format, Inbound};

pub use neutral::Dropped;
pub(crate) use neutral::{Block, Neutral, Output, Piece, Speaker};

/// A request in another format.
#[derive(Debug, Clone, PartialEq)]
pub struct Converted {
    /// The body to send.
    pub body: Map<String, Value>,
    /// What could not be said and affects no answer: above all cache markers. For a header that warns.
    pub dropped: Vec<Dropped>,
}

/// Says a request in another format. One of the same format stays as it is.
pub fn request(inbound: &Inbound, to: Format) -> Result<Converted, ApiError> {
    if inbound.format == to {
        return Ok(Converted { body: inbound.body.clone(), dropped: Vec::new() });
    }
    let neutral = neutral(inbound)?;
    if let Some((name, _)) = neutral.own.iter().next() {
        return Err(neutral::unsaid(name, to));
    }
    let lost =
        |path: &String| Dropped { field: path.clone(), why: "stands where another marker is" };
    let mut dropped: Vec<Dropped> = neutral.lost.iter().map(lost).collect();
    let body = match to {
        Format::Chat => chat::write::body(&neutral, &mut dropped),
        Format::Messages => messages::write::body(&neutral, &mut dropped),
        Format::Responses => responses::write::body(&neutral, &mut dropped),
        Format::Completion | Format::Embeddings => Err(no_conversation(inbound.format, to)),
    }?;
    Ok(Converted { body, dropped })
}

/// Reads a request into the neutral form.
pub(crate) fn neutral(inbound: &Inbound) -> Result<Neutral, ApiError> {
    match inbound.format {
        Format::Chat => chat::read::request(&inbound.body),
        Format::Messages => messages::read::request(&inbound.body),
        Format::Responses => responses::read::request(&inbound.body),
        format => Err(no_conversation(format, format)),
    }
}

fn no_conversation(from: Format, to: Format) -> ApiError {
    ApiError::new(
        crate::ErrorKind::Invalid,
        format!("A request to {} can't be said as one to {}", from.path(), to.path()),
    )
    .code("unsupported_format")
    .hint("Ask for a model whose upstream speaks the API of this request")
}
