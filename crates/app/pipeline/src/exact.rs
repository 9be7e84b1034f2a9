//! The exact cache's place on a call's way: before everything else.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::semantic::{Found, Semantic, SemanticWay, Watched};
use tapri_api::cache_status::{CacheOutcome as Status, ForwardReason, Member};
use tapri_api::{ApiError, CacheDirectives, Call, CallEvent, Usage};
use tapri_cache::exact::{Events, ExactCache, Kept, Look, Reader, Resolved, Why};
use tapri_ledger::{CacheOutcome, CacheResult};
use tapri_upstream::{Backend, CallStream, EventSource, ModelCard};

use crate::pipeline::not_cached;
use crate::recording::Recording;
use crate::steps::Step;

/// A call's events, and what the exact cache did for it.
pub(crate) struct Begun {
    pub(crate) events: CallStream,
    pub(crate) exact: Option<Exact>,
    pub(crate) semantic: Option<Semantic>,
}

/// What the exact cache did for a call.
#[derive(Debug)]
pub(crate) struct Exact {
    pub(crate) member: Member,
    pub(crate) result: CacheResult,
    /// What a stored answer says of its tokens.
    pub(crate) usage: Option<Usage>,
    /// How old the stored answer is.
    pub(crate) age: Option<Duration>,
    /// Tells at the end whether the answer was kept.
    pub(crate) kept: Option<Kept>,
}

impl Exact {
    /// Whether the answer was computed for this call.
    pub(crate) fn is_forwarded(&self) -> bool {
        !self.result.outcome.is_replay()
    }
}

/// Begins a call: with a stored answer, with that of the same call under way, or at the backend.
pub(crate) async fn begin(
    cache: Option<&ExactCache>,
    semantic: Option<&SemanticWay>,
    backend: &Arc<dyn Backend>,
    card: &ModelCard,
    call: Call,
    recording: &mut Recording,
) -> Result<Begun, ApiError> {
    let Some(cache) = cache else { return alone(backend, card, call, recording, None).await };
    let resolved = Resolved {
        upstream: &card.upstream,
        model: &card.id,
        build: &card.fingerprint,
        defaults: &[],
    };
    let directives = call.cache;
    let asked = Instant::now();
    let look = cache.look(&call, &resolved).await;
    if let Some(steps) = recording.steps() {
        steps.exact = Some(Step::since(asked));
    }
    match look {
        Look::Hit(hit) => {
            let outcome = hit.ttl.map_or(Status::Hit, Status::HitFor);
            let events: VecDeque<CallEvent> = hit.events().into();
            let usage = events.iter().rev().find_map(|event| match event {
                CallEvent::Finished(finish) => Some(finish.usage),
                _ => None,
            });
            let exact = exact(outcome, CacheOutcome::Hit, None);
            let exact = Exact { age: Some(hit.age), usage, ..exact };
            Ok(Begun {
                events: CallStream::new(Replayed(events)),
                exact: Some(exact),
                semantic: None,
            })
        }
        Look::Follow(reader) => {
            let exact = exact(Status::Collapsed, CacheOutcome::Collapsed, None);
            Ok(shared(reader, exact))
        }
        Look::Lead(lead) => {
            let exact = match lead.why {
                Why::Miss => forwarded(ForwardReason::Miss, None),
                Why::Request => forwarded(ForwardReason::Request, None),
            };
            let found = match semantic {
                Some(semantic) if lead.why == Why::Miss => {
                    let asked = Instant::now();
                    let found = semantic.look(cache, backend, &call, &resolved, lead.key()).await;
                    if let Some(steps) = recording.steps().filter(|_| found.is_some()) {
                        steps.semantic = Some(Step::since(asked));
                    }
                    found
                }
                _ => None,
            };
            let (watch, found) = match found {
                Some(Found::Serve { hit, watch, semantic: served }) => {
                    let reader = lead.answer(hit.events());
                    if let (Some(way), Some(watch)) = (semantic, watch) {
                        way.check(call, watch);
                    }
                    return Ok(Begun { semantic: Some(served), ..shared(reader, exact) });
                }
                Some(Found::Forward { watch, semantic }) => (watch, Some(semantic)),
                None => (None, None),
            };
            recording.sends_on();
            let backend = Arc::clone(backend);
            let reader = lead.start(async move {
                Ok(Running(Watched { events: backend.start(call).await?, watch }))
            });
            Ok(Begun { semantic: found, ..shared(reader, exact) })
        }
        Look::Forward => {
            let exact = forwarded(reason(directives), None);
            alone(backend, card, call, recording, Some(exact)).await
        }
        Look::Bypass(why) => {
            let exact = forwarded(ForwardReason::Bypass, Some(why.as_str()));
            alone(backend, card, call, recording, Some(exact)).await
        }
    }
}

/// Begins a call that nobody shares.
async fn alone(
    backend: &Arc<dyn Backend>,
    card: &ModelCard,
    call: Call,
    recording: &mut Recording,
    exact: Option<Exact>,
) -> Result<Begun, ApiError> {
    Ok(Begun { events: forward(backend, card, call, recording).await?, exact, semantic: None })
}

/// Sends a call on. An upstream tells only with its answer what it had cached, and the answer costs: a call that may not
/// be computed isn't sent there.
async fn forward(
    backend: &Arc<dyn Backend>,
    card: &ModelCard,
    call: Call,
    recording: &mut Recording,
) -> Result<CallStream, ApiError> {
    let is_elsewhere = card.vocabulary.is_none();
    if call.cache.only_if_cached && is_elsewhere {
        return Err(not_cached(None));
    }
    recording.sends_on();
    backend.start(call).await
}

fn shared(reader: Reader, exact: Exact) -> Begun {
    let exact = Exact { kept: Some(reader.kept()), ..exact };
    Begun { events: CallStream::new(Shared(reader)), exact: Some(exact), semantic: None }
}

fn exact(outcome: Status, recorded: CacheOutcome, detail: Option<&str>) -> Exact {
    let detail = detail.map(str::to_owned);
    Exact {
        member: Member { cache: "tapri-exact", outcome, detail: detail.clone() },
        result: CacheResult { outcome: recorded, reason: detail },
        usage: None,
        age: None,
        kept: None,
    }
}

fn forwarded(reason: ForwardReason, detail: Option<&str>) -> Exact {
    let recorded = match reason {
        ForwardReason::Bypass => CacheOutcome::Bypass,
        _ => CacheOutcome::Miss,
    };
    let mut exact = exact(Status::Forwarded(reason), recorded, detail);
    if reason == ForwardReason::Request {
        exact.result.reason = Some("request".to_owned());
    }
    exact
}

fn reason(directives: CacheDirectives) -> ForwardReason {
    if directives.may_read() { ForwardReason::Miss } else { ForwardReason::Request }
}

/// A stored answer's events.
struct Replayed(VecDeque<CallEvent>);

impl EventSource for Replayed {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(std::future::ready(self.0.pop_front()))
    }
}

/// The events of a call that may be shared.
struct Shared(Reader);

impl EventSource for Shared {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(self.0.next())
    }
}

/// A backend's events, as the flight takes them.
struct Running(Watched);

impl Events for Running {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(self.0.next())
    }
}
