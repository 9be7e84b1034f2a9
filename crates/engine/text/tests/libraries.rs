//! Against the libraries that models are trained with, `tokenizers` and `sentencepiece`: their ids of some strings, and digests
//! of their ids of 100,000 random ones (`data/make_tokenizers.py`).
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use tapri_gguf::{Gguf, TokenId};
use tapri_text::{ControlTokens, Special, Tokenizer};

static GOLDEN: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_slice(&std::fs::read(data("tokenizers.json")).unwrap()).unwrap()
});

static STRINGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let ranges = GOLDEN["ranges"].as_array().unwrap().iter();
    let ranges = ranges.map(|range| [0, 1].map(|end| range[end].as_u64().unwrap())).collect();
    let mut strings = Strings { state: GOLDEN["seed"].as_u64().unwrap(), ranges };
    (0..100_000).map(|_| strings.next()).collect()
});

fn data(file: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(file)
}

/// The script's random strings.
struct Strings {
    state: u64,
    ranges: Vec<[u64; 2]>,
}

const PIECES: [&str; 16] = [
    "'s", "'S", "'rE", "'ll", "'", "\r\n", "\n\n", " \n ", "\t", "...", "\u{a0}", "\u{3000}",
    "1st", "A.B", "—", "\u{301}",
];
const SIGNS: &[u8] = b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";

impl Strings {
    /// SplitMix64, its upper 32 bits scaled.
    fn below(&mut self, n: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 32) * n) >> 32
    }

    fn next(&mut self) -> String {
        let mut out = String::new();
        for _ in 0..self.below(13) {
            self.part(&mut out);
        }
        out
    }

    fn part(&mut self, out: &mut String) {
        let kind = self.below(12);
        let most = match kind {
            0..=2 => 8,
            4 | 6 => 4,
            5 => 7,
            8..=11 => 3,
            3 => return out.push(' '),
            _ => return out.push_str(PIECES[self.below(16) as usize]),
        };
        for _ in 0..=self.below(most) {
            let ascii = match kind {
                0..=2 => b'a' + self.below(26) as u8,
                4 => b"  \n\r"[self.below(4) as usize],
                5 => b'0' + self.below(10) as u8,
                6 => SIGNS[self.below(SIGNS.len() as u64) as usize],
                8 => b'A' + self.below(26) as u8,
                _ => {
                    let range = self.below(self.ranges.len() as u64) as usize;
                    let [first, last] = self.ranges[range];
                    let code = first + self.below(last - first + 1);
                    out.push(char::from_u32(code as u32).unwrap());
                    continue;
                }
            };
            out.push(char::from(ascii));
        }
    }
}

/// FNV-1a over ids, 64 bits, with 2^32 - 1 after each string.
fn digest<'a>(ids: impl Iterator<Item = &'a [TokenId]>) -> String {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for ids in ids {
        for id in ids.iter().chain([&TokenId(u32::MAX)]) {
            value = (value ^ u64::from(id.0)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{value:016x}")
}

fn check(name: &str, gguf: &Gguf) {
    let tokenizer = Tokenizer::from_gguf(gguf).unwrap();
    let golden = &GOLDEN["vocabularies"][name];
    for row in golden["strings"].as_array().unwrap() {
        let text = row[0].as_str().unwrap();
        let wanted: Vec<u32> =
            row[1].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let tokens = tokenizer.encode(text, Special::AsText);
        assert_eq!(TokenId::as_u32s(&tokens), wanted, "{name} {text:?}");
    }
    let digests = golden["digests"].as_array().unwrap();
    assert_eq!(digests.len(), 100);
    for (number, (thousand, wanted)) in STRINGS.chunks(1000).zip(digests).enumerate() {
        let ids: Vec<Vec<TokenId>> =
            thousand.iter().map(|text| tokenizer.encode(text, Special::AsText)).collect();
        let got = digest(ids.iter().map(Vec::as_slice));
        assert_eq!(got, wanted.as_str().unwrap(), "{name}: among strings {}000 to {0}999", number);
        if number == 0 {
            for (text, ids) in thousand.iter().zip(&ids) {
                let back = tokenizer.decode(ids, ControlTokens::Show).unwrap();
                assert_eq!(back.trim_start_matches(' '), text.trim_start_matches(' '), "{name}");
            }
        }
    }
}

fn check_file(name: &str) {
    check(name, &Gguf::open(data(&format!("{name}.gguf"))).unwrap());
}

fn check_model(name: &str) {
    check(name, &Gguf::open(tapri_registry::test_model(name)).unwrap());
}

#[test]
fn gpt_2() {
    check_file("gpt-2");
}

#[test]
fn smollm() {
    check_file("smollm");
    check_model("smollm2");
}

/// Among its tokens are some that no merge makes.
#[test]
fn llama_bpe() {
    check_file("llama-bpe");
    let gguf = Gguf::open(data("llama-bpe.gguf")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    assert_eq!(tokenizer.encode(" tapri", Special::AsText), [tokenizer.token("Ġtapri").unwrap()]);
    assert!(tokenizer.encode("tapris", Special::AsText).len() > 1);
    // llama.cpp's default for files of this kind that do not say.
    assert!(tokenizer.adds_bos());
}

#[test]
fn qwen2() {
    check_file("qwen2");
    let gguf = Gguf::open(data("qwen2.gguf")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    // The same token, but no merge makes it, and here nothing else does.
    assert!(tokenizer.token("Ġtapri").is_some() && !tokenizer.adds_bos());
    assert!(tokenizer.encode(" tapri", Special::AsText).len() > 1);
}

#[test]
fn tekken() {
    check_file("tekken");
}

#[test]
fn default() {
    check_file("default");
}

#[test]
fn sentence_piece() {
    check_file("sentencepiece");
    check_model("gemma-3-270m");
}
