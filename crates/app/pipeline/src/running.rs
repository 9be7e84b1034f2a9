//! A call on its way.

use std::time::Duration;

use tapri_api::cache_status::Member;
use tapri_api::{Admission, CacheDirectives, CacheStatus, CallEvent, Usage};
use tapri_ledger::{CacheResult, Explanation};
use tapri_upstream::CallStream;

use crate::exact::Exact;
use crate::recording::Recording;
use crate::semantic::Semantic;

/// A call that was admitted. Dropping it cancels it.
#[derive(Debug)]
pub struct Running {
    admission: Admission,
    directives: CacheDirectives,
    events: CallStream,
    recording: Recording,
    exact: Option<Exact>,
    semantic: Option<Semantic>,
}

impl Running {
    pub(crate) fn new(
        admission: Admission,
        directives: CacheDirectives,
        events: CallStream,
        recording: Recording,
        exact: Option<Exact>,
        semantic: Option<Semantic>,
    ) -> Self {
        Running { admission, directives, events, recording, exact, semantic }
    }

    /// What was known when it was admitted.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// What is known of the prompt's tokens before the answer: from the prefix cache's look at it, or from a stored answer.
    pub fn prompt_usage(&self) -> Option<Usage> {
        let reuse = self.admission.reuse.as_ref();
        let computed = reuse.map(|it| Usage::from_prompt(it.prompt, it.cached, it.joined, 0));
        computed.or_else(|| self.exact.as_ref()?.usage)
    }

    /// What each cache on the way did, the one nearest the model first.
    pub fn cache_status(&self) -> CacheStatus {
        let prefix = self.admission.reuse.as_ref();
        let prefix = prefix.map(|reuse| Member::prefix(reuse, self.directives));
        let exact = self.exact.as_ref().map(|exact| exact.member.clone());
        let semantic = self.semantic.as_ref().map(|semantic| semantic.member.clone());
        CacheStatus(prefix.into_iter().chain(semantic).chain(exact).collect())
    }

    /// How old the answer is, where it is a stored one (RFC 9111's `Age`).
    pub fn age(&self) -> Option<Duration> {
        self.semantic.as_ref().and_then(|it| it.age).or_else(|| self.exact.as_ref()?.age)
    }

    /// What the exact cache did, where there is one.
    pub fn exact(&self) -> Option<&CacheResult> {
        self.exact.as_ref().map(|exact| &exact.result)
    }

    /// Whether what comes is another call's answer: a stored one, or that of a call in flight.
    pub fn is_replay(&self) -> bool {
        self.exact().is_some_and(|exact| exact.outcome.is_replay())
    }

    /// Whether the exact cache kept the answer; known at the end, and only of calls that it may keep.
    pub fn is_kept(&self) -> Option<bool> {
        self.exact.as_ref()?.kept.as_ref()?.is_kept()
    }

    /// Why it reused less than it could; `None` where it reused all, and where nobody looks. May be asked for at any time,
    /// best at the end: it waits for the comparison with earlier prompts.
    pub fn explanation(&self) -> impl Future<Output = Option<Explanation>> + Send + use<> {
        let found = self.recording.explain();
        // A panic in there is a defect; the answer goes on without.
        async move { found?.await.unwrap_or_default() }
    }

    /// What comes after the admission; `None` after `Finished` or `Failed`. Can be dropped while it waits
    /// without losing an event.
    pub async fn next(&mut self) -> Option<CallEvent> {
        let event = self.events.next().await?;
        self.recording.see(&event);
        Some(event)
    }
}
