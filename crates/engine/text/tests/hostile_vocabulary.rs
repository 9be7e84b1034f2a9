//! Vocabularies that can't be used are errors that say why.
#![allow(clippy::unwrap_used)]

use tapri_gguf::{Gguf, MetaValue, Writer};
use tapri_text::{Special, Tokenizer};

mod tiny;

fn error(writer: &Writer) -> String {
    Tokenizer::from_gguf(&Gguf::from_bytes(writer.to_bytes()).unwrap()).unwrap_err().to_string()
}

/// A vocabulary in which these entries replace or join those of a small valid one.
fn vocabulary(model: &str, changes: &[(&str, MetaValue)]) -> Writer {
    let letters: Vec<String> = (b'a'..=b'd').map(|letter| char::from(letter).to_string()).collect();
    let tokens: Vec<String> =
        letters.into_iter().chain(["ab".to_owned(), "<unk>".to_owned()]).collect();
    let mut entries: Vec<(&str, MetaValue)> = vec![
        ("tokenizer.ggml.model", model.into()),
        ("tokenizer.ggml.tokens", tokens.as_slice().into()),
        ("tokenizer.ggml.token_type", [1i32, 1, 1, 1, 1, 2].as_slice().into()),
        ("tokenizer.ggml.scores", [0f32, 0.0, 0.0, 0.0, 1.0, 0.0].as_slice().into()),
        ("tokenizer.ggml.pre", "smollm".into()),
        ("tokenizer.ggml.merges", ["a b"].as_slice().into()),
        ("tokenizer.ggml.unknown_token_id", 5u32.into()),
    ];
    for (key, value) in changes {
        entries.retain(|(other, _)| other != key);
        entries.push((key, value.clone()));
    }
    let mut writer = Writer::new();
    for (key, value) in entries {
        writer.set(key, value);
    }
    writer
}

#[test]
fn the_small_one_is_valid() {
    for model in ["llama", "gpt2"] {
        let gguf = Gguf::from_bytes(vocabulary(model, &[]).to_bytes()).unwrap();
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
        assert_eq!(tokenizer.encode("abd", Special::AsText).last().unwrap().0, 3, "{model}");
    }
}

#[test]
fn what_is_not_supported_is_named() {
    assert_eq!(error(&Writer::new()), "`tokenizer.ggml.model` is missing (a string is needed)");
    assert_eq!(
        error(&vocabulary("bert", &[])),
        "tokenizer model `bert` is not supported (`gpt2` and `llama` are)"
    );
    for pre in ["gpt-4o", "falcon", ""] {
        let wanted = format!(
            "pre-tokenizer `{pre}` is not supported (`default`, `gpt-2`, `llama-bpe`, `qwen2`, `smollm` and `tekken` are)"
        );
        assert_eq!(error(&vocabulary("gpt2", &[("tokenizer.ggml.pre", pre.into())])), wanted);
    }
}

#[test]
fn tables_that_do_not_fit_are_named() {
    let change =
        |model: &str, key: &str, value: MetaValue| error(&vocabulary(model, &[(key, value)]));
    let none: &[&str] = &[];
    assert_eq!(change("llama", "tokenizer.ggml.tokens", none.into()), "the vocabulary is empty");
    assert_eq!(
        change("llama", "tokenizer.ggml.scores", [1f32].as_slice().into()),
        "`tokenizer.ggml.scores` has 1 entries, but there are 6 tokens"
    );
    assert_eq!(
        change("gpt2", "tokenizer.ggml.token_type", [1i32; 7].as_slice().into()),
        "`tokenizer.ggml.token_type` has 7 entries, but there are 6 tokens"
    );
    assert_eq!(
        change("gpt2", "tokenizer.ggml.tokens", ["a", "b", "c", "d", "ab", "a"].as_slice().into()),
        "tokens 0 and 5 are both \"a\""
    );
    assert_eq!(
        change("gpt2", "tokenizer.ggml.bos_token_id", 6u32.into()),
        "`tokenizer.ggml.bos_token_id` is 6, but there are only 6 tokens"
    );
    for rule in ["ab", "a  b", "a x", "b a", "", "a <unk>"] {
        let wanted = format!("merge rule 1 ({rule:?}) is not two tokens that make a third");
        assert_eq!(
            change("gpt2", "tokenizer.ggml.merges", ["a b", rule].as_slice().into()),
            wanted
        );
    }
    assert_eq!(
        change("gpt2", "tokenizer.ggml.add_bos_token", true.into()),
        "`tokenizer.ggml.add_bos_token` is set, but the file names no BOS token"
    );
}

#[test]
fn odd_scores_and_types_are_harmless() {
    let scores = [f32::NAN, f32::INFINITY, -0.0, f32::NEG_INFINITY, f32::NAN, 1.0];
    let writer = vocabulary(
        "llama",
        &[
            ("tokenizer.ggml.scores", scores.as_slice().into()),
            ("tokenizer.ggml.token_type", [1i32, -5, i32::MAX, 0, 5, 2].as_slice().into()),
        ],
    );
    let tokenizer = Tokenizer::from_gguf(&Gguf::from_bytes(writer.to_bytes()).unwrap()).unwrap();
    assert_eq!(tokenizer.encode("ab", Special::AsText).last().unwrap().0, 4);
}

#[test]
fn text_that_cannot_be_cut_takes_time_in_proportion() {
    let tokenizer =
        Tokenizer::from_gguf(&Gguf::from_bytes(tiny::tiny().to_bytes()).unwrap()).unwrap();
    let text = "ab".repeat(500_000);
    assert_eq!(tokenizer.encode(&text, Special::AsText).len(), 500_000);
}
