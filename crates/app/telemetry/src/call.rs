//! What of a call is kept for its spans.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tapri_api::Format;
use tapri_ledger::{CacheResult, CallRecord, Ending, TokenCounts};
use tapri_pipeline::{Step, Steps};

/// A call that ended.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) began: SystemTime,
    pub(crate) operation: &'static str,
    pub(crate) parent: Option<Parent>,
    pub(crate) tenant: String,
    pub(crate) route: String,
    pub(crate) model: String,
    pub(crate) upstream: String,
    pub(crate) conversation: Option<String>,
    pub(crate) ending: Ending,
    pub(crate) tokens: TokenCounts,
    pub(crate) ttft: Option<Duration>,
    pub(crate) total: Duration,
    pub(crate) exact: Option<CacheResult>,
    pub(crate) semantic: Option<CacheResult>,
    pub(crate) prefix: Option<CacheResult>,
    pub(crate) exact_step: Option<(Duration, Duration)>,
    pub(crate) semantic_step: Option<(Duration, Duration)>,
    pub(crate) sent_on: Option<Duration>,
}

/// The caller's span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parent {
    pub(crate) trace: [u8; 16],
    pub(crate) span: [u8; 8],
    pub(crate) sampled: bool,
}

impl Call {
    pub(crate) fn of(record: &CallRecord, steps: &Steps) -> Self {
        let since = |step: &Step| {
            (step.from.duration_since(steps.began), step.to.duration_since(steps.began))
        };
        Call {
            id: record.id.clone(),
            began: at(record),
            operation: operation(steps.format),
            parent: steps.traceparent.as_deref().and_then(Parent::parse),
            tenant: record.tenant.clone(),
            route: record.route.clone(),
            model: record.model.clone(),
            upstream: record.upstream.clone(),
            conversation: record.conversation.clone(),
            ending: record.ending.clone(),
            tokens: record.tokens,
            ttft: record.ttft,
            total: record.total,
            exact: record.exact.clone(),
            semantic: record.semantic.clone(),
            prefix: record.prefix.clone(),
            exact_step: steps.exact.as_ref().map(since),
            semantic_step: steps.semantic.as_ref().map(since),
            sent_on: steps.sent_on.map(|at| at.duration_since(steps.began)),
        }
    }
}

/// When a call began. Before 1970 nothing was called.
fn at(record: &CallRecord) -> SystemTime {
    let nanos = u64::try_from(record.at.as_nanosecond()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_nanos(nanos)
}

/// The conventions' word for what was asked.
pub(crate) fn operation(format: Option<Format>) -> &'static str {
    match format {
        Some(Format::Completion) => "text_completion",
        Some(Format::Embeddings) => "embeddings",
        Some(Format::Chat | Format::Messages | Format::Responses) | None => "chat",
    }
}

impl Parent {
    /// W3C Trace Context: `00-<32 digits>-<16 digits>-<2 digits>`; later versions may have more behind it.
    fn parse(written: &str) -> Option<Self> {
        let mut parts = written.trim().split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let more = parts.next().is_some();
        let version: [u8; 1] = digits(version)?;
        let flags: [u8; 1] = digits(flags)?;
        let (trace, span) = (digits(trace)?, digits(span)?);
        let known = version[0] != 0xff && !(version[0] == 0 && more);
        // Names of nothing but zeros are none.
        let named = trace != [0; 16] && span != [0; 8];
        (known && named).then_some(Parent { trace, span, sampled: flags[0] & 1 == 1 })
    }
}

/// Hexadecimal digits, in lower case as the format wants them.
pub(crate) fn digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 2 * N || !text.as_bytes().iter().all(is_digit) {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_as_the_format_has_it() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let parent = Parent::parse(good).unwrap();
        assert_eq!((parent.trace[0], parent.span[7], parent.sampled), (0x0a, 0x31, true));
        assert!(!Parent::parse(&good.replace("-01", "-00")).unwrap().sampled);
        assert!(Parent::parse(&good.replace("00-0a", "cc-0a")).is_some(), "a later version");
        for bad in [
            "",
            "00",
            &good.to_uppercase(),
            &good.replace("00-0a", "ff-0a"),
            &format!("{good}-more"),
            &good.replace("b7ad6b7169203331", "0000000000000000"),
            &good.replace("31-01", "é1-01"),
        ] {
            assert_eq!(Parent::parse(bad), None, "{bad}");
        }
    }
}
