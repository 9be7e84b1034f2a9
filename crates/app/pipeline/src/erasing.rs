//! Erasing what the caches hold: stored answers, and the KV blocks of prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tapri_api::{ApiError, Call, TenantScope};
use tapri_cache::exact::{ExactCache, Filter, StoreError};
use tapri_upstream::{Backend, Erased, Whose};

use crate::Explainer;

/// What was erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PurgeReport {
    /// Stored answers that went.
    pub answers: u64,
    /// KV blocks that nobody used; absent where the backend has no prefix cache of its own, or the filter is one
    /// that has nothing to do with prompts (a model or an age alone).
    pub kv_blocks: Option<u64>,
    /// KV blocks that running calls use to their end: no other call finds them.
    pub kv_blocks_in_use: Option<u64>,
    /// Pins that went with their blocks, where there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pins: Option<u64>,
}

/// Why not everything was erased. What could be, was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PurgeError {
    /// The store of the exact cache: what it holds is still there.
    #[error("the exact cache's store still holds what was to be erased: {0}")]
    Store(#[from] StoreError),
    /// The file of the semantic cache.
    #[error("the semantic cache still holds what was to be erased: {0}")]
    Semantic(String),
    /// The prefix cache.
    #[error("the prefix cache still holds what was to be erased: {0}")]
    Prefix(ApiError),
}

/// The scopes that each tenant's calls had in this process, one under an earlier secret included, and those that it was told
/// of: whose KV blocks are whose. Blocks in memory were left by calls of this process; those on disk may be of tenants that
/// have not called yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scopes(Arc<Mutex<BTreeMap<String, BTreeSet<Vec<u8>>>>>);

impl Scopes {
    pub(crate) fn note(&self, call: &Call) {
        self.note_scope(&call.origin.tenant, &call.scope);
    }

    pub(crate) fn note_scope(&self, tenant: &str, scope: &TenantScope) {
        let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = scopes.get_mut(tenant) {
            if !known.contains(&scope.0) {
                known.insert(scope.0.clone());
            }
            return;
        }
        scopes.insert(tenant.to_owned(), BTreeSet::from([scope.0.clone()]));
    }

    fn of(&self, tenant: &str) -> Vec<Whose> {
        let scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whose = |scope: &Vec<u8>| Whose {
            tenant: tenant.to_owned(),
            scope: TenantScope(scope.clone()),
        };
        scopes.get(tenant).into_iter().flatten().map(whose).collect()
    }

    /// Every tenant and scope.
    pub(crate) fn all(&self) -> Vec<(String, TenantScope)> {
        let scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = scopes.iter().flat_map(|(tenant, scopes)| {
            scopes.iter().map(|scope| (tenant.clone(), TenantScope(scope.clone())))
        });
        pairs.collect()
    }

    fn tenants(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

/// Erases what a filter matches.
///
/// KV blocks know whose they are, and neither which route nor which document they came from. So an erasure by route,
/// session or document takes all blocks of the tenant, or of all tenants where none is named: too much costs reading
/// prompts again, too little would be an untruth. An erasure by model or age alone is housekeeping of stored answers
/// and leaves the blocks.
pub(crate) async fn purge(
    filter: &Filter,
    exact: Option<&ExactCache>,
    backend: &Arc<dyn Backend>,
    explainer: Option<&Explainer>,
    scopes: &Scopes,
) -> Result<PurgeReport, PurgeError> {
    let Filter { tenant, route, model: _, session, document, older_than: _ } = filter;
    let concerns_prompts =
        filter.is_all() || [tenant, route, session, document].iter().any(|part| part.is_some());
    let mut report = PurgeReport::default();
    let mut kv = Ok(());
    if concerns_prompts {
        let of: Vec<Option<Whose>> = match tenant {
            Some(tenant) => scopes.of(tenant).into_iter().map(Some).collect(),
            None => vec![None],
        };
        if let Some(explainer) = explainer {
            match tenant {
                Some(tenant) => explainer.forget(tenant),
                None => scopes.tenants().iter().for_each(|tenant| explainer.forget(tenant)),
            }
        }
        for whose in of {
            match backend.erase(whose).await {
                Ok(Some(Erased { dropped, in_use, pins })) => {
                    if pins > 0 {
                        *report.pins.get_or_insert(0) += pins;
                    }
                    *report.kv_blocks.get_or_insert(0) += dropped;
                    *report.kv_blocks_in_use.get_or_insert(0) += in_use;
                }
                Ok(None) => {}
                Err(error) => kv = Err(PurgeError::Prefix(error)),
            }
        }
    }
    if let Some(exact) = exact {
        report.answers = exact.purge(filter).await?;
    }
    kv.map(|()| report)
}
