//! The semantic cache's place on a call's way: behind the exact cache, which keeps the answers.
//!
//! A call that the exact cache leads is looked up by meaning. A hit is answered with the stored events, and to those
//! who wait for the same call as well; it is not stored again. Otherwise the call goes on, and when its answer has come
//! it is compared and kept, off the call's way.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tapri_api::cache_status::{CacheOutcome as Status, ForwardReason, Member};
use tapri_api::{Call, CallEvent, FinishReason, Message, Prompt, Says, TenantScope};
use tapri_cache::exact::{ExactCache, Filter, Hit, Key, Resolved};
use tapri_cache::semantic::answers::same_text;
use tapri_cache::semantic::cache::{Candidate, Decision, Look, SemanticCache};
use tapri_cache::semantic::scope::{Asked, asked};
use tapri_cache::semantic::store::{Label, Owner, Verdict};
use tapri_cache::semantic::{Judge, SemanticMode};
use tapri_cache::tasks::Tasks;
use tapri_ledger::{CacheOutcome, CacheResult};
use tapri_upstream::{Backend, CallStream};

/// The semantic cache with the work that it has under way. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct SemanticWay {
    cache: SemanticCache,
    work: Tasks,
}

/// Tasks that may be under way at once; what would be learnt beyond that is not.
const MOST_TASKS: usize = 256;

/// The longest text of an answer that is compared.
const LONGEST_ANSWER: usize = 64 << 10;

/// What the semantic cache did for a call.
#[derive(Debug, Clone)]
pub(crate) struct Semantic {
    pub(crate) member: Member,
    pub(crate) result: CacheResult,
    /// How old the stored answer is.
    pub(crate) age: Option<Duration>,
}

impl Semantic {
    /// Whether a stored answer was served.
    pub(crate) fn is_served(&self) -> bool {
        self.result.outcome == CacheOutcome::Hit
    }
}

/// What is to be done for a call.
pub(crate) enum Found {
    /// A stored answer; with a watch where it is to be checked.
    Serve { hit: Box<Hit>, watch: Option<Box<Watch>>, semantic: Semantic },
    /// The model's answer, which is watched.
    Forward { watch: Option<Box<Watch>>, semantic: Semantic },
}

/// What is to be learnt from a call's answer when it has come.
pub(crate) struct Watch {
    way: SemanticWay,
    exact: ExactCache,
    backend: Arc<dyn Backend>,
    model: String,
    asked: Asked,
    look: Look,
    answer: Key,
    owner: Owner,
    scope: TenantScope,
    compare: Option<Candidate>,
    served: bool,
    said: Said,
}

impl SemanticWay {
    /// A cache's place on the way.
    pub fn new(cache: SemanticCache) -> Self {
        SemanticWay { cache, work: Tasks::default() }
    }

    /// The cache.
    pub fn cache(&self) -> &SemanticCache {
        &self.cache
    }

    /// Waits until what is under way has ended, but no longer than the limit. Blocks.
    pub fn shutdown(&self, limit: Duration) {
        self.work.wait(limit);
    }

    /// Erases what a filter matches. On a thread that may wait.
    pub(crate) async fn purge(&self, filter: Filter) -> Result<usize, String> {
        let cache = self.cache.clone();
        let purged = tokio::task::spawn_blocking(move || cache.purge(&filter)).await;
        match purged {
            Ok(Ok(gone)) => Ok(gone),
            Ok(Err(error)) => Err(error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Looks for a question that means the same. `None` where the route doesn't.
    pub(crate) async fn look(
        &self,
        exact: &ExactCache,
        backend: &Arc<dyn Backend>,
        call: &Call,
        resolved: &Resolved<'_>,
        answer: Key,
    ) -> Option<Found> {
        let route = call.origin.route.clone();
        let policy = self.cache.policy(&route);
        if policy.mode == SemanticMode::Off {
            let semantic = forwarded(ForwardReason::Bypass, "off");
            return Some(Found::Forward { watch: None, semantic });
        }
        let asked = match asked(call, resolved) {
            Ok(asked) => asked,
            Err(why) => {
                let semantic = forwarded(ForwardReason::Bypass, why.as_str());
                return Some(Found::Forward { watch: None, semantic });
            }
        };
        let (cache, looked) = (self.cache.clone(), asked.clone());
        let look = tokio::task::spawn_blocking(move || cache.look(&looked, &route)).await;
        // A cache that fails costs a miss; it has counted the failure.
        let Ok(Ok(look)) = look else {
            let semantic = forwarded(ForwardReason::Miss, "failed");
            return Some(Found::Forward { watch: None, semantic });
        };
        let decision = look.decision.clone();
        let nearest = look.nearest.clone();
        let mut watch = Box::new(Watch {
            way: self.clone(),
            exact: exact.clone(),
            backend: Arc::clone(backend),
            model: resolved.model.to_owned(),
            asked,
            look,
            answer,
            owner: Owner {
                tenant: call.origin.tenant.clone().into_owned(),
                route: call.origin.route.clone().into_owned(),
                model: resolved.model.to_owned(),
                session: call.origin.conversation.clone(),
                document: call.origin.document.clone(),
            },
            scope: call.scope.clone(),
            compare: None,
            served: false,
            said: Said::default(),
        });
        match decision {
            Decision::Serve { candidate, check } => {
                match exact.stored(candidate.answer, call.origin.conversation.as_deref()).await {
                    Some(hit) => {
                        self.cache.served();
                        let outcome = hit.ttl.map_or(Status::Hit, Status::HitFor);
                        let semantic = Semantic {
                            member: Member { cache: CACHE, outcome, detail: None },
                            result: CacheResult {
                                outcome: CacheOutcome::Hit,
                                reason: Some(format!("{:.3}", candidate.similarity)),
                            },
                            age: Some(hit.age),
                        };
                        watch.compare = Some(candidate);
                        watch.served = true;
                        let watch = check.then_some(watch);
                        Some(Found::Serve { hit: Box::new(hit), watch, semantic })
                    }
                    None => {
                        // Its answer made room, or its time is up.
                        self.cache.remove(candidate.id);
                        let semantic = forwarded(ForwardReason::Miss, "answer gone");
                        Some(Found::Forward { watch: Some(watch), semantic })
                    }
                }
            }
            Decision::Shadow(candidate) => {
                watch.compare = Some(candidate);
                let semantic = forwarded(ForwardReason::Miss, "shadow");
                Some(Found::Forward { watch: Some(watch), semantic })
            }
            Decision::Nothing => {
                let objection = nearest.as_ref().and_then(|near| near.objections.first());
                let detail = objection.map_or("nothing near", |objection| objection.guard.name());
                let semantic = forwarded(ForwardReason::Miss, detail);
                Some(Found::Forward { watch: Some(watch), semantic })
            }
        }
    }

    /// Runs what is off any call's way, and counts it, so that the end waits for it.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(task) = self.work.begin_below(MOST_TASKS) else { return };
        tokio::spawn(async move {
            work.await;
            drop(task);
        });
    }

    /// Has the model answer a call that was served a stored answer, and learns from it.
    pub(crate) fn check(&self, call: Call, mut watch: Box<Watch>) {
        let backend = Arc::clone(&watch.backend);
        self.spawn(async move {
            let Ok(mut events) = backend.start(call).await else { return };
            while let Some(event) = events.next().await {
                watch.said.hear(&event);
                if matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_)) {
                    break;
                }
            }
            watch.learn().await;
        });
    }
}

const CACHE: &str = "tapri-semantic";

fn forwarded(reason: ForwardReason, detail: &str) -> Semantic {
    let outcome = match reason {
        ForwardReason::Bypass => CacheOutcome::Bypass,
        _ => CacheOutcome::Miss,
    };
    Semantic {
        // What stopped it is for the operator: a client sees that nothing was served.
        member: Member {
            cache: CACHE,
            outcome: Status::Forwarded(reason),
            detail: (reason == ForwardReason::Bypass).then(|| detail.to_owned()),
        },
        result: CacheResult { outcome, reason: Some(detail.to_owned()) },
        age: None,
    }
}

/// What an answer said, as it comes.
#[derive(Debug, Default)]
struct Said {
    text: String,
    /// Whether it said something that is no text, did not end well, or is too long: it can't be compared.
    unfit: bool,
    ended: bool,
}

impl Said {
    fn hear(&mut self, event: &CallEvent) {
        match event {
            CallEvent::Token(token) => self.text.push_str(&token.text),
            CallEvent::Piece(piece) => {
                for delta in &piece.deltas {
                    match &delta.says {
                        Says::Text(text) => self.text.push_str(text),
                        Says::Token(token) => self.text.push_str(&token.text),
                        Says::End { .. } | Says::Logprobs(_) | Says::Other { .. } => {}
                        _ => self.unfit = true,
                    }
                }
            }
            CallEvent::Finished(finish) => {
                self.text.push_str(&finish.tail);
                self.ended = true;
                self.unfit |= finish.reason != FinishReason::Stop;
            }
            CallEvent::Failed(_) => self.unfit = true,
            CallEvent::Admitted(_) | CallEvent::Prefill { .. } => {}
        }
        self.unfit |= self.text.len() > LONGEST_ANSWER;
    }

    fn whole(&self) -> Option<&str> {
        (self.ended && !self.unfit && !self.text.trim().is_empty()).then_some(self.text.as_str())
    }
}

impl Watch {
    /// Hears an event of the call; at the end, what is learnt is learnt off the call's way.
    pub(crate) fn hear(watch: &mut Option<Box<Watch>>, event: &CallEvent) {
        if let Some(open) = watch.as_mut() {
            open.said.hear(event);
        }
        if matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_))
            && let Some(done) = watch.take()
        {
            let way = done.way.clone();
            way.spawn(async move { done.learn().await });
        }
    }

    async fn learn(self: Box<Self>) {
        let Watch {
            way,
            exact,
            backend,
            model,
            asked,
            look,
            answer,
            owner,
            scope,
            compare,
            served,
            said,
        } = *self;
        let Some(text) = said.whole().map(str::to_owned) else { return };
        let mut label = None;
        if let Some(candidate) = compare
            && let Some(hit) = exact.stored(candidate.answer, None).await
        {
            let mut stored = Said::default();
            hit.events().iter().for_each(|event| stored.hear(event));
            if let Some(stored) = stored.whole() {
                let (verdict, by) = if same_text(stored, &text) {
                    (Verdict::Same, "text")
                } else if let Some(mut call) =
                    verdict_call(&way.cache.policy(&owner.route).judge, &model)
                {
                    let pair = [
                        [candidate.question.as_ref(), stored],
                        [asked.question.as_str(), text.as_str()],
                    ];
                    // What it reads is the tenant's: it is asked with the tenant's credential, and what an engine
                    // keeps of it is in the tenant's scope.
                    call.origin.tenant = owner.tenant.clone().into();
                    call.scope = scope;
                    (judge(&backend, call, pair).await, "model")
                } else {
                    (Verdict::Unsettled, "text")
                };
                label = Some(Label {
                    entry: candidate.id,
                    owner: owner.clone(),
                    similarity: candidate.similarity,
                    verdict,
                    by,
                    served,
                    at: now(),
                    stored: [candidate.question.to_string(), stored.to_owned()],
                    asked: [asked.question.clone(), text],
                });
            }
        }
        let cache = way.cache.clone();
        let learnt = tokio::task::spawn_blocking(move || {
            if let Some(label) = label {
                cache.learn(label, look.epoch);
            }
            // A served answer belongs to another question's key; this call has none of its own.
            if !served {
                cache.keep(&asked, &look, answer, owner);
            }
        });
        if let Err(error) = learnt.await {
            tracing::warn!("the semantic cache could not learn: {error}");
        }
    }
}

/// The route by which a judge's calls reach its upstream and no other.
pub fn judge_route(upstream: &str) -> String {
    format!("tapri-judge:{upstream}")
}

/// A call to whoever judges, without its question; `None` where that is a person.
fn verdict_call(judge: &Judge, answered: &str) -> Option<Call> {
    let mut call = Call::chat(Vec::new());
    call.model = Some(match judge {
        Judge::Person => return None,
        Judge::Model(named) => named.clone().unwrap_or_else(|| answered.to_owned()),
        Judge::Upstream { upstream, model } => {
            call.origin.route = judge_route(upstream).into();
            model.clone()
        }
    });
    call.max_tokens = Some(4);
    call.sampling.temperature = 0.0;
    call.cache.no_store = true;
    Some(call)
}

/// Asks a model whether one answer is right for both questions. What is no clear yes or no settles nothing.
async fn judge(backend: &Arc<dyn Backend>, mut call: Call, pair: [[&str; 2]; 2]) -> Verdict {
    let [[first, given], [second, wanted]] = pair;
    let question = format!(
        "Two questions were answered.\n\nQuestion 1: {first}\nAnswer 1: {given}\n\nQuestion 2: {second}\nAnswer 2: {wanted}\n\n\
         Would answer 1 also be a right and complete answer to question 2, with no fact, number, name, date or condition \
         different from answer 2? Say yes or no."
    );
    let system = "You compare answers. You say yes or no and nothing else.";
    call.prompt = Prompt::Chat(vec![Message::system(system), Message::user(question)]);
    let Ok(mut events) = backend.start(call).await else { return Verdict::Unsettled };
    let mut said = Said::default();
    while let Some(event) = events.next().await {
        said.hear(&event);
    }
    let word: String = said.text.trim().chars().take_while(|c| c.is_alphabetic()).collect();
    match word.to_lowercase().as_str() {
        "yes" => Verdict::Same,
        "no" => Verdict::Wrong,
        _ => Verdict::Unsettled,
    }
}

/// A backend's events, watched.
pub(crate) struct Watched {
    pub(crate) events: CallStream,
    pub(crate) watch: Option<Box<Watch>>,
}

impl Watched {
    pub(crate) async fn next(&mut self) -> Option<CallEvent> {
        let event = self.events.next().await?;
        Watch::hear(&mut self.watch, &event);
        Some(event)
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

impl fmt::Debug for SemanticWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SemanticWay").field("cache", &self.cache).finish_non_exhaustive()
    }
}
