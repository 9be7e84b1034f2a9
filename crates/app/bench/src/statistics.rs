//! Medians and spreads of a few samples.

use serde::Serialize;

/// The median; the mean of the middle two of an even number. `None` of nothing.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// A few samples, as their smallest, middle and greatest.
#[derive(Debug, Clone, Copy, Serialize, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` of nothing.
    pub(crate) fn of(samples: &[f64]) -> Option<Spread> {
        Some(Spread {
            min: samples.iter().copied().min_by(f64::total_cmp)?,
            median: median(samples)?,
            max: samples.iter().copied().max_by(f64::total_cmp)?,
        })
    }

    /// For a table: the median, and the smallest and greatest in brackets, with so many decimals.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let Spread { min, median, max } = self;
        format!("{median:.decimals$} ({min:.decimals$}-{max:.decimals$})")
    }

    /// In another unit.
    pub(crate) fn times(self, unit: f64) -> Spread {
        Spread { min: self.min * unit, median: self.median * unit, max: self.max * unit }
    }
}

/// One server's samples over a rival's.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Ratio<M> {
    pub(crate) measure: M,
    pub(crate) rival: String,
    /// Ours over theirs, round by round.
    pub(crate) ratio: Spread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        let spread = Spread { min: 1.0, median: 2.0, max: 5.0 };
        assert_eq!(Spread::of(&[2.0, 5.0, 1.0]), Some(spread));
        assert_eq!(spread.text(3), "2.000 (1.000-5.000)");
        assert_eq!(spread.times(10.0).text(0), "20 (10-50)");
    }
}
