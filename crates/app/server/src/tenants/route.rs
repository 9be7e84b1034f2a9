//! Which route a request takes.
//!
//! A route is a name that caches, upstreams and records have settings for. The header `x-tapri-route` names one;
//! else it is the first that the tenant may take and whose models fit. Where no route is configured, the path of the
//! API stands for it.

use std::sync::Arc;

use tapri_api::{ApiError, ErrorKind};

use super::{Snapshot, Tenant};

/// The header that names a route.
pub(crate) const HEADER: &str = "x-tapri-route";

/// A route, as far as the server chooses it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteConfig {
    /// Its name.
    pub name: String,
    /// The models it is for; `*` stands for any characters. Empty for all.
    pub models: Vec<String>,
}

impl RouteConfig {
    /// Whether it is for a model. A request that names none takes the model that is served.
    pub fn takes(&self, model: Option<&str>) -> bool {
        self.models.is_empty()
            || model.is_none_or(|model| self.models.iter().any(|pattern| fits(pattern, model)))
    }
}

/// Whether a pattern with `*` fits a name, whole.
pub fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else { return false };
        name = &name[at + part.len()..];
    }
    true
}

/// The route of a request; `None` where none is configured for it.
pub(crate) fn choose(
    snapshot: &Snapshot,
    tenant: &Tenant,
    named: Option<&str>,
    model: Option<&str>,
) -> Result<Option<Arc<RouteConfig>>, ApiError> {
    let own = tenant.config.routes.as_deref();
    let may = |route: &RouteConfig| own.is_none_or(|own| own.contains(&route.name));
    if let Some(name) = named {
        // Whether a route exists is nobody's business who may not take it.
        let found = snapshot.routes.iter().find(|route| route.name == name && may(route));
        return found.cloned().map(Some).ok_or_else(|| {
            forbidden(format!("This key may not take a route `{name}`"), "route_not_allowed")
        });
    }
    let found = snapshot.routes.iter().find(|route| may(route) && route.takes(model));
    match (found, own, model) {
        (None, Some(_), Some(model)) => {
            Err(forbidden(format!("This key may not use a model `{model}`"), "model_not_allowed")
                .at("model"))
        }
        (None, Some(_), None) => {
            Err(forbidden("This key may take no route".to_owned(), "route_not_allowed"))
        }
        (found, _, _) => Ok(found.cloned()),
    }
}

fn forbidden(message: String, code: &'static str) -> ApiError {
    ApiError::new(ErrorKind::Forbidden, message)
        .code(code)
        .hint("Ask for one that /v1/models lists, or have the operator allow it")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tenants::{AccessConfig, TenantConfig, Tenants};
    use proptest::prelude::*;

    fn chosen(
        own: Option<&[&str]>,
        named: Option<&str>,
        model: Option<&str>,
    ) -> Result<String, u16> {
        let route = |name: &str, models: &[&str]| RouteConfig {
            name: name.into(),
            models: models.iter().map(|model| (*model).into()).collect(),
        };
        let routes = vec![
            route("legal", &["law-*"]),
            route("gpt", &["gpt-4o", "o*-mini"]),
            route("rest", &[]),
        ];
        let own = own.map(|own| own.iter().map(|name| (*name).into()).collect());
        let tenant = TenantConfig { name: "a".into(), routes: own, ..TenantConfig::default() };
        let config = AccessConfig { tenants: vec![tenant], routes, ..AccessConfig::default() };
        let now = Tenants::new(config).unwrap().current();
        choose(&now, &now.tenants[0], named, model)
            .map(|route| route.map_or_else(String::new, |route| route.name.clone()))
            .map_err(|error| error.status())
    }

    #[test]
    fn the_first_that_fits_and_is_allowed() {
        assert_eq!(chosen(None, None, Some("law-7b")).unwrap(), "legal");
        assert_eq!(chosen(None, None, Some("gpt-4o")).unwrap(), "gpt");
        assert_eq!(chosen(None, None, Some("gpt-4o-x")).unwrap(), "rest");
        assert_eq!(chosen(None, None, None).unwrap(), "legal");
        assert_eq!(chosen(None, Some("gpt"), Some("law-7b")).unwrap(), "gpt", "named");
        assert_eq!(chosen(Some(&["gpt", "rest"]), None, Some("law-7b")).unwrap(), "rest");
    }

    #[test]
    fn what_is_not_allowed_and_what_is_not_there_read_alike() {
        assert_eq!(chosen(Some(&["gpt"]), None, Some("law-7b")), Err(403));
        assert_eq!(chosen(Some(&["gpt"]), None, Some("no-such")), Err(403));
        assert_eq!(chosen(Some(&["gpt"]), Some("legal"), None), Err(403));
        assert_eq!(chosen(Some(&["gpt"]), Some("no-such"), None), Err(403));
        assert_eq!(chosen(Some(&[]), None, None), Err(403));
    }

    proptest! {
        /// Against the plain definition of a glob.
        #[test]
        fn globs(pattern in "[ab*]{0,6}", name in "[ab]{0,6}") {
            fn plain(pattern: &[u8], name: &[u8]) -> bool {
                match pattern.split_first() {
                    None => name.is_empty(),
                    Some((b'*', rest)) => (0..=name.len()).any(|skip| plain(rest, &name[skip..])),
                    Some((c, rest)) => name.first() == Some(c) && plain(rest, &name[1..]),
                }
            }
            prop_assert_eq!(fits(&pattern, &name), plain(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
