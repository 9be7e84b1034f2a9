//! What can go wrong before the first byte of an answer, and what follows from it.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use tapri_api::{ApiError, ErrorKind};

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Trouble {
    /// For the caller.
    pub(crate) error: ApiError,
    /// Whether another try may help.
    pub(crate) again: bool,
    /// Whether it speaks against the upstream: a caller's own mistake doesn't.
    pub(crate) ill: bool,
    /// Whether the upstream has too many calls of ours.
    pub(crate) busy: bool,
}

impl Trouble {
    /// Nothing was sent, or nothing came back.
    pub(crate) fn of_transport(upstream: &str, error: &reqwest::Error) -> Self {
        let (what, code) = if error.is_connect() && error.is_timeout() {
            ("did not accept the connection in time", "upstream_unreachable")
        } else if error.is_connect() {
            ("can't be reached", "upstream_unreachable")
        } else {
            ("closed the connection before it answered", "upstream_incomplete")
        };
        let error = ApiError::new(ErrorKind::Upstream, format!("The upstream {upstream} {what}"))
            .code(code)
            .hint("Try again; if it goes on, the operator finds the cause in the log");
        Trouble { error, again: true, ill: true, busy: false }
    }

    /// Its headers did not come in time. Not tried again: it may be computing the answer, and would compute it twice.
    pub(crate) fn too_slow(upstream: &str, limit: Duration) -> Self {
        let error = ApiError::new(
            ErrorKind::Timeout,
            format!("The upstream {upstream} did not answer within {} s", limit.as_secs_f64()),
        )
        .code("upstream_timeout")
        .hint("Try again, with a shorter prompt or a streamed answer");
        Trouble { error, again: false, ill: true, busy: false }
    }

    /// It answered with an error.
    pub(crate) fn of_status(status: u16, error: ApiError, headers: &HeaderMap) -> Self {
        let mut error = error;
        error.retry_after = retry_after(headers);
        // Both providers' own clients follow this header.
        let told = headers.get("x-should-retry").map(|value| value.as_bytes() == b"true");
        let again = told.unwrap_or(matches!(status, 429 | 500 | 502 | 503 | 504 | 529));
        Trouble { error, again, ill: status >= 500 && status != 501, busy: status == 429 }
    }
}

/// How long the upstream asks to be left alone: seconds, a date, or OpenAI's milliseconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let of_number = |text: &str, unit: f64| {
        let number: f64 = text.parse().ok()?;
        // A day is no wait any more, and NaN none at all.
        (0.0..=86_400.0).contains(&(number * unit)).then(|| Duration::from_secs_f64(number * unit))
    };
    if let Some(wait) = text("retry-after-ms").and_then(|text| of_number(text, 0.001)) {
        return Some(wait);
    }
    let text = text(RETRY_AFTER.as_str())?;
    of_number(text, 1.0).or_else(|| {
        let date = httpdate::parse_http_date(text).ok()?;
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn wait(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        retry_after(&headers)
    }

    #[test]
    fn waits_in_every_form() {
        assert_eq!(wait("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("retry-after", "0.5"), Some(Duration::from_millis(500)));
        assert_eq!(wait("retry-after-ms", "250"), Some(Duration::from_millis(250)));
        let past = wait("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT");
        assert_eq!(past, Some(Duration::ZERO));
        for broken in ["-1", "NaN", "soon", "1e300", ""] {
            assert_eq!(wait("retry-after", broken), None, "{broken}");
        }
    }
}
