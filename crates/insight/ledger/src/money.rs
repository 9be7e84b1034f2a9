//! Exact amounts of money.

use std::fmt;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Serialize};

/// An amount and its currency: `Rs`, `USD`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// How much.
    pub amount: Decimal,
    /// Of what.
    pub currency: String,
}

impl Money {
    /// An amount in a currency.
    pub fn new(amount: Decimal, currency: impl Into<String>) -> Self {
        Money { amount: amount.normalize(), currency: currency.into() }
    }

    /// With so many places after the point, halves away from zero.
    pub fn rounded(&self, places: u32) -> String {
        let shown =
            self.amount.round_dp_with_strategy(places, RoundingStrategy::MidpointAwayFromZero);
        format!("{} {shown:.*}", self.currency, places as usize)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Costs of single questions are small parts of a unit; four places are a hundredth of a paisa.
        f.write_str(&self.rounded(4))
    }
}
