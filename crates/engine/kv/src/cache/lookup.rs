//! The lookup: along the stored tree, then along a running call.

use crate::call::{Call, State};
use crate::ids::CallId;
use crate::reason::{Nearest, Stop};
use crate::sequence::common_tokens;
use crate::tree::NodeId;

use super::PrefixCache;

/// A running call that computes what another one needs next.
#[derive(Clone, Copy)]
pub(super) struct Join {
    pub(super) writer: CallId,
    /// Up to which block they share.
    pub(super) until: usize,
    /// Where they part.
    pub(super) parting: Option<Stop>,
}

impl PrefixCache {
    /// Extends `path` by the stored nodes that go on with the call's tokens, as far as a lookup may go.
    pub(super) fn extend_path(&mut self, path: &mut Vec<NodeId>, call: &Call) {
        let sequence = &call.sequence;
        let Some(mut parent) =
            path.last().copied().or_else(|| self.store.tree.scope(&sequence.keys().scope()))
        else {
            return;
        };
        for number in path.len()..sequence.lookup_blocks() {
            let Some(node) = self.find_block(call, parent, number) else { return };
            if self.store.is_expired(node) {
                self.store.expire(node);
                return;
            }
            path.push(node);
            parent = node;
        }
    }

    /// The stored node for one full block of a call.
    pub(super) fn find_block(&self, call: &Call, parent: NodeId, number: usize) -> Option<NodeId> {
        let hash = call.sequence.hashes().get(number)?;
        let media = call.sequence.media(number);
        self.store.tree.find(hash, parent, call.sequence.block(number), media.as_ref())
    }

    /// The longest part of `path` before which every group has what it needs.
    pub(super) fn boundary(&mut self, path: &[NodeId]) -> usize {
        let needs = &self.store.needs;
        if needs.iter().all(Option::is_none) {
            return path.len();
        }
        // Per group the length of the unbroken run of present blocks that ends here.
        self.runs.clear();
        self.runs.resize(needs.len(), 0);
        let mut boundary = 0;
        for (number, &node) in path.iter().enumerate() {
            let mut whole = true;
            for (group, block) in self.store.tree.blocks(node).iter().enumerate() {
                let run = if block.is_null() { 0 } else { self.runs[group] + 1 };
                self.runs[group] = run;
                whole &= run >= needs[group].map_or(number + 1, |need| need.min(number + 1));
            }
            if whole {
                boundary = number + 1;
            }
        }
        boundary
    }

    /// The running call that computes the most of what comes after `path`, if the call may wait.
    pub(super) fn find_writer(&self, path: &[NodeId], call: &Call) -> Option<Join> {
        if call.options.no_join || call.options.no_read {
            return None;
        }
        let (limit, from) = (call.sequence.lookup_blocks(), path.len());
        if from >= limit {
            return None;
        }
        let mut best: Option<(CallId, usize)> = None;
        for (id, writer) in self.writers_at(path, call) {
            let common = writer.sequence.common_blocks(&call.sequence, from, limit);
            if common > 0 && best.is_none_or(|(_, most)| common > most) {
                best = Some((id, common));
            }
        }
        let (writer, common) = best?;
        let until = from + common;
        let parting = self
            .calls
            .get(&writer)
            .and_then(|other| self.difference_from(other, writer, call, until));
        Some(Join { writer, until, parting: parting.map(|(stop, _)| stop) })
    }

    /// Running calls that store and whose stored part ends where `path` does, in the order of their ids.
    pub(super) fn writers_at<'a>(
        &'a self,
        path: &[NodeId],
        call: &Call,
    ) -> impl Iterator<Item = (CallId, &'a Call)> + use<'a> {
        let end =
            path.last().copied().or_else(|| self.store.tree.scope(&call.sequence.keys().scope()));
        end.into_iter()
            .flat_map(|end| self.tips.range((end, CallId(0))..=(end, CallId(u64::MAX))))
            .filter_map(|&(_, id)| self.calls.get(&id).map(|writer| (id, writer)))
            .filter(|(_, writer)| writer.state == State::Running)
    }

    /// Where `call` differs from a running call inside block `number`, and after how many common tokens of the block.
    pub(super) fn difference_from(
        &self,
        other: &Call,
        id: CallId,
        call: &Call,
        number: usize,
    ) -> Option<(Stop, usize)> {
        let (mine, theirs) = (call.sequence.block(number), other.sequence.block(number));
        let common = common_tokens(mine, theirs);
        // One that merely ends earlier does not differ.
        let differs = common < mine.len() && common < theirs.len();
        let token = number * self.config.block_tokens + common;
        differs.then(|| (Stop::difference(token, Nearest { call: id, block: number }), common))
    }
}
