//! Wire formats of the served APIs, their validation and errors, and the internal call.
//!
//! A request in any format becomes one [`Call`]; what comes back is a row of [`CallEvent`]s, which the format
//! renders as a stream of chunks or as one body. No server framework is known here: a request is bytes and
//! headers' values, an answer is something that can be serialised.
//!
//! ```
//! use tapri_api::encode::{Encoder, Head};
//! use tapri_api::{CallEvent, Finish, FinishReason, Format, Timings, Token, Usage, openai};
//!
//! let request = openai::chat::parse(br#"{"messages": [{"role": "user", "content": "Hi"}], "temperature": 0}"#)?;
//! assert_eq!(request.call.sampling.temperature, 0.0);
//! let refusal = openai::chat::parse(br#"{"messages": [{"role": "user", "content": 3}]}"#).unwrap_err();
//! assert_eq!((refusal.status(), refusal.field.as_deref()), (400, Some("messages[0].content")));
//!
//! let mut encoder = Encoder::whole(Head::new(Format::Chat, request.call.id, "tiny"));
//! encoder.event(&CallEvent::Token(Token { id: 5, text: "Hello".into(), logprobs: None }));
//! let finish = Finish {
//!     reason: FinishReason::Stop,
//!     matched_stop: None,
//!     tail: String::new(),
//!     usage: Usage::from_prompt(10, 0, 0, 1),
//!     raw: None,
//!     timings: Timings::default(),
//! };
//! let json = encoder.event(&CallEvent::Finished(finish)).unwrap();
//! assert!(json.contains(r#""content":"Hello""#) && json.contains(r#""cached_tokens":0"#));
//! # Ok::<(), tapri_api::ApiError>(())
//! ```
//!
//! Map: [`inbound`] a request as it came; [`call`] what is asked; [`outline`] what its prompt is made of; [`event`] what comes back; [`decode`]
//! what an upstream said; [`encode`] how it is said to the caller; [`convert`] a
//! request in another API's words; [`reuse`] what the prefix cache had; [`usage`] the
//! counting of tokens; [`cache_status`] the `Cache-Status` header; [`error`] the one error; [`openai`] OpenAI's formats.

pub mod cache_status;
pub mod call;
pub mod convert;
pub mod decode;
pub mod encode;
pub mod error;
pub mod event;
pub mod inbound;
mod lower;
pub mod openai;
pub mod outline;
pub mod reuse;
mod sealed;
pub mod usage;

pub use cache_status::CacheStatus;
pub use call::{
    CacheDirectives, CacheSalt, Call, CallId, Message, Origin, OutputFormat, Part, Prompt, Role,
    Sampling, Stop, TenantScope, Tool, ToolCall, ToolChoice, ToolResult,
};
pub use error::{ApiError, ErrorKind, UpstreamError};
pub use event::{
    Admission, CallEvent, Delta, Finish, FinishReason, Logprob, Piece, Raw, Says, TemplateUse,
    Timings, Token, TokenLogprobs,
};
pub use inbound::{AFFECTING_HEADERS, Format, Inbound};
pub use lower::lower;
pub use outline::{Outline, OutlinePart, PartKind};
pub use reuse::{Reuse, ReuseStop};
pub use usage::Usage;
