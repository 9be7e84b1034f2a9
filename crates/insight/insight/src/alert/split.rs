//! Where a sequence of means in [0, 1] changed: the split with the largest likelihood, and how sure that is.
//!
//! The likelihood is that of shares (a quasi-binomial one), so a change from 0.94 to 0.90 weighs more than one from
//! 0.54 to 0.50. Its uncertainty comes from drawing both sides anew from themselves, with a seed, and splitting again.

/// Draws for the uncertainty.
const DRAWS: usize = 400;

/// A split: the first index after the change, and its bounds at 95 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// The first index after the change.
    pub at: usize,
    /// Not before this index.
    pub from: usize,
    /// Not after this index.
    pub to: usize,
}

/// The split of a sequence of at least two.
#[must_use]
pub fn split(means: &[f64], seed: u64) -> Option<Split> {
    let at = best(means)?;
    let (before, after) = means.split_at(at);
    let mut random = SplitMix(seed);
    let mut drawn = vec![0.0; means.len()];
    let mut shifts: Vec<isize> = (0..DRAWS)
        .filter_map(|_| {
            for (index, place) in drawn.iter_mut().enumerate() {
                *place = if index < at { random.pick(before) } else { random.pick(after) };
            }
            best(&drawn).map(|found| found as isize - at as isize)
        })
        .collect();
    shifts.sort_unstable();
    let quantile = |share: f64| {
        let last = shifts.len().saturating_sub(1);
        shifts.get((share * last as f64).round() as usize).copied().unwrap_or(0)
    };
    let place = |shift: isize| at.saturating_add_signed(-shift).clamp(1, means.len() - 1);
    // The sample is off by as much as the draws are: what came too late lies earlier.
    let (from, to) = (place(quantile(0.975)), place(quantile(0.025)));
    Some(Split { at, from: from.min(at), to: to.max(at) })
}

/// The first index after the likeliest change.
fn best(means: &[f64]) -> Option<usize> {
    let total: f64 = means.iter().sum();
    let count = means.len() as f64;
    let mut left = 0.0;
    let mut found: Option<(usize, f64)> = None;
    for at in 1..means.len() {
        left += means[at - 1];
        let n = at as f64;
        let likelihood =
            -n * entropy(left / n) - (count - n) * entropy((total - left) / (count - n));
        if found.is_none_or(|(_, best)| likelihood > best) {
            found = Some((at, likelihood));
        }
    }
    found.map(|(at, _)| at)
}

fn entropy(p: f64) -> f64 {
    let term = |p: f64| if p <= 0.0 { 0.0 } else { -p * p.ln() };
    term(p) + term(1.0 - p)
}

/// Vigna's SplitMix64: small, and good enough to draw with.
struct SplitMix(u64);

impl SplitMix {
    fn pick(&mut self, of: &[f64]) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        of[((z ^ (z >> 31)) % of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::series::tests::Random;

    #[test]
    fn a_clear_change_is_exact() {
        let means = [vec![0.94; 40], vec![0.0; 7]].concat();
        assert_eq!(split(&means, 1), Some(Split { at: 40, from: 40, to: 40 }));
        assert_eq!(split(&[0.5], 1), None);
        assert_eq!(split(&[], 1), None);
    }

    #[test]
    fn the_bounds_hold_the_change_as_often_as_they_say() {
        let mut random = Random(3);
        let (mut held, mut near) = (0, 0);
        let runs = 500;
        for run in 0..runs {
            let noise = |random: &mut Random| 0.25 * (random.unit() - 0.5);
            let means: Vec<f64> = (0..60)
                .map(|at| (if at < 45 { 0.8 } else { 0.62 } + noise(&mut random)).clamp(0.0, 1.0))
                .collect();
            if let Some(found) = split(&means, run) {
                held += u32::from((found.from..=found.to).contains(&45));
                near += u32::from(found.at.abs_diff(45) <= 3);
            }
        }
        // 95 percent less three standard errors of 500 runs.
        assert!(held >= 460, "{held} of {runs}");
        assert!(near >= 450, "{near} of {runs}");
    }
}
