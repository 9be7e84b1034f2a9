//! With values hidden, nothing of what changed is said.

use proptest::prelude::*;
use serde_json::{Value, json};
use tapri_insight::explain::{Evidence, Found, explain};
use tapri_insight::prompt::PromptDoc;
use tapri_insight::rules::Rules;

use crate::pairs::{all, found};

/// Everything that is printed or stored without values, but for the names of fields.
fn hidden(found: &Found) -> String {
    let record = found.explanation(Some("call".to_owned()), false);
    let also: String = found.also.iter().map(|also| also.words.clone()).collect();
    let path = record.place.map(|place| place.path).unwrap_or_default();
    let values = format!("{:?} {:?} {:?}", record.old, record.new, record.looks_like);
    format!("{}\n{also}\n{path}\n{values}\n{}", found.line(false), record.suggestion)
}

/// Substrings of so many characters are what a reader could recognise.
const TELLING: usize = 4;

#[test]
fn no_part_of_a_changed_value_is_said() {
    for pair in all() {
        let found = found(&pair);
        let said = hidden(&found);
        // What Tapri says for any prompt: its own words, and the place.
        let also: String = found.also.iter().map(|also| also.words.clone()).collect();
        let own = format!(
            "{} {also} {} {} {:?} {}",
            found.reason.describe(),
            found.suggestion,
            found.looks_like.clone().unwrap_or_default(),
            found.place,
            found.reason,
        );
        for value in [&found.old, &found.new].into_iter().flatten() {
            let chars: Vec<char> = value.chars().collect();
            for piece in chars.windows(TELLING) {
                let piece: String = piece.iter().collect();
                let known = own.contains(&piece);
                assert!(known || !said.contains(&piece), "{}: '{piece}' in {said}", pair.name);
            }
        }
    }
}

#[test]
fn the_place_names_nothing_that_only_one_side_has() {
    for pair in all() {
        let found = found(&pair);
        let Some(place) = &found.place else { continue };
        for key in place.path.split(['.', '[', ']']).filter(|key| key.len() >= TELLING) {
            let quoted = format!("\"{key}\"");
            let (old, new) = (pair.old.to_string(), pair.new.to_string());
            // A field of the API may be new: its name says nothing of the prompt.
            let field = ["tools", "thinking", "reasoning_content"].contains(&key);
            let both = old.contains(&quoted) && new.contains(&quoted);
            assert!(field || both, "{}: {key}", pair.name);
        }
    }
}

/// Letters that no word of Tapri has.
const SECRET: &str = "ЖЩЭЮЯЧЦФ";

proptest! {
    #[test]
    fn secrets_anywhere_in_a_request_stay_there(
        a in prop::collection::vec(secret(), 12),
        b in prop::collection::vec(secret(), 12),
        which in prop::collection::vec(any::<bool>(), 12),
    ) {
        // Each place keeps its secret or gets another.
        let b: Vec<String> = (0..12).map(|n| if which[n] { b[n].clone() } else { a[n].clone() }).collect();
        let rules = Rules::bundled().unwrap();
        let evidence = Evidence { rules: Some(&rules), cached: Some(0), ..Evidence::default() };
        let doc = |secrets: &[String]| PromptDoc::from_value(&request(secrets)).unwrap();
        let found = explain(&doc(&a), &doc(&b), &evidence);
        let said = hidden(&found);
        prop_assert!(!said.contains(|c| SECRET.contains(c)), "{}", said);
        let also: String = found.also.iter().map(|also| also.words.clone()).collect();
        prop_assert!(!also.contains(|c| SECRET.contains(c)));
    }
}

fn secret() -> impl Strategy<Value = String> {
    let letter = prop::sample::select(SECRET.chars().collect::<Vec<_>>());
    prop::collection::vec(letter, 1..9).prop_map(|letters| letters.into_iter().collect())
}

/// A request with twelve secrets, behind words that say what they are.
fn request(s: &[String]) -> Value {
    json!({
        "model": "claude-sonnet-5",
        "prompt_cache_key": s[0],
        "tenant": s[1],
        "tools": [{"name": s[2], "description": s[3], "input_schema": {"type": "object", "properties": {&s[4]: {"type": "string"}}}}],
        "system": [{"type": "text", "text": format!("User: {}. request_id: {}7. Now 10:41 {}. {{\"{}\": 1}}", s[5], s[6], s[7], s[8])}],
        "messages": [
            {"role": "user", "content": format!("file {}\u{c}page {}", s[9], s[9])},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": s[10]}, {"type": "tool_use", "id": "t", "name": "n", "input": {&s[11]: s[0]}}]},
            {"role": "user", "content": "and then?"},
        ],
    })
}
