//! Several backends as one: a call goes to the one that has its model, and that its route may use.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tapri_api::{ApiError, Call, Prompt, TenantScope};

use crate::backend::EMBEDDED;
use crate::{
    Answer, Backend, BackendStats, CallStream, Erased, Holdings, ModelCard, Pinned, Pins,
    PrefixMap, UpstreamStats, Whose,
};

/// Backends, of which the first answers what names no model. Of two that have a model of one name the earlier is asked,
/// where the call's route may use it.
pub struct Several {
    first: Arc<dyn Backend>,
    others: Vec<Arc<dyn Backend>>,
    routes: HashMap<String, Vec<String>>,
}

impl std::fmt::Debug for Several {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.all().map(|backend| backend.name()).collect();
        f.debug_tuple("Several").field(&names).finish()
    }
}

impl Several {
    /// One backend and others beside it.
    pub fn new(first: Arc<dyn Backend>, others: Vec<Arc<dyn Backend>>) -> Self {
        Several { first, others, routes: HashMap::new() }
    }

    /// The upstreams that a route's calls may go to, by the route's name; a route that isn't here may use all. What answers
    /// in this process goes by [`EMBEDDED`]; upstreams see to theirs themselves.
    pub fn routed(self, routes: HashMap<String, Vec<String>>) -> Self {
        Several { routes, ..self }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Who answers for a name on a route, with the model's card.
    fn of(&self, name: Option<&str>, route: &str) -> Option<(&Arc<dyn Backend>, Arc<ModelCard>)> {
        let allowed = self.routes.get(route);
        let may = |card: &ModelCard| {
            card.upstream != EMBEDDED
                || allowed.is_none_or(|names| names.iter().any(|name| name == EMBEDDED))
        };
        let found = |backend| -> Option<(&Arc<dyn Backend>, Arc<ModelCard>)> {
            let backend: &Arc<dyn Backend> = backend;
            let card = match name {
                Some(name) => backend.card(name)?,
                None => backend.model(None).ok()?,
            };
            may(&card).then_some((backend, card))
        };
        match (name, allowed) {
            (None, None) => found(&self.first),
            _ => self.all().find_map(found),
        }
    }

    /// The error for a name that nobody answers to.
    fn unknown(&self, name: Option<&str>) -> ApiError {
        match name {
            Some(name) => crate::unknown_model(name, &self.models()),
            None => crate::backend::unnamed(&self.models()),
        }
    }
}

impl Backend for Several {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        self.all().flat_map(|backend| backend.models()).collect()
    }

    fn card(&self, name: &str) -> Option<Arc<ModelCard>> {
        self.all().find_map(|backend| backend.card(name))
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        match name {
            None => self.first.model(None),
            Some(name) => self.card(name).ok_or_else(|| self.unknown(Some(name))),
        }
    }

    fn model_on(&self, name: Option<&str>, route: &str) -> Result<Arc<ModelCard>, ApiError> {
        match self.of(name, route) {
            Some((backend, _)) => backend.model_on(name, route),
            // As if it were not there: what other routes have is not this caller's to know.
            None => self.model(name).and_then(|_| match name {
                Some(name) => Err(crate::unknown_model(name, &[])),
                None => Err(crate::backend::unnamed(&[])),
            }),
        }
    }

    fn name(&self) -> &str {
        self.first.name()
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        match self.of(call.model.as_deref(), &call.origin.route) {
            Some((backend, _)) => backend.start(call),
            None => {
                let error = self.unknown(call.model.as_deref());
                Box::pin(async move { Err(error) })
            }
        }
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        let model = match &prompt {
            Prompt::Request(inbound) => inbound.model.clone(),
            _ => None,
        };
        let found = model.as_deref().and_then(|name| self.of(Some(name), ""));
        found.map_or(&self.first, |(backend, _)| backend).tokenize(prompt)
    }

    fn tokenize_call(&self, call: Call) -> Answer<Vec<u32>> {
        let found = self.of(call.model.as_deref(), &call.origin.route);
        found.map_or(&self.first, |(backend, _)| backend).tokenize_call(call)
    }

    fn count_tokens(&self, call: Call) -> Answer<usize> {
        let found = self.of(call.model.as_deref(), &call.origin.route);
        found.map_or(&self.first, |(backend, _)| backend).count_tokens(call)
    }

    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>> {
        self.first.tokenize_piece(text)
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        self.first.detokenize(ids)
    }

    /// Every one of them is asked, so that nothing is left that one holds. The first error is told once all were.
    fn erase(&self, whose: Option<Whose>) -> Answer<Option<Erased>> {
        let answers: Vec<_> = self.all().map(|backend| backend.erase(whose.clone())).collect();
        Box::pin(async move {
            let (mut sum, mut failed) = (None::<Erased>, None);
            for answer in answers {
                match answer.await {
                    Ok(Some(erased)) => *sum.get_or_insert_default() += erased,
                    Ok(None) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            failed.map_or(Ok(sum), Err)
        })
    }

    fn pin(&self, call: Call) -> Answer<Pinned> {
        match self.of(call.model.as_deref(), &call.origin.route) {
            Some((backend, _)) => backend.pin(call),
            None => {
                let error = self.unknown(call.model.as_deref());
                Box::pin(async move { Err(error) })
            }
        }
    }

    /// Of the first that has a prefix cache of its own.
    fn pins(&self, whose: Whose) -> Answer<Option<Pins>> {
        let answers: Vec<_> = self.all().map(|backend| backend.pins(whose.clone())).collect();
        Box::pin(async move {
            for answer in answers {
                if let Some(pins) = answer.await? {
                    return Ok(Some(pins));
                }
            }
            Ok(None)
        })
    }

    fn unpin(&self, whose: Whose, id: u64) -> Answer<bool> {
        let answers: Vec<_> = self.all().map(|backend| backend.unpin(whose.clone(), id)).collect();
        Box::pin(async move {
            for answer in answers {
                if answer.await? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Of the first that has a prefix cache of its own.
    fn prefix_map(&self, scopes: Vec<TenantScope>, limit: usize) -> Answer<Option<PrefixMap>> {
        let answers: Vec<_> =
            self.all().map(|backend| backend.prefix_map(scopes.clone(), limit)).collect();
        Box::pin(async move {
            for answer in answers {
                if let Some(map) = answer.await? {
                    return Ok(Some(map));
                }
            }
            Ok(None)
        })
    }

    /// Of the first that has a prefix cache of its own.
    fn holdings(&self, scopes: Vec<TenantScope>) -> Answer<Option<Holdings>> {
        let answers: Vec<_> = self.all().map(|backend| backend.holdings(scopes.clone())).collect();
        Box::pin(async move {
            for answer in answers {
                if let Some(holdings) = answer.await? {
                    return Ok(Some(holdings));
                }
            }
            Ok(None)
        })
    }

    fn upstreams(&self) -> Vec<UpstreamStats> {
        self.all().flat_map(|backend| backend.upstreams()).collect()
    }

    fn stats(&self) -> Option<BackendStats> {
        self.all().find_map(|backend| backend.stats())
    }

    fn shutdown(&self, limit: Duration) {
        self.all().for_each(|backend| backend.shutdown(limit));
    }
}
