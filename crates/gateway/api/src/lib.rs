//! Wire formats of the served APIs, their validation and errors, and the internal call.
//!
//! A request in any format becomes one [`Call`]; what comes back is a row of [`CallEvent`]s, which the format
//! renders as a stream of chunks or as one body. No server framework is known here: a request is bytes and
//! headers' values, an answer is something that can be serialised.
//!
//! Map: [`call`] what is asked; [`event`] what comes back; [`reuse`] what the prefix cache had; [`usage`] the
//! counting of tokens; [`cache_status`] the `Cache-Status` header; [`error`] the one error; [`openai`] OpenAI's formats.

pub mod cache_status;
pub mod call;
pub mod error;
pub mod event;
pub mod openai;
pub mod reuse;
pub mod usage;

pub use cache_status::CacheStatus;
pub use call::{
    CacheDirectives, CacheSalt, Call, CallId, Message, Part, Prompt, Role, Sampling, Stop,
    TenantScope,
};
pub use error::{ApiError, ErrorKind};
pub use event::{
    Admission, CallEvent, Finish, FinishReason, Logprob, TemplateUse, Timings, Token, TokenLogprobs,
};
pub use reuse::{Reuse, ReuseStop};
pub use usage::Usage;
