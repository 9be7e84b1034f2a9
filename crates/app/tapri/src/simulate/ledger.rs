//! From Tapri's own ledger to a trace.

use std::ops::ControlFlow;

use anyhow::Result;
use tapri_insight::simulate::Reader;
use tapri_ledger::Filter;

use super::SimulateArgs;
use super::files::{Input, finish};
use crate::calls;

pub(super) fn read(args: &SimulateArgs) -> Result<Input> {
    let path = args.ledger.path()?;
    let ledger = calls::open(&path)?;
    let mut reader = Reader::new(None, std::time::Duration::ZERO);
    let mut broken = 0;
    let queried = ledger.query(&Filter::default(), |record| {
        if let Err(error) = reader.record(&record) {
            broken += 1;
            if broken <= 3 {
                eprintln!("warning: call {} was left out: {error}", record.id);
            }
        }
        ControlFlow::Continue(())
    })?;
    broken += queried.unreadable;
    if broken > 0 {
        eprintln!("warning: records that can't be replayed were left out: {broken}");
    }
    finish(reader, &path.display().to_string(), 1, broken)
}
