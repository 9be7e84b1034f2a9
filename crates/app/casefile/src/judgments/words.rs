//! Words of a text, as they are compared.

/// Words so common that they tell nothing: the articles, prepositions and auxiliaries of English.
const COMMON: [&str; 40] = [
    "a", "an", "and", "are", "as", "at", "be", "been", "but", "by", "did", "do", "does", "for",
    "from", "had", "has", "have", "he", "his", "in", "is", "it", "its", "not", "of", "on", "or",
    "she", "that", "the", "their", "they", "this", "to", "was", "were", "which", "will", "with",
];

/// The words of a text in lower case, without the commonest and without the ends of plurals.
pub(super) fn of(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| COMMON.binary_search(&word.as_str()).is_err())
        .map(singular)
}

/// A plural's end goes (Harman's S-stemmer, 1991): `leases` is `lease`, `parties` is `party`; `process` stays.
fn singular(word: String) -> String {
    let ends = |end: &str| word.ends_with(end);
    if word.len() < 4 || !word.is_ascii() {
        return word;
    }
    if ends("ies") && !ends("eies") && !ends("aies") {
        return format!("{}y", &word[..word.len() - 3]);
    }
    if ends("s") && !ends("us") && !ends("ss") {
        return word[..word.len() - 1].to_owned();
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_plain() {
        assert!(COMMON.is_sorted());
        let words: Vec<_> = of("The Parties' leases, § 12(b): a process of Éclairs.").collect();
        assert_eq!(words, ["party", "lease", "12", "b", "process", "éclairs"]);
    }
}
