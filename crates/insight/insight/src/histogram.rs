//! Durations of any number of calls in bounded memory.
//!
//! Buckets grow by a constant factor, so a quantile is within [`Histogram::RELATIVE_ERROR`] of the exact one whatever
//! the durations are (the idea of DDSketch: Masson, Rim and Lee, VLDB 2019).

use std::collections::BTreeMap;
use std::time::Duration;

/// Counts of durations by bucket. At most some 1,900 buckets: from a microsecond to days.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
    count: u64,
}

/// A bucket's upper end over its lower end.
const GROWTH: f64 = (1.0 + Histogram::RELATIVE_ERROR) / (1.0 - Histogram::RELATIVE_ERROR);

impl Histogram {
    /// How far a quantile is from the exact one at most, as a share of it.
    pub const RELATIVE_ERROR: f64 = 0.01;

    /// The longest duration that is told from longer ones, in microseconds: eleven days.
    const LONGEST: f64 = 1e12;

    /// Adds a duration. Those below a microsecond count as one.
    pub fn add(&mut self, duration: Duration) {
        let bucket = Self::bucket(duration);
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
    }

    /// How many durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds all of another.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
    }

    /// The quantile of a share in [0, 1] by nearest rank; `None` where there is nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        self.ranked(rank)
    }

    /// The duration of a rank, from 1.
    #[must_use]
    pub fn ranked(&self, rank: u64) -> Option<Duration> {
        let mut below = 0;
        self.buckets.iter().find_map(|(bucket, count)| {
            below += count;
            (below >= rank).then(|| Self::middle(*bucket))
        })
    }

    /// Bounds of the median at 95 percent, whatever the distribution: the order statistics that a binomial of one
    /// half falls between. `None` below six durations, where there are no such two.
    #[must_use]
    pub fn median_bounds(&self) -> Option<(Duration, Duration)> {
        let n = self.count as f64;
        if self.count < 6 {
            return None;
        }
        // The normal approximation, rounded outwards by one rank.
        let reach = 1.96 * n.sqrt() / 2.0;
        let low = (n / 2.0 - reach).floor().max(1.0) as u64;
        let high = (n / 2.0 + reach).ceil() as u64 + 1;
        Some((self.ranked(low)?, self.ranked(high.min(self.count))?))
    }

    /// The buckets that hold something: the middle, and how many, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Duration, u64)> {
        self.buckets.iter().map(|(bucket, count)| (Self::middle(*bucket), *count))
    }

    /// The buckets of two, side by side, ascending.
    pub(crate) fn side_by_side(&self, other: &Histogram) -> Vec<(u64, u64)> {
        let mut both: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
        for (bucket, count) in &self.buckets {
            both.entry(*bucket).or_default().0 = *count;
        }
        for (bucket, count) in &other.buckets {
            both.entry(*bucket).or_default().1 = *count;
        }
        both.into_values().collect()
    }

    fn bucket(duration: Duration) -> u16 {
        let micros = (duration.as_secs_f64() * 1e6).clamp(1.0, Self::LONGEST);
        (micros.ln() / GROWTH.ln()).ceil() as u16
    }

    /// The point whose relative distance to both ends of the bucket is the same.
    fn middle(bucket: u16) -> Duration {
        let upper = GROWTH.powi(i32::from(bucket));
        Duration::from_secs_f64(2.0 * upper / (GROWTH + 1.0) / 1e6)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_are_near_the_exact_ones(
            mut micros in prop::collection::vec(1u64..100_000_000, 1..300), share in 0.0f64..=1.0,
        ) {
            let mut histogram = Histogram::default();
            for m in &micros {
                histogram.add(Duration::from_micros(*m));
            }
            micros.sort_unstable();
            let rank = ((share * micros.len() as f64).ceil() as usize).max(1);
            let exact = micros[rank - 1] as f64 / 1e6;
            let found = histogram.quantile(share).unwrap().as_secs_f64();
            prop_assert!((found - exact).abs() <= exact * Histogram::RELATIVE_ERROR * 1.001 + 1e-9, "{found} for {exact}");
        }

        #[test]
        fn merging_is_adding(a in prop::collection::vec(1u64..1_000_000, 0..50), b in prop::collection::vec(1u64..1_000_000, 0..50)) {
            let of = |all: &[u64]| {
                let mut histogram = Histogram::default();
                all.iter().for_each(|m| histogram.add(Duration::from_micros(*m)));
                histogram
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            prop_assert_eq!(merged, of(&[a, b].concat()));
        }
    }

    #[test]
    fn nothing_has_no_quantile() {
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::default().median_bounds(), None);
    }
}
