//! Memory in front of a store.
//!
//! Two promises meet here. What is erased isn't served, though another process may have erased it: memory may answer
//! only while the store's count of erasures was seen unchanged within its lease, and a store that doesn't say makes
//! the call a miss. And what was asked before an erasure isn't stored after it: a [`Ticket`] remembers the counts of
//! when the call began.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

use super::{Filter, Guarded, Memory, Put, StoreError, StoreStats};
use crate::exact::entry::millis;
use crate::exact::{Clock, DecodeError, Entry, Key};

/// Memory, and what is behind it.
#[derive(Debug)]
pub struct Tiers {
    front: Mutex<Front>,
    back: Option<Guarded>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Front {
    memory: Memory,
    /// Erasures seen by this process.
    purges: u64,
    /// The store's own count, and when it said so.
    epoch: Option<(u64, Instant)>,
}

/// The counts of erasures when a call began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticket {
    purges: u64,
    /// `None` where the store didn't say.
    epoch: Option<u64>,
}

/// What there is for a call.
pub(crate) struct Looked {
    pub(crate) entries: Vec<(usize, Arc<Entry>)>,
    pub(crate) ticket: Ticket,
}

impl Tiers {
    /// Memory for so many bytes, and a store behind it.
    pub fn new(memory: usize, back: Option<Guarded>, clock: Arc<dyn Clock>) -> Self {
        let front = Front { memory: Memory::new(memory), purges: 0, epoch: None };
        Tiers { front: Mutex::new(front), back, clock }
    }

    /// The store behind.
    pub fn back(&self) -> Option<&Guarded> {
        self.back.as_ref()
    }

    fn front(&self) -> std::sync::MutexGuard<'_, Front> {
        self.front.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is under a key, and a ticket to store under it later.
    pub(crate) async fn look(&self, key: Key) -> Looked {
        let ticket = self.ticket().await;
        let Some(back) = &self.back else {
            return Looked { entries: self.front().memory.get(&key), ticket };
        };
        // Without word from the store nobody knows what was erased.
        if ticket.epoch.is_none() {
            return Looked { entries: Vec::new(), ticket };
        }
        let entries = self.front().memory.get(&key);
        if !entries.is_empty() || back.store().lacks(&key) {
            return Looked { entries, ticket };
        }
        let Some(found) = back.ask("read", |store| store.get(key)).await else {
            return Looked { entries, ticket: Ticket { epoch: None, ..ticket } };
        };
        let mut front = self.front();
        front.saw(found.epoch);
        let ticket = Ticket { purges: front.purges, epoch: Some(found.epoch) };
        let mut entries = Vec::new();
        for (slot, bytes) in found.entries {
            match Entry::decode(&key, &bytes) {
                Ok(entry) => {
                    let entry = Arc::new(entry);
                    front.memory.put(key, slot, Arc::clone(&entry), bytes.len());
                    entries.push((slot, entry));
                }
                // Another version's entry is a miss as any other; what was changed is worth a word.
                Err(DecodeError::Form(_)) => {}
                Err(error) => back.corrupt(&error),
            }
        }
        Looked { entries, ticket }
    }

    /// What memory has under a key, for a ticket that still holds.
    pub(crate) fn in_memory(&self, key: &Key, ticket: Ticket) -> Vec<(usize, Arc<Entry>)> {
        let mut front = self.front();
        if !front.holds(ticket, self.back.is_some()) {
            return Vec::new();
        }
        front.memory.get(key)
    }

    /// The counts of erasures.
    pub(crate) async fn ticket(&self) -> Ticket {
        let Some(back) = &self.back else {
            return Ticket { purges: self.front().purges, epoch: None };
        };
        {
            let front = self.front();
            if let Some((epoch, at)) = front.epoch
                && at.elapsed() < back.lease()
            {
                return Ticket { purges: front.purges, epoch: Some(epoch) };
            }
        }
        let epoch = back.ask("reach", |store| store.epoch()).await;
        let mut front = self.front();
        if let Some(epoch) = epoch {
            front.saw(epoch);
        }
        Ticket { purges: front.purges, epoch }
    }

    /// Whose turn it is.
    pub(crate) fn turn(&self, key: &Key) -> usize {
        self.front().memory.turn(key)
    }

    /// Keeps an answer in memory. `None`: something was erased since its call began. Else what is to be kept by the
    /// store as well, where there is one.
    pub(crate) fn put(
        &self,
        key: Key,
        slot: usize,
        entry: Arc<Entry>,
        bytes: Arc<[u8]>,
        ticket: Ticket,
    ) -> Option<Option<Put>> {
        let mut front = self.front();
        if front.purges != ticket.purges {
            return None;
        }
        if front.holds(ticket, self.back.is_some()) {
            front.memory.put(key, slot, Arc::clone(&entry), bytes.len());
        }
        drop(front);
        Some(self.back.as_ref().and(ticket.epoch).map(|epoch| Put {
            key,
            slot,
            bytes,
            tags: entry.tags.clone(),
            created: entry.created_millis(),
            expires: entry.expires_millis(),
            epoch,
        }))
    }

    /// Keeps an answer in the store as well. `None`: it failed; `Some(false)`: something was erased meanwhile.
    pub(crate) async fn put_back(&self, put: Put) -> Option<bool> {
        let back = self.back.as_ref()?;
        back.ask("write", |store| store.put(put)).await
    }

    /// Notes that a session is to get an answer, wherever it is kept. `false`: it can't be noted, so that the session
    /// must not get it: the answer could not be found by that name when the session is erased.
    pub(crate) async fn tag(&self, key: Key, session: &str) -> bool {
        let Some(room) = self.front().memory.tag(&key, session) else { return true };
        let told = match &self.back {
            Some(back) if room => {
                let session = session.to_owned();
                back.ask("write", |store| store.tag(key, session)).await
            }
            Some(back) => back.ask("write", |store| store.delete(key)).await,
            None => Some(()),
        };
        let noted = room && told.is_some();
        if !noted {
            self.front().memory.delete(&key);
        }
        noted
    }

    /// Erases what a filter matches, everywhere. Calls under way store nothing any more.
    pub async fn purge(&self, filter: &Filter) -> Result<u64, StoreError> {
        let now = millis(self.clock.now());
        let here = {
            let mut front = self.front();
            front.purges += 1;
            let gone = front.memory.purge(filter, now);
            if self.back.is_some() {
                // What the store knows of sessions, memory may not.
                front.memory.clear();
            }
            gone
        };
        let Some(back) = &self.back else { return Ok(here) };
        let there = back.store().purge(filter.clone(), now).await;
        let mut front = self.front();
        front.memory.clear();
        front.epoch = None;
        there
    }

    /// What memory holds.
    pub fn memory_stats(&self) -> StoreStats {
        self.front().memory.stats()
    }

    /// Lets go of files and connections.
    pub fn close(&self) {
        if let Some(back) = &self.back {
            back.store().close();
        }
    }
}

impl Front {
    /// The store said how many erasures there were.
    fn saw(&mut self, epoch: u64) {
        if self.epoch.is_some_and(|(known, _)| known != epoch) {
            self.memory.clear();
            self.purges += 1;
        }
        self.epoch = Some((epoch, Instant::now()));
    }

    /// Whether nothing was erased since a ticket was given, as far as is known.
    fn holds(&self, ticket: Ticket, has_back: bool) -> bool {
        self.purges == ticket.purges
            && (!has_back || self.epoch.is_some_and(|(known, _)| Some(known) == ticket.epoch))
    }
}
