//! What the pages of calls, caches and savings say alike.

/// What the pages of calls, caches and savings say alike.
#[derive(Debug)]
pub(crate) struct OperatorTexts {
    pub(crate) unknown: &'static str,
    pub(crate) seconds: &'static str,
    pub(crate) minutes: &'static str,
    pub(crate) hours: &'static str,
    pub(crate) days: &'static str,
    pub(crate) ago: &'static str,
    pub(crate) hidden: &'static str,
    pub(crate) hidden_hint: &'static str,
    pub(crate) operators: &'static str,
    pub(crate) operators_hint: &'static str,
    pub(crate) unreadable: &'static str,
    pub(crate) unreadable_hint: &'static str,
}

pub(super) const ENGLISH: OperatorTexts = OperatorTexts {
    unknown: "unknown",
    seconds: "{} s",
    minutes: "{} min",
    hours: "{} h",
    days: "{0} {0|day|days}",
    ago: "{} ago",
    hidden: "This server does not tell its tenants what its caches had.",
    hidden_hint: "Ask the operator, who can show it on this page.",
    operators: "This page tells of all tenants, so it is for the operator alone.",
    operators_hint: "Sign out, and sign in with the operator's admin key.",
    unreadable: "The ledger of calls could not be read",
    unreadable_hint: "The server's log says why. Calls are answered all the same.",
};
