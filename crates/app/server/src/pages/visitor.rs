//! Who looks at a page. Without keys that is the one tenant, and the operator too; with keys, whoever signed in.

mod sign_ins;

use axum::http::{HeaderMap, header};
use hmac::{Hmac, Mac};
use jiff::Timestamp;
use sha2::Sha256;
use subtle::ConstantTimeEq;

pub(crate) use self::sign_ins::SignIns;
use super::Pages;
use crate::routes::App;
use crate::tenants::caller::Caller;

/// The header with the token against forged requests. A site elsewhere can't set it, and doesn't know it.
pub(crate) const CSRF: &str = "x-tapri-csrf";

/// The cookie of a sign-in: random, and nothing but a name for what the server keeps.
pub(crate) const COOKIE: &str = "tapri_session";

/// Who looks at a page.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// The tenant that the visitor acts as; none for an operator who signed in.
    pub(crate) caller: Option<Caller>,
    /// Whether the operator's pages are shown whole.
    pub(crate) operator: bool,
    /// Whether it is a sign-in, which can be ended.
    pub(crate) signed_in: bool,
    /// The token that this visitor's pages carry.
    pub(crate) csrf: String,
}

impl Visitor {
    pub(super) fn of(app: &App, pages: &Pages, headers: &HeaderMap) -> Self {
        let now = app.tenants().current();
        let cookie = cookie(headers);
        let sign_in = cookie.and_then(|name| pages.sign_ins.find(name, Timestamp::now()));
        let csrf = pages.sign_ins.token(cookie.filter(|_| sign_in.is_some()));
        if let Some(hash) = sign_in {
            // Looked up anew each time: a key that was taken out of the configuration opens nothing any more.
            let operator = now.is_admin(&hash);
            let caller = Caller::of_hash(app.tenants(), &hash);
            if operator || caller.is_some() {
                let caller = caller.or_else(|| Caller::without_key(app.tenants()));
                return Visitor { caller, operator, signed_in: true, csrf };
            }
            // It doesn't come back should the key.
            if let Some(name) = cookie {
                pages.sign_ins.leave(name);
            }
        }
        let caller = Caller::without_key(app.tenants());
        // On a machine of one's own, the person is the operator, unless a key was set aside for that.
        let operator = caller.is_some() && now.admin_key.is_none();
        Visitor { caller, operator, signed_in: false, csrf }
    }
}

impl SignIns {
    /// The token of a sign-in, or of those who have none.
    fn token(&self, cookie: Option<&str>) -> String {
        // The key of an HMAC may have any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.secret()) else {
            return String::new();
        };
        mac.update(b"pages\0");
        mac.update(cookie.unwrap_or("").as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether a token is a visitor's own.
    pub(super) fn is_token(&self, visitor: &Visitor, token: &str) -> bool {
        !token.is_empty() && visitor.csrf.as_bytes().ct_eq(token.as_bytes()).into()
    }
}

/// The cookie of a sign-in among a request's cookies.
pub(super) fn cookie(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use tapri_casefile::Store;

    use super::*;

    #[test]
    fn tokens_differ_by_sign_in_and_secret() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(&folder.path().join("cases.sqlite")).unwrap());
        let sign_ins = |secret| SignIns::new(secret, Arc::clone(&store));
        let (one, other) = (sign_ins("one"), sign_ins("other"));
        let all = [one.token(None), one.token(Some("a")), one.token(Some("b")), other.token(None)];
        for (i, token) in all.iter().enumerate() {
            assert!(token.len() == 64 && all.iter().skip(i + 1).all(|other| other != token));
        }
        assert_eq!(one.token(None), sign_ins("one").token(None), "the same after a restart");
    }
}
