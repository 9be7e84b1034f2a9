//! Hit rates that fell, by the statistics of [`alert`](crate::alert): what a running server would have said.

use super::Observation;
use crate::alert::{Alert, Call, Config, Subject, Watch};

/// Changes that are kept; a log with more says nothing new.
const KEPT: usize = 100;

#[derive(Debug, Clone)]
pub(super) struct Changes {
    watch: Watch,
    found: Vec<Alert>,
}

impl Changes {
    pub(super) fn new(threshold: f64) -> Self {
        Changes { watch: Watch::new(Config { threshold, ..Config::default() }), found: Vec::new() }
    }

    /// Calls without a time are left out: it isn't known which came first.
    pub(super) fn add(&mut self, call: &Observation) {
        let (Some(at), Some(prompt), Some(cached)) = (call.at, call.prompt, call.cached) else {
            return;
        };
        let (tenant, route) = (call.tenant.as_deref(), call.route.as_deref());
        let seen =
            Call { at, tenant: tenant.unwrap_or(""), route: route.unwrap_or(""), prompt, cached };
        let subjects = [
            tenant.map(|name| Subject::Tenant(name.to_owned())),
            route.map(|path| Subject::Route(path.to_owned())),
        ];
        let all = subjects.iter().all(Option::is_none).then_some(Subject::All);
        for subject in subjects.into_iter().flatten().chain(all) {
            let change = self.watch.see_as(subject, &seen);
            self.found.extend(change.filter(|_| self.found.len() < KEPT));
        }
    }

    pub(super) fn finish(self) -> Vec<Alert> {
        self.found
    }
}
