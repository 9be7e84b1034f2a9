//! What holds after every step and at every admission.

use std::collections::HashSet;

use tapri_kv::{BlockId, CallId, GroupIndex, PrefixHash, Ready, StopReason};

use super::{Call, Harness, State};

impl Harness {
    pub(super) fn check_ready(&self, id: u64, ready: &Ready) {
        let call = &self.calls[&id];
        let size = self.config.block_tokens;
        let stored = self.model.stored(call.scope, &call.tokens);
        let expected =
            if call.options.no_read { 0 } else { self.model.hit(call.scope, &call.tokens) * size };
        assert_eq!(ready.start(), expected, "call {id} finds what is there: {ready:?}");
        assert!(ready.start() < call.tokens.len(), "the last token is always computed");
        assert_eq!(if call.resumed { ready.hit + ready.joined } else { ready.recovered }, 0);
        let full = self.model.needs.iter().any(Option::is_none);
        if full && !call.options.no_read && !call.options.no_join {
            let missed = self.calls.iter().find(|&(&other, writer)| {
                let blocks = (call.tokens.len() - 1).min(writer.tokens.len()) / size;
                let same = (stored + 1).min(blocks) * size;
                other != id
                    && (writer.state, writer.options.no_store, writer.scope, writer.chain)
                        == (State::Running, false, call.scope, stored)
                    && same > stored * size
                    && call.tokens[..same] == writer.tokens[..same]
            });
            assert!(missed.is_none(), "call {id} should have waited");
        }
        let stop = ready.stop;
        assert!(stop.token >= ready.start() && stop.for_client().reason != StopReason::OtherScope);
        let weak = matches!(self.config.hash, PrefixHash::Custom(_));
        let missing =
            call.tokens.get(..(stored + 1) * size).map(|tokens| (call.scope, tokens.to_vec()));
        match stop.for_client().reason {
            StopReason::FirstDifference => {
                let nearest = stop.nearest.unwrap();
                let (scope, other) = &self.past[&nearest.call.0];
                assert_eq!((*scope, nearest.block), (call.scope, stop.token / size));
                assert_eq!(
                    call.tokens[..stop.token],
                    other[..stop.token],
                    "call {id} differs earlier"
                );
                assert_ne!(
                    call.tokens[stop.token], other[stop.token],
                    "call {id} doesn't differ there"
                );
            }
            StopReason::Complete => {
                assert_eq!(ready.start(), (call.tokens.len() - 1) / size * size)
            }
            StopReason::LastTokenRule => assert_eq!(ready.start() + size, call.tokens.len()),
            StopReason::BelowOneBlock => assert!(call.tokens.len() < size),
            StopReason::WindowGone => assert!(stored * size > ready.start()),
            StopReason::Bypassed => assert!(call.options.no_read),
            StopReason::Expired => assert!(self.config.ttl.is_some()),
            StopReason::Evicted if !weak && full => assert!(self.ever.contains(&missing.unwrap())),
            StopReason::NeverSeen if !weak && full => {
                assert!(missing.is_none_or(|missing| !self.ever.contains(&missing)))
            }
            _ => {}
        }
    }

    /// Queue and references.
    pub(super) fn picture(&self) -> (Vec<BlockId>, Vec<u32>) {
        (
            self.cache.free_queue().collect(),
            (0..self.config.blocks as u32).map(|id| self.cache.references(BlockId(id))).collect(),
        )
    }

    /// What holds after every step.
    pub(crate) fn check(&self) {
        let (queue, references) = self.picture();
        let mut users = vec![0; self.config.blocks];
        for (&id, call) in &self.calls {
            for group in 0..self.config.groups.len() {
                let table = self.cache.table(CallId(id), GroupIndex(group));
                table
                    .iter()
                    .filter(|&&block| block != 0)
                    .for_each(|&block| users[block as usize] += 1);
                self.check_table(call, group, table);
            }
            assert_eq!(call.state == State::Running, self.cache.is_running(CallId(id)));
            assert_eq!(
                matches!(call.state, State::Waiting { .. }),
                self.cache.is_waiting(CallId(id))
            );
        }
        assert_eq!(users, references, "references are the tables' entries");
        let holdings = self.cache.holdings();
        assert_eq!((holdings.leaked, holdings.held), (0, holdings.in_use), "{holdings:?}");
        for held in &holdings.calls {
            let mine = |block: &&u32| users[**block as usize] == 1 && **block != 0;
            let tables = (0..self.config.groups.len())
                .flat_map(|group| self.cache.table(held.call, GroupIndex(group)));
            assert_eq!(held.alone, tables.filter(mine).count());
        }
        let mut idle: Vec<u32> = queue.iter().map(|block| block.0).collect();
        idle.sort_unstable();
        let expected: Vec<u32> =
            (1..self.config.blocks as u32).filter(|&block| users[block as usize] == 0).collect();
        assert_eq!(idle, expected, "the queue holds what nobody uses, once");
        let stats = self.cache.stats();
        let used: usize = stats.groups.iter().map(|group| group.in_use).sum();
        assert_eq!(used + stats.free, stats.capacity, "the budget holds");
        let pins = self.calls.iter().filter(|(_, call)| call.state == State::Pinned);
        let pinned: HashSet<u32> = pins
            .flat_map(|(&id, _)| {
                let groups = (0..self.config.groups.len()).map(GroupIndex);
                groups.flat_map(move |group| self.cache.table(CallId(id), group).iter().copied())
            })
            .filter(|block| *block != 0)
            .collect();
        assert_eq!(pinned.len(), stats.pinned, "each pinned block counts once");
        assert!(stats.stored <= stats.capacity || self.model.needs.iter().all(Option::is_some));
        self.model.check_heads();
    }

    fn check_table(&self, call: &Call, group: usize, table: &[u32]) {
        let size = self.config.block_tokens;
        match call.state {
            State::Queued => assert!(table.is_empty()),
            State::Waiting { .. } => {
                assert_eq!(table.len(), call.chain, "it holds what its writer has computed");
                for (number, &block) in table.iter().enumerate().filter(|&(_, &block)| block != 0) {
                    let shared = self.model.block(group, call.scope, &call.tokens, number + 1);
                    assert_eq!(shared, Some(block), "a waiting call holds stored blocks only");
                }
            }
            State::Running | State::Pinned => {
                if call.state == State::Pinned {
                    assert_eq!(table.len(), call.chain, "a pin holds what is stored and no more");
                    for (number, &block) in
                        table.iter().enumerate().filter(|&(_, &block)| block != 0)
                    {
                        let shared = self.model.block(group, call.scope, &call.tokens, number + 1);
                        assert_eq!(shared, Some(block), "what is pinned is never evicted");
                    }
                }
                let first = self.model.needs[group]
                    .map_or(0, |need| (call.computed / size).saturating_sub(need) * size);
                for at in first..call.computed {
                    let expected = Some((group, (call.scope, call.tokens[..=at].to_vec())));
                    assert_eq!(
                        self.memory[table[at / size] as usize][at % size],
                        expected,
                        "a block with other tokens"
                    );
                }
            }
        }
    }
}
