//! What a general lexicon says of words: WordNet 3.0 (Princeton University; Miller, 1995), in the compact form that
//! `data/lexicon/make_lexicon.py` derives.
//!
//! It is read when it is first needed (a few tenths of a second, about 25 MB) and kept.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::GzDecoder;

static DATA: &[u8] = include_bytes!("../../data/lexicon/lexicon.txt.gz");

/// A part of speech: n, v, a or r.
type Pos = u8;

/// The lexicon.
pub struct Lexicon {
    /// Senses with the share of the word's uses that each has, in percent.
    senses: HashMap<Box<str>, Senses>,
    opposites: HashMap<Box<str>, Vec<Box<str>>>,
    derived: HashMap<Box<str>, Vec<Box<str>>>,
    kinds: HashMap<u32, Box<[u32]>>,
    irregular: HashMap<Box<str>, Vec<(Pos, Box<str>)>>,
}

/// A word's senses in each part of speech, the most usual first.
type Senses = Vec<(Pos, Box<[Sense]>)>;

#[derive(Clone, Copy)]
struct Sense {
    synset: u32,
    percent: u32,
}

impl Lexicon {
    /// The lexicon that comes with Tapri.
    pub fn get() -> &'static Lexicon {
        static LEXICON: OnceLock<Lexicon> = OnceLock::new();
        LEXICON.get_or_init(|| {
            let mut text = String::new();
            // The data is part of the binary and its reading is a test. If it were damaged, an empty lexicon knows
            // no word, so that only equal words pass.
            if GzDecoder::new(DATA).read_to_string(&mut text).is_err() {
                text.clear();
            }
            Lexicon::read(&text)
        })
    }

    fn read(text: &str) -> Self {
        let mut lexicon = Lexicon {
            senses: HashMap::new(),
            opposites: HashMap::new(),
            derived: HashMap::new(),
            kinds: HashMap::new(),
            irregular: HashMap::new(),
        };
        for line in text.lines() {
            let mut fields = line.split('\t');
            match (fields.next(), fields.next(), fields.next()) {
                (Some("w"), Some(word), Some(pos)) => {
                    let found = fields.filter_map(sense).collect();
                    lexicon.senses.entry(word.into()).or_default().push((byte(pos), found));
                }
                (Some("x"), Some(pos), Some(form)) => {
                    if let Some(base) = fields.next() {
                        let bases = lexicon.irregular.entry(form.into()).or_default();
                        bases.push((byte(pos), base.into()));
                    }
                }
                (Some("h"), Some(synset), Some(first)) => {
                    let kinds = std::iter::once(first).chain(fields);
                    if let Ok(synset) = synset.parse() {
                        lexicon
                            .kinds
                            .insert(synset, kinds.filter_map(|f| f.parse().ok()).collect());
                    }
                }
                (Some(letter @ ("o" | "d")), Some(a), Some(_)) => {
                    if let Some(b) = fields.next() {
                        let pairs = if letter == "o" {
                            &mut lexicon.opposites
                        } else {
                            &mut lexicon.derived
                        };
                        pairs.entry(a.into()).or_default().push(b.into());
                        pairs.entry(b.into()).or_default().push(a.into());
                    }
                }
                _ => {}
            }
        }
        lexicon
    }

    /// Whether it knows the word as it is.
    pub fn has(&self, word: &str) -> bool {
        self.senses.contains_key(word)
    }

    /// Whether it knows the word or a form that it is an inflection of.
    pub fn knows(&self, word: &str) -> bool {
        !self.bases(word).is_empty()
    }

    /// The words of which this may be an inflected form, itself included where it is a word: WordNet's own rules
    /// (morphy), without comparatives and superlatives, which change what is asked.
    pub fn bases(&self, word: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut add = |base: &str| {
            if !found.iter().any(|f| f == base) {
                found.push(base.to_owned());
            }
        };
        if self.has(word) {
            add(word);
        }
        for (pos, base) in self.irregular.get(word).into_iter().flatten() {
            if matches!(pos, b'n' | b'v') {
                add(base);
            }
        }
        const NOUNS: [(&str, &str); 8] = [
            ("s", ""),
            ("ses", "s"),
            ("xes", "x"),
            ("zes", "z"),
            ("ches", "ch"),
            ("shes", "sh"),
            ("men", "man"),
            ("ies", "y"),
        ];
        const VERBS: [(&str, &str); 8] = [
            ("s", ""),
            ("ies", "y"),
            ("es", "e"),
            ("es", ""),
            ("ed", "e"),
            ("ed", ""),
            ("ing", "e"),
            ("ing", ""),
        ];
        for (rules, pos) in [(&NOUNS, b'n'), (&VERBS, b'v')] {
            for (suffix, ending) in rules {
                if let Some(stem) = word.strip_suffix(suffix).filter(|stem| stem.len() > 1) {
                    let mut tries = vec![format!("{stem}{ending}")];
                    let last = stem.as_bytes()[stem.len() - 1];
                    // cancelled, running
                    if pos == b'v' && stem.len() > 2 && stem.as_bytes()[stem.len() - 2] == last {
                        tries.push(stem[..stem.len() - 1].to_owned());
                    }
                    for base in tries {
                        let as_pos = self
                            .senses
                            .get(base.as_str())
                            .is_some_and(|senses| senses.iter().any(|(found, _)| *found == pos));
                        if as_pos {
                            add(&base);
                        }
                    }
                }
            }
        }
        found
    }

    /// The adjective that a word is the comparative or superlative of, and which of the two.
    pub fn degree(&self, word: &str) -> Option<(Degree, String)> {
        let irregular = self
            .irregular
            .get(word)
            .into_iter()
            .flatten()
            .find(|(pos, _)| matches!(pos, b'a' | b'r'))
            .map(|(_, base)| base.to_string());
        for (suffix, degree) in [("est", Degree::Most), ("er", Degree::More)] {
            let Some(stem) = word.strip_suffix(suffix) else { continue };
            if let Some(base) = irregular {
                return Some((degree, base));
            }
            let tries = [stem.to_owned(), format!("{stem}e")];
            let y = stem.strip_suffix('i').map(|stem| format!("{stem}y"));
            let base = tries.into_iter().chain(y).find(|base| {
                self.senses
                    .get(base.as_str())
                    .is_some_and(|senses| senses.iter().any(|(pos, _)| *pos == b'a'))
            });
            // A thing that is also spelt so (a cleaner, a letter) is that thing.
            let thing = self
                .senses
                .get(word)
                .is_some_and(|senses| senses.iter().any(|(pos, _)| *pos == b'n'));
            return base.filter(|_| !thing).map(|base| (degree, base));
        }
        None
    }

    /// How far both words mean the same: the share of uses, in percent, in which the word that is used less in the
    /// senses they share has one of them. 0 where they share none, or are opposites in any.
    ///
    /// Most words of daily use have many senses, and share a rare one with words that mean something else (`fine` and
    /// `ticket`, `gas` and `petrol`, `last` and `final`): a shared sense alone says little.
    pub fn same_meaning(&self, a: &str, b: &str) -> u32 {
        if self.are_opposites(a, b) {
            return 0;
        }
        let mut best = 0;
        for (pos, of_a) in self.senses.get(a).into_iter().flatten() {
            for (_, of_b) in
                self.senses.get(b).into_iter().flatten().filter(|(other, _)| other == pos)
            {
                let share = |of: &[Sense], other: &[Sense]| -> u32 {
                    let shared = |s: &&Sense| other.iter().any(|o| o.synset == s.synset);
                    of.iter().filter(shared).map(|s| s.percent).sum()
                };
                best = best.max(share(of_a, of_b).min(share(of_b, of_a)));
            }
        }
        best
    }

    /// Whether both are listed and are two words, though one is spelt as a form of the other: they share no sense at
    /// all (`building` and `build`), or one is a plural with a meaning of its own (`customs` and `custom`).
    pub fn are_apart(&self, a: &str, b: &str) -> bool {
        let synsets = |word: &str| -> HashSet<u32> {
            let all = self.senses.get(word).into_iter().flatten();
            all.flat_map(|(_, senses)| senses.iter().map(|s| s.synset)).collect()
        };
        let (of_a, of_b) = (synsets(a), synsets(b));
        if of_a.is_empty() || of_b.is_empty() {
            return false;
        }
        let plural = a.strip_suffix('s') == Some(b) || b.strip_suffix('s') == Some(a);
        of_a.is_disjoint(&of_b) || (plural && self.same_meaning(a, b) < 40)
    }

    /// Whether they are opposites: in WordNet's list, or one is derived from, or near in meaning to, a word whose
    /// opposite the other is.
    pub fn are_opposites(&self, a: &str, b: &str) -> bool {
        let listed = |a: &str, b: &str| {
            self.opposites.get(a).is_some_and(|found| found.iter().any(|o| &**o == b))
        };
        if listed(a, b) {
            return true;
        }
        // benefit and drawback, accept and refusal: one step of derivation on either side.
        let family = |word: &str| -> HashSet<Box<str>> {
            let mut found: HashSet<Box<str>> =
                self.derived.get(word).into_iter().flatten().cloned().collect();
            found.insert(word.into());
            found
        };
        let (of_a, of_b) = (family(a), family(b));
        of_a.iter().any(|a| {
            self.opposites.get(a).is_some_and(|found| found.iter().any(|o| of_b.contains(o)))
        })
    }

    /// How one word's thing relates to the other's where they don't mean the same, to be told to a person.
    pub fn relation(&self, a: &str, b: &str) -> Option<&'static str> {
        if self.are_opposites(a, b) {
            return Some("opposites");
        }
        let senses = |word: &str| -> Vec<u32> {
            let all = self.senses.get(word).into_iter().flatten();
            all.flat_map(|(_, senses)| senses.iter().take(2).map(|s| s.synset)).collect()
        };
        let (of_a, of_b) = (senses(a), senses(b));
        let kinds = |senses: &[u32]| -> HashSet<u32> {
            senses.iter().filter_map(|s| self.kinds.get(s)).flatten().copied().collect()
        };
        let (kinds_a, kinds_b) = (kinds(&of_a), kinds(&of_b));
        if of_b.iter().any(|s| kinds_a.contains(s)) || of_a.iter().any(|s| kinds_b.contains(s)) {
            return Some("one is a kind of the other");
        }
        kinds_a.intersection(&kinds_b).next().map(|_| "two of one kind")
    }
}

/// A step of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degree {
    /// -er.
    More,
    /// -est.
    Most,
}

fn sense(field: &str) -> Option<Sense> {
    let (synset, percent) = field.split_once(':')?;
    Some(Sense { synset: synset.parse().ok()?, percent: percent.parse().ok()? })
}

fn byte(pos: &str) -> Pos {
    pos.as_bytes().first().copied().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read() {
        let lexicon = Lexicon::get();
        assert!(lexicon.senses.len() > 80_000 && lexicon.opposites.len() > 3_000);
        assert!(
            lexicon.knows("evenings") && lexicon.knows("cancelled") && lexicon.knows("children")
        );
        assert!(!lexicon.knows("evenigns") && !lexicon.knows("unarchive"));
    }

    #[test]
    fn forms_and_degrees() {
        let lexicon = Lexicon::get();
        assert!(lexicon.bases("cancelled").contains(&"cancel".to_owned()));
        assert!(lexicon.bases("waiting").contains(&"wait".to_owned()));
        assert!(lexicon.bases("paid").contains(&"pay".to_owned()));
        assert_eq!(lexicon.degree("quickest").unwrap(), (Degree::Most, "quick".to_owned()));
        assert_eq!(lexicon.degree("cleaner"), None);
    }

    #[test]
    fn meanings() {
        let lexicon = Lexicon::get();
        assert!(lexicon.same_meaning("shop", "store") > 40);
        for (a, b) in
            [("enable", "disable"), ("move", "travel"), ("fine", "ticket"), ("last", "final")]
        {
            assert!(lexicon.same_meaning(a, b) < 40, "{a} {b}");
        }
        assert!(lexicon.are_apart("customs", "custom"));
        assert!(lexicon.are_apart("building", "build") && !lexicon.are_apart("waiting", "wait"));
        for (a, b) in [("lock", "unlock"), ("successful", "unsuccessful"), ("buy", "sell")] {
            assert!(lexicon.are_opposites(a, b), "{a} {b}");
            assert_eq!(lexicon.same_meaning(a, b), 0, "{a} {b}");
        }
        assert_eq!(lexicon.relation("buy", "sell"), Some("opposites"));
        assert_eq!(
            lexicon.relation("amoxicillin", "penicillin"),
            Some("one is a kind of the other")
        );
    }
}
