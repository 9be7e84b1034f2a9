#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;

fn set(texts: &[&str]) -> Set {
    let mut literals: Vec<Literal> = texts
        .iter()
        .zip(0..)
        .map(|(text, id)| Literal { id: TokenId(id), text: (*text).into(), kind: Kind::Control })
        .collect();
    literals.sort_by_key(|literal| (std::cmp::Reverse(literal.text.len()), literal.id));
    Set::new(literals)
}

/// The rule in the simplest form: each token in turn splits every piece of text.
fn naive(set: &Set, text: &str) -> Vec<Result<String, TokenId>> {
    let mut pieces = vec![Ok(text.to_owned())];
    for literal in &set.literals {
        pieces = pieces
            .into_iter()
            .flat_map(|piece| match piece {
                Ok(text) => {
                    let parts: Vec<String> =
                        text.split(&*literal.text).map(str::to_owned).collect();
                    let last = parts.len() - 1;
                    let with_tokens =
                        parts.into_iter().enumerate().flat_map(move |(index, part)| {
                            [Ok(part)].into_iter().chain((index < last).then_some(Err(literal.id)))
                        });
                    with_tokens.collect::<Vec<_>>()
                }
                token => vec![token],
            })
            .filter(|piece| *piece != Ok(String::new()))
            .collect();
    }
    pieces.retain(|piece| *piece != Ok(String::new()));
    pieces
}

fn owned(pieces: Vec<Piece<'_>>) -> Vec<Result<String, TokenId>> {
    pieces
        .into_iter()
        .map(|piece| match piece {
            Piece::Text(text) => Ok(text.to_owned()),
            Piece::Token(id) => Err(id),
        })
        .collect()
}

#[test]
fn tags_and_runs_are_simple_and_overlaps_are_seen() {
    assert!(
        set(&["<|im_start|>", "<|im_end|>", "<b>", "</b>", "\n", "\n\n", "\n\n\n", "  ", "   "])
            .simple
    );
    assert!(!set(&["xab", "abcd"]).simple, "the later one is longer");
    assert!(!set(&["xab", "aby"]).simple, "as long: the order of the ids decides");
    assert!(set(&["xyzab", "abc"]).simple, "the earlier one is longer");
    assert!(!set(&["\n\n", "\n<b>"]).simple, "a run that runs into a tag");
    assert!(!set(&["aba"]).simple, "overlaps itself");
    assert!(set(&[]).simple);
}

#[test]
fn the_longest_takes_first() {
    let set = set(&["xab", "abcd"]);
    assert_eq!(owned(set.split("xabcd", &[])), [Ok("x".to_owned()), Err(TokenId(1))]);
    assert_eq!(owned(set.split("xabc", &[])), [Err(TokenId(0)), Ok("c".to_owned())]);
}

#[test]
fn guards_break_tokens_that_have_one_inside() {
    let set = set(&["<end>", "!"]);
    let text = "<end><end>";
    assert_eq!(owned(set.split(text, &[6])), [Err(TokenId(0)), Ok("<end>".to_owned())]);
    assert_eq!(
        owned(set.split(text, &[5])),
        [Err(TokenId(0)), Err(TokenId(0))],
        "between is not inside"
    );
    assert_eq!(owned(set.split(text, &[1, 9])), [Ok(text.to_owned())]);
    assert_eq!(owned(set.split("!!", &[0, 1])), [Ok("!".to_owned()), Err(TokenId(1))]);
}

proptest! {
    #[test]
    fn one_pass_and_the_literal_way_give_what_the_rule_gives(
        texts in proptest::collection::btree_set("[ab]{1,4}|a{1,5}|<[ab/]{1,2}>", 0..6),
        text in "[ab</>]{0,24}",
    ) {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let set = set(&texts);
        let wanted = naive(&set, &text);
        prop_assert_eq!(owned(set.split(&text, &[])), wanted.clone());
        prop_assert_eq!(owned(set.split_literally(&text, &[])), wanted);
    }
}
