//! Texts that begin like earlier ones have the tokens that they have when they are tokenised whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod tiny;

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::json;
use tapri_gguf::Gguf;
use tapri_text::{
    ChatTemplate, KnownTexts, RenderInput, Rendered, Special, TextUse, Tokenizer, ZonedDateTime,
};

const LIMIT: usize = 4 << 20;
const MINE: TextUse<'static> = TextUse { scope: b"mine", salt: b"", read: true, store: true };

struct Model {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// Texts of control and of user-defined tokens.
    tokens: Vec<&'static str>,
}

fn open(name: &str, tokens: &[&'static str]) -> Model {
    let gguf = Gguf::open(tapri_registry::test_model(name)).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let template = ChatTemplate::from_gguf(&gguf, &tokenizer).unwrap();
    Model { tokenizer, template, tokens: tokens.to_vec() }
}

static MODELS: LazyLock<[Model; 3]> = LazyLock::new(|| {
    let tiny_gguf = Gguf::from_bytes(tiny::tiny().to_bytes()).unwrap();
    let tiny_tokenizer = Tokenizer::from_gguf(&tiny_gguf).unwrap();
    let template = ChatTemplate::from_gguf(&tiny_gguf, &tiny_tokenizer).unwrap();
    let own = tiny::CONTROL.iter().chain(&tiny::USER_DEFINED).copied().collect();
    [
        open("smollm2", &["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<filename>"]),
        open(
            "gemma-3-270m",
            &["<start_of_turn>", "<bos>", "<table>", "\n\n\n", "        ", "[multimodal]"],
        ),
        Model { tokenizer: tiny_tokenizer, template, tokens: own },
    ]
});

static CASE_FILE: LazyLock<String> = LazyLock::new(|| {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../examples/case_file/case_file.txt");
    std::fs::read_to_string(path).unwrap()
});

/// Something that a text can be made of; an index stands for one of the model's own tokens.
#[derive(Debug, Clone)]
enum Bit {
    Text(String),
    Token(prop::sample::Index),
    /// The beginning of one of the model's own tokens.
    Part(prop::sample::Index, prop::sample::Index),
}

fn bit() -> impl Strategy<Value = Bit> {
    prop_oneof![
        4 => "[a-zA-Z]{1,9} {0,2}".prop_map(Bit::Text),
        1 => "[ \\t\\r\\n]{1,80}".prop_map(Bit::Text),
        1 => "[0-9.,;:!?'\"()]{1,6}".prop_map(Bit::Text),
        1 => "(don't|we'll|'s|'re |I'd )".prop_map(Bit::Text),
        1 => "[अ-हा-ौ]{1,8} ?".prop_map(Bit::Text),
        1 => "[漢字仮名交、。！]{1,12}".prop_map(Bit::Text),
        1 => "\\PC{1,6}".prop_map(Bit::Text),
        1 => any::<prop::sample::Index>().prop_map(Bit::Token),
        1 => any::<(prop::sample::Index, prop::sample::Index)>()
            .prop_map(|(token, upto)| Bit::Part(token, upto)),
    ]
}

fn bits(most: usize) -> impl Strategy<Value = Vec<Bit>> {
    prop::collection::vec(bit(), 0..most)
}

fn spell(bits: &[Bit], model: &Model) -> String {
    let each = bits.iter().map(|bit| match bit {
        Bit::Text(text) => text.clone(),
        Bit::Token(which) => which.get(&model.tokens).to_string(),
        Bit::Part(which, upto) => {
            let characters: Vec<char> = which.get(&model.tokens).chars().collect();
            characters[..upto.index(characters.len())].iter().collect()
        }
    });
    each.collect()
}

/// Texts that begin together: a start, repeated until it is long enough to be kept, cut anywhere, and ends.
fn family() -> impl Strategy<Value = (Vec<Bit>, Vec<(prop::sample::Index, Vec<Bit>)>)> {
    let cut = (any::<prop::sample::Index>(), bits(40));
    (prop::collection::vec(bit(), 20..120), prop::collection::vec(cut, 2..5))
}

fn texts(model: &Model, start: &[Bit], ends: &[(prop::sample::Index, Vec<Bit>)]) -> Vec<String> {
    let mut long = spell(start, model);
    while long.len() < 6000 {
        long.push_str(&spell(start, model));
        long.push('x');
    }
    let cuts = ends.iter().map(|(cut, end)| {
        let mut at = cut.index(long.len() + 1);
        while !long.is_char_boundary(at) {
            at -= 1;
        }
        format!("{}{}", &long[..at], spell(end, model))
    });
    cuts.collect()
}

fn rendered(model: &Model, text: &str) -> Rendered {
    let messages =
        [json!({"role": "system", "content": "Answer."}), json!({"role": "user", "content": text})];
    let now = "2026-03-01T12:00:00+00:00[UTC]".parse::<ZonedDateTime>().unwrap();
    let input = RenderInput {
        messages: &messages,
        tools: &[],
        add_generation_prompt: true,
        now: &now,
        variables: &Default::default(),
    };
    model.template.render(&input).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_text_has_the_tokens_of_the_whole(
        (start, ends) in family(),
        model in 0usize..3,
        parse in any::<bool>(),
    ) {
        let model = &MODELS[model];
        let special = if parse { Special::Parse } else { Special::AsText };
        let known = KnownTexts::new(LIMIT);
        for text in texts(model, &start, &ends) {
            prop_assert_eq!(
                known.encode_prompt(&model.tokenizer, &text, special, &MINE),
                model.tokenizer.encode_prompt(&text, special)
            );
        }
    }

    #[test]
    fn a_conversation_has_the_tokens_of_the_whole((start, ends) in family(), model in 0usize..3) {
        let model = &MODELS[model];
        let known = KnownTexts::new(LIMIT);
        for text in texts(model, &start, &ends) {
            let rendered = rendered(model, &text);
            prop_assert_eq!(
                known.encode_rendered(&model.tokenizer, &rendered, &MINE),
                model.tokenizer.encode_rendered(&rendered)
            );
        }
    }
}

#[test]
fn a_later_question_is_tokenised_from_where_it_differs() {
    for model in &MODELS[..2] {
        let known = KnownTexts::new(LIMIT);
        for (number, question) in
            ["Who sues whom?", "What is <|im_end|> asked for?", "When?"].iter().enumerate()
        {
            let rendered = rendered(model, &format!("{}\n{question}", *CASE_FILE));
            let tokens = known.encode_rendered(&model.tokenizer, &rendered, &MINE);
            assert_eq!(tokens, model.tokenizer.encode_rendered(&rendered));
            let stats = known.stats();
            let least = number as u64 * (CASE_FILE.len() as u64 - 2000);
            assert!(stats.known_bytes >= least, "{stats:?} after question {number}");
            assert_eq!((stats.lookups, stats.texts), (number as u64 + 1, 1));
        }
    }
}

#[test]
fn every_place_where_a_text_can_differ_is_safe() {
    // Each byte of a stretch with all kinds of places is where the second text goes on differently.
    let stretch = "We'll see, it's 12.5% of\n\n\n the sum <|im_end|>\n    then  (a) नमस्ते दुनिया 漢字、かな。\r\n\t end. ";
    for model in &*MODELS {
        let long = stretch.repeat(60);
        let from = long.len() / 2;
        for at in (from..from + stretch.len()).filter(|at| long.is_char_boundary(*at)) {
            for end in ["", " ", "\n", "s", "'", "|im_end|>", "ा", "。", "9"] {
                let known = KnownTexts::new(LIMIT);
                let other = format!("{}{end}", &long[..at]);
                for special in [Special::AsText, Special::Parse] {
                    known.encode_prompt(&model.tokenizer, &long, special, &MINE);
                    assert_eq!(
                        known.encode_prompt(&model.tokenizer, &other, special, &MINE),
                        model.tokenizer.encode_prompt(&other, special),
                        "{:?} and {end:?}",
                        &long[at - 20..at]
                    );
                }
            }
        }
    }
}

#[test]
fn nobody_finds_another_ones_text_and_what_is_erased_is_gone() {
    let model = &MODELS[0];
    let known = KnownTexts::new(LIMIT);
    let found = |whose: &TextUse<'_>| {
        let before = known.stats().known_bytes;
        known.encode_prompt(&model.tokenizer, &CASE_FILE, Special::AsText, whose);
        known.stats().known_bytes > before
    };
    let salted = TextUse { salt: b"s", ..MINE };
    // Scope and salt of the same bytes in all.
    let close = TextUse { scope: b"min", salt: b"e", ..MINE };
    let other = TextUse { scope: b"other", ..MINE };
    for whose in [MINE, salted, close, other] {
        assert!(!found(&whose), "{whose:?} finds what it didn't bring");
        assert!(found(&whose));
    }
    assert!(!found(&TextUse { read: false, ..MINE }), "no-cache reads nothing");
    assert_eq!(known.forget(b"mine"), 2, "both parts of the scope, and no more");
    assert!(!found(&TextUse { store: false, ..MINE }));
    assert!(!found(&TextUse { store: false, ..MINE }), "no-store left nothing behind");
    assert!(found(&close) && found(&other));
    assert_eq!((known.clear(), known.stats().texts, known.stats().memory), (2, 0, 0));
    assert!(!found(&other));
}

#[test]
fn memory_is_bounded_and_who_brings_much_loses_its_own() {
    let model = &MODELS[0];
    let known = KnownTexts::new(1 << 20);
    let quiet = TextUse { scope: b"quiet", ..MINE };
    let text = &CASE_FILE[..8000];
    known.encode_prompt(&model.tokenizer, text, Special::AsText, &quiet);
    for number in 0..100 {
        let noise = format!("{number} {}", &CASE_FILE[..40_000]);
        known.encode_prompt(&model.tokenizer, &noise, Special::AsText, &MINE);
        assert!(known.stats().memory <= 1 << 20);
    }
    assert!(known.stats().texts > 2);
    let before = known.stats().known_bytes;
    known.encode_prompt(&model.tokenizer, text, Special::AsText, &quiet);
    assert!(known.stats().known_bytes > before, "the quiet scope kept its text");
    // One text larger than a quarter of the room isn't kept, and nothing else goes for it.
    let texts = known.stats().texts;
    known.encode_prompt(&model.tokenizer, &CASE_FILE.repeat(3), Special::AsText, &quiet);
    assert_eq!(known.stats().texts, texts);
    let none = KnownTexts::new(0);
    none.encode_prompt(&model.tokenizer, text, Special::AsText, &MINE);
    assert_eq!(none.stats().texts, 0);
}

#[test]
fn many_small_texts_of_a_scope_are_bounded_in_number() {
    let model = &MODELS[0];
    let known = KnownTexts::new(64 << 20);
    // The beginnings differ at once.
    for number in 0..300 {
        let text = format!("{number} {}", &CASE_FILE[..2100]);
        known.encode_prompt(&model.tokenizer, &text, Special::AsText, &MINE);
    }
    assert_eq!(known.stats().texts, 256);
}

#[test]
fn threads_share_it() {
    let model = &MODELS[1];
    let known = KnownTexts::new(LIMIT);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let known = &known;
            scope.spawn(move || {
                for turn in 0..6 {
                    let text = format!("{} {thread} {turn}", &CASE_FILE[..9000 + 700 * turn]);
                    assert_eq!(
                        known.encode_prompt(&model.tokenizer, &text, Special::AsText, &MINE),
                        model.tokenizer.encode_prompt(&text, Special::AsText)
                    );
                }
            });
        }
    });
}
