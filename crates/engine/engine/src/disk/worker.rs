//! The thread that reads and writes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::DiskStats;
use super::folder::Folder;
use super::record::Record;
use super::warnings::Warnings;

/// What is done when something was to be erased, with what went wrong.
pub(crate) type Then = Box<dyn FnOnce(io::Result<()>) + Send>;

/// What the thread is told. It does one after another.
pub(super) enum Job {
    Write {
        slot: u32,
        serial: u64,
        record: Record,
        page: Vec<u8>,
    },
    /// Later uses, by slot.
    Touch {
        touched: HashMap<u32, u64>,
    },
    Read {
        ticket: u64,
        pages: Vec<Wanted>,
    },
    Erase {
        slots: Vec<u32>,
        then: Option<Then>,
    },
    Clear {
        then: Then,
    },
}

/// A page to read.
pub(super) struct Wanted {
    pub(super) slot: u32,
    pub(super) serial: u64,
    /// What it must be; when it was used doesn't matter.
    pub(super) record: Record,
}

/// How a reading goes on.
pub(super) enum Progress {
    /// The next page.
    Page { ticket: u64, page: Vec<u8> },
    /// That was the last.
    All { ticket: u64, bytes: u64, took: Duration },
    /// There is no next page.
    Failed { ticket: u64, slot: u32, serial: u64 },
}

impl Progress {
    pub(super) fn ticket(&self) -> u64 {
        match self {
            Self::Page { ticket, .. } | Self::All { ticket, .. } | Self::Failed { ticket, .. } => {
                *ticket
            }
        }
    }
}

/// What both threads see, and whoever asks for the figures.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    written: AtomicU64,
    dropped: AtomicU64,
    rejected: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Pages that could not be written: no more than the slots.
    failed: HashSet<(u32, u64)>,
    /// From when on nothing is written.
    end: Option<Instant>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the figures that change while the engine is at rest up to date.
    pub(crate) fn refresh(&self, stats: &mut DiskStats) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        stats.written = of(&self.written);
        stats.dropped = of(&self.dropped);
        stats.rejected = of(&self.rejected);
    }

    /// A page is not kept.
    pub(super) fn note_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn take_failed(&self) -> HashSet<(u32, u64)> {
        std::mem::take(&mut self.state().failed)
    }

    pub(super) fn end_at(&self, end: Instant) {
        self.state().end = Some(end);
    }

    fn is_over(&self) -> bool {
        self.state().end.is_some_and(|end| Instant::now() >= end)
    }
}

/// The thread's own.
pub(super) struct Worker {
    folder: Folder,
    jobs: flume::Receiver<Job>,
    progress: flume::Sender<Progress>,
    shared: Arc<Shared>,
    warnings: Warnings,
}

impl Worker {
    pub(super) fn new(
        folder: Folder,
        jobs: flume::Receiver<Job>,
        progress: flume::Sender<Progress>,
        shared: Arc<Shared>,
    ) -> Self {
        Worker { folder, jobs, progress, shared, warnings: Warnings::default() }
    }

    /// Works until nobody can tell it anything any more.
    pub(super) fn run(mut self) {
        while let Ok(job) = self.jobs.recv() {
            match job {
                Job::Write { slot, serial, record, page } => {
                    self.write(slot, serial, &record, &page);
                }
                Job::Touch { touched } => {
                    for (slot, used) in touched {
                        if let Err(error) = self.folder.touch(slot, used) {
                            self.warn(&format_args!(
                                "the use of a KV page can't be noted: {error}"
                            ));
                        }
                    }
                }
                Job::Read { ticket, pages } => self.read(ticket, pages),
                Job::Erase { slots, then } => {
                    let mut erased = Ok(());
                    for slot in slots {
                        let this = self.folder.erase(slot);
                        erased = erased.and(this);
                    }
                    self.say_erased(erased, then);
                }
                Job::Clear { then } => {
                    let erased = self.folder.clear();
                    self.say_erased(erased, Some(then));
                }
            }
        }
        // Where it can't be noted, the next start looks more closely.
        let _ = self.folder.close();
    }

    fn say_erased(&mut self, erased: io::Result<()>, then: Option<Then>) {
        if let Err(error) = &erased {
            self.warn(&format_args!("KV pages can't be erased from disk: {error}"));
        }
        if let Some(then) = then {
            then(erased);
        }
    }

    fn write(&mut self, slot: u32, serial: u64, record: &Record, page: &[u8]) {
        let written = if self.shared.is_over() {
            false
        } else {
            match self.folder.write(slot, record, page) {
                Ok(()) => true,
                Err(error) => {
                    self.warn(&format_args!("a KV page can't be written to disk: {error}"));
                    // What was there before is neither the one nor the other now.
                    let _ = self.folder.erase(slot);
                    false
                }
            }
        };
        if written {
            self.shared.written.fetch_add(1, Ordering::Relaxed);
        } else {
            self.shared.note_dropped();
            self.shared.state().failed.insert((slot, serial));
        }
    }

    fn read(&mut self, ticket: u64, pages: Vec<Wanted>) {
        let (mut bytes, mut took) = (0, Duration::ZERO);
        for Wanted { slot, serial, record } in pages {
            let begun = Instant::now();
            let read = self.folder.read(slot, &record);
            took += begun.elapsed();
            let progress = match read {
                Ok(page) => {
                    bytes += page.len() as u64;
                    Progress::Page { ticket, page }
                }
                Err(error) => {
                    self.shared.rejected.fetch_add(1, Ordering::Relaxed);
                    self.warn(&error);
                    let _ = self.progress.send(Progress::Failed { ticket, slot, serial });
                    return;
                }
            };
            // Nobody waits for it any more.
            if self.progress.send(progress).is_err() {
                return;
            }
        }
        let _ = self.progress.send(Progress::All { ticket, bytes, took });
    }

    fn warn(&mut self, what: &dyn std::fmt::Display) {
        self.warnings.say(Instant::now(), what);
    }
}
