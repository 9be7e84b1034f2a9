//! The ledger as pages read it, and how much of it a visitor may see.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use tapri_ledger::{CallRecord, Ledger, OpenError, QueryError};

use super::render::{self, Frame, Refused};
use super::texts::ENGLISH;
use super::visitor::Visitor;
use crate::routes::App;

/// Whose calls a visitor may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sees {
    /// The operator: everyone's.
    All,
    /// A tenant: its own.
    Own(String),
}

impl Sees {
    /// Of a visitor of a page. A tenant that is not told what caches had is shown none of it here either.
    pub(crate) fn of(
        app: &App,
        visitor: &Visitor,
        path: &str,
        title: &str,
    ) -> Result<Self, Refused> {
        if visitor.operator {
            return Ok(Sees::All);
        }
        let t = &ENGLISH.operator;
        match &visitor.caller {
            Some(caller) if !app.hides_hits(caller) => Ok(Sees::Own(caller.name().to_owned())),
            _ => Err(forbidden(visitor, path, title, t.hidden, t.hidden_hint)),
        }
    }

    /// The tenant whose calls are asked for: what a tenant asks for is its own, whatever it names.
    pub(crate) fn tenant(&self, asked: Option<String>) -> Option<String> {
        match self {
            Sees::All => asked,
            Sees::Own(name) => Some(name.clone()),
        }
    }

    /// Whether a record may be seen.
    pub(crate) fn may_see(&self, record: &CallRecord) -> bool {
        match self {
            Sees::All => true,
            Sees::Own(name) => record.tenant == *name,
        }
    }

    /// A record as it may be seen: that another tenant holds the same text is for the operator alone.
    pub(crate) fn censored(&self, mut record: CallRecord) -> CallRecord {
        if *self != Sees::All
            && let Some(reason) = record.prefix.as_mut().and_then(|prefix| prefix.reason.as_mut())
            && reason == OTHER_SCOPE
        {
            NEVER_SEEN.clone_into(reason);
        }
        record
    }
}

/// The prefix cache's name for a prompt that another tenant holds, and what that tenant may know.
pub(crate) const OTHER_SCOPE: &str = "other_scope";
const NEVER_SEEN: &str = "never_seen";

/// For pages that are the operator's alone.
pub(crate) fn operators(visitor: &Visitor, path: &str, title: &str) -> Result<(), Refused> {
    let t = &ENGLISH.operator;
    match visitor.operator {
        true => Ok(()),
        false => Err(forbidden(visitor, path, title, t.operators, t.operators_hint)),
    }
}

fn forbidden(visitor: &Visitor, path: &str, title: &str, message: &str, hint: &str) -> Refused {
    let frame = Frame::new(visitor, path, title);
    render::message(StatusCode::FORBIDDEN, frame, message, Some(hint)).into()
}

/// Reads the ledger where waiting for a disk is allowed. `None` where no calls are recorded, or none was yet.
pub(crate) async fn ledger<T: Send + 'static>(
    app: &App,
    read: impl FnOnce(&Ledger) -> Result<T, QueryError> + Send + 'static,
) -> Result<Option<T>, Refused> {
    let Some(path) = app.pipeline().recorder().ledger().map(ToOwned::to_owned) else {
        return Ok(None);
    };
    let work = move || match Ledger::open_read(&path) {
        Ok(ledger) => read(&ledger).map(Some).map_err(|error| error.to_string()),
        // The first call makes it.
        Err(OpenError::Missing { .. }) => Ok(None),
        Err(error) => Err(error.to_string()),
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => {
            tracing::error!("a page could not read the ledger: {error}");
            Err(unreadable().into())
        }
        // A panic has been printed by its own hook.
        Err(_) => Err(render::failed().into()),
    }
}

fn unreadable() -> Response<Body> {
    let t = &ENGLISH.operator;
    let frame = Frame::bare(t.unreadable);
    let status = StatusCode::SERVICE_UNAVAILABLE;
    render::message(status, frame, t.unreadable, Some(t.unreadable_hint))
}

#[cfg(test)]
mod tests {
    use tapri_ledger::{CacheOutcome, CacheResult};

    use super::*;

    #[test]
    fn a_tenant_sees_its_own_calls_whatever_it_asks_for() {
        let own = Sees::Own("red".to_owned());
        assert_eq!(own.tenant(Some("blue".to_owned())).as_deref(), Some("red"));
        assert_eq!(own.tenant(None).as_deref(), Some("red"));
        assert_eq!(Sees::All.tenant(Some("blue".to_owned())).as_deref(), Some("blue"));
        let mut record = CallRecord::new("a", jiff::Timestamp::UNIX_EPOCH);
        record.tenant = "blue".to_owned();
        assert!(!own.may_see(&record) && Sees::All.may_see(&record));
        record.prefix =
            Some(CacheResult { outcome: CacheOutcome::Miss, reason: Some(OTHER_SCOPE.to_owned()) });
        let reason = |record: CallRecord| record.prefix.and_then(|prefix| prefix.reason);
        assert_eq!(reason(own.censored(record.clone())).as_deref(), Some("never_seen"));
        assert_eq!(reason(Sees::All.censored(record)).as_deref(), Some("other_scope"));
    }
}
