//! Records of calls, for those who wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tapri_ledger::CallRecord;
use tapri_pipeline::Observer;

/// Records of calls that somebody waits for: what a call cost is known when its record is made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records(Arc<Mutex<HashMap<String, Option<CallRecord>>>>);

impl Records {
    /// Sees every record, and keeps those that are waited for.
    pub(crate) fn observer(&self) -> Observer {
        let records = self.clone();
        Arc::new(move |record, _| {
            let mut open = records.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = open.get_mut(&record.id) {
                *place = Some(record.clone());
            }
        })
    }

    /// Waits for a call's record until the answer is dropped.
    pub(super) fn expect(&self, call: &str) -> Expected {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(call.to_owned(), None);
        Expected { records: self.clone(), call: call.to_owned() }
    }

    pub(super) fn take(&self, call: &str) -> Option<CallRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(call).flatten()
    }
}

pub(super) struct Expected {
    records: Records,
    call: String,
}

impl Drop for Expected {
    fn drop(&mut self) {
        drop(self.records.take(&self.call));
    }
}
