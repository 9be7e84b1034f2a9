//! Why a call reused less than it could, found beside the call.
//!
//! Each tenant's recent prompts are kept in bounded memory, and a new one is compared with the nearest. That is done
//! once its first token is out: nobody waits for it but who asked for the explanation, at the end of the answer.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use jiff::Timestamp;
use tapri_api::{Outline, OutlinePart, PartKind, Reuse, ReuseStop};
use tapri_insight::explain::{self, Evidence, Found, StopReason};
use tapri_insight::prints;
use tapri_insight::prompt::{Kind, Part, PartitionKind, PromptDoc, Speaker, Turn};
use tapri_insight::recent::{Comparable, Limits, Recent, Seen, nearest};
use tapri_ledger::{
    CallRecord, Detail, Explanation, Filter, Ledger, MissReason, Order, PartPrint, Secret,
};

/// What shares less than this shares nothing that a cache could keep.
const BLOCK: u64 = 16;

/// How many prompts are compared beyond their first difference.
const LOOKED_AT: usize = 4;

/// Records of earlier runs that are looked at.
const PAST: u64 = 256;

/// How calls are explained.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExplainConfig {
    /// How much of recent prompts is kept.
    pub limits: Limits,
    /// Whether explanations quote what changed. They go into the ledger and, where asked for, into answers.
    pub values: bool,
}

/// Explains calls. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Explainer {
    inner: Arc<Inner>,
}

struct Inner {
    config: ExplainConfig,
    recent: Mutex<Recent<Kept>>,
    past: Option<Past>,
}

impl Explainer {
    /// One that remembers nothing yet.
    pub fn new(config: ExplainConfig) -> Self {
        Explainer::build(config, None)
    }

    /// One that remembers the calls of earlier runs by their fingerprints. A ledger that can't be read is a warning.
    pub fn with_past(config: ExplainConfig, ledger: &std::path::Path) -> Self {
        let past = Past::read(ledger)
            .inspect_err(|error| {
                tracing::warn!("calls of earlier runs can't be compared with: {error}")
            })
            .ok();
        Explainer::build(config, past)
    }

    fn build(config: ExplainConfig, past: Option<Past>) -> Self {
        let recent = Mutex::new(Recent::new(config.limits));
        Explainer { inner: Arc::new(Inner { config, recent, past }) }
    }

    /// Forgets a tenant's prompts.
    pub fn forget(&self, tenant: &str) {
        self.inner.recent.lock().unwrap_or_else(PoisonError::into_inner).forget(tenant);
    }

    pub(crate) fn explaining(&self, asked: Asked) -> Arc<Explaining> {
        Arc::new(Explaining {
            explainer: self.clone(),
            asked: Mutex::new(Some(Box::new(asked))),
            done: OnceLock::new(),
        })
    }
}

impl fmt::Debug for Explainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explainer").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

/// What is known of a call when it is to be explained.
pub(crate) struct Asked {
    pub(crate) id: String,
    pub(crate) at: Timestamp,
    pub(crate) tenant: String,
    pub(crate) model: String,
    pub(crate) salt: Option<String>,
    pub(crate) outline: Option<Outline>,
    pub(crate) prompt_ids: Option<Arc<[u32]>>,
    pub(crate) reuse: Reuse,
    /// Whether anything of it may be left behind.
    pub(crate) may_store: bool,
}

/// An explanation that is found once, by whoever needs it first.
pub(crate) struct Explaining {
    explainer: Explainer,
    asked: Mutex<Option<Box<Asked>>>,
    done: OnceLock<Option<Explanation>>,
}

impl Explaining {
    /// The explanation; takes milliseconds the first time.
    pub(crate) fn get(&self) -> Option<Explanation> {
        let find = || {
            let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).take()?;
            self.explainer.inner.explain(*asked)
        };
        self.done.get_or_init(find).clone()
    }
}

impl fmt::Debug for Explaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explaining").field("done", &self.done).finish_non_exhaustive()
    }
}

impl Inner {
    fn explain(&self, asked: Asked) -> Option<Explanation> {
        let kept = Kept::new(&asked);
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let candidates = recent().of(&asked.tenant);
        let whole = asked.reuse.stop.is_whole();
        let explanation = (!whole).then(|| self.compare(&asked, kept.as_ref(), &candidates));
        if let Some(kept) = kept.filter(|_| asked.may_store) {
            let seen = Seen { call: asked.id, at: asked.at, prompt: Arc::new(kept) };
            recent().add(&asked.tenant, seen);
        }
        explanation
    }

    fn compare(
        &self,
        asked: &Asked,
        kept: Option<&Kept>,
        candidates: &[Seen<Kept>],
    ) -> Explanation {
        let stop = stop_reason(asked.reuse.stop);
        // Neither has to do with any earlier prompt.
        let settled = matches!(stop, StopReason::Bypassed | StopReason::BelowOneBlock);
        if let Some(kept) = kept.filter(|_| !settled) {
            if let Some((seen, mut found)) = kept.nearest(candidates, &asked.reuse, stop) {
                if let (Some(place), Some(outline)) = (&mut found.place, &asked.outline) {
                    place.page = place.page.or_else(|| page(outline, &place.path));
                }
                return found.explanation(Some(seen.call.clone()), self.config.values);
            }
            if let Some(past) = &self.past
                && let Some(explanation) = past.explain(asked)
            {
                return explanation;
            }
        }
        explain::alone(explain::told(stop).unwrap_or(MissReason::NeverSeen))
    }
}

/// A prompt as it is kept.
#[derive(Debug)]
pub(crate) struct Kept {
    doc: PromptDoc,
    ids: Option<Arc<[u32]>>,
}

impl Kept {
    fn new(asked: &Asked) -> Option<Self> {
        let mut doc = match &asked.outline {
            Some(Outline::Body(body)) => PromptDoc::parse(body).ok()?,
            Some(Outline::Parts(parts)) => from_parts(parts),
            None => return None,
        };
        // As it is served here, whatever the caller calls it.
        doc.model = Some(asked.model.clone());
        doc.partitions.retain(|partition| partition.kind != PartitionKind::CacheKey);
        if let Some(salt) = &asked.salt
            && !doc.partitions.iter().any(|partition| partition.kind == PartitionKind::Salt)
        {
            let path = "cache_salt".to_owned();
            let value = salt.clone();
            doc.partitions.push(tapri_insight::prompt::Partition {
                kind: PartitionKind::Salt,
                path,
                value,
            });
        }
        Some(Kept { doc, ids: asked.prompt_ids.clone() })
    }

    /// The nearest of some prompts, and what differs from it. `None` where nothing is alike.
    fn nearest<'a>(
        &self,
        candidates: &'a [Seen<Kept>],
        reuse: &Reuse,
        stop: StopReason,
    ) -> Option<(&'a Seen<Kept>, Found)> {
        let explain = |seen: &Seen<Kept>| {
            let evidence = Evidence {
                stop: Some(stop),
                cached: Some(reuse.reused() as u64),
                shared: self.shared_tokens(&seen.prompt),
                prompt: Some(reuse.prompt as u64),
                ..Evidence::default()
            };
            explain::explain(&seen.prompt.doc, &self.doc, &evidence)
        };
        // Of equally near ones, that with most in common behind the first difference.
        let best = |near: Vec<&'a Seen<Kept>>| {
            near.into_iter()
                .take(LOOKED_AT)
                .map(|seen| (seen, explain(seen)))
                .rev()
                .max_by_key(|(_, found)| found.lost.count)
        };
        let alike =
            best(nearest(candidates, self)).filter(|(_, found)| found.shared.count >= BLOCK);
        // Where the first words differ from all, a value that changes may stand at the very top.
        alike.or_else(|| {
            best(candidates.iter().collect()).filter(|(_, found)| found.lost.count >= BLOCK)
        })
    }

    /// Tokens that both share from the start, by their ids.
    fn shared_tokens(&self, other: &Kept) -> Option<u64> {
        let (Some(mine), Some(theirs)) = (&self.ids, &other.ids) else { return None };
        // Ids of different vocabularies say nothing.
        (self.doc.model == other.doc.model)
            .then(|| mine.iter().zip(theirs.iter()).take_while(|(a, b)| a == b).count() as u64)
    }
}

impl Comparable for Kept {
    /// Bytes of their texts, twice, and one more for the same partition of the cache: of equally near ones that is
    /// the nearer.
    fn shared(&self, other: &Self) -> usize {
        match explain::shared_bytes(&other.doc, &self.doc) {
            0 => 0,
            bytes => 2 * bytes + usize::from(self.doc.partitions == other.doc.partitions),
        }
    }

    fn extends(&self, earlier: &Self) -> bool {
        let (mine, theirs) = (&self.doc, &earlier.doc);
        let Some((last, before)) = theirs.parts.split_last() else { return true };
        mine.model == theirs.model
            && mine.partitions == theirs.partitions
            && mine.parts.len() > before.len()
            && before.iter().zip(&mine.parts).all(|(a, b)| a.kind == b.kind && a.text == b.text)
            && mine
                .parts
                .get(before.len())
                .is_some_and(|part| part.kind == last.kind && part.text.starts_with(&*last.text))
    }

    fn bytes(&self) -> usize {
        self.doc.bytes() + self.ids.as_ref().map_or(0, |ids| 4 * ids.len())
    }
}

/// A document from an outline's parts.
fn from_parts(parts: &[OutlinePart]) -> PromptDoc {
    let mut turns: Vec<Turn> = Vec::new();
    let parts = parts
        .iter()
        .map(|part| {
            let kind = match part.kind {
                PartKind::Tools => Kind::Tool,
                PartKind::System => Kind::System,
                PartKind::Page => Kind::Document,
                PartKind::Message | PartKind::Whole => Kind::Text,
            };
            let found = Part::new(kind, &*part.path, Arc::clone(&part.text));
            if part.kind != PartKind::Message {
                return found;
            }
            // Who speaks doesn't matter here: each part has its own path.
            turns.push(Turn { path: part.path.to_string(), speaker: Speaker::Other });
            found.in_turn(turns.len() - 1)
        })
        .collect();
    PromptDoc::from_parts(None, parts, turns)
}

/// Which page of the file a part is, from 1.
fn page(outline: &Outline, path: &str) -> Option<u64> {
    let Outline::Parts(parts) = outline else { return None };
    let mut pages = parts.iter().filter(|part| part.kind == PartKind::Page);
    pages.position(|part| &*part.path == path).map(|at| at as u64 + 1)
}

/// As the client may know it.
fn stop_reason(stop: ReuseStop) -> StopReason {
    match stop {
        ReuseStop::Complete => StopReason::Complete,
        ReuseStop::LastToken => StopReason::LastTokenRule,
        ReuseStop::BelowOneBlock => StopReason::BelowOneBlock,
        ReuseStop::Difference { .. } => StopReason::FirstDifference,
        ReuseStop::NeverSeen => StopReason::NeverSeen,
        ReuseStop::Evicted => StopReason::Evicted,
        ReuseStop::Expired => StopReason::Expired,
        ReuseStop::WindowGone => StopReason::WindowGone,
        ReuseStop::BeingWritten => StopReason::BeingWritten,
        ReuseStop::Bypassed => StopReason::Bypassed,
        ReuseStop::Unknown => StopReason::Unknown,
    }
}

/// The calls of earlier runs, of which the ledger has the fingerprints.
struct Past {
    secret: Secret,
    /// Newest first.
    records: Vec<CallRecord>,
}

/// Why there is no past.
#[derive(Debug, thiserror::Error)]
enum PastError {
    #[error(transparent)]
    Secret(#[from] tapri_ledger::SecretError),
    #[error(transparent)]
    Open(#[from] tapri_ledger::OpenError),
    #[error(transparent)]
    Query(#[from] tapri_ledger::QueryError),
}

impl Past {
    fn read(ledger: &std::path::Path) -> Result<Self, PastError> {
        let filter = Filter {
            order: Order::NewestFirst,
            limit: Some(PAST),
            detail: Detail::Whole,
            ..Filter::default()
        };
        let mut records = Ledger::open_read(ledger)?.records(&filter)?;
        records.retain(|record| record.tokens.cached.is_some() && !record.parts.is_empty());
        for record in &mut records {
            record.text = None;
            record.trace = Vec::new();
        }
        Ok(Past { secret: Secret::of_ledger(ledger)?, records })
    }

    /// What became of the nearest prompt of the same tenant and model. `None` where none shares a part.
    fn explain(&self, asked: &Asked) -> Option<Explanation> {
        // With a salt nobody knows whether an earlier call had the same.
        if asked.salt.is_some() {
            return None;
        }
        let parts = asked.outline.as_ref()?.parts();
        let parts: Vec<PartPrint> = parts.iter().map(|part| self.secret.part(part)).collect();
        let own = self
            .records
            .iter()
            .filter(|record| record.tenant == asked.tenant && record.model == asked.model);
        let old = prints::nearest(own, &parts)?;
        Some(explain::at_part(old, &parts, Some(asked.reuse.prompt as u64)))
    }
}
