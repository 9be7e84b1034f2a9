//! Which call holds what: for an operator who looks for a leak or for a call that doesn't come forward.

use std::time::Duration;

use tapri_kv::{CallId, Root};

/// Where a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// It holds nothing: it is new, or was preempted.
    Waiting,
    /// It waits for a prefix that another call computes, and holds what it shares of that.
    Joining,
    /// It is computed.
    Running,
}

impl CallState {
    /// In one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Waiting => "waiting",
            CallState::Joining => "joining",
            CallState::Running => "running",
        }
    }
}

/// One call, and what it holds. No token and no text is in it.
#[derive(Debug, Clone)]
pub struct CallHolding {
    /// The engine's number for it. Later calls have larger ones.
    pub id: CallId,
    /// Whose it is.
    pub root: Root,
    /// Where it stands.
    pub state: CallState,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// Tokens, of prompt and answer, whose K and V are there.
    pub computed: usize,
    /// Tokens of its answer so far.
    pub answer_tokens: usize,
    /// KV blocks in its tables, those that it shares included.
    pub blocks: usize,
    /// Of those, KV blocks that no other call uses.
    pub alone: usize,
    /// KV blocks that are kept for it and not yet handed out.
    pub promised: usize,
    /// The call whose prefix it waits for.
    pub waits_for: Option<CallId>,
    /// How often it was preempted.
    pub preemptions: u32,
    /// Since it was submitted.
    pub age: Duration,
    /// Whether its caller has left: it goes at the next step.
    pub cancelled: bool,
}

/// What the calls of an engine hold, between two steps.
#[derive(Debug, Clone)]
pub struct EngineHoldings {
    /// The calls: those that run, the oldest first; those that join; those that wait, in the order in which they start.
    pub calls: Vec<CallHolding>,
    /// KV blocks in use, by the pool's count.
    pub blocks_in_use: usize,
    /// KV blocks that stand in some call's tables or a pin's.
    pub blocks_held: usize,
    /// KV blocks whose count of uses isn't the number of tables they stand in. Anything but 0 is a defect.
    pub blocks_leaked: usize,
    /// Calls that the prefix cache knows and the engine has forgotten. Anything but 0 is a defect.
    pub calls_lost: usize,
    /// The roots of the scopes that were asked about, in their order.
    pub roots: Vec<Root>,
}
