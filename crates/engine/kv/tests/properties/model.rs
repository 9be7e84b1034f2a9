//! The naive model: a map from whole prefixes to blocks.

use std::collections::HashMap;
use std::time::Duration;

use tapri_kv::CacheConfig;

/// A scope and every token up to a block's end.
pub(crate) type Prefix = (usize, Vec<u32>);

pub(crate) struct Model {
    size: usize,
    ttl: Option<Duration>,
    /// Per group the blocks needed before a boundary.
    pub(crate) needs: Vec<Option<usize>>,
    pub(crate) blocks: HashMap<(usize, Prefix), u32>,
    used_at: HashMap<Prefix, Duration>,
}

impl Model {
    pub(crate) fn new(config: &CacheConfig) -> Self {
        let need = |spec: &tapri_kv::GroupSpec| match *spec {
            tapri_kv::GroupSpec::Window { tokens } => {
                Some((tokens.get() - 1).div_ceil(config.block_tokens))
            }
            _ => None,
        };
        Self {
            size: config.block_tokens,
            ttl: config.ttl,
            needs: config.groups.iter().map(need).collect(),
            blocks: HashMap::new(),
            used_at: HashMap::new(),
        }
    }

    fn prefix(&self, scope: usize, tokens: &[u32], blocks: usize) -> Prefix {
        (scope, tokens[..blocks * self.size].to_vec())
    }

    /// Blocks of full groups that are there from the start on; for windows alone, any number of blocks.
    pub(crate) fn stored(&self, scope: usize, tokens: &[u32]) -> usize {
        let limit = (tokens.len() - 1) / self.size;
        let full: Vec<usize> =
            (0..self.needs.len()).filter(|&group| self.needs[group].is_none()).collect();
        (1..=limit)
            .take_while(|&blocks| {
                let prefix = self.prefix(scope, tokens, blocks);
                full.iter().all(|&group| self.blocks.contains_key(&(group, prefix.clone())))
            })
            .count()
    }

    /// What a lookup must find, in blocks.
    pub(crate) fn hit(&self, scope: usize, tokens: &[u32]) -> usize {
        let whole = |boundary: usize| {
            (0..self.needs.len()).all(|group| {
                let first = self.needs[group].map_or(0, |need| boundary.saturating_sub(need));
                (first..boundary)
                    .all(|n| self.blocks.contains_key(&(group, self.prefix(scope, tokens, n + 1))))
            })
        };
        let stored = self.stored(scope, tokens);
        (1..=stored).rev().find(|&boundary| whole(boundary)).unwrap_or(0)
    }

    /// The block that holds a prefix in a group.
    pub(crate) fn block(
        &self,
        group: usize,
        scope: usize,
        tokens: &[u32],
        blocks: usize,
    ) -> Option<u32> {
        self.blocks.get(&(group, self.prefix(scope, tokens, blocks))).copied()
    }

    pub(crate) fn store(
        &mut self,
        group: usize,
        scope: usize,
        tokens: &[u32],
        blocks: usize,
        block: u32,
    ) {
        let prefix = self.prefix(scope, tokens, blocks);
        self.blocks.insert((group, prefix), block);
    }

    pub(crate) fn touch(&mut self, scope: usize, tokens: &[u32], blocks: usize, at: Duration) {
        for number in 1..=blocks {
            let prefix = self.prefix(scope, tokens, number);
            let used_at = self.used_at.entry(prefix).or_insert(at);
            *used_at = (*used_at).max(at);
        }
    }

    /// A block is handed out for something new. What has lost its full-attention block is lost as a whole.
    pub(crate) fn lose(&mut self, block: u32) {
        let lost: Vec<(usize, Prefix)> = self
            .blocks
            .iter()
            .filter(|&(_, &id)| id == block)
            .map(|(key, _)| key.clone())
            .collect();
        for (group, prefix) in lost {
            if self.needs[group].is_none() {
                self.forget(&prefix);
            } else {
                self.blocks.remove(&(group, prefix.clone()));
            }
        }
    }

    fn forget(&mut self, prefix: &Prefix) {
        self.blocks.retain(|(_, other), _| other != prefix);
        self.used_at.remove(prefix);
    }

    /// Forgets what has expired, unless `in_use` says that a call uses it.
    pub(crate) fn expire(&mut self, now: Duration, in_use: impl Fn(&Prefix) -> bool) {
        let Some(ttl) = self.ttl else { return };
        let expired = |(prefix, at): &(&Prefix, &Duration)| {
            now.saturating_sub(**at) >= ttl && !in_use(prefix)
        };
        let gone: Vec<Prefix> =
            self.used_at.iter().filter(expired).map(|(prefix, _)| prefix.clone()).collect();
        gone.iter().for_each(|prefix| self.forget(prefix));
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.used_at.clear();
    }

    /// No head of a chain is gone while its tail is there.
    pub(crate) fn check_heads(&self) {
        for (group, (scope, tokens)) in self.blocks.keys() {
            if self.needs[*group].is_none() && tokens.len() > self.size {
                let head = (*group, (*scope, tokens[..tokens.len() - self.size].to_vec()));
                assert!(self.blocks.contains_key(&head), "the head went before its tail");
            }
        }
    }
}
