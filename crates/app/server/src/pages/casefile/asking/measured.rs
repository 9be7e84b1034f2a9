//! What a question took: its cost, and why less was reused than could be.

use tapri_casefile::{CostFigures, ReasonFigures};
use tapri_ledger::{Cost, Explanation};

/// What the calls of a question cost together; unknown where one of them has no price.
#[derive(Debug, Default)]
pub(super) struct Costs {
    sum: Option<Cost>,
    unknown: bool,
}

impl Costs {
    pub(super) fn add(&mut self, cost: Option<&Cost>) {
        let Some(cost) = cost else {
            self.unknown = true;
            return;
        };
        match &mut self.sum {
            Some(sum) => {
                sum.paid.amount += cost.paid.amount;
                sum.without_cache.amount += cost.without_cache.amount;
            }
            None => self.sum = Some(cost.clone()),
        }
    }

    pub(super) fn figures(self) -> Option<CostFigures> {
        let Cost { paid, without_cache, price_list, .. } = self.sum.filter(|_| !self.unknown)?;
        Some(CostFigures {
            paid: paid.amount.to_string(),
            without: without_cache.amount.to_string(),
            saved: (without_cache.amount - paid.amount).normalize().to_string(),
            currency: paid.currency,
            list: price_list,
        })
    }
}

/// Why less was reused than could be; nothing where there was no more to reuse.
pub(super) fn reason(found: Explanation) -> Option<ReasonFigures> {
    if found.reason.is_expected() {
        return None;
    }
    Some(ReasonFigures {
        reason: found.reason.as_str().to_owned(),
        suggestion: found.suggestion,
        shared: found.shared_tokens,
        page: found.place.as_ref().and_then(|place| place.page),
        place: found.place.map(|place| place.path),
    })
}
