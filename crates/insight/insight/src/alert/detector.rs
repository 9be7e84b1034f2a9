//! Evidence that a mean has fallen below a floor, which may be looked at after every observation.
//!
//! A gambler who doesn't believe in the floor `f` stakes a share of the wealth on each observation `x` in [0, 1]:
//! `1 + s (f - x)` is what a unit becomes. As long as the expected `x`, given all before, is at least `f`, no stake
//! makes money on average, whatever the distribution and however observations hang together otherwise (Waudby-Smith
//! and Ramdas, "Estimating means of bounded random variables by betting", JRSS B 2024).
//!
//! A change may come at any time, so a new gambler with one unit begins at every observation, and the sum of all their
//! wealth is the evidence: `R = (1 + R) (1 + s (f - x))`. `R` less the number of observations loses on average too, so
//! an alarm at `R >= a` comes after at least `a` observations on average while nothing has changed (an e-detector of
//! Shiryaev-Roberts' kind: Shin, Ramdas and Rinaldo, "E-detectors", 2023). Several stakes side by side make small and
//! large falls visible; their mean keeps the promise.

/// Stakes, as parts of the largest that can't go broke.
const STAKES: [f64; 6] = [0.03, 0.06, 0.12, 0.25, 0.5, 0.95];

/// Evidence against a floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Detector {
    floor: f64,
    wealth: [f64; STAKES.len()],
}

impl Detector {
    /// No evidence yet against a floor in (0, 1).
    #[must_use]
    pub fn new(floor: f64) -> Self {
        Detector { floor: floor.clamp(0.0, 1.0), wealth: [0.0; STAKES.len()] }
    }

    /// Takes an observation in [0, 1].
    pub fn see(&mut self, x: f64) {
        // At a floor of 1 every stake would be without limit; one of 100 is as good.
        let largest = 1.0 / (1.0 - self.floor).max(0.01);
        for (wealth, part) in self.wealth.iter_mut().zip(STAKES) {
            *wealth = (1.0 + *wealth) * (1.0 + part * largest * (self.floor - x)).max(0.0);
        }
    }

    /// The evidence: while nothing has changed, its mean is at most the number of observations.
    #[must_use]
    pub fn evidence(&self) -> f64 {
        self.wealth.iter().sum::<f64>() / STAKES.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::series::tests::Random;

    /// The promise at its edge: the mean is the floor itself. Runs until an alarm at 100 take at least 100 observations
    /// on average, whatever the distribution.
    #[test]
    fn the_mean_run_is_as_long_as_promised() {
        type Draw = fn(&mut Random) -> f64;
        let laws: [(&str, f64, Draw); 4] = [
            ("all or nothing", 0.8, |random| f64::from(u8::from(random.unit() < 0.8))),
            ("even", 0.5, |random| random.unit()),
            ("nearly constant", 0.9, |random| 0.9 + 0.02 * (random.unit() - 0.5)),
            ("seldom", 0.05, |random| f64::from(u8::from(random.unit() < 0.05))),
        ];
        for (law, floor, draw) in laws {
            let mut random = Random(11);
            let runs: Vec<f64> = (0..4000)
                .map(|_| {
                    let mut detector = Detector::new(floor);
                    // A run that goes on for long only helps the mean; it is cut to keep the test short.
                    let length = (1..5000).find(|_| {
                        detector.see(draw(&mut random));
                        detector.evidence() >= 100.0
                    });
                    f64::from(length.unwrap_or(5000))
                })
                .collect();
            let mean = runs.iter().sum::<f64>() / runs.len() as f64;
            let variance =
                runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / runs.len() as f64;
            // The mean of 4,000 runs is itself uncertain: three standard errors.
            let error = 3.0 * (variance / runs.len() as f64).sqrt();
            assert!(mean + error >= 100.0, "{law}: {mean} +- {error}");
        }
    }

    #[test]
    fn a_fall_to_nothing_is_soon_evident() {
        let mut detector = Detector::new(0.84);
        let seen = (1..).find(|_| {
            detector.see(0.0);
            detector.evidence() >= 125_000.0
        });
        assert_eq!(seen, Some(8));
    }

    #[test]
    fn a_rate_at_its_usual_height_is_no_evidence() {
        let mut detector = Detector::new(0.84);
        for _ in 0..100_000 {
            detector.see(0.94);
            assert!(detector.evidence() < 50.0);
        }
    }
}
