//! A call to the model in a task of its own, and what becomes of its answer.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tapri_api::{ApiError, CallEvent, ErrorKind, Finish};

use super::{Inner, Why};
use crate::exact::admission::Expected;
use crate::exact::counts::up;
use crate::exact::flight::{Events, Flight, Reader};
use crate::exact::store::{Put, Ticket};
use crate::exact::{Entry, Key, Rejected, Tags};

/// A call that goes on to the model, and whose answer may be stored.
#[derive(Debug)]
pub struct Lead {
    landing: Landing,
    reader: Reader,
    /// Why it goes on.
    pub why: Why,
}

/// All that is needed when the answer has come. However a call ends, dropping this lets go of those who wait.
pub(super) struct Landing {
    pub(super) inner: Arc<Inner>,
    pub(super) key: Key,
    pub(super) slot: usize,
    pub(super) ticket: Ticket,
    pub(super) ttl: Option<Duration>,
    pub(super) expected: Expected,
    pub(super) flight: Arc<Flight>,
    /// Whether others can find it.
    pub(super) registered: bool,
    pub(super) tags: Tags,
}

impl Lead {
    pub(super) fn new(landing: Landing, session: Option<&str>, why: Why) -> Self {
        let reader = landing.flight.lead(session);
        Lead { landing, reader, why }
    }

    pub(super) fn flight(&self) -> Arc<Flight> {
        Arc::clone(&self.landing.flight)
    }

    /// The key under which its answer will be stored.
    pub fn key(&self) -> Key {
        self.landing.key
    }

    /// Answers the call with events that are there already, and those who joined as well. They are not stored again.
    pub fn answer(self, events: Vec<CallEvent>) -> Reader {
        let Lead { mut landing, reader, why: _ } = self;
        landing.leave();
        for event in events {
            landing.flight.push(event);
        }
        reader
    }

    /// Starts the call in a task of its own, within a tokio runtime, and gives its events. Dropping the reader leaves
    /// the call to those who joined; where nobody did, it is cancelled.
    pub fn start<A, E>(self, answer: A) -> Reader
    where
        A: Future<Output = Result<E, ApiError>> + Send + 'static,
        E: Events + 'static,
    {
        let Lead { landing, reader, why: _ } = self;
        let task = landing.inner.tasks.begin();
        tokio::spawn(async move {
            landing.fly(answer).await;
            drop(task);
        });
        reader
    }
}

impl Landing {
    pub(super) fn registered(mut self) -> Self {
        self.registered = true;
        self
    }

    async fn fly<A, E>(mut self, answer: A)
    where
        A: Future<Output = Result<E, ApiError>> + Send,
        E: Events,
    {
        let flight = Arc::clone(&self.flight);
        let landed = tokio::select! {
            // An answer that has just come is worth keeping, though its last reader may have gone.
            biased;
            landed = self.drive(answer) => landed,
            () = flight.abandoned() => Err(Rejected::Abandoned),
        };
        let inner = Arc::clone(&self.inner);
        drop(self);
        let stored = match landed {
            Ok(Some(put)) => match inner.tiers.put_back(put).await {
                Some(false) => Err(Rejected::Erased),
                // A store that failed has been counted; memory has the answer.
                Some(true) | None => Ok(()),
            },
            Ok(None) => Ok(()),
            Err(why) => Err(why),
        };
        match stored {
            Ok(()) => up(&inner.counts.stored),
            Err(why) => inner.counts.rejected(why),
        }
    }

    /// Hands on the events as they come. At the end: what the store is to keep.
    async fn drive<A, E>(&mut self, answer: A) -> Result<Option<Put>, Rejected>
    where
        A: Future<Output = Result<E, ApiError>> + Send,
        E: Events,
    {
        let mut events = match answer.await {
            Ok(events) => events,
            Err(error) => {
                self.leave();
                self.flight.push(CallEvent::Failed(error));
                return Err(Rejected::Failed);
            }
        };
        loop {
            self.flight.room().await;
            match events.next().await {
                Some(CallEvent::Finished(finish)) => {
                    let landed = self.land(&finish);
                    self.leave();
                    self.flight.set_stored(landed.is_ok());
                    self.flight.push(CallEvent::Finished(finish));
                    return landed;
                }
                Some(CallEvent::Failed(error)) => {
                    self.leave();
                    self.flight.push(CallEvent::Failed(error));
                    return Err(Rejected::Failed);
                }
                Some(event) => self.flight.push(event),
                // Dropping this tells those who wait.
                None => return Err(Rejected::Failed),
            }
        }
    }

    /// Judges the answer, and keeps it in memory.
    fn land(&mut self, finish: &Finish) -> Result<Option<Put>, Rejected> {
        if self.flight.is_too_large() {
            return Err(Rejected::TooLarge);
        }
        let events = self.flight.events();
        self.expected.judge(&events, finish)?;
        loop {
            let sessions = self.flight.sessions();
            let tags = Tags { sessions: sessions.clone(), ..self.tags.clone() };
            let now = self.inner.clock.now();
            let entry = Entry::new(tags, &events, finish.clone(), now, self.ttl);
            let bytes: Arc<[u8]> = entry.encode(&self.key).into();
            let inner = Arc::clone(&self.inner);
            let mut flights = inner.flights();
            // Someone of another session joined meanwhile: the entry has to be found by that name too.
            if self.flight.sessions().len() != sessions.len() {
                continue;
            }
            let (key, slot) = (self.key, self.slot);
            let put = inner.tiers.put(key, slot, Arc::new(entry), bytes, self.ticket);
            self.leave_among(&mut flights);
            return put.ok_or(Rejected::Erased);
        }
    }

    /// From now on nobody can join.
    fn leave(&mut self) {
        if self.registered {
            let inner = Arc::clone(&self.inner);
            self.leave_among(&mut inner.flights());
        }
    }

    fn leave_among(&mut self, flights: &mut HashMap<Key, Arc<Flight>>) {
        // Another flight may have taken the place of one that was too large to be joined.
        if std::mem::take(&mut self.registered)
            && flights.get(&self.key).is_some_and(|it| Arc::ptr_eq(it, &self.flight))
        {
            flights.remove(&self.key);
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.leave();
        // Says nothing to those who have the end already.
        self.flight.push(CallEvent::Failed(
            ApiError::new(ErrorKind::Internal, "The call that this one shared has ended early")
                .code("shared_call_ended")
                .hint("Try again"),
        ));
    }
}

impl fmt::Debug for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Landing").field("tags", &self.tags).finish_non_exhaustive()
    }
}
