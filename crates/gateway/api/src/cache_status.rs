//! The `Cache-Status` header (RFC 9211): what each cache did for an answer.

use std::fmt;
use std::time::Duration;

use crate::call::CacheDirectives;
use crate::reuse::{Reuse, ReuseStop};

/// The value of a `Cache-Status` header, one member per cache, the one nearest the model first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CacheStatus(pub Vec<Member>);

/// What one cache did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The cache's name: `tapri-prefix`.
    pub cache: &'static str,
    /// How it went.
    pub outcome: CacheOutcome,
    /// More for people: counts and a reason.
    pub detail: Option<String>,
}

/// How it went in one cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOutcome {
    /// The answer came from it, and nothing was forwarded.
    Hit,
    /// The same, and it stays fresh for so long (the `ttl` of RFC 9211, in whole seconds).
    HitFor(Duration),
    /// Nothing was there, and the call shared the answer of another one that was on its way already.
    Collapsed,
    /// The call went on towards the model.
    Forwarded(ForwardReason),
}

/// Why a call went on towards the model: the words of RFC 9211, section 2.2, that can happen here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardReason {
    /// The cache is set not to handle such calls.
    Bypass,
    /// The request's `Cache-Control` said so.
    Request,
    /// Nothing was there.
    Miss,
    /// A part was there.
    Partial,
}

impl ForwardReason {
    fn as_str(self) -> &'static str {
        match self {
            ForwardReason::Bypass => "bypass",
            ForwardReason::Request => "request",
            ForwardReason::Miss => "miss",
            ForwardReason::Partial => "partial",
        }
    }
}

impl Member {
    /// The prefix cache's member. It never says `hit`: the answer itself is always computed, so even a prompt
    /// that was there as a whole is `fwd=partial`, with its counts in the detail: the tokens that were not computed for the
    /// call (the cached tokens of its usage) and those of the prompt; of the first, how many came from disk and how many
    /// another call was computing.
    pub fn prefix(reuse: &Reuse, directives: CacheDirectives) -> Self {
        let reason = match (reuse.stop, reuse.reused()) {
            (ReuseStop::Bypassed, _) if !directives.may_read() => ForwardReason::Request,
            (ReuseStop::Bypassed, _) => ForwardReason::Bypass,
            (_, 0) => ForwardReason::Miss,
            _ => ForwardReason::Partial,
        };
        let mut detail = format!("{}/{}", reuse.reused(), reuse.prompt);
        if reuse.restored > 0 {
            detail.push_str(&format!(", {} from disk", reuse.restored));
        }
        if reuse.joined > 0 {
            detail.push_str(&format!(", {} joined", reuse.joined));
        }
        if !reuse.stop.is_whole() {
            detail.push_str(&format!(", {}", reuse.stop));
        }
        Member {
            cache: "tapri-prefix",
            outcome: CacheOutcome::Forwarded(reason),
            detail: Some(detail),
        }
    }
}

impl fmt::Display for CacheStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, member) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{member}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cache)?;
        match self.outcome {
            CacheOutcome::Hit => f.write_str("; hit")?,
            CacheOutcome::HitFor(ttl) => write!(f, "; hit; ttl={}", ttl.as_secs())?,
            CacheOutcome::Collapsed => f.write_str("; fwd=miss; collapsed")?,
            CacheOutcome::Forwarded(reason) => write!(f, "; fwd={}", reason.as_str())?,
        }
        if let Some(detail) = &self.detail {
            f.write_str("; detail=\"")?;
            // A structured-field string holds printable ASCII only (RFC 8941, section 3.3.3).
            for c in detail.chars() {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    ' '..='~' => write!(f, "{c}")?,
                    _ => f.write_str("?")?,
                }
            }
            f.write_str("\"")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(cached: usize, joined: usize, stop: ReuseStop) -> String {
        member(cached, joined, stop, false)
    }

    fn member(cached: usize, joined: usize, stop: ReuseStop, other_scope: bool) -> String {
        let reuse = Reuse { prompt: 30650, cached, restored: 0, joined, stop, other_scope };
        CacheStatus(vec![Member::prefix(&reuse, CacheDirectives::default())]).to_string()
    }

    #[test]
    fn says_what_the_prefix_cache_had() {
        assert_eq!(
            prefix(30640, 0, ReuseStop::Complete),
            r#"tapri-prefix; fwd=partial; detail="30640/30650""#
        );
        assert_eq!(
            prefix(0, 0, ReuseStop::NeverSeen),
            r#"tapri-prefix; fwd=miss; detail="0/30650, never seen""#
        );
        assert_eq!(
            prefix(23200, 0, ReuseStop::Difference { token: 23207 }),
            r#"tapri-prefix; fwd=partial; detail="23200/30650, first difference at token 23207""#
        );
        assert_eq!(
            prefix(16, 512, ReuseStop::Complete),
            r#"tapri-prefix; fwd=partial; detail="528/30650, 512 joined""#
        );
        assert_eq!(
            prefix(0, 30640, ReuseStop::Complete),
            r#"tapri-prefix; fwd=partial; detail="30640/30650, 30640 joined""#
        );
        let reuse = Reuse {
            prompt: 30650,
            cached: 4096,
            restored: 4000,
            joined: 512,
            stop: ReuseStop::Evicted,
            other_scope: false,
        };
        assert_eq!(
            Member::prefix(&reuse, CacheDirectives::default()).to_string(),
            r#"tapri-prefix; fwd=partial; detail="4608/30650, 4000 from disk, 512 joined, evicted""#
        );
        assert_eq!(
            prefix(0, 0, ReuseStop::Bypassed),
            r#"tapri-prefix; fwd=bypass; detail="0/30650, bypassed""#
        );
    }

    #[test]
    fn a_request_that_said_no_is_told_so() {
        let reuse = Reuse {
            prompt: 20,
            cached: 0,
            restored: 0,
            joined: 0,
            stop: ReuseStop::Bypassed,
            other_scope: false,
        };
        for directives in [
            CacheDirectives { no_cache: true, ..Default::default() },
            CacheDirectives { max_age: Some(Duration::ZERO), ..Default::default() },
        ] {
            let member = Member::prefix(&reuse, directives).to_string();
            assert_eq!(member, r#"tapri-prefix; fwd=request; detail="0/20, bypassed""#);
        }
    }

    #[test]
    fn a_client_never_learns_of_another_scope() {
        for stop in [ReuseStop::NeverSeen, ReuseStop::Evicted] {
            assert_eq!(member(0, 0, stop, true), member(0, 0, stop, false));
        }
    }

    #[test]
    fn details_are_safe_in_a_header() {
        let member =
            Member { cache: "c", outcome: CacheOutcome::Hit, detail: Some("a\"\\\r\né".into()) };
        assert_eq!(member.to_string(), r#"c; hit; detail="a\"\\???""#);
    }
}
