//! Random requests with one random edit: the place is where a plain comparison of the texts finds it.

use proptest::prelude::*;
use serde_json::{Value, json};
use tapri_insight::explain::{Evidence, explain};
use tapri_insight::prompt::PromptDoc;

/// Texts of words, numbers and what is hard: line ends, JSON, letters of more than one byte.
fn words() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop_oneof![
            "[a-z]{1,9}",
            "[A-Z][a-z]{2,6}",
            "[0-9]{1,12}",
            Just("é".to_owned()),
            Just("日本".to_owned()),
            Just("\n\n".to_owned()),
            Just("{\"a\": 1}".to_owned()),
            Just("10:41:55".to_owned()),
            Just("\u{c}".to_owned()),
        ],
        1..40,
    )
    .prop_map(|words| words.join(" "))
}

fn conversation() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(words(), 1..8)
}

fn body(texts: &[String]) -> Value {
    let role = |index: usize| match index {
        0 => "system",
        index if index % 2 == 1 => "user",
        _ => "assistant",
    };
    let messages: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"role": role(index), "content": text}))
        .collect();
    json!({"model": "m", "messages": messages})
}

fn doc(texts: &[String]) -> PromptDoc {
    PromptDoc::from_value(&body(texts)).unwrap()
}

fn common(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
}

proptest! {
    #[test]
    fn one_edit_is_found_where_it_is(
        texts in conversation(),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        put in "[a-zA-Z0-9 :é]{0,9}",
        gone in 0_usize..12,
    ) {
        let which = which.index(texts.len());
        let chars: Vec<char> = texts[which].chars().collect();
        let at = at.index(chars.len());
        let end = (at + gone).min(chars.len());
        let edited: String = chars[..at].iter().chain(&put.chars().collect::<Vec<_>>()).chain(&chars[end..]).collect();
        let mut after = texts.clone();
        after[which] = edited;
        prop_assume!(after != texts);
        let found = explain(&doc(&texts), &doc(&after), &Evidence::default());
        let (old, new) = (&texts[which], &after[which]);
        let shared = common(old, new);
        // At the very end a text that goes on is growth, one that stops is cut; neither is a difference.
        let last = which + 1 == texts.len();
        let whole = shared == old.chars().count() || shared == new.chars().count();
        if last && whole {
            prop_assert!(!found.is_alarm() || found.reason == tapri_insight::ledger::MissReason::NeverSeen);
        } else {
            let place = found.place.as_ref().unwrap();
            prop_assert_eq!(&place.path, &format!("messages[{which}].content"));
            prop_assert_eq!(place.character, Some(shared as u64));
        }
        let before: usize = texts[..which].iter().map(|text| text.chars().count()).sum();
        prop_assert_eq!(found.shared_chars, (before + shared) as u64);
        // What it says can always be printed.
        let printed = !found.line(true).contains(char::is_control);
        prop_assert!(printed);
    }

    #[test]
    fn a_request_against_itself_is_no_alarm(texts in conversation()) {
        let found = explain(&doc(&texts), &doc(&texts), &Evidence::default());
        prop_assert_eq!(found.reason, tapri_insight::ledger::MissReason::Growth);
        prop_assert!(!found.is_alarm());
        prop_assert_eq!(found.shared, found.prompt);
    }

    #[test]
    fn a_conversation_that_grows_is_no_alarm(texts in conversation(), more in conversation()) {
        let longer = [texts.clone(), more].concat();
        let found = explain(&doc(&texts), &doc(&longer), &Evidence::default());
        prop_assert!(!found.is_alarm(), "{}", found.line(true));
        prop_assert_eq!(found.lost.count, 0);
    }
}
