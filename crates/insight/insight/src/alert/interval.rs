//! Bounds of the mean of observations in [0, 1], without a normal distribution, for few of them too.
//!
//! A mean `m` is refused where a gambler who bets against it, both upwards and downwards, would have made `1 / alpha`
//! out of one (Waudby-Smith and Ramdas, JRSS B 2024, the hedged bets with the predictable plug-in). It covers at every
//! number of observations, and adapts to their spread.

/// Means that are tried.
const GRID: usize = 500;
/// The largest part of what could be lost that is staked.
const CAP: f64 = 0.75;

/// Bounds that miss the mean with a chance of at most `alpha`. Without observations: 0 and 1.
#[must_use]
pub fn bounds(observations: &[f64], alpha: f64) -> (f64, f64) {
    let stakes = stakes(observations, alpha);
    let kept = |m: f64| {
        let (mut up, mut down) = (1.0f64, 1.0f64);
        let mut largest = 1.0f64;
        for (x, stake) in observations.iter().zip(&stakes) {
            up *= 1.0 + stake.min(CAP / m.max(1e-9)) * (x - m);
            down *= 1.0 - stake.min(CAP / (1.0 - m).max(1e-9)) * (x - m);
            largest = largest.max(0.5 * up.max(down));
        }
        largest < 1.0 / alpha
    };
    let grid = |at: usize| at as f64 / GRID as f64;
    let mean = observations.iter().sum::<f64>() / observations.len().max(1) as f64;
    // The set of means that are kept is taken for an interval around the sample's mean.
    let centre = (mean * GRID as f64).round() as usize;
    let low = (0..=centre).find(|at| kept(grid(*at))).unwrap_or(centre);
    let high = (centre..=GRID).rev().find(|at| kept(grid(*at))).unwrap_or(centre);
    // The grid is rounded outwards.
    let low = if low == 0 { 0.0 } else { grid(low - 1) };
    let high = if high == GRID { 1.0 } else { grid(high + 1) };
    (low.min(mean), high.max(mean))
}

/// What is staked on each observation, from those before it alone.
fn stakes(observations: &[f64], alpha: f64) -> Vec<f64> {
    let (mut sum, mut squares) = (0.5, 0.25);
    let mut stakes = Vec::with_capacity(observations.len());
    for (before, x) in observations.iter().enumerate() {
        let n = before as f64 + 1.0;
        let variance: f64 = (squares / n).max(1e-6);
        stakes.push((2.0 * (2.0 / alpha).ln() / (variance * n * (1.0 + n).ln())).sqrt());
        sum += x;
        let mean = sum / (n + 1.0);
        squares += (x - mean).powi(2);
    }
    stakes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::series::tests::Random;

    #[test]
    fn they_cover() {
        for mean in [0.0, 0.05, 0.5, 0.9, 1.0] {
            let mut random = Random(5);
            let mut missed = 0;
            let runs = 1000;
            for _ in 0..runs {
                let seen: Vec<f64> =
                    (0..40).map(|_| f64::from(u8::from(random.unit() < mean))).collect();
                let (low, high) = bounds(&seen, 0.05);
                missed += u32::from(mean < low || mean > high);
            }
            // Five percent are allowed; the bound is valid at every look, so at one it misses less.
            assert!(missed <= 50, "{mean}: {missed} of {runs}");
        }
    }

    #[test]
    fn they_shrink() {
        let width = |n: usize, x: fn(usize) -> f64| {
            let (low, high) = bounds(&(0..n).map(x).collect::<Vec<_>>(), 0.05);
            high - low
        };
        assert!((width(0, |_| 0.0) - 1.0).abs() < 1e-9);
        assert!(width(6, |_| 0.0) < 0.6);
        assert!(width(32, |n| 0.9 + 0.02 * (n % 3) as f64) < 0.2);
        assert!(width(256, |n| 0.9 + 0.02 * (n % 3) as f64) < 0.05);
    }
}
