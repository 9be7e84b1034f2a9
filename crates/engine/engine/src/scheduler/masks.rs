//! Masks of constrained calls, computed on a thread of their own while the model computes.
//!
//! A mask takes from 0.05 ms to some 15 ms, by the grammar (llguidance's limits end it there); a decode step of a small
//! model takes as long. So a mask is begun as soon as the token before it is chosen, and a call whose mask isn't ready
//! when its logits are waits for it with a copy of them, while the other calls go on.
//!
//! The two threads can't wait for each other: the loop only tries to send and only waits for a moment, so the one that may
//! block is the thread, on a full channel of masks, which the loop empties at every step. A grammar is with one of the two
//! at any time, since it travels by value.

use std::thread::JoinHandle;
use std::time::Duration;

use tapri_kv::CallId;

use crate::constraint::{Constraint, Mask};
use crate::sequence::Sequence;

use super::Scheduler;

/// Masks on their way in either direction; more calls than run at once by default.
const ROOM: usize = 64;

/// How long the loop waits for a mask when there is nothing else to do, before it looks for commands.
const IDLE_WAIT: Duration = Duration::from_millis(2);

/// A constrained call's grammar and what it says of the next token.
pub(crate) enum Guide {
    /// The mask is to be computed.
    Idle(Constraint),
    /// The thread has it.
    Away,
    /// The mask of the next token.
    Ready(Constraint, Mask),
    /// The grammar gave up, with its reason.
    Failed(String),
}

impl Scheduler {
    /// Gives the calls the masks that are ready, and a token to those that waited for theirs.
    pub(super) fn take_masks(&mut self) {
        let idle = !self.running.is_empty() && self.running.iter().all(|s| s.parked.is_some());
        let mut wait = if idle { IDLE_WAIT } else { Duration::ZERO };
        while let Some(Done { call, guide }) = self.masks.take(wait) {
            wait = Duration::ZERO;
            let mut all = self.running.iter_mut().chain(&mut self.joining).chain(&mut self.waiting);
            // One that isn't there has ended.
            if let Some(sequence) = all.find(|s| s.id == call) {
                sequence.guide = Some(guide);
            }
        }
        for sequence in &mut self.running {
            if let Some(guide) = &mut sequence.guide {
                self.masks.begin(sequence.id, guide);
            }
        }
        let ready = |s: &Sequence| {
            s.parked.is_some() && matches!(s.guide, Some(Guide::Ready(..) | Guide::Failed(_)))
        };
        while let Some(index) = self.running.iter().position(ready) {
            let row = self.running[index].parked.take();
            self.advance(index, row.as_deref());
        }
    }
}

struct Job {
    call: CallId,
    constraint: Constraint,
}

/// A computed mask.
pub(super) struct Done {
    pub(super) call: CallId,
    pub(super) guide: Guide,
}

/// The thread. It is started with the first constrained call, and ends when this is dropped.
#[derive(Default)]
pub(super) struct Masks {
    worker: Option<Worker>,
}

struct Worker {
    jobs: flume::Sender<Job>,
    done: flume::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl Masks {
    /// Begins a call's mask. What the thread has no room for stays as it is, to be offered again.
    pub(super) fn begin(&mut self, call: CallId, guide: &mut Guide) {
        if !matches!(guide, Guide::Idle(_)) {
            return;
        }
        let Some(worker) = self.worker() else {
            *guide = Guide::Failed("there is no thread for grammars".to_owned());
            return;
        };
        let Guide::Idle(constraint) = std::mem::replace(guide, Guide::Away) else { return };
        match worker.jobs.try_send(Job { call, constraint }) {
            Ok(()) => {}
            Err(flume::TrySendError::Full(job)) => *guide = Guide::Idle(job.constraint),
            Err(flume::TrySendError::Disconnected(_)) => {
                *guide = Guide::Failed("the thread for grammars ended".to_owned());
            }
        }
    }

    /// A mask that is ready; with a `wait`, the first that becomes ready within it.
    pub(super) fn take(&self, wait: Duration) -> Option<Done> {
        let worker = self.worker.as_ref()?;
        if wait.is_zero() {
            worker.done.try_recv().ok()
        } else {
            worker.done.recv_timeout(wait).ok()
        }
    }

    fn worker(&mut self) -> Option<&Worker> {
        if self.worker.is_none() {
            let (jobs, inbox) = flume::bounded::<Job>(ROOM);
            let (outbox, done) = flume::bounded(ROOM);
            let thread = std::thread::Builder::new()
                .name("tapri-grammar".to_owned())
                .spawn(move || {
                    for Job { call, mut constraint } in inbox {
                        let guide = match constraint.mask() {
                            Ok(mask) => Guide::Ready(constraint, mask),
                            Err(reason) => Guide::Failed(reason),
                        };
                        if outbox.send(Done { call, guide }).is_err() {
                            return;
                        }
                    }
                })
                .ok()?;
            self.worker = Some(Worker { jobs, done, thread: Some(thread) });
        }
        self.worker.as_ref()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both ends go, so that the thread wakes wherever it waits.
        self.jobs = flume::bounded(0).0;
        self.done = flume::bounded(0).1;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
