//! One call for all who ask the same at the same time.
//!
//! The call to the model runs in a task of its own, apart from any client's connection. Everyone who waits for it
//! reads one log of its events, from the start and at their own pace; so the first of them leaving changes nothing,
//! and the last one leaving cancels it.
//!
//! Memory is bounded: beyond a limit of bytes nobody new may join, what all have read is dropped, the call waits
//! for its fastest reader, and a reader that falls behind the others by more than the limit is let go with an error.
//!
//! # Why nobody waits for ever
//!
//! All that is shared is `State`, behind one lock that is never held across an await; `Notify` only says that it changed.
//! - Whoever waits registers (`enable`), then looks; whoever changes the state does so under the lock, lets go of it, and
//!   then wakes all that are registered. If a look doesn't find a change, it had the lock before the change did, so its
//!   registration is before the waking, which reaches it. `notify_waiters` leaves nothing for those who come later, and
//!   they need nothing: their look finds the change.
//! - Each thing that is waited for has its waking: events and their end (`push`), a reader that has read or was let go
//!   (`next`, where someone may wait for room), a reader that left (`drop`), which is also what `abandoned` waits for.
//! - Nobody joins a call that is given up: `join` and the last leaving are in one order by the lock, and after the last
//!   has left `join` gives nothing, so that whoever comes then begins a call of its own.
//! - A `next` that is dropped has lost no event: the number of the next one is written in the look that takes it, and
//!   there is no await after that look.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tapri_api::{Admission, ApiError, CallEvent, ErrorKind};
use tokio::sync::Notify;

use super::entry::weight;

/// The events of a call that was started.
pub trait Events: Send {
    /// The next event; after the last, nothing.
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>>;
}

/// A call under way, and who waits for it.
pub(crate) struct Flight {
    state: Mutex<State>,
    /// Readers: something was added. The call: someone read or left.
    changed: Notify,
    /// Bytes of events that are kept for all.
    limit: u64,
}

struct State {
    events: VecDeque<Logged>,
    /// Events dropped from the front.
    dropped: usize,
    /// Bytes of all events so far.
    bytes: u64,
    /// Where each reader is: the number of the next event.
    readers: HashMap<u64, usize>,
    next_reader: u64,
    ended: bool,
    /// The sessions of all who joined.
    sessions: Vec<String>,
    /// Whether the answer was kept; known before its last event.
    stored: Option<bool>,
}

struct Logged {
    event: CallEvent,
    /// Bytes of all events up to the end of this one.
    end: u64,
}

/// Someone who waits for a call's events.
pub struct Reader {
    flight: Arc<Flight>,
    id: u64,
    leads: bool,
}

impl Flight {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Flight {
            state: Mutex::new(State {
                events: VecDeque::new(),
                dropped: 0,
                bytes: 0,
                readers: HashMap::new(),
                next_reader: 0,
                ended: false,
                sessions: Vec::new(),
                stored: None,
            }),
            changed: Notify::new(),
            limit: limit as u64,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first one who waits.
    pub(crate) fn lead(self: &Arc<Self>, session: Option<&str>) -> Reader {
        let mut state = self.state();
        state.heard_by(session);
        self.reader(&mut state, true)
    }

    /// Another one, from the start. `None`: too much was said already, or nobody waits any more.
    pub(crate) fn join(self: &Arc<Self>, session: Option<&str>) -> Option<Reader> {
        let mut state = self.state();
        if state.bytes > self.limit || state.readers.is_empty() || state.dropped > 0 {
            return None;
        }
        state.heard_by(session);
        Some(self.reader(&mut state, false))
    }

    /// The sessions that its answer goes to.
    pub(crate) fn sessions(&self) -> Vec<String> {
        self.state().sessions.clone()
    }

    /// Says whether the answer was kept, before its last event.
    pub(crate) fn set_stored(&self, stored: bool) {
        self.state().stored = Some(stored);
    }

    fn reader(self: &Arc<Self>, state: &mut State, leads: bool) -> Reader {
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, 0);
        Reader { flight: Arc::clone(self), id, leads }
    }

    /// Whether its answer outgrew what is kept.
    pub(crate) fn is_too_large(&self) -> bool {
        self.state().bytes > self.limit
    }

    /// All events so far; only whole while it isn't too large.
    pub(crate) fn events(&self) -> Vec<CallEvent> {
        self.state().events.iter().map(|logged| logged.event.clone()).collect()
    }

    /// Adds an event.
    pub(crate) fn push(&self, event: CallEvent) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        state.ended = matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_));
        state.bytes += weight(&event) as u64;
        let end = state.bytes;
        state.events.push_back(Logged { event, end });
        state.trim(self.limit);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ready when someone may take more: the fastest reader isn't more than the limit behind.
    pub(crate) async fn room(&self) {
        self.until(|state| {
            let fastest = state.readers.values().max().copied().unwrap_or(0);
            (state.bytes - state.read_bytes(fastest) <= self.limit).then_some(())
        })
        .await;
    }

    /// Ready when nobody waits for it any more.
    pub(crate) async fn abandoned(&self) {
        self.until(|state| state.readers.is_empty().then_some(())).await;
    }

    async fn until<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before the look, so that a change in between isn't missed.
            changed.as_mut().enable();
            if let Some(value) = ready(&mut self.state()) {
                return value;
            }
            changed.await;
        }
    }
}

impl State {
    fn heard_by(&mut self, session: Option<&str>) {
        if let Some(session) = session
            && !self.sessions.iter().any(|known| known == session)
        {
            self.sessions.push(session.to_owned());
        }
    }

    /// Bytes of all events before the one with this number.
    fn read_bytes(&self, number: usize) -> u64 {
        match number.checked_sub(self.dropped + 1) {
            Some(at) => self.events.get(at).map_or(self.bytes, |logged| logged.end),
            // What was dropped last ended where the first one kept begins.
            None => self
                .events
                .front()
                .map_or(self.bytes, |first| first.end - weight(&first.event) as u64),
        }
    }

    /// Beyond the limit: lets go of readers that are too far behind the fastest, and drops what all have read.
    fn trim(&mut self, limit: u64) {
        if self.bytes <= limit {
            return;
        }
        let fastest = self.readers.values().max().copied().unwrap_or(0);
        let reached = self.read_bytes(fastest);
        let behind: Vec<u64> = self
            .readers
            .iter()
            .filter(|(_, number)| reached - self.read_bytes(**number) > limit)
            .map(|(&id, _)| id)
            .collect();
        for id in behind {
            self.readers.remove(&id);
        }
        let slowest = self.readers.values().min().copied().unwrap_or(0);
        while self.dropped < slowest && self.events.pop_front().is_some() {
            self.dropped += 1;
        }
    }
}

impl Reader {
    /// The next event. Everyone's answer begins with the admission; what the prefix cache had is the first one's to
    /// know. Can be dropped while it waits without losing an event. `None` after the last.
    pub async fn next(&mut self) -> Option<CallEvent> {
        let (id, leads, limit) = (self.id, self.leads, self.flight.limit);
        let event = self
            .flight
            .until(|state| {
                loop {
                    let Some(&number) = state.readers.get(&id) else {
                        return Some(Some(CallEvent::Failed(left_behind())));
                    };
                    let Some(logged) = state.events.get(number - state.dropped) else {
                        return state.ended.then_some(None);
                    };
                    let event = logged.event.clone();
                    state.readers.insert(id, number + 1);
                    match event {
                        // The progress of someone else's prompt says nothing to those who came later.
                        CallEvent::Prefill { .. } if !leads => continue,
                        CallEvent::Admitted(admission) if !leads => {
                            return Some(Some(CallEvent::Admitted(Admission {
                                reuse: None,
                                prompt_ids: None,
                                ..admission
                            })));
                        }
                        event => return Some(Some(event)),
                    }
                }
            })
            .await;
        let mut state = self.flight.state();
        state.trim(limit);
        let someone_waits = state.bytes > limit;
        drop(state);
        if someone_waits {
            self.flight.changed.notify_waiters();
        }
        event
    }

    /// Bytes of events that are kept for those who wait.
    pub fn kept_bytes(&self) -> usize {
        self.flight.state().events.iter().map(|logged| weight(&logged.event)).sum()
    }

    /// Tells at the end whether the answer was kept.
    pub fn kept(&self) -> Kept {
        Kept(Arc::clone(&self.flight))
    }

    /// Whether it is the one that began.
    pub fn leads(&self) -> bool {
        self.leads
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.flight.state().readers.remove(&self.id);
        self.flight.changed.notify_waiters();
    }
}

/// Tells at the end of a call whether its answer was kept.
#[derive(Debug, Clone)]
pub struct Kept(Arc<Flight>);

impl Kept {
    /// Whether the answer was kept; `None` before its last event.
    pub fn is_kept(&self) -> Option<bool> {
        self.0.state().stored
    }
}

fn left_behind() -> ApiError {
    ApiError::new(ErrorKind::Unavailable, "The answer was read too slowly to be kept any longer")
        .code("reader_too_slow")
        .hint("Read the stream as it comes, or ask again")
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("leads", &self.leads).finish_non_exhaustive()
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("limit", &self.limit).finish_non_exhaustive()
    }
}
