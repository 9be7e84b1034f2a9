//! One request's tenant: found by its key, with what was configured when it came.

use std::sync::Arc;

use axum::http::{Extensions, HeaderMap, header};
use tapri_api::{ApiError, Call, ErrorKind, TenantScope};
use tapri_pipeline::Whose;

use super::key::KeyHash;
use super::limits::{self, Entry, Left, Size};
use super::route::{self, RouteConfig};
use super::{Snapshot, Tenant, Tenants};

/// Anthropic's header for a key.
const API_KEY: &str = "x-api-key";

/// Who sends a request. Cheap to clone; the gate puts it among the request's extensions.
#[derive(Clone)]
pub struct Caller {
    tenants: Arc<Tenants>,
    now: Arc<Snapshot>,
    tenant: Arc<Tenant>,
}

impl Caller {
    /// By the key in the headers: `Authorization: Bearer KEY` or `x-api-key: KEY`. Where no keys are configured,
    /// whoever comes is the one tenant, and a key is not looked at.
    pub(crate) fn identify(tenants: &Arc<Tenants>, headers: &HeaderMap) -> Result<Self, ApiError> {
        let now = tenants.current();
        let tenant = if now.asks_for_keys() {
            let mut any = false;
            // SDKs that are pointed at another server may send a made-up key beside the real one.
            let known = shown_keys(headers).find_map(|key| {
                any = true;
                now.of_key(key)
            });
            known.ok_or_else(|| unknown_key(any))?
        } else {
            now.tenants.first().ok_or_else(|| unknown_key(false))?
        };
        let tenant = Arc::clone(tenant);
        Ok(Caller { tenants: Arc::clone(tenants), now, tenant })
    }

    /// By the hash of a key that was shown before. `None` where no tenant has it (any more).
    pub(crate) fn of_hash(tenants: &Arc<Tenants>, hash: &KeyHash) -> Option<Self> {
        let now = tenants.current();
        let tenant = Arc::clone(now.of_hash(hash)?);
        Some(Caller { tenants: Arc::clone(tenants), now, tenant })
    }

    /// The one tenant, where no keys are configured.
    pub(crate) fn without_key(tenants: &Arc<Tenants>) -> Option<Self> {
        if tenants.current().asks_for_keys() {
            return None;
        }
        Caller::first(tenants)
    }

    /// The one tenant, with a key or without; `None` where there are more.
    pub(crate) fn only(tenants: &Arc<Tenants>) -> Option<Self> {
        if tenants.current().tenants.len() > 1 {
            return None;
        }
        Caller::first(tenants)
    }

    fn first(tenants: &Arc<Tenants>) -> Option<Self> {
        let now = tenants.current();
        let tenant = Arc::clone(now.tenants.first()?);
        Some(Caller { tenants: Arc::clone(tenants), now, tenant })
    }

    /// A tenant by its name.
    pub(crate) fn named(tenants: &Arc<Tenants>, name: &str) -> Option<Self> {
        let now = tenants.current();
        let tenant = Arc::clone(now.tenants.iter().find(|tenant| tenant.name() == name)?);
        Some(Caller { tenants: Arc::clone(tenants), now, tenant })
    }

    /// As the gate left it.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, ApiError> {
        extensions.get().cloned().ok_or_else(|| {
            ApiError::new(ErrorKind::Internal, "A request came past the gate without its tenant")
        })
    }

    /// The tenant's name.
    pub fn name(&self) -> &str {
        self.tenant.name()
    }

    /// Its part of every cache.
    pub fn scope(&self) -> &TenantScope {
        &self.tenant.scope
    }

    /// Its part of the prefix cache.
    pub(crate) fn whose(&self) -> Whose {
        Whose { tenant: self.name().to_owned(), scope: self.scope().clone() }
    }

    /// Whether answers say nothing of what the caches had.
    pub fn hides_hits(&self) -> bool {
        self.tenant.config.hides_hits
    }

    /// Writes the tenant into a call: its name and its scope.
    pub(crate) fn sign(&self, call: &mut Call) {
        call.origin.tenant = self.name().to_owned().into();
        call.scope = self.tenant.scope.clone();
        call.kv_share = self.tenant.config.limits.kv_share;
    }

    /// Counts a request, or refuses it.
    pub(crate) fn count_request(&self) -> Result<(), ApiError> {
        limits::request(&self.tenant, self.tenants.now())
    }

    /// The route of a request.
    pub(crate) fn route(
        &self,
        headers: &HeaderMap,
        model: Option<&str>,
    ) -> Result<Option<Arc<RouteConfig>>, ApiError> {
        let named = headers.get(route::HEADER).map(|name| name.to_str().unwrap_or_default());
        route::choose(&self.now, &self.tenant, named, model)
    }

    /// Whether it may use a model by any of its routes.
    pub(crate) fn may_use(&self, model: &str) -> bool {
        route::choose(&self.now, &self.tenant, None, Some(model)).is_ok()
    }

    /// Takes a place for a call, and reserves its tokens.
    pub(crate) fn enter(&self, size: Size) -> Result<Entry, ApiError> {
        Entry::take(&self.tenants, &self.tenant, size)
    }

    /// What is left of its requests and of its tokens.
    pub(crate) fn left(&self) -> (Option<Left>, Option<Left>) {
        self.tenant.used.left(&self.tenant.config.limits, self.tenants.now())
    }

    /// An error as this tenant may see it: one that tells what a cache had says no more than that it isn't there.
    pub(crate) fn may_see(&self, error: ApiError) -> ApiError {
        if error.kind != ErrorKind::NotCached || !self.hides_hits() {
            return error;
        }
        ApiError { message: "The answer is not cached".to_owned(), ..error }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Caller").field(&self.tenant).finish()
    }
}

/// The keys that a request shows, in the order in which they are tried.
pub(crate) fn shown_keys(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let bearer = headers.get_all(header::AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.to_str().ok()?.trim().split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    });
    let own = headers.get_all(API_KEY).iter().filter_map(|value| Some(value.to_str().ok()?.trim()));
    bearer.chain(own)
}

fn unknown_key(shown: bool) -> ApiError {
    let (message, code) = if shown {
        ("The API key is not known here", "invalid_api_key")
    } else {
        ("This server asks for an API key, and the request has none", "missing_api_key")
    };
    ApiError::new(ErrorKind::Unauthorized, message)
        .code(code)
        .hint("Send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")
}
