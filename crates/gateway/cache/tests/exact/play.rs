//! Calls, answers that a test plays, and a clock that it moves.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};
use tapri_api::{
    Admission, ApiError, Call, CallEvent, Delta, ErrorKind, Finish, FinishReason, Format, Inbound,
    Piece, Reuse, ReuseStop, Says, Timings, Token, Usage,
};
use tapri_cache::exact::{
    Clock, Events, ExactCache, ExactConfig, ExactPolicy, Lead, Look, Policies, Reader, Resolved,
};
use tokio::sync::mpsc;

/// A clock that stands until it is moved, in either direction.
#[derive(Debug)]
pub struct SetClock(Mutex<SystemTime>);

impl SetClock {
    pub fn new() -> Arc<Self> {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        Arc::new(SetClock(Mutex::new(start)))
    }

    pub fn forward(&self, seconds: u64) {
        *self.0.lock().unwrap() += Duration::from_secs(seconds);
    }

    pub fn back(&self, seconds: u64) {
        *self.0.lock().unwrap() -= Duration::from_secs(seconds);
    }
}

impl Clock for SetClock {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

/// A cache with a policy, a clock and nothing behind it.
pub fn cache(policy: ExactPolicy) -> (ExactCache, Arc<SetClock>) {
    let clock = SetClock::new();
    let config = ExactConfig {
        policies: Policies::all(policy),
        clock: Arc::clone(&clock) as _,
        ..ExactConfig::default()
    };
    (ExactCache::new(config), clock)
}

pub fn always() -> ExactCache {
    cache(ExactPolicy::default()).0
}

pub fn resolved() -> Resolved<'static> {
    Resolved { upstream: "u", model: "m", build: "b", defaults: b"" }
}

pub fn request(body: &Value) -> Call {
    let bytes = Bytes::from(body.to_string());
    Call::request(Arc::new(Inbound::read(Format::Chat, bytes, Vec::new()).unwrap()))
}

pub fn ask(question: &str) -> Call {
    request(&json!({"model": "m", "messages": [{"role": "user", "content": question}]}))
}

pub fn in_session(question: &str, session: &str) -> Call {
    let mut call = ask(question);
    call.origin.conversation = Some(session.to_owned());
    call
}

/// An answer that a test plays: events are pushed into it.
pub struct Source {
    events: mpsc::UnboundedReceiver<CallEvent>,
    dropped: Arc<AtomicUsize>,
}

/// The test's end of it.
pub struct Model {
    events: mpsc::UnboundedSender<CallEvent>,
    dropped: Arc<AtomicUsize>,
}

pub fn model() -> (Model, Source) {
    let (sender, events) = mpsc::unbounded_channel();
    let dropped = Arc::new(AtomicUsize::new(0));
    (Model { events: sender, dropped: Arc::clone(&dropped) }, Source { events, dropped })
}

impl Model {
    pub fn says(&self, events: impl IntoIterator<Item = CallEvent>) {
        // Nobody may listen any more, which is what some tests are about.
        events.into_iter().for_each(|event| drop(self.events.send(event)));
    }

    pub fn is_cancelled(&self) -> bool {
        self.dropped.load(Ordering::SeqCst) > 0
    }
}

impl Events for Source {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(self.events.recv())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

pub fn admitted() -> CallEvent {
    CallEvent::Admitted(Admission {
        reuse: Some(Reuse {
            prompt: 10,
            cached: 0,
            restored: 0,
            joined: 0,
            stop: ReuseStop::NeverSeen,
            other_scope: false,
        }),
        queued: Duration::ZERO,
        template: None,
        prompt_ids: None,
        dropped: Vec::new(),
    })
}

pub fn token(text: &str) -> CallEvent {
    CallEvent::Token(Token { id: 1, text: text.into(), logprobs: None })
}

pub fn says(says: Says) -> CallEvent {
    CallEvent::Piece(Piece { raw: None, deltas: vec![Delta { choice: 0, says }] })
}

pub fn finished(reason: FinishReason) -> CallEvent {
    CallEvent::Finished(Finish {
        reason,
        matched_stop: None,
        tail: String::new(),
        usage: Usage::from_prompt(10, 0, 0, 2),
        raw: None,
        timings: Timings { total: Duration::from_secs(9), ..Timings::default() },
    })
}

pub fn failed() -> CallEvent {
    CallEvent::Failed(ApiError::new(ErrorKind::Unavailable, "The upstream went away"))
}

/// The events of an ordinary answer.
pub fn answer(text: &str) -> Vec<CallEvent> {
    vec![admitted(), token(text), finished(FinishReason::Stop)]
}

pub async fn look(cache: &ExactCache, call: &Call) -> Look {
    cache.look(call, &resolved()).await
}

pub async fn leads(cache: &ExactCache, call: &Call) -> Box<Lead> {
    match look(cache, call).await {
        Look::Lead(lead) => lead,
        other => panic!("not the first: {other:?}"),
    }
}

/// Starts a call whose answer the test plays.
pub async fn start(cache: &ExactCache, call: &Call) -> (Reader, Model) {
    let (model, source) = model();
    let lead = leads(cache, call).await;
    (lead.start(async { Ok(source) }), model)
}

pub async fn follows(cache: &ExactCache, call: &Call) -> Reader {
    match look(cache, call).await {
        Look::Follow(reader) => reader,
        other => panic!("not a follower: {other:?}"),
    }
}

/// Everything that comes.
pub async fn read(mut reader: Reader) -> Vec<CallEvent> {
    let mut events = Vec::new();
    while let Some(event) = reader.next().await {
        let ends = matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_));
        events.push(event);
        if ends {
            break;
        }
    }
    events
}

/// A whole call with an answer; waits until what became of it is settled.
pub async fn answered(cache: &ExactCache, call: &Call, events: Vec<CallEvent>) -> Vec<CallEvent> {
    let (reader, model) = start(cache, call).await;
    model.says(events);
    let seen = read(reader).await;
    settled(cache).await;
    seen
}

/// Until no call's task runs.
pub async fn settled(cache: &ExactCache) {
    for _ in 0..100_000 {
        if cache.stats().flights == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("a task never ended");
}

/// The text of a stored answer, if there is one.
pub async fn stored(cache: &ExactCache, call: &Call) -> Option<String> {
    match look(cache, call).await {
        Look::Hit(hit) => Some(text(&hit.events())),
        _ => None,
    }
}

pub fn text(events: &[CallEvent]) -> String {
    let text = |event: &CallEvent| match event {
        CallEvent::Token(token) => token.text.clone(),
        CallEvent::Piece(piece) => piece
            .deltas
            .iter()
            .map(|delta| match &delta.says {
                Says::Text(text) => text.as_str(),
                _ => "",
            })
            .collect(),
        CallEvent::Failed(error) => format!("<{}>", error.word()),
        _ => String::new(),
    };
    events.iter().map(text).collect()
}
