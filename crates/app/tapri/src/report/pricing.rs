//! What the calls of a report cost.

use std::collections::HashMap;

use tapri_insight::prices::{PriceBook, PriceList};
use tapri_insight::report::{Observation, Priced};

/// Names of models whose price is remembered.
const REMEMBERED: usize = 10_000;

/// Prices calls from a book, by the model's name.
pub(super) struct Pricing {
    book: PriceBook,
    known: HashMap<String, Option<PriceList>>,
}

impl Pricing {
    pub(super) fn new(book: PriceBook) -> Self {
        Pricing { book, known: HashMap::new() }
    }

    /// Prices a call. What was estimated when the call was made stays; only what its misses cost is added.
    pub(super) fn price(&mut self, call: &mut Observation) {
        let name = call.model.as_deref().unwrap_or_default();
        if !self.known.contains_key(name) {
            if self.known.len() == REMEMBERED {
                self.known.clear();
            }
            self.known.insert(name.to_owned(), self.book.find(name).ok().cloned());
        }
        let Some(list) = self.known.get(name).and_then(Option::as_ref) else { return };
        let Some(found) = Priced::with(list, call) else { return };
        match &mut call.priced {
            Some(priced) => {
                if priced.paid.currency == found.paid.currency {
                    priced.missed = found.missed;
                }
            }
            None => call.priced = Some(found),
        }
    }
}
