//! The tiny models' SentencePiece vocabulary.

use tapri_gguf::Writer;

/// Tokens in it. A multiple of 32, as the output head's rows.
pub(super) const SIZE: usize = 320;

/// GGUF's token types.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const BYTE: i32 = 6;

/// Pairs of letters that are tokens of their own, the likeliest first.
const PAIRS: [&str; 6] = ["th", "he", "in", "er", "an", "re"];

/// Writes the tokenizer's metadata.
pub(super) fn write(writer: &mut Writer) {
    let mut tokens: Vec<(String, f32, i32)> = vec![
        ("<unk>".to_owned(), 0.0, UNKNOWN),
        ("<s>".to_owned(), 0.0, CONTROL),
        ("</s>".to_owned(), 0.0, CONTROL),
    ];
    tokens.extend((0..=255_u8).map(|byte| (format!("<0x{byte:02X}>"), 0.0, BYTE)));
    tokens.push(("<|im_start|>".to_owned(), 0.0, CONTROL));
    tokens.push(("<|im_end|>".to_owned(), 0.0, CONTROL));
    // SentencePiece joins the pair with the best score first, so longer pieces score above the single letters.
    let mut pieces: Vec<String> = PAIRS.iter().map(|&pair| pair.to_owned()).collect();
    pieces.extend(('a'..='z').map(|letter| format!("\u{2581}{letter}")));
    pieces.push("\u{2581}".to_owned());
    pieces.extend(('a'..='z').map(String::from));
    tokens.extend(pieces.into_iter().enumerate().map(|(n, piece)| (piece, -(n as f32), NORMAL)));
    debug_assert_eq!(tokens.len(), SIZE);

    writer.set("tokenizer.ggml.model", "llama");
    writer.set("tokenizer.ggml.pre", "default");
    let texts: Vec<&str> = tokens.iter().map(|token| token.0.as_str()).collect();
    writer.set("tokenizer.ggml.tokens", &texts[..]);
    let scores: Vec<f32> = tokens.iter().map(|token| token.1).collect();
    writer.set("tokenizer.ggml.scores", &scores[..]);
    let types: Vec<i32> = tokens.iter().map(|token| token.2).collect();
    writer.set("tokenizer.ggml.token_type", &types[..]);
    writer.set("tokenizer.ggml.unknown_token_id", 0_u32);
    writer.set("tokenizer.ggml.bos_token_id", 1_u32);
    writer.set("tokenizer.ggml.eos_token_id", 2_u32);
    writer.set("tokenizer.ggml.add_bos_token", true);
    writer.set("tokenizer.ggml.add_eos_token", false);
    writer.set("tokenizer.ggml.add_space_prefix", false);
}
