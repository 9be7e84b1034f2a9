//! A call on its way.

use tapri_api::{Admission, CallEvent};
use tapri_upstream::CallStream;

/// A call that was admitted. Dropping it cancels it.
#[derive(Debug)]
pub struct Running {
    admission: Admission,
    events: CallStream,
}

impl Running {
    pub(crate) fn new(admission: Admission, events: CallStream) -> Self {
        Running { admission, events }
    }

    /// What was known when it was admitted.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// What comes after the admission; `None` after `Finished` or `Failed`. Can be dropped while it waits
    /// without losing an event.
    pub async fn next(&mut self) -> Option<CallEvent> {
        self.events.next().await
    }
}
