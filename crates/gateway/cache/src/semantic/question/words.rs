//! Text to words: contractions written out, numbers as digits, greetings, thanks and fillers left out.

/// What a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Letters.
    Word,
    /// A number, as digits.
    Number,
    /// Letters and digits together: a form, a product, an order's number.
    Code,
    /// A sign that changes a number's meaning: a currency, a percent sign, a section sign.
    Sign,
    /// A comma, or the end of a sentence inside the text.
    Pause,
}

/// A word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// In lower case; a number as its digits.
    pub text: String,
    /// What it is.
    pub kind: Kind,
    /// Whether it begins with a capital where that says something: not at a sentence's start, not in a text that
    /// capitalises everything.
    pub capital: bool,
    /// Whether it was the owner of what follows (`Mary's`).
    pub possessive: bool,
}

impl Word {
    fn new(text: impl Into<String>, kind: Kind) -> Self {
        Word { text: text.into(), kind, capital: false, possessive: false }
    }

    /// Whether it is this word.
    pub fn is(&self, text: &str) -> bool {
        self.kind == Kind::Word && self.text == text
    }

    /// Whether it is one of these words.
    pub fn is_one_of(&self, texts: &[&str]) -> bool {
        self.kind == Kind::Word && texts.contains(&self.text.as_str())
    }
}

/// The words of a text.
pub(super) fn read(text: &str) -> Vec<Word> {
    let plain: String = text
        .chars()
        .map(|c| match c {
            '\u{2018}' | '\u{2019}' | '\u{02bc}' | '`' => '\'',
            '\u{201c}' | '\u{201d}' => '"',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    let capitals = capitals_say_something(&plain);
    let mut words: Vec<Word> = Vec::new();
    let mut first = true;
    for chunk in plain.split(' ').filter(|chunk| !chunk.is_empty()) {
        let ends = chunk.ends_with(['.', '?', '!', ';', ':', '…']);
        let pauses = chunk.ends_with(',') || ends;
        let before = words.len();
        pieces(chunk, &mut words);
        let began = chunk.chars().find(|c| c.is_alphanumeric()).is_some_and(char::is_uppercase);
        for word in &mut words[before..] {
            word.capital = capitals && began && !first && word.kind != Kind::Sign;
        }
        if words.len() > before {
            first = ends;
        }
        // `Dash` alone is a pause as well.
        if (pauses && words.len() > before) || matches!(chunk, "-" | "–" | "—") {
            words.push(Word::new(",", Kind::Pause));
        }
    }
    number_words(&mut words);
    strip_chatter(&mut words);
    // A stutter, and pauses around what was left out.
    words.dedup_by(|a, b| {
        a.kind == b.kind && matches!(a.kind, Kind::Word | Kind::Pause) && a.text == b.text
    });
    words
}

/// Whether a capital letter marks a name: not where all but the small words have one.
fn capitals_say_something(text: &str) -> bool {
    let words: Vec<&str> =
        text.split(' ').filter(|w| w.chars().next().is_some_and(char::is_alphabetic)).collect();
    let is_upper = |w: &&&str| w.chars().next().is_some_and(char::is_uppercase);
    let upper = words.iter().filter(is_upper).count();
    let mut long = words.iter().filter(|w| w.chars().count() > 3);
    let everything = words.len() > 3 && upper * 10 >= words.len() * 7 && long.all(|w| is_upper(&w));
    !everything
}

/// One chunk between spaces: split at hyphens, slashes and between digits and letters.
fn pieces(chunk: &str, out: &mut Vec<Word>) {
    let inner = chunk.trim_matches(|c: char| {
        !(c.is_alphanumeric() || matches!(c, '£' | '$' | '€' | '¥' | '%' | '§' | '#' | '+'))
    });
    for part in inner.split(['-', '/', '–', '—', '(', ')', '[', ']', '"']).filter(|p| !p.is_empty())
    {
        piece(part, out);
    }
}

fn piece(part: &str, out: &mut Vec<Word>) {
    let mut rest = part;
    while let Some(sign) = rest.chars().next().filter(|c| "£$€¥%§#+".contains(*c)) {
        out.push(Word::new(sign.to_string(), Kind::Sign));
        rest = &rest[sign.len_utf8()..];
    }
    if rest.is_empty() {
        return;
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, ',' | '.' | ':')))
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let number = number.trim_end_matches([',', '.', ':']);
        let tail = after.trim_matches(|c: char| !(c.is_alphanumeric() || c == '%'));
        match tail {
            "" => out.push(Word::new(plain_number(number), Kind::Number)),
            "st" | "nd" | "rd" | "th" => out.push(Word::new(format!("{number}th"), Kind::Code)),
            _ if tail.chars().all(|c| c.is_alphabetic() || c == '%') && tail.len() <= 5 => {
                out.push(Word::new(plain_number(number), Kind::Number));
                let kind = if tail == "%" { Kind::Sign } else { Kind::Word };
                out.push(Word::new(tail.to_lowercase(), kind));
            }
            _ => out.push(Word::new(rest.to_lowercase(), Kind::Code)),
        }
        return;
    }
    if rest.chars().any(|c| c.is_ascii_digit()) {
        out.push(Word::new(rest.to_lowercase(), Kind::Code));
        return;
    }
    contraction(&rest.to_lowercase(), out);
}

fn plain_number(number: &str) -> String {
    let plain: String = number.chars().filter(|c| *c != ',').collect();
    if plain.contains('.') && plain.matches('.').count() == 1 && !plain.contains(':') {
        plain.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        plain
    }
}

/// Contractions that are written without an apostrophe as well, and are no other word.
const BARE: [(&str, &[&str]); 21] = [
    ("dont", &["do", "not"]),
    ("doesnt", &["does", "not"]),
    ("didnt", &["did", "not"]),
    ("isnt", &["is", "not"]),
    ("arent", &["are", "not"]),
    ("wasnt", &["was", "not"]),
    ("werent", &["were", "not"]),
    ("cant", &["can", "not"]),
    ("couldnt", &["could", "not"]),
    ("wouldnt", &["would", "not"]),
    ("shouldnt", &["should", "not"]),
    ("havent", &["have", "not"]),
    ("hasnt", &["has", "not"]),
    ("cannot", &["can", "not"]),
    ("im", &["i", "am"]),
    ("ive", &["i", "have"]),
    ("whats", &["what", "is"]),
    ("whos", &["who", "is"]),
    ("wheres", &["where", "is"]),
    ("whens", &["when", "is"]),
    ("hows", &["how", "is"]),
];

fn contraction(word: &str, out: &mut Vec<Word>) {
    let mut push = |text: &str| out.push(Word::new(text, Kind::Word));
    if let Some((_, spelt)) = BARE.iter().find(|(bare, _)| *bare == word) {
        spelt.iter().for_each(|w| push(w));
        return;
    }
    let Some((head, tail)) = word.split_once('\'') else {
        push(word);
        return;
    };
    match (head, tail) {
        ("can", "t") => ["can", "not"].iter().for_each(|w| push(w)),
        ("won", "t") => ["will", "not"].iter().for_each(|w| push(w)),
        ("shan", "t") => ["shall", "not"].iter().for_each(|w| push(w)),
        (_, "t") if head.ends_with('n') => {
            push(&head[..head.len() - 1]);
            push("not");
        }
        ("let", "s") => push("let"),
        (
            "what" | "who" | "where" | "when" | "why" | "how" | "that" | "there" | "here" | "it"
            | "he" | "she",
            "s",
        ) => {
            push(head);
            push("is");
        }
        (_, "m") => [head, "am"].iter().for_each(|w| push(w)),
        (_, "re") => [head, "are"].iter().for_each(|w| push(w)),
        (_, "ll") => [head, "will"].iter().for_each(|w| push(w)),
        (_, "ve") => [head, "have"].iter().for_each(|w| push(w)),
        (_, "d") => [head, "would"].iter().for_each(|w| push(w)),
        (_, "s" | "") if !head.is_empty() => {
            push(head);
            if let Some(word) = out.last_mut() {
                word.possessive = true;
            }
        }
        _ => push(&word.replace('\'', "")),
    }
}

const UNITS: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 8] =
    ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Numbers in words become digits: `twenty one` is 21, `two hundred` 200.
fn number_words(words: &mut Vec<Word>) {
    let value = |word: &Word| -> Option<u64> {
        if word.kind != Kind::Word {
            return None;
        }
        let unit = UNITS.iter().position(|w| *w == word.text).map(|i| i as u64);
        unit.or_else(|| TENS.iter().position(|w| *w == word.text).map(|i| (i as u64 + 2) * 10))
    };
    let mut out: Vec<Word> = Vec::with_capacity(words.len());
    let mut at = 0;
    while at < words.len() {
        let Some(mut number) = value(&words[at]) else {
            out.push(words[at].clone());
            at += 1;
            continue;
        };
        at += 1;
        if number >= 20
            && let Some(unit) = words.get(at).and_then(value).filter(|unit| (1..10).contains(unit))
        {
            number += unit;
            at += 1;
        }
        while let Some(factor) = words.get(at).and_then(|word| match word.text.as_str() {
            "hundred" => Some(100),
            "thousand" => Some(1_000),
            "million" => Some(1_000_000),
            _ => None,
        }) {
            number = number.saturating_mul(factor);
            at += 1;
        }
        out.push(Word::new(number.to_string(), Kind::Number));
    }
    *words = out;
}

/// Said between the words of speech.
const FILLERS: [&str; 12] =
    ["um", "umm", "uh", "uhm", "er", "erm", "hmm", "ah", "please", "pls", "plz", "kindly"];

/// Said before a question. Longer ones first.
const BEFORE: &[&[&str]] = &[
    &["i", "hope", "you", "are", "doing", "well"],
    &["i", "hope", "you", "are", "well"],
    &["hope", "you", "are", "doing", "well"],
    &["hope", "you", "are", "well"],
    &["i", "was", "just", "wondering"],
    &["can", "i", "just", "ask"],
    &["i", "just", "wanted", "to", "ask"],
    &["i", "wanted", "to", "ask"],
    &["i", "have", "a", "quick", "question"],
    &["i", "have", "a", "question"],
    &["can", "you", "tell", "me"],
    &["could", "you", "tell", "me"],
    &["would", "you", "tell", "me"],
    &["can", "you", "let", "me", "know"],
    &["could", "you", "let", "me", "know"],
    &["i", "would", "like", "to", "know"],
    &["i", "want", "to", "know"],
    &["i", "need", "to", "know"],
    &["i", "was", "wondering"],
    &["may", "i", "ask"],
    &["can", "i", "ask"],
    &["do", "you", "know"],
    &["just", "a", "quick", "question"],
    &["a", "quick", "question"],
    &["just", "wondering"],
    &["just", "checking"],
    &["quick", "question"],
    &["quick", "1"],
    &["any", "idea"],
    &["tell", "me"],
    &["good", "morning"],
    &["good", "afternoon"],
    &["good", "evening"],
    &["good", "day"],
    &["excuse", "me"],
    &["quick", "q"],
    &["morning"],
    &["afternoon"],
    &["evening"],
    &["hi", "all"],
    &["hello", "all"],
    &["hi", "everyone"],
    &["hello", "everyone"],
    &["hi", "folks"],
    &["hey", "guys"],
    &["hi", "guys"],
    &["dear", "team"],
    &["dear", "sir", "or", "madam"],
    &["hi", "there"],
    &["hello", "there"],
    &["hey", "there"],
    &["hi"],
    &["hello"],
    &["hey"],
    &["hiya"],
    &["sorry"],
    &["ok"],
    &["okay"],
    &["yeah"],
    &["well"],
    &["so"],
    &["team"],
    &["wondering"],
];

/// Said after one.
const AFTER: &[&[&str]] = &[
    &["thank", "you", "for", "your", "help"],
    &["thanks", "for", "your", "help"],
    &["have", "a", "good", "day"],
    &["have", "a", "nice", "day"],
    &["appreciate", "it"],
    &["thanks", "again"],
    &["all", "the", "best"],
    &["thanks", "very", "much"],
    &["thank", "you", "very", "much"],
    &["thank", "you", "so", "much"],
    &["thanks", "so", "much"],
    &["thanks", "in", "advance"],
    &["thank", "you", "in", "advance"],
    &["much", "appreciated"],
    &["many", "thanks"],
    &["thanks", "a", "lot"],
    &["kind", "regards"],
    &["best", "regards"],
    &["thank", "you"],
    &["thanks"],
    &["cheers"],
    &["thx"],
    &["ta"],
];

/// Phrases after which only a question word can come, for the phrase to be no more than politeness.
const ASKS: [&str; 10] =
    ["what", "which", "who", "whose", "whom", "when", "where", "why", "how", "if"];

fn strip_chatter(words: &mut Vec<Word>) {
    words.retain(|word| !word.is_one_of(&FILLERS));
    let pauses = |words: &[Word]| words.iter().take_while(|w| w.kind == Kind::Pause).count();
    loop {
        let skip = pauses(words);
        words.drain(..skip);
        let begins = |phrase: &&&[&str]| {
            phrase.len() < words.len()
                && phrase.iter().zip(words.iter()).all(|(said, word)| word.text == *said)
        };
        let Some(phrase) = BEFORE.iter().find(begins) else { break };
        let polite = matches!(phrase.last(), Some(&("me" | "know" | "ask" | "idea" | "wondering")));
        let next = words[phrase.len()..].iter().find(|w| w.kind != Kind::Pause);
        let paused = words[phrase.len()].kind == Kind::Pause;
        // `Can you tell me a joke` asks for a joke; `can you tell me where` asks where.
        if polite && phrase[0] != "excuse" && !paused && !next.is_some_and(|w| w.is_one_of(&ASKS)) {
            break;
        }
        // `Well water` and `so far` are no chatter, and `team` only after a greeting.
        if matches!(
            phrase[0],
            "well" | "team" | "morning" | "afternoon" | "evening" | "hope" | "sorry"
        ) && !paused
        {
            break;
        }
        words.drain(..phrase.len());
        let skip = pauses(words);
        words.drain(..skip);
        // `... wondering if you deliver` is `you deliver`, asked.
        if polite && words.first().is_some_and(|w| w.is("if")) {
            words.drain(..1);
        }
    }
    loop {
        while words.last().is_some_and(|w| w.kind == Kind::Pause) {
            words.pop();
        }
        let ends = |phrase: &&&[&str]| {
            phrase.len() < words.len()
                && words[words.len() - phrase.len()..]
                    .iter()
                    .zip(phrase.iter())
                    .all(|(word, said)| word.text == *said)
        };
        match AFTER.iter().find(ends) {
            Some(phrase) => words.truncate(words.len() - phrase.len()),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        let words: Vec<String> = read(text).into_iter().map(|w| w.text).collect();
        words.join(" ")
    }

    #[test]
    fn chatter_goes_and_what_looks_like_it_stays() {
        assert_eq!(said("Hi team, how do I, um, pay? Thanks in advance!"), "how do i , pay");
        assert_eq!(said("Can you tell me where my parcel is?"), "where my parcel is");
        assert_eq!(said("Can you tell me a joke?"), "can you tell me a joke");
        assert_eq!(said("Well water tests"), "well water tests");
        assert_eq!(said("Thanks"), "thanks");
    }

    #[test]
    fn numbers_codes_and_contractions() {
        assert_eq!(said("£50,270.00 at 7pm, 15% of P60s"), "£ 50270 at 7 pm , 15 % of p60s");
        assert_eq!(said("twenty-one or two hundred"), "21 or 200");
        assert_eq!(
            said("I can't; what's Mary's number? Dont"),
            "i can not , what is mary number , do not"
        );
        assert_eq!(said("a 10GB plan for self-employed"), "a 10 gb plan for self employed");
    }

    #[test]
    fn capitals_count_in_the_middle_only_and_not_where_all_have_them() {
        let capitals = |text: &str| -> Vec<String> {
            read(text).into_iter().filter(|w| w.capital).map(|w| w.text).collect()
        };
        assert_eq!(capitals("Is Tesco open? Ask Mary."), ["tesco", "mary"]);
        assert_eq!(capitals("Do You Accept Apple Pay?"), [""; 0]);
    }
}
