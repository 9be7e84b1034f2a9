//! The recent prompts of a log, in bounded memory: the oldest go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::CallRef;
use crate::prompt::PromptDoc;

/// A call that is kept.
pub(super) struct Kept {
    pub(super) doc: PromptDoc,
    pub(super) call: CallRef,
    /// Its token ids, where a model lays it out.
    pub(super) tokens: Option<Vec<u32>>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.doc.bytes() + self.tokens.as_ref().map_or(0, |tokens| 4 * tokens.len())
    }
}

/// Recent calls, by conversation; the first calls of conversations and the calls without one are kept once more, to be
/// compared with each other.
pub(super) struct Store {
    conversations: HashMap<String, VecDeque<Arc<Kept>>>,
    /// First calls, and calls that name no conversation; the oldest first.
    heads: VecDeque<Arc<Kept>>,
    /// All calls by age: the conversation they are kept in.
    order: VecDeque<String>,
    bytes: usize,
    head_bytes: usize,
    /// Of `bytes`; `head_bytes` may be a quarter of it.
    limit: usize,
    recent: usize,
}

impl Store {
    pub(super) fn new(limit: usize, recent: usize) -> Self {
        Store {
            conversations: HashMap::new(),
            heads: VecDeque::new(),
            order: VecDeque::new(),
            bytes: 0,
            head_bytes: 0,
            limit,
            recent: recent.max(1),
        }
    }

    /// The call before this one in its conversation.
    pub(super) fn previous(&self, doc: &PromptDoc) -> Option<Arc<Kept>> {
        self.conversations.get(doc.conversation.as_ref()?)?.back().cloned()
    }

    /// What this prompt is compared with, the latest first.
    pub(super) fn candidates<'a>(
        &'a self,
        doc: &PromptDoc,
    ) -> Box<dyn Iterator<Item = &'a Arc<Kept>> + 'a> {
        let own = doc.conversation.as_ref().and_then(|name| self.conversations.get(name));
        match own {
            Some(own) => Box::new(own.iter().rev()),
            None => Box::new(self.heads.iter().rev()),
        }
    }

    /// Keeps a call; says whether it began a conversation that has a name.
    pub(super) fn add(&mut self, kept: Arc<Kept>) -> bool {
        let size = kept.bytes();
        let began = match kept.doc.conversation.clone() {
            None => {
                self.head(kept);
                return false;
            }
            Some(name) => {
                let began = !self.conversations.contains_key(&name);
                if began {
                    self.head(Arc::clone(&kept));
                }
                let own = self.conversations.entry(name.clone()).or_default();
                own.push_back(kept);
                self.bytes += size;
                self.order.push_back(name);
                began
            }
        };
        self.shrink();
        began
    }

    fn head(&mut self, kept: Arc<Kept>) {
        self.head_bytes += kept.bytes();
        self.heads.push_back(kept);
        while self.heads.len() > self.recent
            || (self.head_bytes > self.limit / 4 && self.heads.len() > 1)
        {
            let Some(oldest) = self.heads.pop_front() else { break };
            self.head_bytes -= oldest.bytes();
        }
    }

    /// Lets the oldest calls go until all fits: the newest of a conversation stays with it as long as there is room for
    /// anything.
    fn shrink(&mut self) {
        let newest = self.order.back().cloned();
        if let Some(name) = &newest {
            let long = self.conversations.get(name).is_some_and(|own| own.len() > self.recent);
            if long {
                self.drop_oldest_of(name);
                if let Some(at) = self.order.iter().position(|other| other == name) {
                    self.order.remove(at);
                }
            }
        }
        while self.bytes > self.limit && self.order.len() > 1 {
            let Some(name) = self.order.pop_front() else { break };
            self.drop_oldest_of(&name);
        }
    }

    fn drop_oldest_of(&mut self, name: &str) {
        let Some(own) = self.conversations.get_mut(name) else { return };
        if let Some(oldest) = own.pop_front() {
            self.bytes -= oldest.bytes();
        }
        if own.is_empty() {
            self.conversations.remove(name);
        }
    }
}

#[cfg(test)]
impl Store {
    /// Bytes that are kept, those counted once more for first calls included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.head_bytes
    }
}
