//! The two development models against values that llama.cpp gave (tests/data/golden/SOURCE.txt).
#![allow(clippy::unwrap_used)]

use std::path::Path;

use serde_json::Value;
use tapri_gguf::{Gguf, TokenId};
use tapri_text::{ControlTokens, Detokenizer, Special, Tokenizer};

const MODELS: [(&str, &str); 2] =
    [("gemma-3-270m", "gemma-3-270m-q4_k_m.json"), ("smollm2", "smollm2-135m-instruct-q4_1.json")];

fn golden(file: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/data/golden").join(file);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn open(model: &str) -> Gguf {
    Gguf::open(tapri_registry::test_model(model)).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap().try_into().unwrap()).collect()
}

#[test]
fn every_row_of_tokenize_matches() {
    for (model, file) in MODELS {
        let tokenizer = Tokenizer::from_gguf(&open(model)).unwrap();
        let golden = golden(file);
        let rows = golden["tokenize"].as_array().unwrap();
        assert_eq!(rows.len(), 200);
        for row in rows {
            let text = row["text"].as_str().unwrap();
            let special = if row["parse_special"].as_bool().unwrap() {
                Special::Parse
            } else {
                Special::AsText
            };
            // Twice: computed, then from the cache.
            for _ in 0..2 {
                let tokens = tokenizer.encode(text, special);
                assert_eq!(
                    TokenId::as_u32s(&tokens),
                    ids(&row["tokens"]),
                    "{model} {special:?} {text:?}"
                );
            }
        }
    }
}

#[test]
fn every_row_comes_back_as_its_text_whole_and_streamed() {
    for (model, file) in MODELS {
        let tokenizer = Tokenizer::from_gguf(&open(model)).unwrap();
        for row in golden(file)["tokenize"].as_array().unwrap() {
            let text = row["text"].as_str().unwrap();
            let tokens = ids(&row["tokens"]);
            let tokens = TokenId::from_u32s(&tokens);
            assert_eq!(tokenizer.decode(tokens, ControlTokens::Show).unwrap(), text, "{model}");
            let mut detokenizer = Detokenizer::new(&tokenizer, ControlTokens::Show);
            let mut streamed = String::new();
            for token in tokens {
                streamed += detokenizer.push(*token);
                assert!(
                    text.starts_with(&streamed),
                    "{model}: a piece of {text:?} is not its text: {streamed:?}"
                );
            }
            streamed += detokenizer.finish();
            assert_eq!(streamed, text, "{model}");
        }
    }
}

#[test]
fn the_answers_of_the_greedy_runs_detokenize_to_the_text_that_llama_cpp_printed() {
    for (model, file) in MODELS {
        let tokenizer = Tokenizer::from_gguf(&open(model)).unwrap();
        for run in golden(file)["greedy"].as_array().unwrap() {
            let mut detokenizer = Detokenizer::new(&tokenizer, ControlTokens::Hide);
            let mut text = String::new();
            for step in run["steps"].as_array().unwrap() {
                let token = TokenId(step["id"].as_u64().unwrap().try_into().unwrap());
                if !tokenizer.is_end_of_generation(token) {
                    text += detokenizer.push(token);
                }
            }
            assert_eq!(text.trim_end(), run["text"].as_str().unwrap().trim_end(), "{model}");
        }
    }
}

#[test]
fn the_tokens_with_a_meaning_are_known() {
    let gemma = Tokenizer::from_gguf(&open("gemma-3-270m")).unwrap();
    assert_eq!(
        (gemma.bos(), gemma.eos(), gemma.adds_bos()),
        (Some(TokenId(2)), Some(TokenId(1)), true)
    );
    assert_eq!(gemma.vocab_size(), 262_144);
    assert!(gemma.is_end_of_generation(TokenId(1)) && gemma.is_end_of_generation(TokenId(106)));
    assert!(!gemma.is_end_of_generation(TokenId(107)));
    assert_eq!(gemma.encode_prompt("Hello world", Special::AsText), [2, 9259, 1902].map(TokenId));
    assert_eq!(
        gemma.encode_prompt("<bos>Hello world", Special::Parse),
        [2, 9259, 1902].map(TokenId)
    );

    let smollm = Tokenizer::from_gguf(&open("smollm2")).unwrap();
    assert_eq!(
        (smollm.bos(), smollm.eos(), smollm.adds_bos()),
        (Some(TokenId(1)), Some(TokenId(2)), false)
    );
    assert_eq!(smollm.token("<|im_end|>"), Some(TokenId(2)));
    assert!(smollm.is_end_of_generation(TokenId(2)) && smollm.is_end_of_generation(TokenId(0)));
    assert!(smollm.is_control(TokenId(2)) && !smollm.is_control(TokenId(200)));
    assert_eq!(smollm.token_bytes(TokenId(49_152)), None);
    assert!(smollm.decode(&[TokenId(49_152)], ControlTokens::Show).is_err());
}
