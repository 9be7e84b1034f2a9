//! The measuring of one call, from its submission to its end, however it ends.

use std::sync::Arc;
use std::time::Instant;

use tapri_api::{CallEvent, Finish, FinishReason};

use crate::metrics::{Ending, Metrics};
use crate::tenants::limits::Entry;

/// Sees every event of a call. A call whose meter is dropped before its last event was left by its client.
#[derive(Debug)]
pub(crate) struct Meter {
    metrics: Arc<Metrics>,
    /// The call's place among its tenant's.
    entry: Option<Entry>,
    last_token: Option<Instant>,
    ended: bool,
}

impl Meter {
    /// Begins with a call.
    pub(crate) fn begin(metrics: Arc<Metrics>, entry: Option<Entry>) -> Self {
        Meter { metrics, entry, last_token: None, ended: false }
    }

    /// Sees an event.
    pub(crate) fn see(&mut self, event: &CallEvent) {
        if let Some(entry) = &mut self.entry {
            match event {
                CallEvent::Piece(piece) if piece.is_of_prompt() => {}
                CallEvent::Token(_) | CallEvent::Piece(_) => entry.said(),
                CallEvent::Finished(finish) => {
                    // Unknown is guessed from what was seen.
                    if let Some(tokens) = finish.usage.total() {
                        entry.finished(tokens as u64);
                    }
                }
                CallEvent::Admitted(_) | CallEvent::Prefill { .. } | CallEvent::Failed(_) => {}
            }
        }
        match event {
            CallEvent::Piece(piece) if piece.is_of_prompt() => {}
            CallEvent::Token(_) | CallEvent::Piece(_) => {
                let now = Instant::now();
                if let Some(last) = self.last_token.replace(now) {
                    self.metrics.inter_token.observe((now - last).as_secs_f64());
                }
            }
            CallEvent::Finished(finish) => self.finished(finish),
            CallEvent::Failed(_) => self.failed(),
            CallEvent::Admitted(_) | CallEvent::Prefill { .. } => {}
        }
    }

    fn finished(&mut self, finish: &Finish) {
        let metrics = &self.metrics;
        let timings = &finish.timings;
        metrics.queue.observe(timings.queued.as_secs_f64());
        metrics.end_to_end.observe(timings.total.as_secs_f64());
        if let Some(first) = timings.first_token {
            metrics.time_to_first_token.observe(first.as_secs_f64());
        }
        if let Some(answer) = finish.usage.answer().filter(|&answer| answer > 1) {
            metrics.time_per_token.observe(timings.decode.as_secs_f64() / (answer - 1) as f64);
        }
        self.end(match finish.reason {
            FinishReason::Stop
            | FinishReason::ToolCalls
            | FinishReason::ContentFilter
            | FinishReason::Pause => Ending::Stop,
            FinishReason::Length => Ending::Length,
        });
    }

    /// The call runs.
    pub(crate) fn admitted(&mut self) {
        if let Some(entry) = &mut self.entry {
            entry.admitted();
        }
    }

    /// The call ended with an error.
    pub(crate) fn failed(&mut self) {
        self.end(Ending::Error);
    }

    fn end(&mut self, ending: Ending) {
        self.ended = true;
        self.metrics.ended(ending);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if !self.ended {
            self.end(Ending::Abort);
        }
    }
}
