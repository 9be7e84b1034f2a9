//! The one-sided two-sample Kolmogorov-Smirnov test, with exact p-values.

/// What the test says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ks {
    /// D+: how far the first sample's distribution function is above the second's at most, 0 to 1.
    pub statistic: f64,
    /// The probability of this or more if both come from one distribution. Exact where `exact`.
    pub p: f64,
    /// Whether `p` was counted; else it is the asymptotic value, used for very large samples of unequal size alone.
    pub exact: bool,
}

/// Why there is no test.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KsError {
    /// A sample is empty.
    #[error("a sample is empty")]
    Empty,
    /// A value that can't be compared.
    #[error("a value is no finite number")]
    NotFinite,
}

/// Beyond so many steps an exact p for unequal sizes takes seconds.
const MOST_STEPS: u128 = 400_000_000;

/// Tests whether `first` is stochastically smaller than `second`: scipy's `ks_2samp(first, second, alternative="greater")`.
///
/// Equal values count together, as if they were measured at once.
///
/// # Errors
/// When a sample is empty or a value is not finite.
pub fn ks_smaller(first: &[f64], second: &[f64]) -> Result<Ks, KsError> {
    if first.is_empty() || second.is_empty() {
        return Err(KsError::Empty);
    }
    if first.iter().chain(second).any(|value| !value.is_finite()) {
        return Err(KsError::NotFinite);
    }
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let (first, second) = (sorted(first), sorted(second));
    let grid = Grid::new(first.len(), second.len());
    let (mut i, mut j, mut highest) = (0, 0, 0i128);
    while i < first.len() && j < second.len() {
        let value = first[i].min(second[j]);
        i += first[i..].iter().take_while(|other| **other == value).count();
        j += second[j..].iter().take_while(|other| **other == value).count();
        highest = highest.max(grid.height(i, j));
    }
    let statistic = highest as f64 / grid.whole as f64;
    let (p, exact) = grid.at_least(highest);
    Ok(Ks { statistic, p, exact })
}

/// The smallest p that samples of these sizes can give: all of one below all of the other.
#[must_use]
pub fn smallest_p(first: usize, second: usize) -> f64 {
    let (small, large) = (first.min(second), first.max(second));
    (1..=small).map(|i| i as f64 / (large + i) as f64).product()
}

/// Heights of the difference of two distribution functions, in whole steps of 1/lcm(n, m).
struct Grid {
    n: usize,
    m: usize,
    /// lcm(n, m): the height of a whole distribution.
    whole: i128,
    up: i128,
    down: i128,
}

impl Grid {
    fn new(n: usize, m: usize) -> Self {
        let divisor = gcd(n, m);
        let (up, down) = ((m / divisor) as i128, (n / divisor) as i128);
        Grid { n, m, whole: up * n as i128, up, down }
    }

    /// After `i` values of the first sample and `j` of the second.
    fn height(&self, i: usize, j: usize) -> i128 {
        i as i128 * self.up - j as i128 * self.down
    }

    /// The probability that a random order of n and m values reaches `height` anywhere, and whether it is exact.
    fn at_least(&self, height: i128) -> (f64, bool) {
        if height <= 0 {
            return (1.0, true);
        }
        if self.n == self.m {
            return (self.reflected(height as usize), true);
        }
        if self.n as u128 * self.m as u128 > MOST_STEPS {
            let (n, m) = (self.n as f64, self.m as f64);
            let d = height as f64 / self.whole as f64;
            return ((-2.0 * d * d * n * m / (n + m)).exp(), false);
        }
        (self.walked(height), true)
    }

    /// For equal sizes the orders that reach h are, by reflection, as many as those with h values more of one sample:
    /// C(2n, n-h) of C(2n, n) (Gnedenko and Korolyuk, 1951). As a product of ratios each factor adds one rounding.
    fn reflected(&self, h: usize) -> f64 {
        (0..h).map(|i| (self.n - i) as f64 / (self.n + i + 1) as f64).product()
    }

    /// For unequal sizes: the orders are paths from (0, 0) to (n, m), and the value drawn next is of the first sample with
    /// the share that is left of it. Sums the probabilities of first reaching `height`; all terms are positive, so a tiny p
    /// is as exact as a large one.
    fn walked(&self, height: i128) -> f64 {
        let (n, m) = (self.n, self.m);
        let mut reached = 0.0;
        // Probabilities of being at (i, j) without having reached the height, for the current i.
        let mut row = vec![0.0; m + 1];
        row[0] = 1.0;
        for i in 0..=n {
            for j in 0..=m {
                if i + j == 0 {
                    continue;
                }
                let left = (n + m + 1 - i - j) as f64;
                // From (i-1, j), still in the row from before, and from (i, j-1).
                let from_first = if i > 0 { row[j] * (n + 1 - i) as f64 / left } else { 0.0 };
                let from_second = if j > 0 { row[j - 1] * (m + 1 - j) as f64 / left } else { 0.0 };
                row[j] = from_first + from_second;
                if self.height(i, j) >= height {
                    reached += row[j];
                    row[j] = 0.0;
                }
            }
        }
        reached
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every order of the pooled values, counted.
    fn counted(n: usize, m: usize, height: i128) -> f64 {
        let grid = Grid::new(n, m);
        let (mut all, mut reaching) = (0u32, 0u32);
        for order in (0u32..1 << (n + m)).filter(|order| order.count_ones() as usize == n) {
            all += 1;
            let (mut i, mut j) = (0, 0);
            reaching += u32::from((0..n + m).any(|at| {
                if order >> at & 1 == 1 {
                    i += 1
                } else {
                    j += 1
                }
                grid.height(i, j) >= height
            }));
        }
        f64::from(reaching) / f64::from(all)
    }

    #[test]
    fn exact_for_all_small_sizes() {
        for (n, m) in (1..=8).flat_map(|n| (1..=8).map(move |m| (n, m))) {
            let grid = Grid::new(n, m);
            for height in 0..=grid.whole {
                let (p, exact) = grid.at_least(height);
                let wanted = counted(n, m, height);
                assert!(exact && (p - wanted).abs() <= 1e-13 * wanted, "{n} {m} {height}");
            }
            assert!((grid.at_least(grid.whole).0 / smallest_p(n, m) - 1.0).abs() < 1e-13);
        }
    }

    /// The walk doesn't know that sizes are equal, the product does.
    #[test]
    fn walking_and_reflecting_agree() {
        for n in [20, 250] {
            let grid = Grid::new(n, n);
            for h in [1, n / 3, n / 2, n - 1, n] {
                let (walked, reflected) = (grid.walked(h as i128), grid.reflected(h));
                assert!((walked / reflected - 1.0).abs() < 1e-11, "{n} {h}: {walked} {reflected}");
            }
        }
    }

    #[test]
    fn ties_count_together() {
        let ks = |a: &[f64], b: &[f64]| ks_smaller(a, b).unwrap().statistic;
        assert_eq!(ks(&[1.0, 1.0], &[1.0, 1.0]), 0.0);
        assert_eq!(ks(&[1.0, 2.0], &[2.0, 3.0]), 0.5);
        assert_eq!(ks(&[3.0], &[1.0]), 0.0);
        assert_eq!(ks(&[1.0], &[3.0, 3.0, 3.0]), 1.0);
        assert_eq!(ks_smaller(&[], &[1.0]), Err(KsError::Empty));
        assert_eq!(ks_smaller(&[1.0], &[f64::NAN]), Err(KsError::NotFinite));
    }

    #[test]
    fn too_many_to_count() {
        let first: Vec<f64> = (0..30_000).map(f64::from).collect();
        let second: Vec<f64> = (0..30_001).map(|i| f64::from(i) + 300.5).collect();
        let ks = ks_smaller(&first, &second).unwrap();
        assert!(!ks.exact && ks.p > 0.0 && ks.p < 0.1);
        // Equal sizes are never too many.
        assert!(ks_smaller(&first, &second[1..]).unwrap().exact);
    }

    proptest! {
        /// Against the definition, at every value of the pool.
        #[test]
        fn the_statistic(first in prop::collection::vec(0u8..20, 1..40), second in prop::collection::vec(0u8..20, 1..40)) {
            let below = |values: &[u8], at: u8| values.iter().filter(|v| **v <= at).count() as f64 / values.len() as f64;
            let wanted = (0..20).map(|at| below(&first, at) - below(&second, at)).fold(0.0, f64::max);
            let float = |values: &[u8]| values.iter().copied().map(f64::from).collect::<Vec<_>>();
            let ks = ks_smaller(&float(&first), &float(&second)).unwrap();
            prop_assert!((ks.statistic - wanted).abs() < 1e-12);
            prop_assert!(ks.p > 0.0 && ks.p <= 1.0 + 1e-12);
        }
    }
}
