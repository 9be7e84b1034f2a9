//! When a call's steps were: for traces, and kept nowhere.

use std::time::Instant;

use tapri_api::{Call, Format, Prompt};

/// When a call's steps were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    /// It came.
    pub began: Instant,
    /// What it was asked in; `None` where it was no request of an API.
    pub format: Option<Format>,
    /// The caller's span, as W3C Trace Context has it.
    pub traceparent: Option<String>,
    /// The exact cache was asked.
    pub exact: Option<Step>,
    /// The semantic cache was asked.
    pub semantic: Option<Step>,
    /// It was sent on to whoever computes answers; `None` where it wasn't.
    pub sent_on: Option<Instant>,
}

/// From when to when something lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// It began.
    pub from: Instant,
    /// It ended.
    pub to: Instant,
}

impl Step {
    /// One that ends now.
    pub(crate) fn since(from: Instant) -> Self {
        Step { from, to: Instant::now() }
    }
}

impl Steps {
    /// Of a call that comes now.
    pub(crate) fn of(call: &Call) -> Self {
        let format = match &call.prompt {
            Prompt::Request(inbound) => Some(inbound.format),
            _ => None,
        };
        Steps { format, traceparent: call.origin.traceparent.clone(), ..Steps::now() }
    }

    /// Of nothing that is known to have steps.
    pub(crate) fn now() -> Self {
        Steps {
            began: Instant::now(),
            format: None,
            traceparent: None,
            exact: None,
            semantic: None,
            sent_on: None,
        }
    }

    /// It is sent on now.
    pub(crate) fn sends_on(&mut self) {
        self.sent_on = Some(Instant::now());
    }
}
