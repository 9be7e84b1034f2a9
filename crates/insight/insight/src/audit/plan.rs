//! Who sends what when.

use super::prompt::{Letters, Seeded};

/// One test: hits and misses of one victim and one attacker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Samples of each kind.
    pub samples: usize,
    /// Letters of a prompt, about its tokens.
    pub letters: usize,
    /// The share of the victim's prompt that the attacker's begins with, 0 to 1.
    pub shared: f64,
    /// How often the victim sends its prompt before the attacker's: more than once where requests go to several servers
    /// with caches of their own.
    pub victim_requests: usize,
}

/// What one sample sends. Only the attacker's request is timed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The victim's prompt, sent [`Plan::victim_requests`] times before; `None`: a miss.
    pub victim: Option<Letters>,
    /// The attacker's prompt.
    pub attacker: Letters,
}

impl Plan {
    /// Requests that it takes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.samples as u64 * (self.victim_requests as u64 + 2)
    }

    /// Prompt tokens that it takes, an estimate: a letter is a token.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.requests() * self.letters as u64
    }

    /// Letters that victim and attacker share.
    #[must_use]
    pub fn shared_letters(&self) -> usize {
        (self.letters as f64 * self.shared.clamp(0.0, 1.0)).round() as usize
    }

    /// The samples in one shuffled order, made as they are needed.
    pub fn samples(self, mut random: Seeded) -> impl Iterator<Item = Sample> {
        let mut hits: Vec<bool> = (0..2 * self.samples).map(|at| at < self.samples).collect();
        random.shuffle(&mut hits);
        hits.into_iter().map(move |hit| {
            let prompt = Letters::random(self.letters, &mut random);
            if hit {
                let attacker = prompt.sharing(self.shared_letters(), &mut random);
                Sample { victim: Some(prompt), attacker }
            } else {
                Sample { victim: None, attacker: prompt }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_of_each_in_a_shuffled_order() {
        let plan = Plan { samples: 50, letters: 20, shared: 0.95, victim_requests: 5 };
        assert_eq!((plan.requests(), plan.tokens(), plan.shared_letters()), (350, 7000, 19));
        let samples: Vec<Sample> = plan.samples(Seeded::new(1)).collect();
        let hits: Vec<bool> = samples.iter().map(|sample| sample.victim.is_some()).collect();
        assert_eq!((hits.len(), hits.iter().filter(|hit| **hit).count()), (100, 50));
        // Not one kind after the other, nor in turn.
        let changes = hits.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((30..70).contains(&changes), "{changes}");
        assert_eq!(samples, plan.samples(Seeded::new(1)).collect::<Vec<_>>());
        let all: std::collections::BTreeSet<String> =
            samples.iter().map(|sample| sample.attacker.text()).collect();
        assert_eq!(all.len(), 100);
    }
}
