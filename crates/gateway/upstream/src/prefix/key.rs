//! OpenAI's `prompt_cache_key`: calls with one key go to one machine, as long as there aren't too many of them.
//!
//! The key is made from what a prompt begins with: model, tools and system prompt, and the tenant's scope. Above some
//! 15 calls a minute a key's calls spill over to other machines and miss. So a busy start is parted: conversations are
//! spread over twice as many keys whenever the minute before had too many calls for them. Which key a conversation has
//! depends on how it opens, so all its turns have the same one; and with every doubling half of them keep theirs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::salt::{code, hex};
use super::walk::Prefix;

/// Says what the code is for.
const TAG: &[u8] = b"tapri prompt_cache_key v1";

/// Starts that are counted; the oldest are forgotten.
const MOST: usize = 4096;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy)]
struct Rate {
    since: Instant,
    calls: u32,
    parts: u32,
}

/// Makes keys, and counts how busy starts are.
#[derive(Debug, Default)]
pub struct Keys {
    rates: Mutex<HashMap<u128, Rate>>,
}

impl Keys {
    /// The key for a call. Two gateways make the same ones.
    pub fn key(
        &self,
        scope: &[u8],
        model: &str,
        prefix: &Prefix,
        rule: KeyRule,
        now: Instant,
    ) -> String {
        let parts = rule.rate.map_or(1, |rate| self.parts(prefix.head, rate, now));
        let part = prefix.opening % u64::from(parts);
        let digest = hex(&code(b"", &[TAG, scope, model.as_bytes(), &prefix.head.to_le_bytes()]));
        let longest = rule.chars.unwrap_or(64);
        let tail = format!("-{part}");
        // 128 bits tell starts apart.
        let most = 32.min(longest.saturating_sub(tail.len()));
        format!("{}{tail}", &digest[..most])
    }

    /// Over how many keys a start is spread now.
    fn parts(&self, head: u128, rate: u32, now: Instant) -> u32 {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if rates.len() >= MOST && !rates.contains_key(&head) {
            // What has been quiet longest goes first; a sweep now and then is cheap at this size.
            rates.retain(|_, rate| now.duration_since(rate.since) < 2 * MINUTE);
            if rates.len() >= MOST {
                rates.clear();
            }
        }
        let entry = rates.entry(head).or_insert(Rate { since: now, calls: 0, parts: 1 });
        let passed = now.duration_since(entry.since);
        if passed >= MINUTE {
            let wanted = entry.calls.div_ceil(rate.max(1)).max(1).next_power_of_two();
            // It grows at once and shrinks by half a minute: parting again costs misses.
            let idle = (passed.as_secs() / 60).min(16) as u32;
            entry.parts = wanted.max(entry.parts >> idle).max(1);
            (entry.since, entry.calls) = (now, 0);
        }
        entry.calls = entry.calls.saturating_add(1);
        entry.parts
    }
}

/// What a provider says of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyRule {
    /// Calls a minute for one key.
    pub rate: Option<u32>,
    /// The longest key.
    pub chars: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, ManualClock};

    fn prefix(head: u128, opening: u64) -> Prefix {
        Prefix { head, opening, ..Prefix::default() }
    }

    const RULE: KeyRule = KeyRule { rate: Some(15), chars: Some(64) };

    #[test]
    fn the_same_start_has_the_same_key_and_tenants_never_share_one() {
        let (keys, now) = (Keys::default(), Instant::now());
        let key = |scope: &[u8], head| keys.key(scope, "m", &prefix(head, 9), RULE, now);
        assert_eq!(key(b"a", 1), key(b"a", 1));
        assert_ne!(key(b"a", 1), key(b"b", 1));
        assert_ne!(key(b"a", 1), key(b"a", 2));
        assert!(key(b"a", 1).len() <= 64);
    }

    #[test]
    fn a_busy_start_is_parted_and_conversations_stay_together() {
        let (keys, clock) = (Keys::default(), ManualClock::default());
        let minute = |calls: u64| {
            let mut used: HashMap<String, u64> = HashMap::new();
            for call in 0..calls {
                // Forty conversations, their openings scattered.
                let opening = (call % 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 7;
                let key = keys.key(b"s", "m", &prefix(1, opening), RULE, clock.now());
                *used.entry(key).or_default() += 1;
                clock.advance(MINUTE / calls as u32);
            }
            used
        };
        assert_eq!(minute(120).len(), 1, "nothing is known in the first minute");
        let busy = minute(120);
        // Eight keys; forty openings are spread over them by chance.
        assert!((6..=8).contains(&busy.len()), "120 calls a minute need 8 keys: {busy:?}");
        assert!(busy.values().all(|calls| *calls <= 30), "spread: {busy:?}");
        let calm: Vec<usize> = (0..5).map(|_| minute(10).len()).collect();
        assert_eq!(calm.last(), Some(&1), "few calls need one key again: {calm:?}");
    }
}
