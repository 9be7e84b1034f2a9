//! A vocabulary small enough to read, for tests of what the real models don't have.
#![allow(dead_code)]

use tapri_gguf::Writer;

/// Control tokens of the tiny vocabulary.
pub(crate) const CONTROL: [&str; 6] =
    ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|im_end|>!", "§"];

/// User-defined tokens of the tiny vocabulary.
pub(crate) const USER_DEFINED: [&str; 3] = ["\n\n", "<b>", "  "];

/// Ordinary tokens of the tiny vocabulary.
pub(crate) const NORMAL: [&str; 16] =
    ["▁", "a", "b", "ab", "▁a", "▁ab", "<", "|", ">", "<|", "im", "i", "m", "<s", "▁▁", "é"];

/// SentencePiece, with all bytes.
pub(crate) fn tiny() -> Writer {
    let mut tokens: Vec<String> = vec!["<unk>".to_owned()];
    let mut kinds = vec![2];
    let mut add = |texts: &mut dyn Iterator<Item = String>, kind: i32| {
        for text in texts {
            tokens.push(text);
            kinds.push(kind);
        }
    };
    add(&mut CONTROL.iter().map(|text| (*text).to_owned()), 3);
    add(&mut (0..=255).map(|byte| format!("<0x{byte:02X}>")), 6);
    add(&mut USER_DEFINED.iter().map(|text| (*text).to_owned()), 4);
    add(&mut NORMAL.iter().map(|text| (*text).to_owned()), 1);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -(id as f32)).collect();
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "llama")
        .set("tokenizer.ggml.tokens", tokens.as_slice())
        .set("tokenizer.ggml.scores", scores.as_slice())
        .set("tokenizer.ggml.token_type", kinds.as_slice());
    writer
}
