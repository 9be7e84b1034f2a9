//! A question as the guards see it: its words, what kind of question it is, and its core, the words that say what is
//! asked, in order.

mod frame;
mod words;

pub use frame::{Ask, Mode};
pub use words::{Kind, Word};

use super::lexicon::Lexicon;

/// A question, taken apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its words, without greetings, thanks and fillers.
    pub words: Vec<Word>,
    /// What kind of question it is.
    pub ask: Ask,
    /// What its auxiliary verbs say beside the question's kind, in order, each once.
    pub modes: Vec<Mode>,
    /// Whose things it is about: `my`, `your`, `their` and so on, as persons.
    pub owners: Vec<Person>,
    /// The words that say what is asked, in order, after phrases in front were moved to the end.
    pub core: Vec<Term>,
}

/// A word of a question's core.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// In lower case; a number as its digits.
    pub text: String,
    /// What it is.
    pub kind: Kind,
    /// Whether it is one of a closed class (a preposition, a pronoun, a conjunction, a quantifier): it means the same
    /// only as itself.
    pub closed: bool,
    /// Whether it is a verb in the passive.
    pub passive: bool,
    /// Whether it is written as a name is, in a text that doesn't write everything so.
    pub capital: bool,
    /// Words that it may be a form of, itself included.
    pub bases: Vec<String>,
}

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Person {
    /// Who asks.
    First,
    /// Who is asked.
    Second,
    /// Someone else, by pronoun.
    He,
    /// Someone else, by pronoun.
    She,
    /// Someone else, by pronoun.
    They,
}

impl Question {
    /// Takes a text apart.
    pub fn read(text: &str) -> Self {
        let words = words::read(text);
        frame::build(words, Lexicon::get())
    }

    /// Core terms that are no closed class: numbers, codes and words.
    pub fn content(&self) -> impl Iterator<Item = &Term> {
        self.core.iter().filter(|term| !term.closed)
    }
}

impl Term {
    /// Whether both are written or inflected from one word, or the same number, code or sign.
    pub fn is(&self, other: &Term) -> bool {
        self.text == other.text
            || (self.kind == Kind::Word
                && other.kind == Kind::Word
                && !self.closed
                && !other.closed
                && self.bases.iter().any(|base| other.bases.contains(base))
                && !Lexicon::get().are_apart(&self.text, &other.text))
    }
}
