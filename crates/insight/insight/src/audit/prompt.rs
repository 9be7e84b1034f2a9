//! Random prompts: single letters with spaces between them, one token each in most vocabularies.

/// A small generator with a seed (SplitMix64, Steele, Lea and Flood 2014): the same audit again, wherever it runs.
#[derive(Debug, Clone)]
pub struct Seeded(u64);

impl Seeded {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Seeded(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 for a bound of 0. The bias of 2^-32 at most is no matter here.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

/// A prompt's letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letters(Vec<u8>);

impl Letters {
    const ALPHABET: &'static [u8; 52] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    /// So many random letters.
    #[must_use]
    pub fn random(length: usize, random: &mut Seeded) -> Self {
        Letters((0..length).map(|_| Self::ALPHABET[random.below(52)]).collect())
    }

    /// Another prompt of the same length that shares exactly the first `shared` letters.
    #[must_use]
    pub fn sharing(&self, shared: usize, random: &mut Seeded) -> Self {
        let mut letters = self.0.clone();
        for (at, letter) in letters.iter_mut().enumerate().skip(shared) {
            *letter = if at == shared {
                // One of the 51 others.
                let own = Self::ALPHABET.iter().position(|other| other == letter).unwrap_or(0);
                Self::ALPHABET[(own + 1 + random.below(51)) % 52]
            } else {
                Self::ALPHABET[random.below(52)]
            };
        }
        Letters(letters)
    }

    /// As it is sent.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(2 * self.0.len());
        for (at, letter) in self.0.iter().enumerate() {
            if at > 0 {
                text.push(' ');
            }
            text.push(char::from(*letter));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_exactly_what_it_should() {
        let mut random = Seeded::new(7);
        for shared in 0..=20 {
            let victim = Letters::random(20, &mut random);
            let attacker = victim.sharing(shared, &mut random);
            let same = victim.0.iter().zip(&attacker.0).take_while(|(a, b)| a == b).count();
            assert_eq!((same, attacker.0.len()), (shared, 20));
        }
    }

    #[test]
    fn letters_with_spaces_and_the_same_from_a_seed() {
        let text = |seed| Letters::random(300, &mut Seeded::new(seed)).text();
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        assert!(text(1).split(' ').all(|letter| letter.len() == 1) && text(1).len() == 599);
        // Each of the letters comes up.
        let all = Letters::random(5000, &mut Seeded::new(3));
        assert!(Letters::ALPHABET.iter().all(|letter| all.0.contains(letter)));
    }
}
