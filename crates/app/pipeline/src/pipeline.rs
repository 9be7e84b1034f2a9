//! The way.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tapri_api::{
    Admission, ApiError, CacheDirectives, Call, CallEvent, CallId, ErrorKind, Origin, Prompt,
    TenantScope,
};
use tapri_cache::exact::{ExactCache, ExactStats, Filter};
use tapri_cache::semantic::SemanticCache;
use tapri_upstream::{
    Backend, BackendStats, CallStream, Erased, Holdings, ModelCard, Pinned, Pins, PrefixMap,
    UpstreamStats, Whose,
};

use crate::erasing::{self, PurgeError, PurgeReport, Scopes};
use crate::exact::{self, Begun, Exact};
use crate::explaining::{Asked, Explainer};
use crate::live::Live;
use crate::recording::{Observer, Recorder, Recording};
use crate::running::Running;
use crate::semantic::{Semantic, SemanticWay};

/// The way of every call. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Pipeline {
    backend: Arc<dyn Backend>,
    recorder: Recorder,
    explainer: Option<Explainer>,
    exact: Option<ExactCache>,
    scopes: Scopes,
    semantic: Option<SemanticWay>,
}

impl Pipeline {
    /// A way that leads to one backend. Its calls leave no records.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Pipeline {
            backend,
            recorder: Recorder::default(),
            explainer: None,
            exact: None,
            scopes: Scopes::default(),
            semantic: None,
        }
    }

    /// The same way, with a record of every call.
    pub fn recorded(self, recorder: Recorder) -> Self {
        Pipeline { recorder, ..self }
    }

    /// The same way, with the reason for every call that reused less than it could.
    pub fn explained(self, explainer: Explainer) -> Self {
        Pipeline { explainer: Some(explainer), ..self }
    }

    /// The same way, with an exact cache before everything else.
    pub fn cached(self, exact: ExactCache) -> Self {
        Pipeline { exact: Some(exact), ..self }
    }

    /// The same way, with a semantic cache behind the exact one, which keeps its answers: without an exact cache
    /// nothing is looked up.
    pub fn semantic(self, cache: SemanticCache) -> Self {
        Pipeline { semantic: Some(SemanticWay::new(cache)), ..self }
    }

    /// The semantic cache, where there is one.
    pub fn semantic_cache(&self) -> Option<&SemanticCache> {
        self.semantic.as_ref().map(SemanticWay::cache)
    }

    /// The exact cache, where there is one.
    pub fn exact(&self) -> Option<&ExactCache> {
        self.exact.as_ref()
    }

    /// What explains its calls.
    pub fn explainer(&self) -> Option<&Explainer> {
        self.explainer.as_ref()
    }

    /// The same way, and someone sees the record of every call that ended.
    #[must_use]
    pub fn observed(self, observer: Observer) -> Self {
        Pipeline { recorder: self.recorder.observed(observer), ..self }
    }

    /// The same way, and whoever looks on there sees every call that ended.
    #[must_use]
    pub fn shown_on(self, live: Live) -> Self {
        Pipeline { recorder: self.recorder.shown_on(live), ..self }
    }

    /// Where its calls' records go.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The models that can be asked for.
    pub fn models(&self) -> Vec<Arc<ModelCard>> {
        self.backend.models()
    }

    /// The model that a request's `model` field means; without one, the only one that is served.
    pub fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        self.backend.model(name)
    }

    /// The same for a call of a route.
    pub fn model_on(&self, name: Option<&str>, route: &str) -> Result<Arc<ModelCard>, ApiError> {
        self.backend.model_on(name, route)
    }

    /// Starts a call, and comes back when it is admitted and what it reuses is known. A call that waits for its
    /// turn, or for a prefix that another call is computing, is not admitted yet.
    ///
    /// Dropping the future or the [`Running`] call cancels it.
    ///
    /// However it ends, it leaves one record; a call that is dropped is recorded as left by its client.
    pub async fn start(&self, call: Call) -> Result<Running, ApiError> {
        let mut recording = self.recorder.begin(&call, self.backend.name());
        match self.admit(call, &mut recording).await {
            Ok(Admitted { admission, directives, events, exact, semantic }) => {
                Ok(Running::new(admission, directives, events, recording, exact, semantic))
            }
            Err(error) => {
                recording.failed(&error);
                Err(error)
            }
        }
    }

    async fn admit(&self, mut call: Call, recording: &mut Recording) -> Result<Admitted, ApiError> {
        let card = self.model_on(call.model.as_deref(), &call.origin.route)?;
        recording.served_by(&card);
        self.scopes.note(&call);
        let directives = call.cache;
        let outline = call.outline.take();
        let (id, tenant, salt) = (call.id, call.origin.tenant.clone(), call.salt.clone());
        let begun = exact::begin(
            self.exact.as_ref(),
            self.semantic.as_ref(),
            &self.backend,
            &card,
            call,
            recording,
        )
        .await;
        let Begun { mut events, exact, semantic } = begun?;
        if let Some(exact) = &exact {
            recording.exact(exact);
        }
        if let Some(semantic) = &semantic {
            recording.semantic(semantic);
        }
        let admission = match events.next().await {
            Some(CallEvent::Admitted(admission)) => admission,
            Some(CallEvent::Failed(error)) => return Err(error),
            _ => {
                return Err(ApiError::new(
                    ErrorKind::Internal,
                    "The backend began a call without admitting it",
                ));
            }
        };
        recording.admitted(&admission);
        if let (Some(explainer), Some(reuse)) = (&self.explainer, admission.reuse) {
            recording.explained(explainer.explaining(Asked {
                id: id.to_string(),
                at: Timestamp::now(),
                tenant: tenant.into_owned(),
                model: card.id.clone(),
                salt: salt.map(|salt| salt.as_str().to_owned()),
                outline,
                prompt_ids: admission.prompt_ids.clone(),
                reuse,
                may_store: directives.may_store(),
            }));
        }
        let served = semantic.as_ref().is_some_and(Semantic::is_served);
        let forwarded = !served && exact.as_ref().is_none_or(Exact::is_forwarded);
        if directives.only_if_cached && forwarded {
            match &admission.reuse {
                Some(reuse) if reuse.stop.is_whole() => {}
                reuse => return Err(not_cached(reuse.as_ref())),
            }
        }
        Ok(Admitted { admission, directives, events, exact, semantic })
    }

    /// Says which scope a tenant's calls have, so that an erasure reaches what it left on disk before this process began.
    pub fn note_scope(&self, tenant: &str, scope: &TenantScope) {
        self.scopes.note_scope(tenant, scope);
    }

    /// Erases what a filter matches: stored answers in every store, and KV blocks. By tenant, the blocks of that tenant;
    /// by route, session or document more than was asked, since blocks don't know these; see [`PurgeReport`].
    ///
    /// # Errors
    /// Where something could not be erased. What could be, was.
    pub async fn purge(&self, filter: &Filter) -> Result<PurgeReport, PurgeError> {
        let semantic = match &self.semantic {
            Some(semantic) => semantic.purge(filter.clone()).await,
            None => Ok(0),
        };
        let (exact, explainer) = (self.exact.as_ref(), self.explainer.as_ref());
        let report = erasing::purge(filter, exact, &self.backend, explainer, &self.scopes).await?;
        semantic.map_err(PurgeError::Semantic)?;
        Ok(report)
    }

    /// What the exact cache counted, where there is one.
    pub fn exact_stats(&self) -> Option<ExactStats> {
        self.exact.as_ref().map(ExactCache::stats)
    }

    /// Records a request that never became a call, and was refused at the door. Of a model that isn't known, the
    /// name is empty.
    pub fn refused(&self, id: CallId, origin: &Origin, model: &str, error: &ApiError) {
        self.recorder.refused(id, origin, model, error);
    }

    /// The answer to a request to a path, where each tenant has a server of its own; see [`Backend::pass_on`].
    pub async fn pass_on(
        &self,
        tenant: &str,
        path: &'static str,
        body: Bytes,
    ) -> Result<Option<String>, ApiError> {
        self.backend.pass_on(tenant, path, body).await
    }

    /// The token ids a prompt becomes, exactly those that [`Pipeline::start`] would have the model read.
    pub async fn tokenize(&self, prompt: Prompt) -> Result<Vec<u32>, ApiError> {
        self.backend.tokenize(prompt).await
    }

    /// The same for a call that is to come: a text that begins like an earlier one of its scope is tokenised from there on.
    pub async fn tokenize_call(&self, call: Call) -> Result<Vec<u32>, ApiError> {
        self.scopes.note(&call);
        self.backend.tokenize_call(call).await
    }

    /// How many tokens a call's prompt has.
    pub async fn count_tokens(&self, call: Call) -> Result<usize, ApiError> {
        self.backend.count_tokens(call).await
    }

    /// The token ids of a piece of text on its own: nothing is added, and nothing in it is special.
    pub async fn tokenize_piece(&self, text: String) -> Result<Vec<u32>, ApiError> {
        self.backend.tokenize_piece(text).await
    }

    /// The text of token ids.
    pub async fn detokenize(&self, ids: Vec<u32>) -> Result<String, ApiError> {
        self.backend.detokenize(ids).await
    }

    /// Pins the start that a call's prompt is; see [`Backend::pin`]. It leaves no record: nothing is answered.
    pub async fn pin(&self, call: Call) -> Result<Pinned, ApiError> {
        // What is pinned is found by an erasure of its tenant.
        self.scopes.note(&call);
        self.backend.pin(call).await
    }

    /// What a tenant has pinned; `None` where nothing can be.
    pub async fn pins(&self, whose: Whose) -> Result<Option<Pins>, ApiError> {
        self.backend.pins(whose).await
    }

    /// Takes a pin of a tenant away. `false`: it has none of this name.
    pub async fn unpin(&self, whose: Whose, id: u64) -> Result<bool, ApiError> {
        self.backend.unpin(whose, id).await
    }

    /// Forgets what the prefix cache holds of a tenant, its pins included. `None` where there is no such cache.
    pub async fn reset(&self, whose: Whose) -> Result<Option<Erased>, ApiError> {
        self.backend.erase(Some(whose)).await
    }

    /// The backend's counters, where it has any.
    pub fn stats(&self) -> Option<BackendStats> {
        self.backend.stats()
    }

    /// What the backend's own prefix cache holds, the last used first, in at most `limit` runs; the tenants of
    /// [`MapRun::scope`](tapri_upstream::MapRun::scope) beside it, by the calls of this process. `None` where the backend
    /// has no such cache.
    ///
    /// # Errors
    /// Where the backend doesn't come to it in time.
    pub async fn prefix_map(
        &self,
        limit: usize,
    ) -> Result<Option<(PrefixMap, Vec<String>)>, ApiError> {
        let (tenants, scopes) = self.scopes.all().into_iter().unzip();
        Ok(self.backend.prefix_map(scopes, limit).await?.map(|map| (map, tenants)))
    }

    /// Which of the backend's calls holds what of its prefix cache; the tenants of
    /// [`Holding::scope`](tapri_upstream::Holding::scope) beside it. `None` where the backend has no such cache.
    ///
    /// # Errors
    /// Where the backend doesn't come to it in time.
    pub async fn holdings(&self) -> Result<Option<(Holdings, Vec<String>)>, ApiError> {
        let (tenants, scopes) = self.scopes.all().into_iter().unzip();
        Ok(self.backend.holdings(scopes).await?.map(|holdings| (holdings, tenants)))
    }

    /// What each upstream did and does, where there are any.
    pub fn upstreams(&self) -> Vec<UpstreamStats> {
        self.backend.upstreams()
    }

    /// Ends the backend, then the caches; see [`Backend::shutdown`]. Blocks.
    pub fn shutdown(&self, limit: Duration) {
        self.backend.shutdown(limit);
        if let Some(semantic) = &self.semantic {
            semantic.shutdown(LAST_STORES);
        }
        if let Some(exact) = &self.exact {
            exact.shutdown(LAST_STORES);
        }
    }
}

/// How long the last answers have to reach the store once the backend has ended.
const LAST_STORES: Duration = Duration::from_secs(5);

/// A call that was admitted.
struct Admitted {
    admission: Admission,
    directives: CacheDirectives,
    events: CallStream,
    exact: Option<Exact>,
    semantic: Option<Semantic>,
}

/// `only-if-cached` can be met by the prefix cache where it holds everything it could: what is left to compute
/// is then the answer, the last token, and less than a block. (RFC 9111: otherwise a 504.)
pub(crate) fn not_cached(reuse: Option<&tapri_api::Reuse>) -> ApiError {
    let message = match reuse {
        Some(reuse) => {
            format!(
                "{} of {} prompt tokens are cached ({})",
                reuse.cached, reuse.prompt, reuse.stop
            )
        }
        None => "No stored answer is there for this call".to_owned(),
    };
    ApiError::new(ErrorKind::NotCached, message)
        .code("not_cached")
        .hint("Send the call without `Cache-Control: only-if-cached` to have the rest computed")
}
