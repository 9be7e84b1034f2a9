use super::*;

fn words(pre: PreTokenizer, text: &str) -> Vec<&str> {
    pre.words(text).collect()
}

#[test]
fn words_take_the_space_before_them() {
    let text = "Hello  world\n\nIt's 12 o'clock -- they'll   ";
    assert_eq!(
        words(PreTokenizer::Gpt2, text),
        [
            "Hello", " ", " world", "\n", "\n", "It", "'s", " 12", " o", "'", "clock", " --",
            " they", "'ll", "   "
        ]
    );
    assert_eq!(
        words(PreTokenizer::Smollm, text),
        [
            "Hello", " ", " world", "\n", "\n", "It", "'s", " ", "1", "2", " o", "'", "clock",
            " --", " they", "'ll", "   "
        ]
    );
}

#[test]
fn a_number_ends_the_text_before_it_for_smollm() {
    assert_eq!(words(PreTokenizer::Gpt2, "a   1"), ["a", "  ", " 1"]);
    assert_eq!(words(PreTokenizer::Smollm, "a   1"), ["a", "   ", "1"]);
    assert_eq!(words(PreTokenizer::Smollm, "a \n1  b"), ["a", " \n", "1", " ", " b"]);
}

#[test]
fn only_a_plain_space_goes_with_the_next_word() {
    assert_eq!(
        words(PreTokenizer::Gpt2, "a\u{a0}b\u{3000} c"),
        ["a", "\u{a0}", "b", "\u{3000}", " c"]
    );
}

#[test]
fn classes_are_those_of_unicode() {
    for (text, wanted) in [
        ("é", Class::Letter),
        ("ª", Class::Letter),
        ("你", Class::Letter),
        ("ʰ", Class::Letter),
        ("²", Class::Number),
        ("Ⅷ", Class::Number),
        ("०", Class::Number),
        ("\u{301}", Class::Other),
        ("\u{94d}", Class::Other),
        ("₹", Class::Other),
        ("ⓐ", Class::Other),
        ("\u{200b}", Class::Other),
        ("\u{85}", Class::Space),
        ("\u{2028}", Class::Space),
        ("\u{1c}", Class::Other),
        ("\u{378}", Class::Other),
    ] {
        assert_eq!(text.chars().map(class).collect::<Vec<_>>(), [wanted], "{text:?}");
    }
}

#[test]
fn llama_3_takes_three_digits_and_signs_before_letters() {
    let text = "It'S 12345 (word) x->y\r\n\r\n  end!!\n \tok ²³Ⅷ७";
    assert_eq!(
        words(PreTokenizer::Llama3, text),
        [
            "It", "'S", " ", "123", "45", " (", "word", ")", " x", "->", "y", "\r\n\r\n", " ",
            " end", "!!\n", " ", "\tok", " ", "²³Ⅷ", "७"
        ]
    );
    assert_eq!(
        words(PreTokenizer::Qwen2, "a12 'LLx  \n\n z"),
        ["a", "1", "2", " '", "LLx", "  \n\n", " z"]
    );
}

#[test]
fn case_is_ignored_in_ascii_alone() {
    assert_eq!(words(PreTokenizer::Llama3, "'ſ 'S"), ["'ſ", " '", "S"]);
    assert_eq!(words(PreTokenizer::Qwen2, "x'VEy"), ["x", "'VE", "y"]);
    assert_eq!(words(PreTokenizer::Gpt2, "x'VEy"), ["x", "'", "VEy"]);
}

#[test]
fn default_sets_punctuation_apart_and_cuts_numbers_by_threes() {
    assert_eq!(
        words(PreTokenizer::Default, "It's $1234567, a  ²1234²  —`x` \n\nb"),
        [
            "It", "'", "s", " ", "$", "123", "456", "7", ",", " a", " ", " ", "²", "123", "4²",
            "  ", "—", "`", "x", "`", " \n", "\n", "b"
        ]
    );
}

#[test]
fn tekken_ends_a_word_where_capitals_begin() {
    assert_eq!(
        words(PreTokenizer::Tekken, "camelCaseHTTPServer ÉTÉs ABCé漢字X (Big) it's 42 a//\n/b\n"),
        [
            "camel",
            "Case",
            "HTTPServer",
            " ÉTÉs",
            " ABCé漢字",
            "X",
            " (",
            "Big",
            ")",
            " it",
            "'s",
            " ",
            "4",
            "2",
            " a",
            "//\n/",
            "b",
            "\n"
        ]
    );
}
