//! Cuts text into the words within which BPE merges: hand-written forms of the regular expressions that the models
//! were trained with.
//!
//! GPT-2: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`. SmolLM first sets every `\p{N}`
//! apart and then does the same to what is between them.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    Gpt2,
    Smollm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
}

fn class(character: char) -> Class {
    match character {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        '0'..='9' => Class::Number,
        '\t'..='\r' | ' ' => Class::Space,
        '\0'..='\x7f' => Class::Other,
        _ if character.is_whitespace() => Class::Space,
        _ => match character.general_category_group() {
            GeneralCategoryGroup::Letter => Class::Letter,
            GeneralCategoryGroup::Number => Class::Number,
            _ => Class::Other,
        },
    }
}

impl PreTokenizer {
    pub(super) fn from_name(name: &str) -> Option<PreTokenizer> {
        match name {
            "gpt-2" => Some(PreTokenizer::Gpt2),
            "smollm" => Some(PreTokenizer::Smollm),
            _ => None,
        }
    }

    /// The words of `text` in order; together they are the whole text.
    pub(super) fn words(self, text: &str) -> impl Iterator<Item = &str> {
        let mut rest = text;
        std::iter::from_fn(move || {
            let (word, after) = rest.split_at(self.word_len(rest));
            rest = after;
            Some(word).filter(|word| !word.is_empty())
        })
    }

    /// The length in bytes of the first word.
    fn word_len(self, text: &str) -> usize {
        if let Some(len) = contraction(text) {
            return len;
        }
        let mut characters = text.chars();
        let Some(first) = characters.next() else { return 0 };
        let first_class = class(first);
        let second_class = characters.next().map(class);
        let (prefix, run) = match (first, second_class) {
            // A space goes with the letters or signs (or, for GPT-2, numbers) after it.
            (' ', Some(second)) if self.takes_space(second) => (1, second),
            _ => (0, first_class),
        };
        let run_len = |class_of_run| {
            let in_run = |character: &char| class(*character) == class_of_run;
            text[prefix..].chars().take_while(in_run).map(char::len_utf8).sum::<usize>()
        };
        match run {
            Class::Number if self == PreTokenizer::Smollm => first.len_utf8(),
            Class::Space => self.spaces_len(text, run_len(Class::Space)),
            _ => prefix + run_len(run),
        }
    }

    fn takes_space(self, class: Class) -> bool {
        match class {
            Class::Letter | Class::Other => true,
            Class::Number => self == PreTokenizer::Gpt2,
            Class::Space => false,
        }
    }

    /// Of a run of spaces the last is left to the word after it, if there is one and the run is more than that.
    fn spaces_len(self, text: &str, run: usize) -> usize {
        let is_followed = match text[run..].chars().next() {
            None => false,
            // For SmolLM the text ends before a number.
            Some(next) => self == PreTokenizer::Gpt2 || class(next) != Class::Number,
        };
        let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
        if is_followed && run > last { run - last } else { run }
    }
}

/// The length of an English contraction at the start of `text`.
fn contraction(text: &str) -> Option<usize> {
    match text.as_bytes() {
        [b'\'', b's' | b't' | b'm' | b'd', ..] => Some(2),
        [b'\'', b'r' | b'v', b'e', ..] | [b'\'', b'l', b'l', ..] => Some(3),
        _ => None,
    }
}

#[cfg(test)]
#[path = "words/tests.rs"]
mod tests;
