//! How well a threshold and the guards tell pairs of questions with one answer from those with two.

mod interval;

pub use interval::{Share, wilson};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::guards::{GUARDS, Guard, objections};
use super::question::Question;

/// Thresholds of the sweep.
pub const SWEEP: [f32; 16] = [
    0.50, 0.60, 0.70, 0.75, 0.80, 0.85, 0.88, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99, 0.999,
];

/// The share of pairs that must not share an answer and may be served all the same, where a threshold is chosen.
pub const BUDGET: f64 = 0.01;

/// Parts of a cross-validation.
const FOLDS: usize = 5;

/// A pair of questions with a label.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Pair {
    /// Its name; pairs are parted by it.
    #[serde(default)]
    pub id: String,
    /// One question, or a conversation that ends with one.
    pub a: Side,
    /// The other.
    pub b: Side,
    /// Whether one answer is right for both.
    pub same_answer: bool,
    /// What kind of pair it is.
    #[serde(default, alias = "subtype")]
    pub category: String,
}

/// One side of a pair.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Side {
    /// A question.
    Question(String),
    /// A conversation.
    Conversation(Vec<Turn>),
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Turn {
    /// Who speaks.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Side {
    /// The last question.
    pub fn question(&self) -> &str {
        match self {
            Side::Question(text) => text,
            Side::Conversation(turns) => turns.last().map_or("", |turn| &turn.content),
        }
    }

    fn before(&self) -> &[Turn] {
        match self {
            Side::Question(_) => &[],
            Side::Conversation(turns) => &turns[..turns.len().saturating_sub(1)],
        }
    }
}

/// A pair with what decides about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The pair's name.
    pub id: String,
    /// Its kind.
    pub category: String,
    /// Its label.
    pub same_answer: bool,
    /// The cosine of the two questions.
    pub similarity: f32,
    /// Whether all that stands before the questions is the same. Without it nothing is served, whatever else holds.
    pub same_scope: bool,
    /// Guards that object.
    pub objecting: Vec<Guard>,
}

impl Judged {
    /// Judges a pair whose questions have this cosine.
    pub fn new(pair: &Pair, similarity: f32) -> Self {
        let (a, b) = (Question::read(pair.a.question()), Question::read(pair.b.question()));
        Judged {
            id: pair.id.clone(),
            category: pair.category.clone(),
            same_answer: pair.same_answer,
            similarity,
            same_scope: pair.a.before() == pair.b.before(),
            objecting: objections(&a, &b).into_iter().map(|objection| objection.guard).collect(),
        }
    }

    fn served(&self, threshold: f32, guards: With) -> bool {
        let passes = match guards {
            With::None => true,
            With::All => self.objecting.is_empty(),
            With::One(guard) => !self.objecting.contains(&guard),
        };
        self.same_scope && self.similarity >= threshold && passes
    }
}

/// Which guards are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// None: plain similarity.
    None,
    /// All.
    All,
    /// One alone.
    One(Guard),
}

impl With {
    /// `none`, `all`, or the guard's name.
    pub fn name(self) -> &'static str {
        match self {
            With::None => "none",
            With::All => "all",
            With::One(guard) => guard.name(),
        }
    }
}

/// What a threshold does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The threshold.
    pub threshold: f32,
    /// Which guards were asked: `none`, `all`, or one's name.
    pub guards: &'static str,
    /// The share of pairs with one answer that are served.
    pub served_share: f64,
    /// Its 95 percent interval.
    pub served_interval: [f64; 2],
    /// Pairs with one answer that are served.
    pub served: usize,
    /// Pairs with one answer.
    pub should: usize,
    /// The share of pairs with two answers that are served, wrongly.
    pub wrong_share: f64,
    /// Its 95 percent interval.
    pub wrong_interval: [f64; 2],
    /// Pairs with two answers that are served.
    pub wrong: usize,
    /// Pairs with two answers.
    pub must_not: usize,
    /// The share of each kind of pair that is served.
    pub categories: BTreeMap<String, Category>,
}

/// A kind of pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Category {
    /// Whether its pairs have one answer.
    pub same_answer: bool,
    /// Those that are served.
    pub served: usize,
    /// All.
    pub of: usize,
    /// The share.
    pub share: f64,
    /// Its 95 percent interval.
    pub interval: [f64; 2],
}

/// What one threshold does with these guards.
pub fn row(pairs: &[Judged], threshold: f32, guards: With) -> Row {
    let mut categories: BTreeMap<String, (bool, Share)> = BTreeMap::new();
    let (mut should, mut must_not) = (Share::default(), Share::default());
    for pair in pairs {
        let served = pair.served(threshold, guards);
        let all = if pair.same_answer { &mut should } else { &mut must_not };
        all.count(served);
        let kind = categories.entry(pair.category.clone());
        kind.or_insert((pair.same_answer, Share::default())).1.count(served);
    }
    let categories = categories.into_iter().map(|(name, (same_answer, share))| {
        let category = Category {
            same_answer,
            served: share.part,
            of: share.of,
            share: share.value(),
            interval: share.interval(),
        };
        (name, category)
    });
    Row {
        threshold,
        guards: guards.name(),
        served_share: should.value(),
        served_interval: should.interval(),
        served: should.part,
        should: should.of,
        wrong_share: must_not.value(),
        wrong_interval: must_not.interval(),
        wrong: must_not.part,
        must_not: must_not.of,
        categories: categories.collect(),
    }
}

/// The whole sweep, with all guards and without any.
pub fn sweep(pairs: &[Judged]) -> Vec<Row> {
    [With::All, With::None]
        .into_iter()
        .flat_map(|guards| SWEEP.map(|threshold| row(pairs, threshold, guards)))
        .collect()
}

/// What each guard does alone, at a threshold.
pub fn alone(pairs: &[Judged], threshold: f32) -> Vec<Row> {
    GUARDS.map(|guard| row(pairs, threshold, With::One(guard))).into()
}

/// What a threshold that is chosen on four fifths of the pairs does on the fifth that it hasn't seen, over all five.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validated {
    /// Which guards were asked.
    pub guards: &'static str,
    /// The threshold chosen without each fifth; `None` where no threshold was good enough.
    pub thresholds: Vec<Option<f32>>,
    /// The share of pairs with one answer that are served.
    pub served_share: f64,
    /// Its 95 percent interval.
    pub served_interval: [f64; 2],
    /// The share of pairs with two answers that are served.
    pub wrong_share: f64,
    /// Its 95 percent interval.
    pub wrong_interval: [f64; 2],
}

/// Chooses the threshold that serves most while at most [`BUDGET`] of the pairs that must not be served are, on pairs
/// that it is not tried on.
pub fn cross_validated(pairs: &[Judged], guards: With) -> Validated {
    let (mut should, mut must_not) = (Share::default(), Share::default());
    let mut thresholds = Vec::new();
    for fold in 0..FOLDS {
        let (seen, unseen): (Vec<&Judged>, Vec<&Judged>) =
            pairs.iter().partition(|pair| part_of(&pair.id) != fold);
        let seen: Vec<Judged> = seen.into_iter().cloned().collect();
        let fits = SWEEP
            .iter()
            .copied()
            .filter(|threshold| row(&seen, *threshold, guards).wrong_share <= BUDGET);
        // The lowest serves most.
        let chosen = fits.min_by(f32::total_cmp);
        thresholds.push(chosen);
        for pair in unseen {
            let served = chosen.is_some_and(|threshold| pair.served(threshold, guards));
            if pair.same_answer { should.count(served) } else { must_not.count(served) }
        }
    }
    Validated {
        guards: guards.name(),
        thresholds,
        served_share: should.value(),
        served_interval: should.interval(),
        wrong_share: must_not.value(),
        wrong_interval: must_not.interval(),
    }
}

/// The fifth that a pair belongs to: by its name, so that it stays the same whatever else is in the file.
fn part_of(id: &str) -> usize {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    ((hash >> 32) % FOLDS as u64) as usize
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<Pair> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Guards alone, whatever the similarity: the figures with the encoder are the command line's test.
    #[test]
    fn the_guards_on_the_public_pairs() {
        let pairs = pairs(include_str!("../../data/pairs/fow_pairs.jsonl"));
        let judged: Vec<Judged> = pairs.iter().map(|pair| Judged::new(pair, 1.0)).collect();
        let all = row(&judged, 0.5, With::All);
        assert_eq!((all.should, all.must_not), (150, 150));
        assert_eq!(all.wrong, 0, "{:?}", all.categories);
        assert!(all.served >= 50, "{} served", all.served);
        // Every guard but sections (there are none in these pairs) stops something.
        for row in alone(&judged, 0.5) {
            assert!(row.wrong < 150 || row.guards == "sections", "{}", row.guards);
        }
    }

    #[test]
    fn the_guards_on_pairs_of_our_own() {
        let pairs = pairs(include_str!("../../data/pairs/own_pairs.jsonl"));
        let mut missed = Vec::new();
        for pair in &pairs {
            let judged = Judged::new(pair, 1.0);
            if judged.objecting.is_empty() != pair.same_answer {
                missed.push(&pair.id);
            }
            // The order of the two makes no difference.
            let turned = Pair { a: pair.b.clone(), b: pair.a.clone(), ..pair.clone() };
            assert_eq!(judged.objecting, Judged::new(&turned, 1.0).objecting, "{}", pair.id);
        }
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn conversations_are_never_served() {
        let pairs = pairs(include_str!("../../data/pairs/conversations_billing.jsonl"));
        let judged: Vec<Judged> = pairs.iter().map(|pair| Judged::new(pair, 1.0)).collect();
        let row = row(&judged, 0.0, With::None);
        assert_eq!((row.served, row.wrong, row.should + row.must_not), (0, 0, 60));
    }

    #[test]
    fn folds_are_chosen_without_what_they_are_tried_on() {
        let judged = |id: String, same_answer: bool, similarity: f32| Judged {
            id,
            category: String::new(),
            same_answer,
            similarity,
            same_scope: true,
            objecting: Vec::new(),
        };
        // Nothing that must not be served is above 0.9; all else is.
        let pairs: Vec<Judged> = (0..100)
            .flat_map(|i| {
                [judged(format!("s{i}"), true, 0.95), judged(format!("m{i}"), false, 0.89)]
            })
            .collect();
        let found = cross_validated(&pairs, With::None);
        assert_eq!((found.served_share, found.wrong_share), (1.0, 0.0));
        assert_eq!(found.thresholds, vec![Some(0.90); 5]);
    }
}
