//! One error for everything a client can be told, rendered as its API does.

use std::fmt;
use std::time::Duration;

/// What went wrong with a call, in words for the caller.
///
/// Not what happened inside: causes go to the log, and never the text of a prompt into either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// What kind of trouble; fixes the HTTP status.
    pub kind: ErrorKind,
    /// A word for programs, such as `context_length_exceeded`.
    pub code: Option<&'static str>,
    /// The request's field that is at fault, as a path: `messages[2].content`.
    pub field: Option<String>,
    /// What is wrong: a sentence without its full stop.
    pub message: String,
    /// What to do about it: a sentence without its full stop.
    pub hint: Option<String>,
    /// When to try again.
    pub retry_after: Option<Duration>,
}

/// The kinds of [`ApiError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// 400: the request can't be understood or can't be served as it stands.
    Invalid,
    /// 404: no such path or model.
    NotFound,
    /// 405: the path exists, this method doesn't.
    Method,
    /// 413: the body is larger than the server takes.
    TooLarge,
    /// 415: the body is not JSON.
    MediaType,
    /// 429: too many calls wait already.
    Busy,
    /// 500: a defect on this side.
    Internal,
    /// 503: the server is stopping.
    Unavailable,
    /// 504: `only-if-cached`, and it isn't.
    NotCached,
}

impl ErrorKind {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::Invalid => 400,
            ErrorKind::NotFound => 404,
            ErrorKind::Method => 405,
            ErrorKind::TooLarge => 413,
            ErrorKind::MediaType => 415,
            ErrorKind::Busy => 429,
            ErrorKind::Internal => 500,
            ErrorKind::Unavailable => 503,
            ErrorKind::NotCached => 504,
        }
    }
}

impl ApiError {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ApiError {
            kind,
            code: None,
            field: None,
            message: message.into(),
            hint: None,
            retry_after: None,
        }
    }

    /// A field that can't be accepted.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError::new(ErrorKind::Invalid, message).at(field)
    }

    /// With the field at fault.
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// With a word for programs.
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// With what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With a time to try again.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.kind.status()
    }

    /// A word for records: its code, else its kind.
    pub fn word(&self) -> &'static str {
        self.code.unwrap_or(match self.kind {
            ErrorKind::Invalid => "invalid",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Method => "method_not_allowed",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::MediaType => "unsupported_media_type",
            ErrorKind::Busy => "busy",
            ErrorKind::Internal => "internal",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::NotCached => "not_cached",
        })
    }
}

/// `message. hint.`
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.message)?;
        if let Some(hint) = &self.hint {
            write!(f, " {hint}.")?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}
