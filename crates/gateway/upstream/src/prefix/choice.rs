//! Which replica takes a call: the one that has its start, unless load says otherwise.
//!
//! The cost of a replica is the work that the prompt would be there, times the calls it would share the machine with:
//! `(new blocks + floor) * (running + 1 + pressure) / weight`. The product has no threshold to tune and no point at which all
//! affinity is given up (SGLang's lmetric and NVIDIA Dynamo's router reckon alike). The floor stands for what a call
//! costs even where all of its prompt is there; without it a replica with a whole prompt would be worth waiting for
//! behind any number of others. Of equal ones the prompt's own hash decides (rendezvous hashing), so that cold prompts
//! are spread evenly and several gateways without a word between them choose alike.
//!
//! The pressure is what [`Work`] knows: calls that come one after another leave no load to see, and a system prompt that
//! all of them share would draw every new conversation to the one replica that has it, until its cache holds them all
//! and the others' are empty. (SGLang's users met that as a death spiral.) So a replica that lately read more than its share
//! counts as up to one call busier. That never moves a prompt that is there as a whole.

/// What is known of a replica.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its number.
    pub replica: u32,
    /// Calls that it is answering.
    pub running: usize,
    /// By how much it read more than its share of late, from 0 to 1; see [`Work`].
    pub pressure: f64,
    /// Its share of the load: twice the weight, twice the calls.
    pub weight: f64,
    /// Blocks of the prompt that it has.
    pub seen: usize,
}

/// A prompt whose start is there costs at least this part of one that isn't: so many calls more are worth waiting for.
pub const PATIENCE: usize = 8;

/// The replica for a prompt of so many blocks; `None` where there are none.
pub fn choose(candidates: &[Candidate], blocks: usize, tie: u64) -> Option<usize> {
    let floor = (blocks / PATIENCE).max(1) as f64;
    let cost = |candidate: &Candidate| {
        let new = blocks.saturating_sub(candidate.seen) as f64;
        let load = (candidate.running + 1) as f64 + candidate.pressure;
        (new + floor) * load / candidate.weight.max(f64::MIN_POSITIVE)
    };
    let mut best: Option<(usize, f64, u64)> = None;
    for (at, candidate) in candidates.iter().enumerate() {
        let (cost, draw) = (cost(candidate), rendezvous(tie, candidate.replica));
        let better = best.is_none_or(|(_, least, highest)| match cost.total_cmp(&least) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => draw > highest,
            std::cmp::Ordering::Greater => false,
        });
        if better {
            best = Some((at, cost, draw));
        }
    }
    best.map(|(at, _, _)| at)
}

/// Of what was read before, so much still counts at each further call: some fifty calls.
const FADING: f64 = 0.98;

/// How many new blocks each replica read of late.
#[derive(Debug, Clone, Default)]
pub struct Work {
    read: Vec<f64>,
}

impl Work {
    /// A replica reads so many new blocks.
    pub fn reads(&mut self, replica: u32, new: usize) {
        let at = replica as usize;
        if self.read.len() <= at {
            self.read.resize(at + 1, 0.0);
        }
        self.read.iter_mut().for_each(|read| *read *= FADING);
        // What is there as a whole isn't read for nothing either.
        self.read[at] += new as f64 + 1.0;
    }

    /// Sets the pressure of candidates, against each other.
    pub fn press(&self, candidates: &mut [Candidate]) {
        let read = |candidate: &Candidate| {
            self.read.get(candidate.replica as usize).copied().unwrap_or(0.0)
        };
        let all: f64 = candidates.iter().map(read).sum();
        let weights: f64 = candidates.iter().map(|candidate| candidate.weight).sum();
        if all <= 0.0 || weights <= 0.0 {
            return;
        }
        for candidate in candidates {
            let fair = all * candidate.weight / weights;
            candidate.pressure =
                (read(candidate) / fair.max(f64::MIN_POSITIVE) - 1.0).clamp(0.0, 1.0);
        }
    }
}

/// Highest random weight (Thaler and Ravishankar, 1996).
fn rendezvous(tie: u64, replica: u32) -> u64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&tie.to_le_bytes());
    bytes[8..].copy_from_slice(&replica.to_le_bytes());
    xxhash_rust::xxh3::xxh3_64(&bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidate(replica: u32, running: usize, seen: usize) -> Candidate {
        Candidate { replica, running, pressure: 0.0, weight: 1.0, seen }
    }

    #[test]
    fn the_start_decides_until_the_load_does() {
        let pick = |a, b| choose(&[a, b], 80, 1).unwrap();
        assert_eq!(pick(candidate(0, 5, 80), candidate(1, 0, 0)), 0);
        assert_eq!(pick(candidate(0, 9, 80), candidate(1, 0, 0)), 1, "nine calls wait there");
        assert_eq!(pick(candidate(0, 9, 80), candidate(1, 1, 0)), 0, "the other has calls as well");
        let heavy = Candidate { weight: 3.0, ..candidate(1, 2, 0) };
        assert_eq!(choose(&[candidate(0, 1, 0), heavy], 80, 1), Some(1));
        assert_eq!(choose(&[], 80, 1), None);
    }

    #[test]
    fn a_start_that_all_share_does_not_draw_everything_to_one() {
        let (mut work, mut held) = (Work::default(), [0usize; 4]);
        // New conversations one after another, a tenth of each a system prompt that the first replica has.
        for tie in 0..100 {
            let mut candidates: Vec<Candidate> = (0..4)
                .map(|n| candidate(n, 0, if held[n as usize] > 0 || n == 0 { 10 } else { 0 }))
                .collect();
            work.press(&mut candidates);
            let at = choose(&candidates, 100, tie).unwrap();
            held[at] += 1;
            work.reads(at as u32, 90);
        }
        assert!(held.iter().all(|calls| (15..=35).contains(calls)), "{held:?}");
        // A prompt that is there as a whole stays where it is.
        for _ in 0..50 {
            let mut candidates: Vec<Candidate> =
                (0..4).map(|n| candidate(n, 0, if n == 2 { 100 } else { 10 })).collect();
            work.press(&mut candidates);
            assert_eq!(choose(&candidates, 100, 1), Some(2));
            work.reads(2, 90);
        }
    }

    proptest! {
        /// Among replicas that all have the start, or that all have none, the least busy takes the call.
        #[test]
        fn nothing_to_choose_between_is_balanced(loads in prop::collection::vec(0usize..50, 1..9), whole: bool, tie: u64) {
            let candidates: Vec<Candidate> = loads
                .iter()
                .enumerate()
                .map(|(n, load)| candidate(n as u32, *load, if whole { 40 } else { 0 }))
                .collect();
            let at = choose(&candidates, 40, tie).unwrap();
            prop_assert_eq!(loads[at], *loads.iter().min().unwrap());
        }

        /// More load never makes a replica more attractive, and a longer start never makes it less so.
        #[test]
        fn monotone(a in (0usize..20, 0usize..100), b in (0usize..20, 0usize..100), tie: u64) {
            let (one, other) = (candidate(0, a.0, a.1), candidate(1, b.0, b.1));
            if choose(&[one, other], 100, tie) == Some(1) {
                prop_assert_eq!(choose(&[candidate(0, a.0 + 1, a.1), other], 100, tie), Some(1));
                prop_assert_eq!(choose(&[one, candidate(1, b.0, (b.1 + 1).min(100))], 100, tie), Some(1));
            }
        }
    }
}
