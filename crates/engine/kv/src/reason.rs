//! Why a lookup stopped.

use std::fmt;

use crate::ids::CallId;

/// Why a lookup stopped where it did. The list is closed; names are stable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StopReason {
    /// Every full block that may be reused was.
    Complete,
    /// The block that holds the last token is there too, but the last token is always computed.
    LastTokenRule,
    /// The prompt is shorter than one block.
    BelowOneBlock,
    /// An earlier prompt is the same up to here and differs in the token named.
    FirstDifference,
    /// Nothing like it was ever stored.
    NeverSeen,
    /// It was there and had to make room.
    Evicted,
    /// It was there and its time ran out.
    Expired,
    /// The full-attention blocks are there, but not the window that a sliding-window group needs before the boundary.
    WindowGone,
    /// Another call is computing it and this one does not wait.
    BeingWritten,
    /// The call did not look.
    Bypassed,
    /// Never seen, or evicted so long ago that the list of evicted hashes has overflowed.
    Unknown,
    /// Another scope holds it. For the operator alone: see [`Stop::for_client`].
    OtherScope,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::Complete,
        Self::LastTokenRule,
        Self::BelowOneBlock,
        Self::FirstDifference,
        Self::NeverSeen,
        Self::Evicted,
        Self::Expired,
        Self::WindowGone,
        Self::BeingWritten,
        Self::Bypassed,
        Self::Unknown,
        Self::OtherScope,
    ];

    /// The stable name, as in records and headers.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::LastTokenRule => "last_token_rule",
            Self::BelowOneBlock => "below_one_block",
            Self::FirstDifference => "first_difference",
            Self::NeverSeen => "never_seen",
            Self::Evicted => "evicted",
            Self::Expired => "expired",
            Self::WindowGone => "window_gone",
            Self::BeingWritten => "being_written",
            Self::Bypassed => "bypassed",
            Self::Unknown => "unknown",
            Self::OtherScope => "other_scope",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The stored or running call that a prompt differs from.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Nearest {
    /// The call that last used the block.
    pub call: CallId,
    /// The block's number in the prompt, from 0.
    pub block: usize,
}

/// Where a lookup stopped, and why.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stop {
    /// The reason, as the operator may know it.
    pub reason: StopReason,
    /// The first token that was not reused; for [`StopReason::FirstDifference`] the first token that differs, which lies inside the block that was not reused.
    pub token: usize,
    /// Against whom, for [`StopReason::FirstDifference`]. Always of the caller's own scope.
    pub nearest: Option<Nearest>,
    /// The reason within the caller's own scope.
    own: StopReason,
}

impl Stop {
    pub(crate) fn new(reason: StopReason, token: usize) -> Self {
        Self { reason, token, nearest: None, own: reason }
    }

    pub(crate) fn difference(token: usize, nearest: Nearest) -> Self {
        Self { nearest: Some(nearest), ..Self::new(StopReason::FirstDifference, token) }
    }

    /// The same stop, with the note for the operator that another scope holds more.
    pub(crate) fn with_other_scope(self) -> Self {
        Self { reason: StopReason::OtherScope, ..self }
    }

    /// What a client may see: the reason as it would be if no other scope existed.
    #[must_use]
    pub fn for_client(self) -> Self {
        Self { reason: self.own, ..self }
    }
}
