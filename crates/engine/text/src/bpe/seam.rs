//! Where a text can be cut for good: the words on both sides are the same whatever stands further away.
//!
//! Not every end of a word is such a place. A run of whitespace is cut by what follows it, however long it is, and with
//! some models' rules line ends go with the signs before them. What holds for all rules that are known here: no word
//! has a space after something else, so a space behind anything that is no whitespace begins a word; and a run of letters
//! ends at whitespace and at a sign that is no apostrophe (`'s` may belong to it).

/// Whether the end of a word at `at`, inside `text`, is such a place. One character behind it decides.
pub(super) fn is_seam(text: &str, at: usize) -> bool {
    let (Some(before), Some(after)) = (text[..at].chars().next_back(), text[at..].chars().next())
    else {
        return false;
    };
    match after {
        ' ' => !before.is_whitespace(),
        '\n' | '\r' | '\t' => before.is_ascii_alphabetic() || is_cjk(before),
        // Full stops and the like of Chinese and Japanese, which put no spaces between words.
        '、'..='〃' | '！' | '，' | '：'..='；' | '？' => is_cjk(before),
        _ => false,
    }
}

/// Han, Hiragana and Katakana: letters without case, of which no contraction is made.
fn is_cjk(character: char) -> bool {
    matches!(character, 'ぁ'..='ゖ' | 'ァ'..='ヺ' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words on both sides of a seam are those of the whole, whatever stands behind it.
    #[test]
    fn words_of_every_kind_are_cut_there_for_good() {
        use crate::bpe::words::PreTokenizer;
        use proptest::prelude::*;
        let bits = prop::collection::vec(
            prop_oneof![
                "[a-zA-Z]{1,6} {0,2}",
                "[ \\t\\r\\n]{1,6}",
                "[0-9]{1,5}",
                "[.,;:!?'/$+(]{1,4}",
                "('s|'LL|'re|’s)",
                "[漢字仮カ、。！]{1,5}",
                "[अ-हा-ौé]{1,4}",
                "\\PC{1,3}",
            ],
            1..20,
        );
        let config = ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() };
        proptest!(config, |(bits in bits, others in prop::collection::vec("[ a'\\n.1漢]{0,3}", 3))| {
            let text = bits.concat();
            for kind in ["gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "default"] {
                let Some(words) = PreTokenizer::from_name(kind) else { continue };
                for at in (0..text.len()).filter(|at| text.is_char_boundary(*at) && is_seam(&text, *at)) {
                    let before: Vec<&str> = words.words(&text[..at]).collect();
                    // One character behind it decides; what comes after that may be anything.
                    let next = text[at..].chars().next().map_or(at, |next| at + next.len_utf8());
                    for rest in others.iter().map(String::as_str).chain([&text[next..]]) {
                        let whole = format!("{}{rest}", &text[..next]);
                        let mut ends = 0;
                        let all: Vec<&str> = words.words(&whole).collect();
                        let cut = all.iter().take_while(|word| { ends += word.len(); ends <= at }).count();
                        prop_assert_eq!(&all[..cut], &before[..], "{} in {:?} at {}", kind, whole, at);
                        let after: Vec<&str> = words.words(&whole[at..]).collect();
                        prop_assert_eq!(&all[cut..], &after[..], "{} in {:?} at {}", kind, whole, at);
                    }
                }
            }
        });
    }

    #[test]
    fn whitespace_runs_have_none_inside() {
        let seams = |text: &str| -> Vec<usize> {
            (0..=text.len()).filter(|at| text.is_char_boundary(*at) && is_seam(text, *at)).collect()
        };
        assert_eq!(seams("a b"), [1]);
        assert_eq!(seams("a   b, 7\n\nc"), [1, 6]);
        assert_eq!(seams("end.\n  next\nline"), [11]);
        assert_eq!(seams("don't 1st"), [5]);
        assert_eq!(seams("漢字、かな。"), [6, 15]);
        assert_eq!(seams(" "), [0; 0]);
    }
}
