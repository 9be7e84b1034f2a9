//! What times and reported counts say.

use super::ks::{Ks, KsError, ks_smaller, smallest_p};

/// One kind of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Side {
    /// How many.
    pub count: usize,
    /// Their median, in seconds.
    pub median: f64,
}

/// What two samples of times say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    /// Requests that share a start with an earlier one of the victim.
    pub hits: Side,
    /// Requests that share nothing.
    pub misses: Side,
    /// Are hits faster?
    pub faster: Ks,
    /// Are they slower? No sign of sharing, but a two-sided test would take it for one.
    pub slower: Ks,
    /// Average precision of telling hits from misses by their time alone; without a difference about the hits' share.
    pub average_precision: f64,
    /// Share of hits that are faster than every miss.
    pub below_all_misses: f64,
    /// The threshold for p.
    pub threshold: f64,
    /// The smallest p that so many samples could have given.
    pub smallest_p: f64,
}

impl Judgement {
    /// Whether sharing was found.
    #[must_use]
    pub fn found(&self) -> bool {
        self.faster.p < self.threshold
    }

    /// Whether a two-sided test would have found "sharing" because hits were slower.
    #[must_use]
    pub fn two_sided_trap(&self) -> bool {
        !self.found() && 2.0 * self.slower.p < self.threshold
    }

    /// Whether there are enough samples to find anything.
    #[must_use]
    pub fn can_find(&self) -> bool {
        self.smallest_p < self.threshold
    }
}

/// Judges times in seconds.
///
/// # Errors
/// When one kind is missing or a time is not finite.
pub fn judge(hits: &[f64], misses: &[f64], threshold: f64) -> Result<Judgement, KsError> {
    let faster = ks_smaller(hits, misses)?;
    let slower = ks_smaller(misses, hits)?;
    let fastest_miss = misses.iter().copied().fold(f64::INFINITY, f64::min);
    let below = hits.iter().filter(|time| **time < fastest_miss).count();
    Ok(Judgement {
        hits: side(hits),
        misses: side(misses),
        faster,
        slower,
        average_precision: average_precision(hits, misses),
        below_all_misses: below as f64 / hits.len() as f64,
        threshold,
        smallest_p: smallest_p(hits.len(), misses.len()),
    })
}

fn side(times: &[f64]) -> Side {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    };
    Side { count: times.len(), median }
}

/// The area under precision against recall, as steps, with the fastest first; equal times are one step.
fn average_precision(hits: &[f64], misses: &[f64]) -> f64 {
    let label = |times: &[f64], hit| times.iter().map(move |time| (*time, hit)).collect::<Vec<_>>();
    let mut all = [label(hits, true), label(misses, false)].concat();
    all.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let (mut found, mut seen, mut area) = (0, 0, 0.0);
    for same in all.chunk_by(|(a, _), (b, _)| a == b) {
        let more = same.iter().filter(|(_, hit)| *hit).count();
        found += more;
        seen += same.len();
        area += more as f64 * found as f64 / seen as f64;
    }
    area / hits.len() as f64
}

/// What the server itself reported about cached tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reported {
    /// Hits whose answer reported a count.
    pub hits: usize,
    /// Misses whose answer did.
    pub misses: usize,
    /// Share of the hits that reported most of the shared start as cached.
    pub hits_cached: f64,
    /// Share of the misses that reported as much.
    pub misses_cached: f64,
}

impl Reported {
    /// Whether sharing was found: most hits were reported as read from the cache, and misses were not.
    #[must_use]
    pub fn found(&self) -> bool {
        self.hits > 0 && self.hits_cached > 0.5 && self.misses_cached <= 0.5
    }
}

/// Judges reported counts of cached tokens (`None`: not reported) by CacheProbe's rule (arXiv 2605.30613): more than half of
/// the hits report at least 90 percent of the shared start. `shared` is its length in tokens.
#[must_use]
pub fn judge_reported(hits: &[Option<u64>], misses: &[Option<u64>], shared: f64) -> Reported {
    let count = |all: &[Option<u64>]| {
        let known: Vec<u64> = all.iter().copied().flatten().collect();
        let cached = known.iter().filter(|tokens| **tokens as f64 >= 0.9 * shared).count();
        // Those that say nothing count as not cached: a rule about most of them must not rest on a few.
        let share = if all.is_empty() { 0.0 } else { cached as f64 / all.len() as f64 };
        (known.len(), share)
    };
    let ((hits, hits_cached), (misses, misses_cached)) = (count(hits), count(misses));
    Reported { hits, misses, hits_cached, misses_cached }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_are_slower_are_no_sharing() {
        let slow: Vec<f64> = (0..50).map(|i| 0.766 + f64::from(i) * 1e-3).collect();
        let fast: Vec<f64> = (0..50).map(|i| 0.460 + f64::from(i) * 1e-3).collect();
        let judged = judge(&slow, &fast, 1e-8).unwrap();
        assert!(!judged.found() && judged.two_sided_trap());
        assert_eq!((judged.faster.p, judged.below_all_misses), (1.0, 0.0));
        let judged = judge(&fast, &slow, 1e-8).unwrap();
        assert!(judged.found() && !judged.two_sided_trap());
        assert_eq!((judged.average_precision, judged.below_all_misses), (1.0, 1.0));
        assert!((judged.hits.median - 0.4845).abs() < 1e-12);
    }

    #[test]
    fn few_samples_find_nothing() {
        let judged = judge(&[1.0; 10], &[2.0; 10], 1e-8).unwrap();
        assert!(!judged.found() && !judged.can_find());
        // 1 of C(20, 10).
        assert!((judged.smallest_p * 184_756.0 - 1.0).abs() < 1e-12);
        assert!(judge(&[1.0; 16], &[2.0; 16], 1e-8).unwrap().found());
    }

    /// Precision by hand: hit, miss, then a hit and a miss at once.
    #[test]
    fn average_precision_with_ties() {
        let ap = average_precision(&[1.0, 3.0], &[2.0, 3.0]);
        assert!((ap - (0.5 * 1.0 + 0.5 * 2.0 / 4.0)).abs() < 1e-12);
    }

    #[test]
    fn by_what_the_server_says() {
        let most = [Some(460), Some(470), Some(0), None];
        assert!(!judge_reported(&most, &[Some(0); 4], 475.0).found());
        assert!(judge_reported(&most[..3], &[Some(0); 3], 475.0).found());
        // What is cached for everybody is not the victim's.
        assert!(!judge_reported(&[Some(470); 4], &[Some(470); 4], 475.0).found());
        assert!(!judge_reported(&[None; 4], &[None; 4], 475.0).found());
    }
}
