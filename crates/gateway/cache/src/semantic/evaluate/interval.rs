//! Shares and their intervals.

/// A part of a whole, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// The part.
    pub part: usize,
    /// The whole.
    pub of: usize,
}

impl Share {
    /// Counts one more, in the part or not.
    pub fn count(&mut self, in_part: bool) {
        self.part += usize::from(in_part);
        self.of += 1;
    }

    /// The share; 0 of nothing.
    pub fn value(self) -> f64 {
        if self.of == 0 { 0.0 } else { self.part as f64 / self.of as f64 }
    }

    /// Its 95 percent interval.
    pub fn interval(self) -> [f64; 2] {
        wilson(self.part, self.of)
    }
}

/// Wilson's 95 percent interval of a share (Wilson, 1927): from 0 to 1 where nothing was counted.
pub fn wilson(part: usize, of: usize) -> [f64; 2] {
    if of == 0 {
        return [0.0, 1.0];
    }
    const Z: f64 = 1.959_963_984_540_054;
    let (n, p) = (of as f64, part as f64 / of as f64);
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    // At the ends the interval reaches the end, which rounding may miss.
    let low = if part == 0 { 0.0 } else { (centre - half).max(0.0) };
    let high = if part == of { 1.0 } else { (centre + half).min(1.0) };
    [low, high]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_intervals() {
        let near = |a: f64, b: f64| (a - b).abs() < 5e-4;
        let [low, high] = wilson(0, 150);
        assert!(low == 0.0 && near(high, 0.0250));
        let [low, high] = wilson(54, 150);
        assert!(near(low, 0.2876) && near(high, 0.4394), "{low} {high}");
        assert_eq!(wilson(0, 0), [0.0, 1.0]);
    }
}
