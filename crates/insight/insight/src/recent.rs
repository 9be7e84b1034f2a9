//! The recent prompts of each tenant, in bounded memory: what a new one is compared with.
//!
//! Tenants are apart: a prompt is only ever compared with its own tenant's. When room is needed, the oldest prompt of the
//! tenant that holds most goes, so that a busy tenant makes room for itself.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

/// What a stored prompt must be able to say.
pub trait Comparable {
    /// How much of their start two prompts share, in any unit in which more is nearer.
    fn shared(&self, other: &Self) -> usize;
    /// Whether this prompt goes on where `earlier` ends, in the same partition of the cache: whatever is near to
    /// `earlier` is then as near to this one.
    fn extends(&self, earlier: &Self) -> bool;
    /// Memory it takes, in bytes.
    fn bytes(&self) -> usize;
}

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all prompts together.
    pub bytes: usize,
    /// Prompts of one tenant.
    pub per_tenant: usize,
    /// Tenants.
    pub tenants: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // A case file with its token ids takes some 250 kB.
        Limits { bytes: 64 << 20, per_tenant: 32, tenants: 10_000 }
    }
}

/// A prompt that was seen.
#[derive(Debug)]
pub struct Seen<P> {
    /// The call's id.
    pub call: String,
    /// When it began.
    pub at: Timestamp,
    /// The prompt.
    pub prompt: Arc<P>,
}

impl<P> Clone for Seen<P> {
    fn clone(&self) -> Self {
        Seen { call: self.call.clone(), at: self.at, prompt: Arc::clone(&self.prompt) }
    }
}

/// The store.
#[derive(Debug)]
pub struct Recent<P> {
    limits: Limits,
    /// Oldest first.
    tenants: HashMap<String, VecDeque<Seen<P>>>,
    bytes: usize,
}

impl<P: Comparable> Recent<P> {
    /// An empty one.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Recent { limits, tenants: HashMap::new(), bytes: 0 }
    }

    /// Bytes of the prompts that are there.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A tenant's prompts, newest first.
    #[must_use]
    pub fn of(&self, tenant: &str) -> Vec<Seen<P>> {
        self.tenants.get(tenant).map_or_else(Vec::new, |all| all.iter().rev().cloned().collect())
    }

    /// Keeps a prompt. Those that it goes on from are let go: nothing can be nearer to them than to it. A prompt that
    /// alone is larger than the limit is not kept.
    pub fn add(&mut self, tenant: &str, seen: Seen<P>) {
        let size = seen.prompt.bytes();
        if size > self.limits.bytes {
            return;
        }
        if !self.tenants.contains_key(tenant) && self.tenants.len() >= self.limits.tenants {
            self.drop_quietest();
        }
        let all = self.tenants.entry(tenant.to_owned()).or_default();
        let bytes = &mut self.bytes;
        all.retain(|earlier| {
            let kept = !seen.prompt.extends(&earlier.prompt);
            if !kept {
                *bytes -= earlier.prompt.bytes();
            }
            kept
        });
        all.push_back(seen);
        *bytes += size;
        if all.len() > self.limits.per_tenant
            && let Some(oldest) = all.pop_front()
        {
            *bytes -= oldest.prompt.bytes();
        }
        while self.bytes > self.limits.bytes && self.drop_of_the_largest() {}
    }

    /// Forgets a tenant.
    pub fn forget(&mut self, tenant: &str) {
        for seen in self.tenants.remove(tenant).unwrap_or_default() {
            self.bytes -= seen.prompt.bytes();
        }
    }

    fn drop_of_the_largest(&mut self) -> bool {
        let held =
            |all: &VecDeque<Seen<P>>| all.iter().map(|seen| seen.prompt.bytes()).sum::<usize>();
        let Some(all) = self.tenants.values_mut().max_by_key(|all| held(all)) else { return false };
        match all.pop_front() {
            Some(oldest) => {
                self.bytes -= oldest.prompt.bytes();
                true
            }
            None => false,
        }
    }

    fn drop_quietest(&mut self) {
        let quietest = self
            .tenants
            .iter()
            .min_by_key(|(_, all)| all.back().map(|seen| seen.at))
            .map(|(tenant, _)| tenant.clone());
        if let Some(tenant) = quietest {
            self.forget(&tenant);
        }
    }
}

/// The nearest of some prompts, all that are equally near, in their order. None where nothing is shared with any.
pub fn nearest<'a, P: Comparable>(candidates: &'a [Seen<P>], prompt: &P) -> Vec<&'a Seen<P>> {
    let mut best = (1, Vec::new());
    for seen in candidates {
        let shared = prompt.shared(&seen.prompt);
        if shared > best.0 {
            best = (shared, vec![seen]);
        } else if shared == best.0 {
            best.1.push(seen);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Comparable for String {
        fn shared(&self, other: &Self) -> usize {
            self.as_bytes().iter().zip(other.as_bytes()).take_while(|(a, b)| a == b).count()
        }
        fn extends(&self, earlier: &Self) -> bool {
            self.starts_with(earlier.as_str())
        }
        fn bytes(&self) -> usize {
            self.len()
        }
    }

    fn seen(call: &str, at: i64, text: &str) -> Seen<String> {
        let at = Timestamp::from_second(at).unwrap_or_default();
        Seen { call: call.to_owned(), at, prompt: Arc::new(text.to_owned()) }
    }

    fn calls(recent: &Recent<String>, tenant: &str) -> Vec<String> {
        recent.of(tenant).into_iter().map(|seen| seen.call).collect()
    }

    #[test]
    fn a_prompt_replaces_those_it_goes_on_from() {
        let mut recent = Recent::new(Limits::default());
        recent.add("a", seen("1", 1, "system, question"));
        recent.add("a", seen("2", 2, "other"));
        recent.add("a", seen("3", 3, "system, question, answer"));
        assert_eq!(calls(&recent, "a"), ["3", "2"]);
        assert_eq!(recent.bytes(), "other".len() + "system, question, answer".len());
        let all = recent.of("a");
        let near = |text: &str| -> Vec<String> {
            nearest(&all, &text.to_owned()).iter().map(|seen| seen.call.clone()).collect()
        };
        assert_eq!(
            (near("system, q"), near("o"), near("x")),
            (vec!["3".into()], vec!["2".into()], vec![])
        );
    }

    #[test]
    fn a_busy_tenant_makes_room_for_itself() {
        let mut recent = Recent::new(Limits { bytes: 10, per_tenant: 100, tenants: 2 });
        recent.add("quiet", seen("q", 0, "qqq"));
        for n in 1..50 {
            recent.add("busy", seen(&n.to_string(), n, &format!("{n:02}")));
        }
        assert_eq!(calls(&recent, "quiet"), ["q"]);
        assert_eq!(calls(&recent, "busy"), ["49", "48", "47"]);
        recent.add("third", seen("t", 60, "t"));
        assert_eq!(calls(&recent, "quiet"), [""; 0], "the quietest goes for a new tenant");
        recent.add("third", seen("huge", 61, "more than all the room"));
        assert_eq!(calls(&recent, "third"), ["t"]);
    }

    proptest! {
        #[test]
        fn the_limits_hold_and_the_sum_is_right(
            steps in proptest::collection::vec((0u8..4, "[ab]{0,6}"), 0..60),
            bytes in 1usize..20,
            per_tenant in 1usize..4,
        ) {
            let mut recent = Recent::new(Limits { bytes, per_tenant, tenants: 3 });
            for (n, (tenant, text)) in steps.iter().enumerate() {
                recent.add(&tenant.to_string(), seen(&n.to_string(), n as i64, text));
                let sums: Vec<_> = recent.tenants.values().map(|all| {
                    assert!(all.len() <= per_tenant);
                    all.iter().map(|seen| seen.prompt.len()).sum::<usize>()
                }).collect();
                prop_assert!(sums.len() <= 3);
                prop_assert_eq!(sums.iter().sum::<usize>(), recent.bytes());
                prop_assert!(recent.bytes() <= bytes);
            }
        }
    }
}
