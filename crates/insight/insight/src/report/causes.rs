//! Why calls reused less than they could, and what that cost.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use tapri_ledger::MissReason;

use super::Observation;

/// Sums by reason.
#[derive(Debug, Clone, Default)]
pub struct Causes {
    by_reason: BTreeMap<MissReason, Sum>,
}

#[derive(Debug, Clone, Default)]
struct Sum {
    calls: u64,
    tokens: u64,
    money: BTreeMap<String, Decimal>,
}

/// One reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Why.
    pub reason: MissReason,
    /// Calls that missed for it.
    pub calls: u64,
    /// Their prompt tokens that weren't in the cache: what could have been saved at most.
    pub tokens: u64,
    /// What reading them cost above reading them from the cache: an estimate, and at most that. By currency.
    pub money: Vec<(String, Decimal)>,
}

impl Causes {
    pub(super) fn add(&mut self, call: &Observation) {
        let Some(reason) = call.reason.filter(|reason| !reason.is_expected()) else { return };
        let sum = self.by_reason.entry(reason).or_default();
        sum.calls += 1;
        if let (Some(prompt), Some(cached)) = (call.prompt, call.cached) {
            sum.tokens = sum.tokens.saturating_add(prompt.saturating_sub(cached));
        }
        if let Some(missed) = call.priced.as_ref().and_then(|priced| priced.missed.as_ref()) {
            let money = sum.money.entry(missed.currency.clone()).or_default();
            *money = money.saturating_add(missed.amount);
        }
    }

    /// The reasons, the most tokens first.
    pub(super) fn finish(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self
            .by_reason
            .iter()
            .map(|(reason, sum)| Cause {
                reason: *reason,
                calls: sum.calls,
                tokens: sum.tokens,
                money: sum.money.clone().into_iter().collect(),
            })
            .collect();
        causes.sort_by_key(|cause| std::cmp::Reverse((cause.tokens, cause.calls)));
        causes
    }
}
