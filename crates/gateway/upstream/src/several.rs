//! Several backends as one: a call goes to the one that has its model.

use std::sync::Arc;
use std::time::Duration;

use tapri_api::{ApiError, Call, Prompt, TenantScope};

use crate::{
    Answer, Backend, BackendStats, CallStream, Erased, ModelCard, PrefixMap, UpstreamStats,
};

/// Backends, of which the first answers what names no model. Of two that have a model of one name the earlier is asked.
pub struct Several {
    first: Arc<dyn Backend>,
    others: Vec<Arc<dyn Backend>>,
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
        Several { first, others }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn of(&self, model: Option<&str>) -> Option<&Arc<dyn Backend>> {
        match model {
            None => Some(&self.first),
            Some(name) => self.all().find(|backend| backend.card(name).is_some()),
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
            Some(name) => self.card(name).ok_or_else(|| crate::unknown_model(name, &self.models())),
        }
    }

    fn name(&self) -> &str {
        self.first.name()
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        match self.of(call.model.as_deref()) {
            Some(backend) => backend.start(call),
            None => {
                let error =
                    crate::unknown_model(call.model.as_deref().unwrap_or_default(), &self.models());
                Box::pin(async move { Err(error) })
            }
        }
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        let model = match &prompt {
            Prompt::Request(inbound) => inbound.model.clone(),
            _ => None,
        };
        self.of(model.as_deref()).unwrap_or(&self.first).tokenize(prompt)
    }

    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>> {
        self.first.tokenize_piece(text)
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        self.first.detokenize(ids)
    }

    /// Every one of them is asked, so that nothing is left that one holds. The first error is told once all were.
    fn erase(&self, scope: Option<TenantScope>) -> Answer<Option<Erased>> {
        let answers: Vec<_> = self.all().map(|backend| backend.erase(scope.clone())).collect();
        Box::pin(async move {
            let (mut sum, mut failed) = (None::<Erased>, None);
            for answer in answers {
                match answer.await {
                    Ok(Some(erased)) => {
                        let sum = sum.get_or_insert_default();
                        sum.dropped += erased.dropped;
                        sum.in_use += erased.in_use;
                    }
                    Ok(None) => {}
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            failed.map_or(Ok(sum), Err)
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
