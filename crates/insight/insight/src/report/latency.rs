//! The time to the first token, hits against misses: caching can add delay, and a difference can be chance.
//!
//! Hits tend to have longer prompts than misses (conversations grow), and models differ. So calls are compared among
//! those of one model and like prompt length (within a factor of two), by van Elteren's stratified rank test (1960):
//! the Wilcoxon-Mann-Whitney test in each stratum, weighted. It holds for any distribution of times; buckets of the
//! histogram are ties, and corrected for. Calls in a burst are not independent, so the level is strict.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use statrs::function::erf::erfc;

use super::Observation;
use crate::histogram::Histogram;

/// Models with strata of their own.
const MODELS: usize = 64;
/// Fewer hits or misses than this are not compared.
const ENOUGH: u64 = 10;
/// A difference at least this unlikely without a cause is one.
const LEVEL: f64 = 0.001;

/// Durations of hits and misses, by model and prompt length.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    models: Vec<String>,
    strata: BTreeMap<(u8, u16), Pair>,
}

/// Durations of hits and of misses.
#[derive(Debug, Clone, Default)]
pub struct Pair {
    /// Calls with cached tokens.
    pub hits: Histogram,
    /// Calls with none.
    pub misses: Histogram,
}

/// What came of comparing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyReport {
    /// All calls, compared within strata.
    pub all: Comparison,
    /// By prompt length, the shortest first: where both have enough calls.
    pub by_length: Vec<ByLength>,
}

/// Calls of one prompt length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ByLength {
    /// The fewest tokens.
    pub from: u64,
    /// One more than the most tokens.
    pub to: u64,
    /// The comparison. Its p-value is Holm's, corrected for the number of lengths.
    pub comparison: Comparison,
}

/// Hits against misses.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Times of hits.
    pub hits: Times,
    /// Times of misses.
    pub misses: Times,
    /// Of all pairs of a hit and a miss of one model and like length, the share in which the hit was slower; ties
    /// count half. `None` where there are no such pairs.
    pub hit_slower: Option<f64>,
    /// How likely a difference as large is by chance, two-sided.
    pub p_value: Option<f64>,
    /// What follows.
    pub finding: Finding,
}

/// Times of some calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Times {
    /// How many.
    pub calls: u64,
    /// Their median, in seconds.
    pub median: Option<f64>,
    /// Bounds of the median at 95 percent, in seconds.
    pub bounds: Option<(f64, f64)>,
    /// The 95th percentile, in seconds.
    pub p95: Option<f64>,
}

/// What a comparison shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Too few hits or misses to tell.
    #[default]
    TooFew,
    /// No difference that couldn't be chance.
    NoDifference,
    /// Hits are faster.
    HitsFaster,
    /// Hits are slower: caching adds delay.
    HitsSlower,
}

impl Latency {
    pub(super) fn add(&mut self, call: &Observation) {
        let (Some(ttft), Some(prompt), Some(cached)) = (call.ttft, call.prompt, call.cached) else {
            return;
        };
        let model = self.model(call.model.as_deref().unwrap_or(""));
        let pair = self.strata.entry((octave(prompt), model)).or_default();
        let side = if cached > 0 { &mut pair.hits } else { &mut pair.misses };
        side.add(ttft);
    }

    fn model(&mut self, name: &str) -> u16 {
        let at = self.models.iter().position(|known| known == name).unwrap_or_else(|| {
            if self.models.len() < MODELS {
                self.models.push(name.to_owned());
                self.models.len() - 1
            } else {
                MODELS
            }
        });
        at as u16
    }

    /// All hits and all misses.
    #[must_use]
    pub fn merged(&self) -> Pair {
        merge(self.strata.values())
    }

    pub(super) fn report(&self) -> LatencyReport {
        let mut by_length: Vec<ByLength> = Vec::new();
        let octaves: std::collections::BTreeSet<u8> = self.strata.keys().map(|key| key.0).collect();
        for octave in octaves {
            let strata: Vec<&Pair> =
                self.strata.range((octave, 0)..=(octave, u16::MAX)).map(|(_, pair)| pair).collect();
            let comparison = compare(&strata);
            if comparison.p_value.is_some() {
                by_length.push(ByLength {
                    from: (1u64 << octave) >> 1,
                    to: 1 << octave,
                    comparison,
                });
            }
        }
        holm(&mut by_length);
        LatencyReport { all: compare(&self.strata.values().collect::<Vec<_>>()), by_length }
    }
}

/// The number of binary digits: lengths of one octave are within a factor of two.
fn octave(prompt: u64) -> u8 {
    // Above 2^62 there are no prompts.
    (u64::BITS - prompt.leading_zeros()).min(62) as u8
}

fn merge<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Pair {
    pairs.fold(Pair::default(), |mut all, pair| {
        all.hits.merge(&pair.hits);
        all.misses.merge(&pair.misses);
        all
    })
}

fn times(histogram: &Histogram) -> Times {
    let seconds = |duration: Duration| duration.as_secs_f64();
    Times {
        calls: histogram.count(),
        median: histogram.quantile(0.5).map(seconds),
        bounds: histogram.median_bounds().map(|(low, high)| (seconds(low), seconds(high))),
        p95: histogram.quantile(0.95).map(seconds),
    }
}

fn compare(strata: &[&Pair]) -> Comparison {
    let all = merge(strata.iter().copied());
    let mut found =
        Comparison { hits: times(&all.hits), misses: times(&all.misses), ..Comparison::default() };
    let ranks: Vec<Ranks> = strata.iter().filter_map(|pair| Ranks::of(pair)).collect();
    let sum = |of: fn(&Ranks) -> f64| ranks.iter().map(of).sum::<f64>();
    let pairs = sum(|r| r.hits * r.misses);
    if pairs > 0.0 {
        found.hit_slower = Some(sum(|r| r.slower) / pairs);
    }
    // Those that stand beside nothing to be compared with don't count.
    if sum(|r| r.hits) < ENOUGH as f64 || sum(|r| r.misses) < ENOUGH as f64 {
        return found;
    }
    let weight = |r: &Ranks| 1.0 / (r.hits + r.misses + 1.0);
    let excess: f64 = ranks.iter().map(|r| weight(r) * (r.slower - r.hits * r.misses / 2.0)).sum();
    let variance: f64 = ranks.iter().map(|r| weight(r).powi(2) * r.variance).sum();
    // All times in one bucket: nothing differs.
    let z = if variance > 0.0 { excess / variance.sqrt() } else { 0.0 };
    let p = erfc(z.abs() / std::f64::consts::SQRT_2);
    found.p_value = Some(p);
    found.finding = finding(p, found.hit_slower);
    found
}

fn finding(p: f64, hit_slower: Option<f64>) -> Finding {
    match hit_slower {
        Some(share) if p < LEVEL && share > 0.5 => Finding::HitsSlower,
        Some(share) if p < LEVEL && share < 0.5 => Finding::HitsFaster,
        _ => Finding::NoDifference,
    }
}

/// The Wilcoxon-Mann-Whitney statistic of one stratum.
struct Ranks {
    hits: f64,
    misses: f64,
    /// Pairs in which the hit was slower; ties count half.
    slower: f64,
    /// Its variance where nothing differs, corrected for ties.
    variance: f64,
}

impl Ranks {
    fn of(pair: &Pair) -> Option<Ranks> {
        let (hits, misses) = (pair.hits.count() as f64, pair.misses.count() as f64);
        if hits == 0.0 || misses == 0.0 {
            return None;
        }
        let all = hits + misses;
        let (mut misses_below, mut slower, mut ties) = (0.0, 0.0, 0.0);
        for (hit, miss) in pair.hits.side_by_side(&pair.misses) {
            let (hit, miss) = (hit as f64, miss as f64);
            slower += hit * (misses_below + miss / 2.0);
            misses_below += miss;
            let tied = hit + miss;
            ties += tied.powi(3) - tied;
        }
        let variance = hits * misses / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
        Some(Ranks { hits, misses, slower, variance })
    }
}

/// Holm's step-down correction (1979): the chance of any false finding among the lengths stays the level.
fn holm(rows: &mut [ByLength]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| rows[*a].comparison.p_value.total_cmp_none(&rows[*b].comparison.p_value));
    let mut least: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        let left = (rows.len() - rank) as f64;
        let comparison = &mut rows[at].comparison;
        let corrected = (comparison.p_value.unwrap_or(1.0) * left).min(1.0).max(least);
        least = corrected;
        comparison.p_value = Some(corrected);
        comparison.finding = finding(corrected, comparison.hit_slower);
    }
}

trait TotalCmp {
    fn total_cmp_none(&self, other: &Self) -> std::cmp::Ordering;
}

impl TotalCmp for Option<f64> {
    /// `None` last.
    fn total_cmp_none(&self, other: &Self) -> std::cmp::Ordering {
        self.unwrap_or(f64::INFINITY).total_cmp(&other.unwrap_or(f64::INFINITY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(prompt: u64, cached: u64, ttft_ms: u64) -> Observation {
        Observation {
            prompt: Some(prompt),
            cached: Some(cached),
            ttft: Some(Duration::from_millis(ttft_ms)),
            ..Observation::default()
        }
    }

    /// A small generator with a seed (SplitMix64).
    struct Random(u64);

    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }

        /// Log-normal, as times to the first token are: heavy to the right.
        fn time(&mut self, median_ms: f64) -> u64 {
            let (a, b) = (self.unit().max(1e-12), self.unit());
            let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
            (median_ms * (0.6 * normal).exp()) as u64
        }
    }

    fn report(calls: impl Iterator<Item = Observation>) -> LatencyReport {
        let mut latency = Latency::default();
        calls.for_each(|call| latency.add(&call));
        latency.report()
    }

    #[test]
    fn the_statistic_is_the_textbooks() {
        // Hits 1, 2, 5 ms; misses 3, 4 ms: of six pairs the hit is slower in two.
        let pair = |hits: &[u64], misses: &[u64]| {
            let mut pair = Pair::default();
            hits.iter().for_each(|ms| pair.hits.add(Duration::from_millis(*ms)));
            misses.iter().for_each(|ms| pair.misses.add(Duration::from_millis(*ms)));
            Ranks::of(&pair).map(|ranks| (ranks.slower, ranks.variance))
        };
        assert_eq!(pair(&[1, 2, 5], &[3, 4]), Some((2.0, 3.0)));
        // With ties 2, 2 | 2: 3 of 3 tied, no variance left.
        assert_eq!(pair(&[2, 2], &[2]), Some((1.0, 0.0)));
        assert_eq!(pair(&[], &[2]), None);
    }

    #[test]
    fn a_real_delay_is_said() {
        let mut random = Random(1);
        let found = report((0..400).map(|n| {
            let hit = n % 2 == 0;
            call(700, if hit { 640 } else { 0 }, random.time(if hit { 500.0 } else { 400.0 }))
        }));
        assert_eq!(found.all.finding, Finding::HitsSlower, "{found:?}");
        assert_eq!(found.by_length.len(), 1);
        assert_eq!((found.by_length[0].from, found.by_length[0].to), (512, 1024));
        assert_eq!(found.by_length[0].comparison.finding, Finding::HitsSlower);
    }

    #[test]
    fn chance_is_no_delay() {
        // Two thousand logs without any difference: at the level of 0.001 about two are expected to be called one.
        let mut claims = 0;
        for seed in 0..2000 {
            let mut random = Random(seed);
            let found = report(
                (0..100).map(|n| call(700, if n % 3 == 0 { 640 } else { 0 }, random.time(400.0))),
            );
            claims += u32::from(found.all.finding != Finding::NoDifference);
        }
        // More than nine has a chance of 5e-5 for a Poisson mean of 2.
        assert!(claims <= 9, "{claims} of 2000");
    }

    #[test]
    fn longer_prompts_are_compared_with_longer_ones() {
        // Hits are twice as fast at every length, and still slower over all, since long prompts are those that hit.
        let mut random = Random(7);
        let found = report((0..1000).map(|n| {
            let long = n % 2 == 0;
            let hit = if long { n % 20 != 0 } else { n % 20 == 1 };
            let (prompt, cold) = if long { (30_000, 8000.0) } else { (600, 160.0) };
            call(
                prompt,
                if hit { 512 } else { 0 },
                random.time(if hit { cold / 2.0 } else { cold }),
            )
        }));
        assert!(found.all.hits.median > found.all.misses.median);
        assert_eq!(found.all.finding, Finding::HitsFaster, "{found:?}");
    }

    #[test]
    fn few_calls_say_nothing() {
        let found = report((0..30).map(|n| call(700, if n < 25 { 640 } else { 0 }, 1 + n)));
        assert_eq!(found.all.finding, Finding::TooFew);
        assert!(found.by_length.is_empty());
        assert_eq!(report(std::iter::empty()).all.finding, Finding::TooFew);
    }
}
