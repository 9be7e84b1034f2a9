//! Whether starts come back, learnt from those that did.
//!
//! Storing a token costs `write`, reading it `read`, and reading anew 1. A stored start that is read r times pays where
//! `write - 1 < (1 - read) * r`. How often a start will be read isn't known when it is stored, so r is taken from the
//! starts of the same tenant and place: those that came back within their life to those that did not, each with one more
//! than was seen, so that nothing is known at first. With Anthropic's five minutes the first start is stored (0.25 <
//! 0.9); three that never come back end it; and it begins again once some do.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Place;
use crate::prefix::salt::code;

/// Starts that are remembered, in two generations.
const MOST: usize = 65_536;

/// Tenants and places whose returns are counted.
const MOST_RATES: usize = 8192;

/// Counts are halved here, so that what was true last week fades.
const HALVE: f64 = 256.0;

#[derive(Debug, Clone, Copy)]
struct Stored {
    at: Instant,
    marked: bool,
}

#[derive(Debug, Default)]
struct Inner {
    young: HashMap<(Place, u64), Stored>,
    old: HashMap<(Place, u64), Stored>,
    rates: HashMap<(Place, u64), (f64, f64)>,
}

/// What was seen of starts.
#[derive(Debug, Default)]
pub struct Reuse {
    inner: Mutex<Inner>,
}

impl Reuse {
    /// Whether a marker at a place pays. It is seen by asking: a start is remembered under `hash`, and comes back where any of
    /// `before` is. `can` says whether a marker can be set at all.
    pub fn pays(
        &self,
        place: Place,
        scope: &[u8],
        hash: u64,
        before: &[u64],
        life: Duration,
        read: f64,
        write: f64,
        now: Instant,
        can: bool,
    ) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |stored: &Stored| now.duration_since(stored.at) < life;
        let found: Vec<Stored> = before
            .iter()
            .filter_map(|hash| {
                let key = (place, *hash);
                inner.young.get(&key).or_else(|| inner.old.get(&key)).copied().filter(fresh)
            })
            .collect();
        let (came, stored) = (!found.is_empty(), found.iter().any(|stored| stored.marked));
        let digest = code(b"", &[scope]);
        let mut short = [0; 8];
        short.copy_from_slice(&digest[..8]);
        let who = (place, u64::from_le_bytes(short));
        if inner.rates.len() >= MOST_RATES && !inner.rates.contains_key(&who) {
            inner.rates.clear();
        }
        let rate = inner.rates.entry(who).or_default();
        if rate.0 + rate.1 >= HALVE {
            *rate = (rate.0 / 2.0, rate.1 / 2.0);
        }
        // What is known before this one decides about it.
        let reads = (rate.0 + 1.0) / (rate.1 + 1.0);
        if came {
            rate.0 += 1.0;
        } else {
            rate.1 += 1.0;
        }
        // What is stored is read for less than reading anew, whatever becomes of it.
        let marked = can && (stored || write - 1.0 < (1.0 - read) * reads);
        if inner.young.len() >= MOST / 2 {
            inner.old = std::mem::take(&mut inner.young);
        }
        inner.young.insert((place, hash), Stored { at: now, marked });
        marked
    }
}
