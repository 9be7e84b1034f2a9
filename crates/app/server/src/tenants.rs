//! Who calls, what that tenant may do, and which part of every cache is its own.
//!
//! [`Tenants`] is read once for each request and can be replaced while calls run: a call keeps what it was admitted
//! with. What a tenant has used of its limits is kept under its name, so that a reload forgives nothing.
//!
//! Without keys there is one tenant, and nobody is asked for a key.
//!
//! Map: [`key`] API keys and their hashes; [`key_file`] a file of them; [`limits`] what may be used, and counting it;
//! [`secret`] the server's secret and the scopes made from it; [`route`] which route a request takes; [`caller`] one
//! request's tenant.

pub mod caller;
pub mod key;
pub mod key_file;
pub mod limits;
pub mod route;
pub mod secret;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use tapri_api::{Origin, TenantScope};

use key::KeyHash;
use limits::{Limits, Used};
use route::RouteConfig;
use secret::ServerSecret;

/// One tenant, as it is configured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TenantConfig {
    /// Its name in records and metrics.
    pub name: String,
    /// The hashes of its API keys.
    pub keys: Vec<KeyHash>,
    /// What it may use.
    pub limits: Limits,
    /// The routes it may take; `None` for all.
    pub routes: Option<Vec<String>>,
    /// Whether its answers say nothing of what the caches had.
    pub hides_hits: bool,
}

/// Who may call, and by which routes.
#[derive(Debug, Clone, Default)]
pub struct AccessConfig {
    /// The tenants. Where none has a key, there is one tenant and no key is asked for.
    pub tenants: Vec<TenantConfig>,
    /// The routes, in the order in which they are tried.
    pub routes: Vec<RouteConfig>,
    /// What scopes are made from. Without it every tenant has the empty scope, which only one tenant may have.
    pub secret: Option<ServerSecret>,
    /// The key that opens `/admin`.
    pub admin_key: Option<KeyHash>,
}

/// Why a configuration of tenants can't be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Two tenants have one name.
    #[error("two tenants are named {0:?}")]
    SameName(String),
    /// Two tenants have one key, so it names neither.
    #[error("the tenants {0:?} and {1:?} have the same API key")]
    SameKey(String, String),
    /// Several tenants, and no key for any: nobody could be told apart.
    #[error("there are {0} tenants and no API key for any of them")]
    NoKeys(usize),
    /// There are keys and no secret: scopes could not be told apart.
    #[error("there are tenants with keys, and no server secret to keep their caches apart")]
    NoSecret,
    /// A tenant is given a route that isn't there.
    #[error("the tenant {tenant:?} has the route {route:?}, and there is none of that name")]
    NoRoute {
        /// The tenant.
        tenant: String,
        /// The route.
        route: String,
    },
}

/// A tenant, as calls see it.
pub struct Tenant {
    pub(crate) config: TenantConfig,
    pub(crate) scope: TenantScope,
    pub(crate) used: Arc<Used>,
}

impl Tenant {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }
}

impl fmt::Debug for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenant").field("name", &self.config.name).finish_non_exhaustive()
    }
}

/// What is true at one time.
pub(crate) struct Snapshot {
    /// Every key, and whose it is.
    keys: Vec<(KeyHash, u32)>,
    pub(crate) tenants: Vec<Arc<Tenant>>,
    pub(crate) routes: Vec<Arc<RouteConfig>>,
    pub(crate) admin_key: Option<KeyHash>,
    secret: Option<ServerSecret>,
}

impl Snapshot {
    /// The scope that a tenant of this name has, had or would have; `None` where all have one.
    pub(crate) fn scope_of(&self, tenant: &str) -> Option<TenantScope> {
        self.secret.as_ref().map(|secret| secret.scope(tenant))
    }

    /// Whether callers must show a key.
    pub(crate) fn asks_for_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The tenant of a key. Every key is compared, whole, whichever fits: the time says nothing about them.
    /// (The cost is some 20 ns a key.)
    pub(crate) fn of_key(&self, key: &str) -> Option<&Arc<Tenant>> {
        self.of_hash(&KeyHash::of(key))
    }

    /// The same by the key's hash.
    pub(crate) fn of_hash(&self, asked: &KeyHash) -> Option<&Arc<Tenant>> {
        let mut found = 0u32;
        let mut any = Choice::from(0);
        for (hash, tenant) in &self.keys {
            let same = hash.0.ct_eq(&asked.0);
            found.conditional_assign(tenant, same);
            any |= same;
        }
        if bool::from(any) { self.tenants.get(found as usize) } else { None }
    }

    /// Whether a key's hash is a tenant's or the admin key's.
    pub(crate) fn knows(&self, asked: &KeyHash) -> bool {
        self.is_admin(asked) || self.of_hash(asked).is_some()
    }

    /// Whether a key's hash is the admin key's. Compared in constant time.
    pub(crate) fn is_admin(&self, asked: &KeyHash) -> bool {
        self.admin_key.as_ref().is_some_and(|key| key.0.ct_eq(&asked.0).into())
    }
}

/// Where the time comes from: tests move it.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// The tenants of a server. Shared by all its requests, and replaced as a whole.
pub struct Tenants {
    current: RwLock<Arc<Snapshot>>,
    clock: Clock,
}

impl Default for Tenants {
    /// The one tenant, without a key, a limit or a secret.
    fn default() -> Self {
        let config =
            TenantConfig { name: Origin::DEFAULT_TENANT.to_owned(), ..TenantConfig::default() };
        let now = Instant::now();
        let used = Arc::new(Used::new(now));
        let tenant = Arc::new(Tenant { config, scope: TenantScope::default(), used });
        let snapshot = Snapshot {
            keys: Vec::new(),
            tenants: vec![tenant],
            routes: Vec::new(),
            admin_key: None,
            secret: None,
        };
        Tenants { current: RwLock::new(Arc::new(snapshot)), clock: Arc::new(Instant::now) }
    }
}

impl Tenants {
    /// From a configuration. One that can't be is an error and nothing is served.
    pub fn new(config: AccessConfig) -> Result<Self, AccessError> {
        Tenants::with_clock(config, Arc::new(Instant::now))
    }

    /// The same on a clock of one's own.
    pub fn with_clock(config: AccessConfig, clock: Clock) -> Result<Self, AccessError> {
        let snapshot = snapshot(config, &HashMap::new(), clock())?;
        Ok(Tenants { current: RwLock::new(Arc::new(snapshot)), clock })
    }

    /// Replaces the configuration. Calls that run keep what they have; an error changes nothing.
    pub fn reload(&self, config: AccessConfig) -> Result<(), AccessError> {
        let used: HashMap<String, Arc<Used>> = self
            .current()
            .tenants
            .iter()
            .map(|tenant| (tenant.config.name.clone(), Arc::clone(&tenant.used)))
            .collect();
        let next = Arc::new(snapshot(config, &used, (self.clock)())?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    pub(crate) fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn now(&self) -> Instant {
        (self.clock)()
    }
}

impl fmt::Debug for Tenants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenants").field("tenants", &self.current().tenants).finish_non_exhaustive()
    }
}

fn snapshot(
    config: AccessConfig,
    used: &HashMap<String, Arc<Used>>,
    now: Instant,
) -> Result<Snapshot, AccessError> {
    let AccessConfig { mut tenants, routes, secret, admin_key } = config;
    if tenants.is_empty() {
        let name = Origin::DEFAULT_TENANT.to_owned();
        tenants.push(TenantConfig { name, ..TenantConfig::default() });
    }
    if tenants.len() > 1 && tenants.iter().all(|tenant| tenant.keys.is_empty()) {
        return Err(AccessError::NoKeys(tenants.len()));
    }
    let mut keys: Vec<(KeyHash, u32)> = Vec::new();
    let mut built: Vec<Arc<Tenant>> = Vec::with_capacity(tenants.len());
    for (index, tenant) in (0u32..).zip(tenants) {
        if built.iter().any(|other| other.config.name == tenant.name) {
            return Err(AccessError::SameName(tenant.name));
        }
        for key in &tenant.keys {
            let other = keys.iter().find(|(known, of)| known == key && *of != index);
            if let Some(other) = other.and_then(|(_, of)| built.get(*of as usize)) {
                return Err(AccessError::SameKey(other.config.name.clone(), tenant.name));
            }
            keys.push((*key, index));
        }
        for route in tenant.routes.iter().flatten() {
            if !routes.iter().any(|known| known.name == *route) {
                return Err(AccessError::NoRoute { tenant: tenant.name, route: route.clone() });
            }
        }
        let scope =
            secret.as_ref().map_or_else(TenantScope::default, |secret| secret.scope(&tenant.name));
        let used = used.get(&tenant.name).cloned().unwrap_or_else(|| Arc::new(Used::new(now)));
        built.push(Arc::new(Tenant { config: tenant, scope, used }));
    }
    if secret.is_none() && built.len() > 1 {
        return Err(AccessError::NoSecret);
    }
    let routes = routes.into_iter().map(Arc::new).collect();
    Ok(Snapshot { keys, tenants: built, routes, admin_key, secret })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn tenant(name: &str, keys: &[&str]) -> TenantConfig {
        let keys = keys.iter().map(|key| KeyHash::of(key)).collect();
        TenantConfig { name: name.into(), keys, ..TenantConfig::default() }
    }

    fn access(tenants: Vec<TenantConfig>) -> AccessConfig {
        let secret = Some(ServerSecret::from_bytes([7; 32]));
        AccessConfig { tenants, secret, ..AccessConfig::default() }
    }

    #[test]
    fn a_key_names_its_tenant() {
        let tenants = vec![tenant("red", &["red-1", "red-2"]), tenant("blue", &["blue-1"])];
        let tenants = Tenants::new(access(tenants)).unwrap();
        let now = tenants.current();
        let name = |key: &str| now.of_key(key).map(|tenant| tenant.name().to_owned());
        assert_eq!(name("red-1").as_deref(), Some("red"));
        assert_eq!(name("red-2").as_deref(), Some("red"));
        assert_eq!(name("blue-1").as_deref(), Some("blue"));
        for wrong in ["", "red-3", "red", "blue-1 "] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
        let scopes: Vec<_> = now.tenants.iter().map(|tenant| tenant.scope.clone()).collect();
        assert!(scopes[0] != scopes[1] && scopes.iter().all(|scope| scope.0.len() == 32));
    }

    #[test]
    fn what_can_not_be() {
        let refused = |config| Tenants::new(config).unwrap_err().to_string();
        assert_eq!(
            refused(access(vec![tenant("a", &["1"]), tenant("a", &["2"])])),
            "two tenants are named \"a\""
        );
        assert_eq!(
            refused(access(vec![tenant("a", &["1"]), tenant("b", &["1"])])),
            "the tenants \"a\" and \"b\" have the same API key"
        );
        let mut lost = tenant("a", &["1"]);
        lost.routes = Some(vec!["legal".into()]);
        assert!(refused(access(vec![lost])).contains("\"legal\", and there is none"));
        assert!(refused(access(vec![tenant("a", &[]), tenant("b", &[])])).contains("no API key"));
        let bare =
            AccessConfig { secret: None, ..access(vec![tenant("a", &["1"]), tenant("b", &["2"])]) };
        assert!(refused(bare).contains("no server secret"));
    }

    #[test]
    fn a_reload_keeps_what_was_used_and_leaves_calls_alone() {
        let tenants = Tenants::new(access(vec![tenant("a", &["old"])])).unwrap();
        let before = tenants.current();
        let kept = Arc::clone(before.of_key("old").unwrap());
        tenants.reload(access(vec![tenant("a", &["new"]), tenant("b", &["b"])])).unwrap();
        let after = tenants.current();
        assert!(after.of_key("old").is_none());
        assert!(Arc::ptr_eq(&after.of_key("new").unwrap().used, &kept.used));
        assert!(before.of_key("old").is_some(), "a call that runs keeps its own");
        assert!(tenants.reload(access(vec![tenant("a", &["1"]), tenant("a", &["2"])])).is_err());
        assert!(tenants.current().of_key("new").is_some(), "an error changes nothing");
    }
}
