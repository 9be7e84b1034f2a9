//! Cuts text into the words within which BPE merges: hand-written forms of the regular expressions that the models
//! were trained with, as llama.cpp lists them by the names that GGUF files give (`tokenizer.ggml.pre`).
//!
//! - `gpt-2`: `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//! - `smollm` first sets every `\p{N}` apart and then does the same to what is between them.
//! - `llama-bpe` (Llama 3): `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|`
//!   `\s*[\r\n]+|\s+(?!\S)|\s+`, where case is ignored in ASCII alone (as llama.cpp does; `ſ` is no `s`).
//! - `qwen2`: the same with `\p{N}` in place of `\p{N}{1,3}`.
//! - `tekken` (Mistral Nemo and Small): `[^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|`
//!   `\s*[\r\n]+|\s+(?!\S)|\s+`, where `U` are all letters but `a` to `z` and `L` all but `A` to `Z`. That is llama.cpp's
//!   reading; the model's own rule knows the case of other scripts, and takes marks for letters.
//! - `default`, for files whose maker knew no better: runs of `[\p{P}$+<=>^~|]` are set apart, then what is between them is cut as
//!   by `gpt-2`, then runs of `\p{N}` are set apart, and in them each three of `[0-9]`.
//!
//! Every cut depends on the text from its word's start on alone, so cutting can begin at the end of any word.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    Gpt2,
    Smollm,
    Llama3,
    Qwen2,
    Tekken,
    Default,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Number,
    Space,
    Other,
    /// What `default` sets apart first; for all others it is [`Class::Other`].
    Apart,
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

/// `[\p{P}$+<=>^~|]`.
fn is_set_apart(character: char) -> bool {
    match character {
        '$' | '+' | '<' | '=' | '>' | '^' | '~' | '|' => true,
        '\0'..='\x7f' => character.is_ascii_punctuation() && character != '`',
        _ => character.general_category_group() == GeneralCategoryGroup::Punctuation,
    }
}

/// The length in bytes of the characters at the start of `text` that are `wanted`.
fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|character| !wanted(character)).unwrap_or(text.len())
}

impl PreTokenizer {
    /// The names that are known, for messages.
    pub(super) const SUPPORTED: &'static str =
        "`default`, `gpt-2`, `llama-bpe`, `qwen2`, `smollm` and `tekken` are";

    pub(super) fn from_name(name: &str) -> Option<PreTokenizer> {
        match name {
            "gpt-2" => Some(PreTokenizer::Gpt2),
            "smollm" => Some(PreTokenizer::Smollm),
            // The names that converters gave before they agreed on one.
            "llama-bpe" | "llama3" | "llama-v3" => Some(PreTokenizer::Llama3),
            // The second is the same vocabulary, as DeepSeek's distilled models have it.
            "qwen2" | "deepseek-r1-qwen" => Some(PreTokenizer::Qwen2),
            "tekken" => Some(PreTokenizer::Tekken),
            "default" => Some(PreTokenizer::Default),
            _ => None,
        }
    }

    /// Whether a word that is a token as a whole is that token, whatever the merges would make of it.
    pub(super) fn takes_whole_words(self) -> bool {
        matches!(self, PreTokenizer::Llama3 | PreTokenizer::Tekken)
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

    fn class(self, character: char) -> Class {
        match class(character) {
            Class::Other if self == PreTokenizer::Default && is_set_apart(character) => {
                Class::Apart
            }
            class => class,
        }
    }

    /// The length in bytes of the first word.
    fn word_len(self, text: &str) -> usize {
        match self {
            PreTokenizer::Llama3 | PreTokenizer::Qwen2 | PreTokenizer::Tekken => {
                self.tiktoken_len(text)
            }
            PreTokenizer::Gpt2 | PreTokenizer::Smollm | PreTokenizer::Default => {
                self.gpt2_len(text)
            }
        }
    }

    fn gpt2_len(self, text: &str) -> usize {
        if self != PreTokenizer::Default
            && let Some(len) = contraction(text, false)
        {
            return len;
        }
        let mut characters = text.chars();
        let Some(first) = characters.next() else { return 0 };
        let first_class = self.class(first);
        let second_class = characters.next().map(|second| self.class(second));
        let (prefix, of_run) = match (first, second_class) {
            // A space goes with the letters or signs (or, for GPT-2, numbers) after it.
            (' ', Some(second)) if self.takes_space(second) => (1, second),
            _ => (0, first_class),
        };
        let run_len = |of_run| run(&text[prefix..], |character| self.class(character) == of_run);
        match of_run {
            Class::Number if self == PreTokenizer::Smollm => first.len_utf8(),
            Class::Number if self == PreTokenizer::Default => threes_len(&text[..run_len(of_run)]),
            Class::Space => self.spaces_len(text, run_len(Class::Space)),
            _ => prefix + run_len(of_run),
        }
    }

    fn takes_space(self, class: Class) -> bool {
        match class {
            Class::Letter | Class::Other => true,
            Class::Number => self == PreTokenizer::Gpt2,
            Class::Space | Class::Apart => false,
        }
    }

    /// Of a run of spaces the last is left to the word after it, if there is one and the run is more than that.
    fn spaces_len(self, text: &str, run: usize) -> usize {
        let is_followed = match text[run..].chars().next().map(|next| self.class(next)) {
            // Where something was set apart first, the text ends before it.
            None | Some(Class::Apart) => false,
            Some(Class::Number) => self != PreTokenizer::Smollm,
            Some(_) => true,
        };
        let last = text[..run].chars().next_back().map_or(0, char::len_utf8);
        if is_followed && run > last { run - last } else { run }
    }

    /// Llama 3's and Qwen's rule, which is that of OpenAI's tiktoken, and Tekken's, which is a later one of those.
    fn tiktoken_len(self, text: &str) -> usize {
        if self != PreTokenizer::Tekken
            && let Some(len) = contraction(text, true)
        {
            return len;
        }
        let mut characters = text.char_indices();
        let Some((_, first)) = characters.next() else { return 0 };
        let first_class = class(first);
        let second = characters.next().map(|(at, second)| (at, class(second)));
        let run_len =
            |from: usize, of_run| from + run(&text[from..], |character| class(character) == of_run);
        let letters_len = |from: usize| match self {
            PreTokenizer::Tekken => from + cased_len(&text[from..]),
            _ => run_len(from, Class::Letter),
        };
        match (first_class, second) {
            (Class::Letter, _) => letters_len(0),
            // Any sign or space but a line's end goes with the letters after it.
            (Class::Space | Class::Other, Some((at, Class::Letter)))
                if !matches!(first, '\r' | '\n') =>
            {
                letters_len(at)
            }
            (Class::Number, _) => {
                let most = if self == PreTokenizer::Llama3 { 3 } else { 1 };
                let numbers =
                    text.chars().take(most).take_while(|next| class(*next) == Class::Number);
                numbers.map(char::len_utf8).sum()
            }
            (Class::Space, Some((at, Class::Other))) if first == ' ' => self.signs_len(text, at),
            (Class::Space, _) => {
                let run = run_len(0, Class::Space);
                match text[..run].rfind(['\r', '\n']) {
                    Some(last) => last + 1,
                    None => self.spaces_len(text, run),
                }
            }
            _ => self.signs_len(text, 0),
        }
    }

    /// Signs from `from` on, and the line ends (and Tekken's slashes) after them.
    fn signs_len(self, text: &str, from: usize) -> usize {
        let end = from + run(&text[from..], |character| class(character) == Class::Other);
        let slash = self == PreTokenizer::Tekken;
        let goes_with = |next| matches!(next, '\r' | '\n') || (slash && next == '/');
        end + run(&text[end..], goes_with)
    }
}

/// `U*L+|U+L*` at the start of `text`, which is a letter.
fn cased_len(text: &str) -> usize {
    let is_letter = |character| class(character) == Class::Letter;
    let upper = run(text, |character| is_letter(character) && !character.is_ascii_lowercase());
    let lower =
        run(&text[upper..], |character| is_letter(character) && !character.is_ascii_uppercase());
    if lower > 0 {
        return upper + lower;
    }
    // `L+` takes back what it can of the letters without ASCII case: the last of them ends the word.
    match text[..upper].char_indices().rfind(|(_, character)| !character.is_ascii_uppercase()) {
        Some((at, character)) => at + character.len_utf8(),
        None => upper,
    }
}

/// The first part of a run of numbers: three ASCII digits, or what comes before the next three.
fn threes_len(numbers: &str) -> usize {
    let bytes = numbers.as_bytes();
    let next = bytes.windows(3).position(|three| three.iter().all(u8::is_ascii_digit));
    match next {
        Some(0) => 3,
        Some(next) => next,
        None => numbers.len(),
    }
}

/// The length of an English contraction at the start of `text`, in any case or in lower case alone.
fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let [b'\'', rest @ ..] = text.as_bytes() else { return None };
    let letter = |at: usize| {
        let byte = rest.get(at).copied().unwrap_or_default();
        if any_case { byte.to_ascii_lowercase() } else { byte }
    };
    match (letter(0), letter(1)) {
        (b's' | b't' | b'm' | b'd', _) => Some(2),
        (b'r' | b'v', b'e') | (b'l', b'l') => Some(3),
        _ => None,
    }
}

#[cfg(test)]
#[path = "words/tests.rs"]
mod tests;
