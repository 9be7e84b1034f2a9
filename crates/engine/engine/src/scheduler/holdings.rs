//! What the calls hold, at one moment between two steps.

use std::collections::HashMap;
use std::time::Instant;

use tapri_kv::Root;

use crate::holdings::{CallHolding, CallState, EngineHoldings};
use crate::sequence::Sequence;

use super::Scheduler;

impl Scheduler {
    pub(super) fn holdings(&self, roots: Vec<Root>) -> EngineHoldings {
        let now = Instant::now();
        let known = self.cache.holdings();
        let mut held: HashMap<_, _> = known.calls.iter().map(|held| (held.call, held)).collect();
        let mut of = |state: CallState, sequence: &Sequence| {
            let held = held.remove(&sequence.id);
            CallHolding {
                id: sequence.id,
                root: sequence.keys.root,
                state,
                prompt_tokens: sequence.prompt_tokens,
                // What a call had computed before it was preempted is gone.
                computed: if state == CallState::Running { sequence.computed } else { 0 },
                answer_tokens: sequence.usage.answer_tokens,
                blocks: held.map_or(0, |held| held.blocks),
                alone: held.map_or(0, |held| held.alone),
                promised: held.map_or(0, |held| held.promised),
                waits_for: held.and_then(|held| held.waits_for),
                preemptions: sequence.preemptions,
                age: sequence.age(now),
                cancelled: sequence.is_cancelled(),
            }
        };
        let mut calls = Vec::new();
        calls.extend(self.running.iter().map(|sequence| of(CallState::Running, sequence)));
        calls.extend(self.joining.iter().map(|sequence| of(CallState::Joining, sequence)));
        // Those that wait for the disk hold what those hold that wait for another call.
        let reading = self.restoring.iter().map(|reading| &reading.sequence);
        calls.extend(reading.map(|sequence| of(CallState::Joining, sequence)));
        calls.extend(self.waiting.iter().map(|sequence| of(CallState::Waiting, sequence)));
        EngineHoldings {
            calls,
            blocks_in_use: known.in_use,
            blocks_held: known.held,
            blocks_leaked: known.leaked,
            // What a pin holds is no running call's.
            calls_lost: held.values().filter(|held| !held.pinned).count(),
            roots,
        }
    }
}
