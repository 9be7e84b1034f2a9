//! What is the cheapest for each start: a marker, a longer lifetime, or nothing.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rust_decimal::Decimal;
use tapri_ledger::Money;

use crate::cost::calls::SeenCall;
use crate::cost::plan::long_answers;
use crate::cost::policy::{Policy, Use, gap, replay};
use crate::cost::starts::{Start, Tree};
use crate::cost::unhelpful::Unhelpful;
use crate::prices::{Billed, PriceBook, PriceList, Rates, Split, Tier};

/// A part of a prompt with fewer tokens says nothing when it comes again.
const SMALL_PART: u64 = 8;

/// How many different parts are remembered of a tenant and model: enough to see a habit, in bounded memory.
const MOST_PARTS: usize = 1 << 20;

/// What was found over some calls.
#[derive(Debug, Clone, Default)]
pub struct Advice {
    /// By tenant and model; what could save most comes first.
    pub groups: Vec<Group>,
    /// Calls to models that the price list doesn't know, by model.
    pub unpriced: BTreeMap<String, u64>,
}

/// One tenant's calls to one model.
#[derive(Debug, Clone)]
pub struct Group {
    /// The tenant.
    pub tenant: String,
    /// The model.
    pub model: String,
    /// Its prices.
    pub prices: PriceList,
    /// How many calls.
    pub calls: u64,
    /// Tokens of their prompts.
    pub prompt_tokens: u64,
    /// Of those, in a start that another call shares.
    pub shared_tokens: u64,
    /// Tokens of their answers.
    pub answer_tokens: u64,
    /// Whether tokens were estimated from lengths of text.
    pub estimated: bool,
    /// All of them without a cache.
    pub without: Money,
    /// All of them, each start kept as is cheapest for it.
    pub best: Money,
    /// The starts; what could save most comes first.
    pub starts: Vec<StartAdvice>,
    /// Why caching does not help these calls, or hardly.
    pub unhelpful: Vec<Unhelpful>,
}

/// What is best for a start.
#[derive(Debug, Clone)]
pub struct StartAdvice {
    /// The first call that began with it.
    pub first: String,
    /// How many calls begin with it.
    pub calls: u64,
    /// Tokens that all of them share, from the prompt's first on.
    pub tokens: u64,
    /// Tokens of the longest beginning that at least two of them share: more than `tokens` where it grows.
    pub longest: u64,
    /// Of `tokens`, those at the top that other starts share as well: a marker of their own, with its own advice.
    pub above: u64,
    /// From one call to the next: the median, and the longest.
    pub gaps: Option<(Duration, Duration)>,
    /// How many calls began while another was still writing the same.
    pub crowded: u64,
    /// Each way to keep it, and what its tokens, less those above, would have cost.
    pub policies: Vec<(Policy, Money)>,
    /// The cheapest of them; of equals the simplest.
    pub best: Policy,
    /// Why keeping it does not help.
    pub unhelpful: Option<Unhelpful>,
}

impl StartAdvice {
    /// What a way costs.
    #[must_use]
    pub fn cost(&self, policy: Policy) -> Option<&Money> {
        self.policies.iter().find(|(own, _)| *own == policy).map(|(_, money)| money)
    }

    /// What the best way saves against none.
    #[must_use]
    pub fn saved(&self) -> Decimal {
        let amount = |policy| self.cost(policy).map_or(Decimal::ZERO, |money| money.amount);
        amount(Policy::Nothing) - amount(self.best)
    }
}

/// Gathers calls, in any order.
pub struct Gathering {
    prices: PriceBook,
    groups: BTreeMap<(String, String), Gathered>,
    unpriced: BTreeMap<String, u64>,
}

struct Gathered {
    prices: PriceList,
    tree: Tree,
    prompt: u64,
    answer: u64,
    estimated: bool,
    without: Split,
    parts: HashMap<u64, PartSeen>,
}

/// A part that was seen, by its text alone.
struct PartSeen {
    tokens: u64,
    calls: u64,
    /// The call that had it last: a prompt that repeats itself counts once.
    last: usize,
    /// The print of all before it; `None` once it was another.
    behind: Option<u64>,
}

impl Gathering {
    /// With these prices.
    #[must_use]
    pub fn new(prices: PriceBook) -> Self {
        Gathering { prices, groups: BTreeMap::new(), unpriced: BTreeMap::new() }
    }

    /// Takes a call.
    pub fn add(&mut self, call: &SeenCall) {
        let key = (call.tenant.clone(), call.model.clone());
        let group = match self.groups.entry(key) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let Ok(list) = self.prices.find(&call.model) else {
                    *self.unpriced.entry(call.model.clone()).or_default() += 1;
                    return;
                };
                entry.insert(Gathered::new(list.clone()))
            }
        };
        group.add(call);
    }

    /// What was found.
    #[must_use]
    pub fn finish(self) -> Advice {
        let mut groups: Vec<_> = self
            .groups
            .into_iter()
            .map(|((tenant, model), group)| group.finish(tenant, model))
            .collect();
        // Amounts of two currencies can't be compared, but sorted.
        groups.sort_by_key(|group| std::cmp::Reverse(group.without.amount - group.best.amount));
        Advice { groups, unpriced: self.unpriced }
    }
}

impl Gathered {
    fn new(prices: PriceList) -> Self {
        let zero = Decimal::ZERO;
        Gathered {
            prices,
            tree: Tree::default(),
            prompt: 0,
            answer: 0,
            estimated: false,
            without: Split { uncached: zero, cached: zero, written: zero, answer: zero },
            parts: HashMap::new(),
        }
    }

    fn add(&mut self, call: &SeenCall) {
        self.tree.add(call);
        self.prompt = self.prompt.saturating_add(call.prompt);
        self.answer = self.answer.saturating_add(call.answer);
        self.estimated |= call.estimated;
        let billed = Billed { uncached: call.prompt, answer: call.answer, ..Billed::default() };
        let split = self.prices.split(&billed);
        self.without.uncached += split.uncached;
        self.without.answer += split.answer;
        let mut behind = 0u64;
        let number = self.tree.calls.len();
        for (print, tokens) in &call.parts {
            let room = self.parts.len() < MOST_PARTS;
            if let Some(seen) = self.parts.get_mut(print) {
                if seen.last != number {
                    seen.calls += 1;
                    seen.last = number;
                    seen.behind = seen.behind.filter(|own| *own == behind);
                }
            } else if room {
                let seen =
                    PartSeen { tokens: *tokens, calls: 1, last: number, behind: Some(behind) };
                self.parts.insert(*print, seen);
            }
            behind = behind.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ print;
        }
    }

    fn finish(self, tenant: String, model: String) -> Group {
        let lists = rates(&self.prices);
        let mut starts: Vec<_> = self
            .tree
            .starts()
            .iter()
            .map(|start| start_advice(&self.tree, start, &self.prices, &lists))
            .collect();
        starts.sort_by_key(|start| std::cmp::Reverse(start.saved()));
        let saved: Decimal = starts.iter().map(StartAdvice::saved).sum();
        let shared_tokens = self
            .tree
            .calls
            .iter()
            .fold(0u64, |sum, call| sum.saturating_add(self.tree.shared(call)));
        let unhelpful = self.unhelpful(&starts, shared_tokens);
        Group {
            tenant,
            model,
            calls: self.tree.calls.len() as u64,
            prompt_tokens: self.prompt,
            shared_tokens,
            answer_tokens: self.answer,
            estimated: self.estimated,
            without: self.prices.money(self.without.total()),
            best: self.prices.money(self.without.total() - saved),
            starts,
            unhelpful,
            prices: self.prices,
        }
    }

    fn unhelpful(&self, starts: &[StartAdvice], shared: u64) -> Vec<Unhelpful> {
        let mut found = Vec::new();
        let rates = self.prices.rates(Tier::Standard, 0);
        if rates.cached() >= rates.input {
            found.push(Unhelpful::NoDiscount);
        }
        let calls = self.tree.calls.len() as u64;
        if let Some(minimum) = self.prices.minimum
            && self.prompt / calls.max(1) < minimum
        {
            found.push(Unhelpful::ShortPrompt { tokens: self.prompt / calls.max(1), minimum });
        } else if shared.saturating_mul(2) < self.prompt {
            // Less than half of what was read could have been reused at all.
            let again = self.again_behind_something_new();
            found.push(if calls >= 2 && again.saturating_mul(2) >= self.prompt {
                Unhelpful::ChangingTop
            } else if calls < 2 || shared > 0 {
                Unhelpful::OneQuestion
            } else {
                Unhelpful::UnsharedStarts
            });
        }
        // The starts are worth something, and none can be kept long enough.
        let gaps = starts.iter().filter_map(|start| match &start.unhelpful {
            Some(why @ Unhelpful::LongGaps { .. }) => Some((start.calls, why)),
            _ => None,
        });
        if starts.iter().all(|start| start.best == Policy::Nothing)
            && let Some((_, why)) = gaps.max_by_key(|(calls, _)| *calls)
        {
            found.push(why.clone());
        }
        found.extend(long_answers(&self.without, rates.input, rates.cached()));
        found
    }

    /// Tokens in parts that came more than once, and not always behind the same text.
    fn again_behind_something_new(&self) -> u64 {
        let again = self
            .parts
            .values()
            .filter(|part| part.calls >= 2 && part.behind.is_none() && part.tokens >= SMALL_PART);
        again.fold(0, |sum, part| sum.saturating_add(part.tokens.saturating_mul(part.calls)))
    }
}

/// A list's rates by prompt length: the thresholds, and the rates below the first, between, and above the last.
fn rates(list: &PriceList) -> (Vec<u64>, Vec<Rates>) {
    let thresholds = list.thresholds(Tier::Standard);
    let mut all = vec![list.rates(Tier::Standard, 0).clone()];
    all.extend(thresholds.iter().map(|above| list.rates(Tier::Standard, above + 1).clone()));
    (thresholds, all)
}

fn start_advice(
    tree: &Tree,
    start: &Start,
    list: &PriceList,
    (thresholds, rates): &(Vec<u64>, Vec<Rates>),
) -> StartAdvice {
    let minimum = list.minimum.unwrap_or(0);
    let uses: Vec<(Use, usize)> = start
        .calls
        .iter()
        .map(|(call, reaches)| {
            let call = &tree.calls[*call];
            let one = Use {
                at: call.at,
                ready: call.ready,
                // A marker further down the same prompt covers this start as well.
                cacheable: tree.shared(call) >= minimum,
                rates: thresholds.partition_point(|above| call.prompt > *above),
            };
            (one, *reaches)
        })
        .collect();
    // The uses of a segment are those that reach it.
    let by_segment: Vec<(u64, Vec<Use>)> = start
        .segments
        .iter()
        .enumerate()
        .map(|(at, segment)| {
            let uses = uses.iter().filter(|(_, reaches)| *reaches >= at).map(|(one, _)| *one);
            (segment.tokens, uses.collect())
        })
        .collect();
    let policies: Vec<_> = Policy::all(list)
        .into_iter()
        .map(|policy| {
            let mut cost = Decimal::ZERO;
            for (tokens, uses) in &by_segment {
                for (counts, rates) in replay(uses, policy, rates.len()).iter().zip(rates) {
                    cost += counts.million(rates, policy) * Decimal::from(*tokens);
                }
            }
            (policy, list.money(cost / Decimal::from(1_000_000)))
        })
        .collect();
    let best = policies
        .iter()
        .min_by(|a, b| a.1.amount.cmp(&b.1.amount))
        .map_or(Policy::Nothing, |(policy, _)| *policy);
    let times: Vec<_> = uses.iter().map(|(one, _)| *one).collect();
    let mut gaps: Vec<_> = times.windows(2).map(|two| gap(two[0].at, two[1].at)).collect();
    gaps.sort();
    let gaps = gaps.get(gaps.len() / 2).copied().zip(gaps.last().copied());
    let crowded = times.windows(2).filter(|two| gap(two[0].at, two[1].at) < two[0].ready).count();
    let longest = start.segments.last().map_or(0, |segment| segment.depth);
    let kept = policies.iter().filter_map(|(policy, _)| match policy {
        Policy::Kept(lifetime) => Some(lifetime.duration()),
        _ => None,
    });
    let lifetime = kept.max().unwrap_or_default();
    let unhelpful = if best != Policy::Nothing {
        None
    } else if times.iter().all(|one| !one.cacheable) {
        Some(Unhelpful::ShortPrompt { tokens: longest, minimum })
    } else {
        gaps.filter(|(median, _)| *median > lifetime)
            .map(|(gap, _)| Unhelpful::LongGaps { gap, lifetime })
    };
    StartAdvice {
        first: start.calls.first().map_or_else(String::new, |(at, _)| tree.calls[*at].name.clone()),
        calls: start.calls.len() as u64,
        tokens: start.segments.first().map_or(0, |segment| segment.depth),
        longest,
        above: start.above,
        gaps,
        crowded: crowded as u64,
        policies,
        best,
        unhelpful,
    }
}

#[cfg(test)]
#[path = "advice/tests.rs"]
mod tests;
