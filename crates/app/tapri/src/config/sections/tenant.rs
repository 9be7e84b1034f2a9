//! `[[tenant]]`: who may call, how much, and by which routes.

use tapri_server::tenants::key::{KeyHash, NoHash};
use tapri_server::tenants::limits::Limits;

use super::{Names, named};
use crate::config::reader::{Section, number, truth};
use crate::config::secret::Secret;
use crate::report::period::share;

/// `[[tenant]]`.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) keys: Vec<Key>,
    pub(crate) limits: Limits,
    pub(crate) routes: Option<Vec<String>>,
    pub(crate) sees_hits: bool,
}

/// A key: its hash, or where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    Hash(KeyHash),
    Kept(Secret),
}

pub(super) fn read(
    section: &Section<'_, '_>,
    routes: &[String],
    names: &mut Names,
) -> Option<Tenant> {
    let name = names.take("tenant", section);
    let keys = section.list("keys", true, key).unwrap_or_default();
    let tenant = Tenant {
        name: name.unwrap_or_default(),
        keys: keys.into_iter().map(|at| at.value).collect(),
        limits: limits(&section.section("limits")),
        routes: named(section, "routes", "route", routes),
        sees_hits: section.or("sees_hits", true, truth),
    };
    section.end();
    (!tenant.name.is_empty()).then_some(tenant)
}

fn limits(section: &Section<'_, '_>) -> Limits {
    let limits = Limits {
        requests: section.get("requests_per_minute", number),
        tokens: section.get("tokens_per_minute", number),
        concurrent: section.get("concurrent", number),
        kv_share: section.get("kv_share", |text| match share(text)? {
            share if share > 0.0 => Ok(share),
            _ => Err("a share of nothing leaves nothing to run with".to_owned()),
        }),
    };
    section.end();
    limits
}

/// `sha256:HEX`, `env:NAME` or `file:PATH`. A key in the clear is refused, with the line that may stand there.
fn key(text: &str) -> Result<Key, String> {
    if let Ok(hash) = text.parse() {
        return Ok(Key::Hash(hash));
    }
    if text.starts_with("sha256:") {
        return Err(NoHash.to_string());
    }
    if let Ok(secret) = Secret::parse(text) {
        return Ok(Key::Kept(secret));
    }
    Err(format!(
        "a key is not written here in the clear; its hash may be, which is \"{}\"",
        KeyHash::of(text)
    ))
}
