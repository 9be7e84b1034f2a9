//! What is to be erased.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::exact::Tags;

/// What is to be erased: what matches all that is given. Nothing given matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// The tenant's name.
    pub tenant: Option<String>,
    /// The route's name.
    pub route: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// A session that got the answer.
    pub session: Option<String>,
    /// The document the call was about.
    pub document: Option<String>,
    /// Given longer ago than this.
    pub older_than: Option<Duration>,
}

impl Filter {
    /// Whether it matches everything.
    pub fn is_all(&self) -> bool {
        *self == Filter::default()
    }

    /// In milliseconds since 1970: what was given before this is old enough.
    pub fn before(&self, now: u64) -> Option<u64> {
        self.older_than.map(|age| now.saturating_sub(age.as_millis() as u64))
    }

    /// Whether an answer with these tags, given at this time, is to go.
    pub fn matches(&self, tags: &Tags, created: u64, now: u64) -> bool {
        let Filter { tenant, route, model, session, document, older_than: _ } = self;
        let is = |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|it| it == has);
        is(tenant, &tags.tenant)
            && is(route, &tags.route)
            && is(model, &tags.model)
            && session.as_ref().is_none_or(|it| tags.sessions.contains(it))
            && document.as_ref().is_none_or(|it| tags.document.as_ref() == Some(it))
            && self.before(now).is_none_or(|before| created < before)
    }
}
