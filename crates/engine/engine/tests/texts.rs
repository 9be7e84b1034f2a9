//! Texts that are known from earlier prompts: whose they are, and when they go.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use tapri_engine::{Engine, EngineConfig, Scope};
use tapri_model::tiny::TinyModel;
use tapri_text::{Special, TextUse};

fn known(engine: &Engine, text: &str, whose: &TextUse<'_>) -> u64 {
    let before = engine.stats().known_text_bytes;
    let tokens = engine.encode_prompt(text, Special::AsText, whose);
    assert_eq!(tokens, engine.tokenizer().encode_prompt(text, Special::AsText));
    engine.stats().known_text_bytes - before
}

#[test]
fn an_erasure_reaches_texts() {
    let model = TinyModel::llama();
    let engine = support::start(&model, support::config());
    let text = "a word and another one, ".repeat(400);
    let mine = TextUse { scope: b"mine", salt: b"", read: true, store: true };
    let other = TextUse { scope: b"other", ..mine };
    for whose in [mine, other] {
        assert_eq!(known(&engine, &text, &whose), 0);
        assert!(known(&engine, &text, &whose) > 8000);
    }
    engine.forget(&Scope(b"mine".to_vec())).unwrap();
    assert_eq!(known(&engine, &text, &TextUse { store: false, ..mine }), 0);
    assert!(known(&engine, &text, &other) > 8000, "another scope's stay");
    engine.reset_prefix_cache().unwrap();
    assert_eq!(known(&engine, &text, &other), 0);
}

#[test]
fn without_a_prefix_cache_no_text_is_kept() {
    let model = TinyModel::llama();
    let config = EngineConfig { prefix_cache: false, ..support::config() };
    let engine = support::start(&model, config);
    let text = "a word and another one, ".repeat(400);
    let mine = TextUse { scope: b"mine", salt: b"", read: true, store: true };
    assert_eq!((known(&engine, &text, &mine), known(&engine, &text, &mine)), (0, 0));
}
