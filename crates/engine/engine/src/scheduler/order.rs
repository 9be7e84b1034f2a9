//! The order of calls: by number, which is the order in which they came.
//!
//! Both lists are kept sorted, so that the first of those that wait is the one that has waited longest, and the last of
//! those that run is the newest, whatever woke, preempted or forked them.

use crate::sequence::Sequence;

use super::Scheduler;

impl Scheduler {
    /// Among those that wait, before all that came after it.
    pub(super) fn queue(&mut self, sequence: Sequence) {
        let at = self.waiting.partition_point(|other| other.id < sequence.id);
        self.waiting.insert(at, sequence);
    }

    /// Among those that run, before all that came after it. The places of those behind it move.
    pub(super) fn run_in_order(&mut self, sequence: Sequence) {
        let at = self.running.partition_point(|other| other.id < sequence.id);
        self.running.insert(at, sequence);
    }
}
