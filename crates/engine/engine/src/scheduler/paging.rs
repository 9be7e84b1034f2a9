//! Between memory and disk: what makes room is handed to the disk, what a call lacks is read from there.
//!
//! Blocks are copied to the disk's queue when they make room, and while the engine has nothing to do all that is not on disk
//! yet, the last used first. So an eviction under load costs a copy of some microseconds, a process that is killed loses
//! what it computed since it last had a quarter of a second of rest, and a shutdown has little left to write.

use std::time::{Duration, Instant};

use tapri_kv::{BlockId, Moment, Page, Ready, ResetReport};

use crate::disk::{Arrival, Forgotten, Ticket};
use crate::handle::SubmitError;
use crate::sequence::Sequence;

use super::{Scheduler, plain};

/// How long the engine has nothing to do before it writes.
const REST: Duration = Duration::from_millis(250);

/// How long it waits for the disk while it writes or reads and nothing else is to be done.
const DISK_WAIT: Duration = Duration::from_millis(2);

/// How long pages are copied in a step of other calls.
const COPY_BESIDE_DECODING: Duration = Duration::from_millis(10);

/// How often a call tries to read what it lacks: each time at least one page fewer is on the list.
const ATTEMPTS: u32 = 3;

/// Milliseconds since 1970 at a moment of an engine that was started then.
fn wall(started_at: u64, moment: Moment) -> u64 {
    let since = moment.since(Moment::START).as_millis();
    started_at.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
}

/// A call whose prefix is read from disk. It has the blocks for it.
pub(super) struct Restoring {
    pub(super) sequence: Sequence,
    /// What memory had for it.
    ready: Ready,
    ticket: Ticket,
    /// Where the pages go, in the order in which they come.
    blocks: Vec<BlockId>,
    arrived: usize,
    attempts: u32,
}

impl Scheduler {
    fn wall(&self, moment: Moment) -> u64 {
        wall(self.started_at, moment)
    }

    /// Hands a page to the disk.
    fn keep_page(&mut self, page: &Page) {
        let used = self.wall(page.used_at);
        if let Some(disk) = &mut self.disk {
            disk.keep(page, self.store.block(page.block.0), used);
        }
    }

    /// Hands what made room to the disk. To be called before anything is written to blocks that were handed out.
    pub(super) fn spill(&mut self) {
        if self.disk.is_none() {
            return;
        }
        for page in self.cache.take_leaving() {
            self.keep_page(&page);
        }
        if let Some(disk) = &mut self.disk {
            disk.note_touched();
        }
    }

    /// How long to wait for a command before more is written; `None` where there is nothing to be written.
    pub(super) fn saving_pause(&self) -> Option<Duration> {
        self.disk.as_ref()?;
        if !self.backlog.is_empty() {
            return Some(DISK_WAIT);
        }
        self.unsaved.then_some(REST)
    }

    /// Writes some of what is in memory alone.
    pub(super) fn save_some(&mut self) {
        if self.backlog.is_empty() && self.unsaved {
            self.unsaved = false;
            self.backlog = self.unsaved_pages();
            self.backlog.reverse();
        }
        while self.disk.as_ref().is_some_and(|disk| disk.is_ready())
            && let Some(page) = self.backlog.pop()
        {
            self.keep_page(&page);
        }
        self.settle();
    }

    /// Something is to be done: what was to be written may be elsewhere then.
    pub(super) fn stop_saving(&mut self) {
        if !self.backlog.is_empty() {
            self.backlog.clear();
            self.unsaved = true;
        }
    }

    /// What is in memory alone, the last used first. Of the rest the last use is noted.
    fn unsaved_pages(&mut self) -> Vec<Page> {
        let Some(disk) = &mut self.disk else { return Vec::new() };
        let started = self.started_at;
        let pages = self
            .cache
            .pages(|hash, group, used_at| !disk.touch(hash, group, wall(started, used_at)));
        disk.note_touched();
        pages
    }

    /// The engine ends: what is in memory alone is written, as far as there is time.
    pub(crate) fn save_all(&mut self) {
        self.spill();
        let pages = self.unsaved_pages();
        let used: Vec<u64> = pages.iter().map(|page| self.wall(page.used_at)).collect();
        if let Some(mut disk) = self.disk.take() {
            let store = &self.store;
            disk.close(pages.into_iter().zip(used), |page| store.block(page.block.0));
        }
    }

    /// Erases what the cache forgot from disk as well, and only then says what was forgotten.
    pub(super) fn erase_from_disk(
        &mut self,
        forgotten: Option<Forgotten>,
        report: ResetReport,
        reply: flume::Sender<Result<ResetReport, SubmitError>>,
    ) {
        // First, so that whoever has the answer finds it in the counters.
        self.publish_stats();
        let (Some(disk), Some(forgotten)) = (&mut self.disk, forgotten) else {
            // Who asked may have left.
            let _ = reply.try_send(Ok(report));
            return;
        };
        let then = move |erased: std::io::Result<()>| {
            let said = erased.map(|()| report);
            let _ = reply.try_send(said.map_err(|error| SubmitError::NotErased(error.to_string())));
        };
        disk.erase_forgotten(forgotten, Box::new(then));
    }

    pub(super) fn expire_pages(&mut self) {
        // What was to be written may have expired.
        self.stop_saving();
        let now = self.wall(self.now());
        if let Some(disk) = &mut self.disk {
            disk.expire(now);
        }
    }

    fn settle(&mut self) {
        if let Some(disk) = &mut self.disk {
            disk.settle();
        }
    }

    /// A call that may start reads what the disk has of its prompt first, where that is faster than computing it.
    pub(super) fn read_or_start(&mut self, sequence: Sequence, ready: Ready) {
        self.read(sequence, ready, 1);
    }

    fn read(&mut self, sequence: Sequence, ready: Ready, attempts: u32) {
        match self.begin_reading(&sequence, attempts) {
            Some((ticket, blocks)) => {
                let arrived = 0;
                let reading = Restoring { sequence, ready, ticket, blocks, arrived, attempts };
                self.restoring.push(reading);
            }
            None => self.start(sequence, &ready, 0),
        }
    }

    fn begin_reading(
        &mut self,
        sequence: &Sequence,
        attempts: u32,
    ) -> Option<(Ticket, Vec<BlockId>)> {
        let now = self.wall(self.now());
        let disk = self.disk.as_mut().filter(|disk| attempts <= ATTEMPTS && disk.is_alive())?;
        disk.settle();
        let plan = self.cache.restorable(sequence.id, |hash, group| disk.has(hash, group, now))?;
        let size = self.config.block_size;
        if !disk.is_faster(plan.pages.len(), plan.from * size, plan.upto * size) {
            return None;
        }
        let blocks = self.cache.begin_restore(sequence.id, &plan).ok()?;
        // Before their places on disk are asked for: what made room for them may take one.
        self.spill();
        let disk = self.disk.as_mut()?;
        let root = &sequence.keys.root;
        match disk.read(root, plain(&sequence.tokens), size, &plan.pages) {
            Some(ticket) => Some((ticket, blocks)),
            None => {
                // It was begun above.
                let _ = self.cache.give_up_restore(sequence.id);
                None
            }
        }
    }

    /// Takes what was read into its blocks. What other calls compute meanwhile is held up by no more than a copy.
    pub(super) fn take_pages(&mut self) {
        if self.restoring.is_empty() && self.disk.is_none() {
            return;
        }
        let mut wait = match self.running.is_empty() && !self.restoring.is_empty() {
            true => DISK_WAIT,
            false => Duration::ZERO,
        };
        // More comes while it is taken, and others wait for their next tokens.
        let limit = if self.running.is_empty() { REST } else { COPY_BESIDE_DECODING };
        let until = Instant::now() + limit;
        while let Some(arrival) = self.disk.as_mut().and_then(|disk| disk.arrival(wait)) {
            wait = Duration::ZERO;
            self.take_arrival(arrival);
            if Instant::now() >= until {
                break;
            }
        }
        if self.disk.as_ref().is_some_and(|disk| !disk.is_alive()) {
            while let Some(reading) = self.restoring.pop() {
                self.read_no_more(reading);
            }
        }
    }

    fn take_arrival(&mut self, arrival: Arrival) {
        let (Arrival::Page(ticket, _) | Arrival::All(ticket) | Arrival::Failed(ticket)) = &arrival;
        // Of a call that has left, there is none.
        let Some(at) = self.restoring.iter().position(|it| it.ticket == *ticket) else { return };
        match arrival {
            Arrival::Page(_, page) => {
                let reading = &mut self.restoring[at];
                if let Some(block) = reading.blocks.get(reading.arrived) {
                    self.store.load_block(block.0, &page);
                    reading.arrived += 1;
                }
            }
            Arrival::All(_) => {
                let reading = self.restoring.remove(at);
                debug_assert_eq!(reading.arrived, reading.blocks.len());
                let before = reading.ready.start();
                match self.cache.restored(reading.sequence.id, reading.ready) {
                    Ok(ready) => {
                        let restored = ready.start() - before;
                        self.start(reading.sequence, &ready, restored);
                    }
                    Err(_) => self.read_no_more(reading),
                }
            }
            Arrival::Failed(_) => {
                let reading = self.restoring.remove(at);
                self.read_no_more(reading);
            }
        }
    }

    /// A page can't be had: the call reads what is left without it, or computes.
    fn read_no_more(&mut self, reading: Restoring) {
        let Restoring { sequence, ready, attempts, .. } = reading;
        // It was begun when the call was put on the list.
        let _ = self.cache.give_up_restore(sequence.id);
        self.read(sequence, ready, attempts + 1);
    }

    /// A call that runs needs the room that one has which is only reading: the newest of those comes back later. `false`:
    /// none reads.
    pub(super) fn stop_reading_for(&mut self, rivals: impl Fn(&Sequence) -> bool) -> bool {
        let reading = self.restoring.iter().enumerate().filter(|(_, it)| rivals(&it.sequence));
        let Some((at, _)) = reading.max_by_key(|(_, it)| it.sequence.id) else { return false };
        let Restoring { sequence, .. } = self.restoring.remove(at);
        let now = self.now();
        self.cache.preempt(sequence.id, now);
        self.queue(sequence);
        true
    }
}
