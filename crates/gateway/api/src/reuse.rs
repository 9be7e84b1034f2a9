//! What the prefix cache had for a call, and why it had no more.

use std::fmt;

/// What the prefix cache had for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reuse {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// Of those, found in the cache.
    pub cached: usize,
    /// Of the tokens found, read back from the disk tier.
    pub restored: usize,
    /// Of the prompt's, being computed by another call that this one waited for; not part of `cached`, and no hit.
    pub joined: usize,
    /// Why reuse ended where it did, as the call's own tenant may know it: as if no other scope existed.
    pub stop: ReuseStop,
    /// Whether another scope holds more of it. For the operator's eyes alone: it tells what others asked.
    pub other_scope: bool,
}

impl Reuse {
    /// Tokens that are not computed for this call: found or joined.
    pub fn reused(&self) -> usize {
        self.cached.saturating_add(self.joined)
    }
}

/// Why the reuse of a prefix ended where it did: one closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReuseStop {
    /// Every full block of the prompt was there.
    Complete,
    /// Everything was there, but the last token is always computed, since its scores are needed.
    LastToken,
    /// The prompt has no full block before its last token.
    BelowOneBlock,
    /// An earlier prompt was the same up to this token.
    Difference {
        /// The first token that differs, counted from 0.
        token: usize,
    },
    /// No earlier prompt went on like this.
    NeverSeen,
    /// It was there and made room for others.
    Evicted,
    /// It was there and its time was up.
    Expired,
    /// The blocks that a sliding window needs were gone.
    WindowGone,
    /// Another call was computing the next block.
    BeingWritten,
    /// The call or the configuration said not to look.
    Bypassed,
    /// It can't be told any more.
    Unknown,
}

impl ReuseStop {
    /// Whether everything that can be reused was.
    pub fn is_whole(self) -> bool {
        matches!(self, ReuseStop::Complete | ReuseStop::LastToken)
    }
}

impl ReuseStop {
    /// The stable name, as in records.
    pub fn as_str(self) -> &'static str {
        match self {
            ReuseStop::Complete => "complete",
            ReuseStop::LastToken => "last_token_rule",
            ReuseStop::BelowOneBlock => "below_one_block",
            ReuseStop::Difference { .. } => "first_difference",
            ReuseStop::NeverSeen => "never_seen",
            ReuseStop::Evicted => "evicted",
            ReuseStop::Expired => "expired",
            ReuseStop::WindowGone => "window_gone",
            ReuseStop::BeingWritten => "being_written",
            ReuseStop::Bypassed => "bypassed",
            ReuseStop::Unknown => "unknown",
        }
    }
}

impl fmt::Display for ReuseStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReuseStop::Complete => "complete",
            ReuseStop::LastToken => "last-token rule",
            ReuseStop::BelowOneBlock => "below one block",
            ReuseStop::Difference { token } => {
                return write!(f, "first difference at token {token}");
            }
            ReuseStop::NeverSeen => "never seen",
            ReuseStop::Evicted => "evicted",
            ReuseStop::Expired => "expired",
            ReuseStop::WindowGone => "window gone",
            ReuseStop::BeingWritten => "being written",
            ReuseStop::Bypassed => "bypassed",
            ReuseStop::Unknown => "unknown",
        })
    }
}
