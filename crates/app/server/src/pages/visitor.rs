//! Who looks at a page. Without keys that is the one tenant, and the operator too; with keys, whoever signed in.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::Pages;
use crate::routes::App;
use crate::tenants::caller::Caller;
use crate::tenants::key::KeyHash;

/// The header with the token against forged requests. A site elsewhere can't set it, and doesn't know it.
pub(crate) const CSRF: &str = "x-tapri-csrf";

/// The cookie of a sign-in: random, and nothing but a name for what the server keeps.
pub(crate) const COOKIE: &str = "tapri_session";

/// How long a sign-in lasts after its last use: a working day.
const IDLE: Duration = Duration::from_secs(12 * 3600);

/// Sign-ins that are kept; beyond them the one that was longest unused goes.
const MOST: usize = 4096;

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
        let sign_in = cookie.and_then(|name| pages.sign_ins.find(name, app.tenants().now()));
        let csrf = pages.sign_ins.token(cookie.filter(|_| sign_in.is_some()));
        if let Some(hash) = sign_in {
            // Looked up anew each time: a key that was taken out of the configuration opens nothing any more.
            let operator = now.is_admin(&hash);
            let caller = Caller::of_hash(app.tenants(), &hash);
            if operator || caller.is_some() {
                let caller = caller.or_else(|| Caller::without_key(app.tenants()));
                return Visitor { caller, operator, signed_in: true, csrf };
            }
        }
        let caller = Caller::without_key(app.tenants());
        // On a machine of one's own, the person is the operator, unless a key was set aside for that.
        let operator = caller.is_some() && now.admin_key.is_none();
        Visitor { caller, operator, signed_in: false, csrf }
    }
}

/// Who signed in, by the random names in their cookies.
#[derive(Debug)]
pub(crate) struct SignIns {
    secret: Vec<u8>,
    open: Mutex<HashMap<String, SignIn>>,
}

#[derive(Debug, Clone)]
struct SignIn {
    key: KeyHash,
    used: Instant,
}

impl SignIns {
    pub(crate) fn new(secret: &str) -> Self {
        SignIns { secret: secret.as_bytes().to_vec(), open: Mutex::default() }
    }

    /// Signs in with a key that is known, and gives the cookie's value.
    pub(super) fn enter(&self, key: KeyHash, now: Instant) -> Result<String, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, it| now.saturating_duration_since(it.used) < IDLE);
        if open.len() >= MOST
            && let Some(oldest) =
                open.iter().min_by_key(|(_, it)| it.used).map(|(name, _)| name.clone())
        {
            open.remove(&oldest);
        }
        open.insert(name.clone(), SignIn { key, used: now });
        Ok(name)
    }

    fn find(&self, name: &str, now: Instant) -> Option<KeyHash> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let found = open.get_mut(name)?;
        if now.saturating_duration_since(found.used) >= IDLE {
            open.remove(name);
            return None;
        }
        found.used = now;
        Some(found.key)
    }

    /// Ends a sign-in.
    pub(super) fn leave(&self, name: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The token of a sign-in, or of those who have none.
    fn token(&self, cookie: Option<&str>) -> String {
        // The key of an HMAC may have any length.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.secret) else {
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
    use super::*;

    #[test]
    fn a_sign_in_ends_when_it_is_not_used() {
        let sign_ins = SignIns::new("secret");
        let begun = Instant::now();
        let name = sign_ins.enter(KeyHash::of("key"), begun).unwrap();
        let later = begun + IDLE - Duration::from_secs(1);
        assert_eq!(sign_ins.find(&name, later), Some(KeyHash::of("key")));
        assert!(sign_ins.find(&name, later + IDLE).is_none());
        assert!(sign_ins.find(&name, later).is_none(), "it is gone for good");
        let name = sign_ins.enter(KeyHash::of("key"), begun).unwrap();
        sign_ins.leave(&name);
        assert!(sign_ins.find(&name, begun).is_none());
    }

    #[test]
    fn tokens_differ_by_sign_in_and_secret() {
        let (one, other) = (SignIns::new("one"), SignIns::new("other"));
        let all = [one.token(None), one.token(Some("a")), one.token(Some("b")), other.token(None)];
        for (i, token) in all.iter().enumerate() {
            assert!(token.len() == 64 && all.iter().skip(i + 1).all(|other| other != token));
        }
        assert_eq!(one.token(None), SignIns::new("one").token(None), "the same after a restart");
    }
}
