//! An upstream's error, in the middle of a stream or instead of an answer.

use serde_json::Value;

use super::text;
use crate::{ApiError, ErrorKind, Format, UpstreamError};

/// Characters that are kept of an error that isn't JSON.
const MOST: usize = 300;

/// Reads an upstream's error. It keeps the upstream's status, words and name for the request, so that a caller of the
/// same format sees what a direct caller would. `Retry-After` is a header, for the caller to add.
pub fn error(format: Format, status: u16, body: &str, request_id: Option<&str>) -> ApiError {
    let value = serde_json::from_str::<Value>(body).unwrap_or(Value::Null);
    let told = Told::read(&value);
    let message = told.message.or_else(|| plain(body)).unwrap_or_else(|| {
        format!("The upstream answered with status {status} and said nothing else")
    });
    let id =
        request_id.map(str::to_owned).or_else(|| text(&value, "request_id").map(str::to_owned));
    build(format, status, message, told.kind, told.code, told.param, id)
}

/// Reads an error in a stream, in whichever of the shapes it has; `None` where it is none.
pub(super) fn in_stream(format: Format, value: &Value) -> Option<ApiError> {
    let is_error = value.get("error").is_some_and(|error| !error.is_null())
        || text(value, "object") == Some("error")
        || text(value, "type") == Some("error");
    if !is_error {
        return None;
    }
    let told = Told::read(value);
    let status = told.status();
    let message = told.message.unwrap_or_else(|| "The upstream failed in the middle".into());
    let id = text(value, "request_id").map(str::to_owned);
    Some(build(format, status, message, told.kind, told.code, told.param, id))
}

fn build(
    format: Format,
    status: u16,
    message: String,
    kind: Option<String>,
    code: Option<String>,
    param: Option<String>,
    request_id: Option<String>,
) -> ApiError {
    // 2xx and 3xx are no errors to pass on; whoever calls this got no answer from them.
    let status = if (400..600).contains(&status) { status } else { 502 };
    let mut error = ApiError::new(ErrorKind::of_status(status), message);
    error.code = code.map(Into::into);
    error.field = param;
    error.upstream(UpstreamError { format, status, kind, request_id })
}

/// The words of an error.
#[derive(Debug, Default)]
struct Told {
    message: Option<String>,
    kind: Option<String>,
    code: Option<String>,
    param: Option<String>,
}

impl Told {
    /// OpenAI's and Anthropic's `{"error": {...}}`, vLLM's and responses' flat ones, FastAPI's `detail`, and an `error`
    /// that is a sentence.
    fn read(value: &Value) -> Self {
        let inner = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
        if let Value::String(message) = inner {
            return Told { message: Some(message.clone()), ..Told::default() };
        }
        let word = |name: &str| match inner.get(name) {
            Some(Value::String(word)) if !word.is_empty() => Some(word.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let detail = || match value.get("detail")? {
            Value::String(detail) => Some(detail.clone()),
            Value::Array(list) => list.iter().find_map(|it| text(it, "msg")).map(str::to_owned),
            _ => None,
        };
        Told {
            message: word("message").or_else(detail),
            // Of a flat error in a stream, `type` is the event's.
            kind: word("type").filter(|kind| kind != "error"),
            code: word("code"),
            param: word("param"),
        }
    }

    /// The status that an error in a stream would have had: its code, where that is one, else by its kind.
    fn status(&self) -> u16 {
        if let Some(status) = self.code.as_deref().and_then(|code| code.parse().ok())
            && (400..600).contains(&status)
        {
            return status;
        }
        let by_word = |word: &str| match word {
            "invalid_request_error" | "context_length_exceeded" => Some(400),
            "authentication_error" | "invalid_api_key" => Some(401),
            "billing_error" => Some(402),
            "permission_error" => Some(403),
            "not_found_error" => Some(404),
            "request_too_large" => Some(413),
            "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => Some(429),
            "api_error" | "server_error" => Some(500),
            "timeout_error" => Some(504),
            "overloaded_error" => Some(529),
            _ => None,
        };
        [&self.kind, &self.code].into_iter().flatten().find_map(|word| by_word(word)).unwrap_or(500)
    }
}

/// An error that is no JSON: its text, unless that is a page for a browser.
fn plain(body: &str) -> Option<String> {
    let body = body.trim();
    if body.is_empty() || body.starts_with(['<', '{', '[']) {
        return None;
    }
    Some(body.chars().take(MOST).collect())
}
