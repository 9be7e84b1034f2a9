//! The disk tier of the KV cache: blocks that made room, or that a shutdown would lose, kept in a folder and read back when
//! that is faster than computing them.
//!
//! The engine's thread keeps the list of what is there ([`tapri_kv::Slots`]) and hands bytes over; one more thread does all
//! that touches the disk, in the order in which it was told. That order is what makes a slot safe: a page that is read was
//! written before, one that is erased isn't written after, and a slot is not written anew before it was read.
//!
//! Nothing that the disk does can make an answer wrong or a call fail: a page that can't be written isn't kept, one that
//! can't be read, or isn't what its place says, is a miss. Each is counted, and said in the log once a minute at most.
//!
//! Map: `folder` the folder, its lock and its two files; `record` what stands before a page; `worker` the thread;
//! `estimate` what reading and computing cost.

mod estimate;
mod folder;
mod record;
mod warnings;
mod worker;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tapri_kv::{BlockHash, GroupIndex, Page, Root, SlotPage, Slots, WantedPage};

pub(crate) use estimate::Estimates;
pub use folder::{DiskError, clear_folder};
use folder::{Folder, Geometry};
use record::Record;
pub(crate) use worker::Shared as Figures;
use worker::{Job, Progress, Worker};

/// Where pages are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskConfig {
    /// The folder, which is made if it isn't there. One engine at a time uses it.
    pub folder: PathBuf,
    /// The most bytes of its files.
    pub size: u64,
    /// How long a shutdown may take to write what is in memory alone.
    pub last_writes: Duration,
}

impl DiskConfig {
    /// A folder and its size.
    #[must_use]
    pub fn new(folder: PathBuf, size: u64) -> Self {
        // Below the ten seconds that containers are given by default.
        DiskConfig { folder, size, last_writes: Duration::from_secs(8) }
    }
}

/// What the disk tier has done and holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskStats {
    /// Gauge: pages held.
    pub pages: usize,
    /// Gauge: pages there is room for.
    pub capacity: usize,
    /// Gauge: bytes of the pages held.
    pub bytes: u64,
    /// Counter: pages written.
    pub written: u64,
    /// Counter: pages that were not kept: the disk was slower than they came, or it took no more.
    pub dropped: u64,
    /// Counter: pages read back into memory.
    pub restored: u64,
    /// Counter: prompt tokens that calls found there.
    pub restored_tokens: u64,
    /// Counter: pages that were not what their place says, or could not be read.
    pub rejected: u64,
}

/// Bytes that wait to be written, at most.
const WRITE_QUEUE: usize = 32 << 20;

/// Bytes that are read ahead of the engine, at most.
const READ_AHEAD: usize = 16 << 20;

/// Room in the queue for what is not a page to be written.
const SPARE_JOBS: usize = 64;

/// The tier, as the engine's thread has it.
pub(crate) struct Disk {
    slots: Slots,
    jobs: flume::Sender<Job>,
    /// Jobs in the queue from which on no page to be written is added.
    most_writes: usize,
    progress: flume::Receiver<Progress>,
    shared: Arc<worker::Shared>,
    thread: Option<JoinHandle<()>>,
    page_bytes: usize,
    slot_bytes: u64,
    /// How long after its last use a page may be found, in milliseconds.
    ttl: Option<u64>,
    last_writes: Duration,
    next_ticket: u64,
    /// Later uses that the disk doesn't know of yet, by slot.
    touched: HashMap<u32, u64>,
    /// Readings that were cut short to make room in the queue.
    cut: Vec<u64>,
    restored: u64,
    /// Of this model's pages, with this arithmetic; see [`Record::family`].
    family: u32,
    /// Roots of other models' pages. Which tenants those have now is not known here.
    foreign: HashSet<Root>,
    /// The roots that calls can have, once that was said.
    known: Option<HashSet<Root>>,
    pub(crate) estimates: Estimates,
}

/// Slots that nobody finds any more and whose bytes are still there; `None` for all.
#[must_use]
pub(crate) struct Forgotten(Option<Vec<u32>>);

/// Which reading a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// What became of a reading.
pub(crate) enum Arrival {
    /// The next page of those asked for.
    Page(Ticket, Vec<u8>),
    /// All pages have come.
    All(Ticket),
    /// A page can't be had, and no further one will come. It is on the list no more.
    Failed(Ticket),
}

impl Disk {
    /// Opens the folder and starts the thread. `Ok(Err(why))`: it can't be used as it is, and the engine does without.
    pub(crate) fn open(
        config: &DiskConfig,
        page_bytes: usize,
        block_tokens: usize,
        family: u32,
        ttl: Option<Duration>,
        now: u64,
    ) -> Result<Result<Disk, DiskError>, DiskError> {
        let geometry = Geometry { page_bytes, block_tokens };
        let slot_bytes = geometry.slot_bytes();
        let (folder, found) = match Folder::open(&config.folder, config.size, geometry) {
            Ok(opened) => opened,
            Err(error) if error.is_a_mistake() => return Err(error),
            Err(error) => return Ok(Err(error)),
        };
        let mut slots = Slots::new(folder.capacity());
        let mut twice = Vec::new();
        let mut foreign = HashSet::new();
        for (slot, record) in found {
            if record.family != family {
                foreign.insert(Root::from_bytes(record.root));
            }
            // A clock that was set back must not keep a page for ever.
            let held = SlotPage { used: record.used.min(now), ..record.held() };
            if slots.put(slot, held).is_none() {
                twice.push(slot);
            }
        }
        let page = page_bytes.max(1);
        let most_writes = (WRITE_QUEUE / page).max(4);
        let (jobs, queue) = flume::bounded(most_writes + SPARE_JOBS);
        let (sender, progress) = flume::bounded((READ_AHEAD / page).max(2));
        let shared = Arc::new(worker::Shared::default());
        let worker = Worker::new(folder, queue, sender, Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("tapri-disk".to_owned())
            .spawn(move || worker.run())
            .map_err(DiskError::Thread)?;
        let mut disk = Disk {
            slots,
            jobs,
            most_writes,
            progress,
            shared,
            thread: Some(thread),
            page_bytes,
            slot_bytes,
            ttl: ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)),
            last_writes: config.last_writes,
            next_ticket: 0,
            touched: HashMap::new(),
            cut: Vec::new(),
            restored: 0,
            family,
            foreign,
            known: None,
            estimates: Estimates::default(),
        };
        disk.erase(twice);
        disk.expire(now);
        tracing::info!(
            "the KV cache has {} of {} pages on disk, in {}",
            disk.slots.len(),
            disk.slots.capacity(),
            config.folder.display()
        );
        Ok(Ok(disk))
    }

    /// Whether a block's page is there and may be found.
    pub(crate) fn has(&self, hash: &BlockHash, group: GroupIndex, now: u64) -> bool {
        let held = self.slots.find(hash, group).and_then(|slot| self.slots.get(slot));
        held.is_some_and(|held| self.ttl.is_none_or(|ttl| now.saturating_sub(held.used) < ttl))
    }

    /// Keeps a page, unless it is there already; then its use is noted. What can't be taken now isn't kept: nobody waits.
    pub(crate) fn keep(&mut self, page: &Page, bytes: &[u8], used: u64) {
        if self.touch(&page.hash, page.group, used) {
            return;
        }
        if self.jobs.len() >= self.most_writes {
            self.shared.note_dropped();
            return;
        }
        let Some(job) = self.write(page, bytes, used) else { return };
        if let Err(error) = self.jobs.try_send(job) {
            self.forget_job(&error.into_inner());
        }
    }

    /// The same for a page that the engine waits with until the disk is ready. `false`: the time is up.
    fn keep_by(&mut self, page: &Page, bytes: &[u8], used: u64, deadline: Instant) -> bool {
        let Some(job) = self.write(page, bytes, used) else { return true };
        match self.jobs.send_deadline(job, deadline) {
            Ok(()) => true,
            Err(error) => {
                self.forget_job(&error.into_inner());
                false
            }
        }
    }

    fn write(&mut self, page: &Page, bytes: &[u8], used: u64) -> Option<Job> {
        debug_assert_eq!(bytes.len(), self.page_bytes);
        let number = u32::try_from(page.number).ok()?;
        let (root, hash, group) = (page.root, page.hash, page.group);
        if self.known.as_ref().is_some_and(|known| !known.contains(&root)) {
            return None;
        }
        let placed = self.slots.place(SlotPage { root, hash, group, number, used })?;
        // A use of what was in the slot before.
        self.touched.remove(&placed.slot);
        let record = Record {
            root: *root.as_bytes(),
            family: self.family,
            hash: hash.0,
            parent: page.parent.0,
            group: group.0 as u32,
            number,
            used,
            tokens: page.tokens.clone(),
        };
        Some(Job::Write { slot: placed.slot, serial: placed.serial, record, page: bytes.to_vec() })
    }

    /// A page was not written: its place is free again.
    fn forget_job(&mut self, job: &Job) {
        if let Job::Write { slot, .. } = job {
            self.slots.remove(*slot);
            self.shared.note_dropped();
        }
    }

    /// Notes that a block was used. `false`: there is no page of it.
    pub(crate) fn touch(&mut self, hash: &BlockHash, group: GroupIndex, used: u64) -> bool {
        let Some(slot) = self.slots.find(hash, group) else { return false };
        if self.slots.touch(slot, used) {
            self.touched.insert(slot, used);
        }
        true
    }

    /// Writes the uses that were noted, now or when there is room in the queue. Until then the disk knows of an earlier
    /// use, and after a crash would let a page go too early, never too late.
    pub(crate) fn note_touched(&mut self) {
        if !self.touched.is_empty() && self.jobs.len() < self.most_writes {
            let touched = std::mem::take(&mut self.touched);
            // Without a thread there is nobody to write it.
            let _ = self.jobs.try_send(Job::Touch { touched });
        }
    }

    /// Whether more can be written without waiting.
    pub(crate) fn is_ready(&self) -> bool {
        self.jobs.len() < self.most_writes / 2
    }

    /// Whether reading so many pages is likely to be faster than computing the tokens from one position to another.
    pub(crate) fn is_faster(&mut self, pages: usize, from: usize, upto: usize) -> bool {
        self.estimates.is_faster((pages * self.page_bytes) as u64, from, upto)
    }

    /// Begins to read pages of a call with these tokens. `None`: one is there no more, or the queue is full.
    pub(crate) fn read(
        &mut self,
        root: &Root,
        tokens: &[u32],
        block_tokens: usize,
        pages: &[WantedPage],
    ) -> Option<Ticket> {
        let mut wanted = Vec::with_capacity(pages.len());
        for page in pages {
            let slot = self.slots.find(&page.hash, page.group)?;
            let start = page.number * block_tokens;
            let record = Record {
                root: *root.as_bytes(),
                family: self.family,
                hash: page.hash.0,
                parent: page.parent.0,
                group: page.group.0 as u32,
                number: u32::try_from(page.number).ok()?,
                used: 0,
                tokens: tokens.get(start..start + block_tokens)?.to_vec(),
            };
            wanted.push(worker::Wanted { slot, serial: self.slots.serial(slot)?, record });
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.jobs.try_send(Job::Read { ticket, pages: wanted }).ok()?;
        Some(Ticket(ticket))
    }

    /// The next of what has been read, waiting so long for it. `None`: nothing more at the moment. What comes of a reading
    /// after it failed is to be ignored.
    pub(crate) fn arrival(&mut self, wait: Duration) -> Option<Arrival> {
        if let Some(ticket) = self.cut.pop() {
            return Some(Arrival::Failed(Ticket(ticket)));
        }
        let progress = if wait.is_zero() {
            self.progress.try_recv().ok()?
        } else {
            self.progress.recv_timeout(wait).ok()?
        };
        Some(match progress {
            Progress::Page { ticket, page } => {
                self.restored += 1;
                Arrival::Page(Ticket(ticket), page)
            }
            Progress::All { ticket, bytes, took } => {
                self.estimates.note_read(bytes, took);
                Arrival::All(Ticket(ticket))
            }
            Progress::Failed { ticket, slot, serial } => {
                if self.slots.serial(slot) == Some(serial) {
                    self.erase(vec![slot]);
                }
                Arrival::Failed(Ticket(ticket))
            }
        })
    }

    /// Whether the thread is there.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Takes back the slots of pages that could not be written.
    pub(crate) fn settle(&mut self) {
        for (slot, serial) in self.shared.take_failed() {
            if self.slots.serial(slot) == Some(serial) {
                self.slots.remove(slot);
            }
        }
    }

    /// Holds a root to its share of all pages; `None` for no limit. What it has too much is erased.
    pub(crate) fn set_share(&mut self, root: &Root, share: Option<f64>) {
        // A share of next to nothing is one page, as it is one block of memory.
        let part = |share: f64| ((share * self.slots.capacity() as f64) as usize).max(1);
        let over = self.slots.set_limit(root, share.map(part));
        self.erase(over);
    }

    /// Takes what no call can find any more off the list: pages of this model under other roots than these.
    pub(crate) fn retain(&mut self, known: HashSet<Root>) -> Forgotten {
        let gone = |root: &Root| !known.contains(root) && !self.foreign.contains(root);
        let gone: Vec<Root> = self.slots.roots().filter(gone).collect();
        let slots: Vec<u32> = gone.iter().flat_map(|root| self.slots.of_root(root)).collect();
        for &slot in &slots {
            self.slots.remove(slot);
        }
        if !slots.is_empty() {
            tracing::info!(
                "{} KV pages on disk are of scopes that are gone, and are erased",
                slots.len()
            );
        }
        self.known = Some(known);
        Forgotten(Some(slots))
    }

    /// Takes all that is kept under a root off the list, or everything: nobody finds it from here on.
    pub(crate) fn forget(&mut self, root: Option<&Root>) -> Forgotten {
        let Some(root) = root else {
            self.slots.clear();
            return Forgotten(None);
        };
        let slots = self.slots.of_root(root);
        for &slot in &slots {
            self.slots.remove(slot);
        }
        Forgotten(Some(slots))
    }

    /// Erases what was forgotten, then says how that went.
    pub(crate) fn erase_forgotten(&mut self, forgotten: Forgotten, then: worker::Then) {
        self.tell(match forgotten {
            Forgotten(Some(slots)) => Job::Erase { slots, then: Some(then) },
            Forgotten(None) => Job::Clear { then },
        });
    }

    /// Erases what has not been used for longer than allowed.
    pub(crate) fn expire(&mut self, now: u64) {
        if let Some(limit) = self.ttl.and_then(|ttl| now.checked_sub(ttl)) {
            let old = self.slots.used_until(limit);
            self.erase(old);
        }
    }

    fn erase(&mut self, slots: Vec<u32>) {
        for &slot in &slots {
            self.slots.remove(slot);
        }
        if !slots.is_empty() {
            self.tell(Job::Erase { slots, then: None });
        }
    }

    /// Hands over what must not be lost, and waits for room where there is none. The thread gets on meanwhile: it waits for
    /// nobody but the reader of what it has read, which is let go here. (A reading that is cut short so is begun anew.)
    fn tell(&mut self, job: Job) {
        let mut job = job;
        while let Err(flume::TrySendError::Full(back)) = self.jobs.try_send(job) {
            job = back;
            if let Ok(progress) = self.progress.recv_timeout(Duration::from_millis(1)) {
                self.cut.push(progress.ticket());
            }
        }
    }

    /// Writes what is in memory alone, as far as there is time, and ends the thread.
    pub(crate) fn close<'a>(
        &mut self,
        pages: impl IntoIterator<Item = (Page, u64)>,
        bytes: impl Fn(&Page) -> &'a [u8],
    ) {
        let deadline = Instant::now() + self.last_writes;
        // Nobody reads any more, so the thread must not wait for that.
        let (_, nobody) = flume::bounded(0);
        self.progress = nobody;
        let mut left = 0;
        for (page, used) in pages {
            if self.is_alive() && left == 0 && self.keep_by(&page, bytes(&page), used, deadline) {
                continue;
            }
            left += 1;
        }
        if !self.touched.is_empty() {
            let touched = std::mem::take(&mut self.touched);
            let _ = self.jobs.send_deadline(Job::Touch { touched }, deadline);
        }
        if left > 0 {
            tracing::warn!("the time was up before {left} KV pages were written to disk");
        }
        self.shared.end_at(deadline);
        let (nobody, _) = flume::bounded(0);
        // The thread ends when all that was sent is done.
        drop(std::mem::replace(&mut self.jobs, nobody));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    pub(crate) fn stats(&self, restored_tokens: u64) -> DiskStats {
        let mut stats = DiskStats {
            pages: self.slots.len(),
            capacity: self.slots.capacity(),
            bytes: self.slots.len() as u64 * self.slot_bytes,
            restored: self.restored,
            restored_tokens,
            ..DiskStats::default()
        };
        self.shared.refresh(&mut stats);
        stats
    }

    /// The figures that change while the engine is at rest.
    pub(crate) fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.shared)
    }
}
