//! One error for everything a client can be told, rendered as its API does.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::inbound::Format;

/// What went wrong with a call, in words for the caller.
///
/// Not what happened inside: causes go to the log, and never the text of a prompt into either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    /// What kind of trouble; fixes the HTTP status.
    pub kind: ErrorKind,
    /// A word for programs, such as `context_length_exceeded`.
    pub code: Option<Cow<'static, str>>,
    /// The request's field that is at fault, as a path: `messages[2].content`.
    pub field: Option<String>,
    /// What is wrong: a sentence without its full stop.
    pub message: String,
    /// What to do about it: a sentence without its full stop. Boxed, as this is passed by value everywhere.
    pub hint: Option<Box<str>>,
    /// When to try again.
    pub retry_after: Option<Duration>,
    /// What an upstream said, where it was one that refused or failed.
    pub upstream: Option<Box<UpstreamError>>,
}

/// An upstream's error in its own words, for a caller who knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamError {
    /// The API that it speaks.
    pub format: Format,
    /// Its HTTP status; of an error in the middle of a stream, the one that its kind has. It is the answer's status too.
    pub status: u16,
    /// Its word for the kind of error: `rate_limit_error`, `overloaded_error`.
    pub kind: Option<String>,
    /// Its name for the request.
    pub request_id: Option<String>,
}

/// The kinds of [`ApiError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// 400: the request can't be understood or can't be served as it stands.
    Invalid,
    /// 401: no key, or one that isn't known.
    Unauthorized,
    /// 402: an account is empty or a budget is spent.
    Payment,
    /// 403: the key is known, and may not do this.
    Forbidden,
    /// 404: no such path or model.
    NotFound,
    /// 405: the path exists, this method doesn't.
    Method,
    /// 408: the body came too slowly.
    TooSlow,
    /// 413: the body is larger than the server takes.
    TooLarge,
    /// 415: the body is not JSON.
    MediaType,
    /// 429: too many calls wait already.
    Busy,
    /// 500: a defect on this side.
    Internal,
    /// 502: an upstream failed, or said what can't be understood.
    Upstream,
    /// 503: the server is stopping.
    Unavailable,
    /// 504: `only-if-cached`, and it isn't.
    NotCached,
    /// 504: an upstream did not answer in time.
    Timeout,
    /// 529, Anthropic's status: an upstream has too much to do.
    Overloaded,
}

impl ErrorKind {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            ErrorKind::Invalid => 400,
            ErrorKind::Unauthorized => 401,
            ErrorKind::Payment => 402,
            ErrorKind::Forbidden => 403,
            ErrorKind::NotFound => 404,
            ErrorKind::Method => 405,
            ErrorKind::TooSlow => 408,
            ErrorKind::TooLarge => 413,
            ErrorKind::MediaType => 415,
            ErrorKind::Busy => 429,
            ErrorKind::Internal => 500,
            ErrorKind::Upstream => 502,
            ErrorKind::Unavailable => 503,
            ErrorKind::NotCached | ErrorKind::Timeout => 504,
            ErrorKind::Overloaded => 529,
        }
    }

    /// The kind that an HTTP status stands for.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 => ErrorKind::Unauthorized,
            402 => ErrorKind::Payment,
            403 => ErrorKind::Forbidden,
            404 => ErrorKind::NotFound,
            405 => ErrorKind::Method,
            408 | 504 => ErrorKind::Timeout,
            413 => ErrorKind::TooLarge,
            415 => ErrorKind::MediaType,
            429 => ErrorKind::Busy,
            503 => ErrorKind::Unavailable,
            529 => ErrorKind::Overloaded,
            400..=499 => ErrorKind::Invalid,
            _ => ErrorKind::Upstream,
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
            upstream: None,
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
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// With what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into().into_boxed_str());
        self
    }

    /// With a time to try again.
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// With what an upstream said.
    pub fn upstream(mut self, upstream: UpstreamError) -> Self {
        self.upstream = Some(Box::new(upstream));
        self
    }

    /// The HTTP status: an upstream's own, else that of the kind.
    pub fn status(&self) -> u16 {
        self.upstream.as_ref().map_or(self.kind.status(), |upstream| upstream.status)
    }

    /// A word for records: its code, else its kind.
    pub fn word(&self) -> &str {
        self.code.as_deref().unwrap_or(match self.kind {
            ErrorKind::Invalid => "invalid",
            ErrorKind::Unauthorized => "unauthorized",
            ErrorKind::Payment => "payment_required",
            ErrorKind::Forbidden => "forbidden",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Method => "method_not_allowed",
            ErrorKind::TooSlow => "too_slow",
            ErrorKind::TooLarge => "too_large",
            ErrorKind::MediaType => "unsupported_media_type",
            ErrorKind::Busy => "busy",
            ErrorKind::Internal => "internal",
            ErrorKind::Upstream => "upstream_failed",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::NotCached => "not_cached",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Overloaded => "overloaded",
        })
    }
}

/// `message. hint.` A message of an upstream that ends a sentence itself gets no second full stop.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An upstream's words are its own.
        let ended = self.upstream.is_some() || self.message.ends_with(['.', '!', '?']);
        write!(f, "{}{}", self.message, if ended { "" } else { "." })?;
        if let Some(hint) = &self.hint {
            write!(f, " {hint}.")?;
        }
        Ok(())
    }
}

impl std::error::Error for ApiError {}
