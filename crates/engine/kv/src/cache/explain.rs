//! Why a lookup stopped where it did.

use crate::call::Call;
use crate::ghost::Gone;
use crate::reason::{Nearest, Stop, StopReason};
use crate::tree::NodeId;

use super::PrefixCache;

impl PrefixCache {
    /// Why a call with the stored nodes `path` can use `boundary` of them and no more.
    pub(super) fn explain(&self, call: &Call, path: &[NodeId], boundary: usize) -> Stop {
        let size = self.config.block_tokens;
        let sequence = &call.sequence;
        let (found, limit) = (path.len(), sequence.lookup_blocks());
        let at = |reason| Stop::new(reason, boundary * size);
        if call.options.no_read {
            return Stop::new(StopReason::Bypassed, 0);
        }
        if boundary < found {
            return at(StopReason::WindowGone);
        }
        if sequence.len() < size {
            return at(StopReason::BelowOneBlock);
        }
        let parent =
            path.last().copied().or_else(|| self.store.tree.scope(&sequence.keys().scope()));
        if found == limit {
            let last = parent.and_then(|parent| self.find_block(call, parent, found));
            if last.is_some_and(|last| !self.store.is_expired(last)) {
                return at(StopReason::LastTokenRule);
            }
            if found > 0 {
                return at(StopReason::Complete);
            }
        }
        let own = self.explain_miss(call, path, parent);
        if self.store.tree.held_elsewhere(self.own_scope(call), sequence.tokens(), found + 1) {
            own.with_other_scope()
        } else {
            own
        }
    }

    fn own_scope(&self, call: &Call) -> Option<NodeId> {
        self.store.tree.scope(&call.sequence.keys().scope())
    }

    /// Why the block after `path` isn't there.
    fn explain_miss(&self, call: &Call, path: &[NodeId], parent: Option<NodeId>) -> Stop {
        let size = self.config.block_tokens;
        let found = path.len();
        let at = |reason| Stop::new(reason, found * size);
        if self
            .writers_at(path, call)
            .any(|(_, writer)| writer.sequence.common_blocks(&call.sequence, found, found + 1) > 0)
        {
            return at(StopReason::BeingWritten);
        }
        match call.sequence.hashes().get(found).and_then(|hash| self.store.ghosts.get(hash)) {
            Some(Gone::Evicted) => return at(StopReason::Evicted),
            Some(Gone::Expired) => return at(StopReason::Expired),
            None => {}
        }
        if let Some(stop) = self.nearest(call, path, parent) {
            return stop;
        }
        at(if self.store.ghosts.overflowed() { StopReason::Unknown } else { StopReason::NeverSeen })
    }

    /// The first difference from the stored or running prompt that goes on most like this one.
    fn nearest(&self, call: &Call, path: &[NodeId], parent: Option<NodeId>) -> Option<Stop> {
        let number = path.len();
        let tokens = call.sequence.block(number);
        let stored = parent.and_then(|parent| self.store.tree.nearest_child(parent, tokens)).map(
            |(child, common)| {
                let media = common == tokens.len();
                let token = number * self.config.block_tokens
                    + if media { self.media_start(call, number) } else { common };
                let nearest = Nearest { call: self.store.tree.node(child).call, block: number };
                (Stop::difference(token, nearest), common)
            },
        );
        let running = self
            .writers_at(path, call)
            .filter_map(|(id, writer)| self.difference_from(writer, id, call, number));
        let best = running.chain(stored).max_by_key(|&(_, common)| common);
        // Two prompts that have nothing in common don't differ "in a token".
        let best = best.filter(|&(_, common)| number > 0 || common > 0).map(|(stop, _)| stop);
        best.or_else(|| {
            call.parting.filter(|stop| stop.nearest.is_some_and(|nearest| nearest.block == number))
        })
    }

    /// Where in a block its first media begins: the tokens are the same, what stands behind them is not.
    fn media_start(&self, call: &Call, number: usize) -> usize {
        let start = number * self.config.block_tokens;
        let spans = call.sequence.keys().media.iter();
        let first = spans
            .filter(|span| span.start + span.tokens > start)
            .map(|span| span.start.saturating_sub(start))
            .min();
        first.filter(|&offset| offset < self.config.block_tokens).unwrap_or(0)
    }
}
