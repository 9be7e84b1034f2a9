//! Which call of a backend in this process holds what, for the operator.

use std::time::Duration;

/// What the calls of an engine hold, between two of its steps. No token and no text is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Holdings {
    /// The calls: those that run, the oldest first; those that join; those that wait, in the order in which they start.
    pub calls: Vec<Holding>,
    /// KV blocks in use, by the pool's count.
    pub blocks_in_use: usize,
    /// KV blocks that stand in some call's tables or a pin's.
    pub blocks_held: usize,
    /// KV blocks whose count of uses isn't the number of tables they stand in. Anything but 0 is a defect.
    pub blocks_leaked: usize,
    /// Calls that the prefix cache knows and the engine has forgotten. Anything but 0 is a defect.
    pub calls_lost: usize,
}

/// One call, and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// The engine's number for it. Later calls have larger ones.
    pub id: u64,
    /// Whose it is: the place in the list of scopes that was asked about, where it is one of them.
    pub scope: Option<usize>,
    /// `running`; `joining`, while it waits for a prefix that another computes; or `waiting`.
    pub state: &'static str,
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
    pub waits_for: Option<u64>,
    /// How often it was preempted.
    pub preemptions: u32,
    /// Since it was submitted.
    pub age: Duration,
    /// Whether its caller has left: it goes at the next step.
    pub cancelled: bool,
}

impl Holdings {
    /// From what the engine shows.
    pub(crate) fn of(shown: &tapri_engine::EngineHoldings) -> Self {
        let calls = shown.calls.iter().map(|call| Holding {
            id: call.id.0,
            scope: shown.roots.iter().position(|root| *root == call.root),
            state: call.state.as_str(),
            prompt_tokens: call.prompt_tokens,
            computed: call.computed,
            answer_tokens: call.answer_tokens,
            blocks: call.blocks,
            alone: call.alone,
            promised: call.promised,
            waits_for: call.waits_for.map(|id| id.0),
            preemptions: call.preemptions,
            age: call.age,
            cancelled: call.cancelled,
        });
        Holdings {
            calls: calls.collect(),
            blocks_in_use: shown.blocks_in_use,
            blocks_held: shown.blocks_held,
            blocks_leaked: shown.blocks_leaked,
            calls_lost: shown.calls_lost,
        }
    }
}
