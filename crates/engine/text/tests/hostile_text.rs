//! Vocabularies, texts and templates that are changed or made up at random: an error or an answer, never a panic, and an
//! end. `TAPRI_TEST_FOR=1h cargo test -p tapri-text --test hostile_text` goes on for an hour.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../tests/effort.rs"]
mod effort;
mod tiny;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tapri_gguf::{Gguf, MetaValue, TokenId, Writer};
use tapri_text::{
    ChatTemplate, ControlTokens, Detokenizer, RenderInput, Special, Tokenizer, ZonedDateTime,
};

/// Text with what tokenizers trip over: control tokens and pieces of them, spaces, half characters' neighbours.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<char>().prop_map(String::from),
        2 => prop::sample::select(&tiny::CONTROL[..]).prop_map(str::to_owned),
        2 => prop::sample::select(&tiny::NORMAL[..]).prop_map(str::to_owned),
        2 => prop::sample::select(&[" ", "  ", "\n", "\n\n", "\t", "\u{a0}", "\u{200d}", "\u{feff}", "<0x0A>", "Ġ"][..])
            .prop_map(str::to_owned),
        1 => "[a-z0-9 ]{0,20}",
        1 => Just("<|im_".to_owned()),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A byte-pair vocabulary beside the SentencePiece one.
fn bpe() -> Writer {
    let mut tokens: Vec<String> = (b'a'..=b'f').map(|letter| char::from(letter).into()).collect();
    tokens.extend(["ab", "cd", "abcd", "Ġ", "Ġa", "<|im_start|>", "<|im_end|>"].map(str::to_owned));
    let kinds: Vec<i32> =
        tokens.iter().map(|token| if token.starts_with("<|") { 3 } else { 1 }).collect();
    let mut writer = Writer::new();
    writer
        .set("tokenizer.ggml.model", "gpt2")
        .set("tokenizer.ggml.pre", "smollm")
        .set("tokenizer.ggml.tokens", tokens.as_slice())
        .set("tokenizer.ggml.token_type", kinds.as_slice())
        .set("tokenizer.ggml.merges", ["a b", "c d", "ab cd", "Ġ a"].as_slice());
    writer
}

/// All that can be done with a tokenizer.
fn use_it(tokenizer: &Tokenizer, text: &str, ids: &[u32]) {
    for special in [Special::AsText, Special::Parse] {
        let tokens = tokenizer.encode(text, special);
        for id in &tokens {
            tokenizer.token_bytes(*id).unwrap();
        }
        for control in [ControlTokens::Hide, ControlTokens::Show] {
            let mut detokenizer = Detokenizer::new(tokenizer, control);
            let mut streamed = String::new();
            for id in &tokens {
                streamed += detokenizer.push(*id);
            }
            streamed += detokenizer.finish();
            assert!(streamed.len() <= 4 * text.len() + 16 * tokens.len());
        }
    }
    for id in ids {
        let _ = tokenizer.token_bytes(TokenId(*id));
        tokenizer.is_end_of_generation(TokenId(*id));
    }
}

#[test]
fn a_changed_vocabulary_is_an_error_or_can_be_used() {
    let files = [tiny::tiny().to_bytes(), bpe().to_bytes()];
    let byte = (any::<prop::sample::Index>(), any::<u8>());
    let changes = (any::<bool>(), proptest::collection::vec(byte, 0..12), text());
    effort::check(600, &changes, |(which, bytes, text)| {
        let mut file = files[usize::from(which)].clone();
        for (index, byte) in bytes {
            let index = index.index(file.len());
            file[index] = byte;
        }
        let Ok(gguf) = Gguf::from_bytes(file) else { return Ok(()) };
        if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
            use_it(&tokenizer, &text, &[0, 1, 300, u32::MAX]);
            let _ = ChatTemplate::from_gguf(&gguf, &tokenizer);
        }
        Ok(())
    });
}

/// Values of the right and of the wrong kinds under the keys that a tokenizer reads.
#[test]
fn made_up_vocabularies_are_an_error_or_can_be_used() {
    let words = proptest::collection::vec("[abĠ▁<>|]{0,4}|<0x[0-9A-F]{2}>", 0..12);
    let pairs = proptest::collection::vec("[abĠ▁]{0,3} ?[abĠ▁]{0,3}", 0..6);
    let kinds = proptest::collection::vec(-1..9i32, 0..14);
    let scores = proptest::collection::vec(any::<f32>(), 0..14);
    let ids = prop::option::of(any::<u32>().prop_map(|id| id % 20));
    let model = prop::sample::select(&["llama", "gpt2", "bert", ""][..]);
    let pre = prop::sample::select(&["smollm", "gpt-2", "default", "qwen2", "llama-bpe"][..]);
    let values = (model, pre, words, pairs, kinds, scores, (ids.clone(), ids), text());
    effort::check(600, &values, |(model, pre, words, pairs, kinds, scores, (bos, eos), text)| {
        let mut writer = Writer::new();
        writer
            .set("tokenizer.ggml.model", model)
            .set("tokenizer.ggml.pre", pre)
            .set("tokenizer.ggml.tokens", words.as_slice())
            .set("tokenizer.ggml.merges", pairs.as_slice());
        // As many as there are tokens now and then, so that more than the first check is passed.
        let fit = |len: usize| if len.is_multiple_of(3) { len } else { words.len() };
        let kinds: Vec<i32> = kinds.iter().cycle().take(fit(kinds.len())).copied().collect();
        let scores: Vec<f32> = scores.iter().cycle().take(fit(scores.len())).copied().collect();
        writer.set("tokenizer.ggml.token_type", kinds.as_slice());
        writer.set("tokenizer.ggml.scores", scores.as_slice());
        if let Some(id) = bos {
            writer.set("tokenizer.ggml.bos_token_id", id);
        }
        if let Some(id) = eos {
            writer
                .set("tokenizer.ggml.eos_token_id", id)
                .set("tokenizer.ggml.unknown_token_id", 0u32);
        }
        writer.set("tokenizer.ggml.add_bos_token", MetaValue::from(bos.is_some()));
        let gguf = Gguf::from_bytes(writer.to_bytes()).unwrap();
        if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
            use_it(&tokenizer, &text, &[0, 5, 11]);
        }
        Ok(())
    });
}

fn now() -> ZonedDateTime {
    "2026-07-05T03:04:05+05:30[Asia/Kolkata]".parse().unwrap()
}

/// Pieces of the language of templates, many of which don't fit together.
const PIECES: [&str; 40] = [
    "{%- for m in messages %}",
    "{% for k, v in m.items() %}",
    "{% endfor %}",
    "{% if m.role == 'user' %}",
    "{% elif tools %}",
    "{% else %}",
    "{% endif %}",
    "{{ m.content }}",
    "{{ m['content'] | trim }}",
    "{{ messages[0] }}",
    "{{ messages[-1].content[1:] }}",
    "{{ messages | tojson(indent=2) }}",
    "{{ tools | tojson }}",
    "{{- bos_token }}",
    "{{ eos_token * 3 }}",
    "{{ raise_exception('no') }}",
    "{{ strftime_now('%d %b %Y') }}",
    "{{ strftime_now('%') }}",
    "{% set ns = namespace(x=0) %}",
    "{% set ns.x = ns.x + 1 %}",
    "{{ ns.x }}",
    "{% macro f(a, b=1) %}",
    "{% endmacro %}",
    "{{ f(f(1)) }}",
    "{{ range(1000000) | list | length }}",
    "{{ 'x' * 1000000000 }}",
    "{{ 'ab'.split('') }}",
    "{{ 'a'.replace('', 'b') }}",
    "{{ 1 // 0 }}{{ 1 % 0 }}",
    "{{ 9223372036854775807 + 1 }}",
    "{{ m.content.split('<')[-1].strip() }}",
    "{{ '%s %d' | format(1, 'x') }}",
    "{% generation %}",
    "{% endgeneration %}",
    "{{ loop.index0 }}",
    "{% break %}",
    "{{",
    "%}",
    "{# ",
    "<|im_start|>",
];

fn template() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => ".{0,8}",
        1 => any::<i64>().prop_map(|n| format!("{{{{ {n} }}}}")),
    ];
    proptest::collection::vec(piece, 1..14).prop_map(|pieces| pieces.concat())
}

fn messages() -> impl Strategy<Value = Vec<Value>> {
    let content = prop_oneof![
        3 => text().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(json!([{"type": "text", "text": "x"}, 7, [], {}])),
        1 => any::<i64>().prop_map(Value::from),
    ];
    let role = prop::sample::select(&["user", "assistant", "system", "tool", ""][..]);
    let message =
        (role, content).prop_map(|(role, content)| json!({"role": role, "content": content}));
    proptest::collection::vec(message, 0..4)
}

/// Renders, and gives what came out where it did.
fn render(tokenizer: &Tokenizer, source: &str, messages: &[Value]) -> Option<String> {
    let template = ChatTemplate::new(source, tokenizer).ok()?;
    let input = RenderInput {
        messages,
        tools: &[json!({"type": "function", "function": {"name": "f"}})],
        add_generation_prompt: true,
        now: &now(),
        variables: &Map::new(),
    };
    let rendered = template.render(&input).ok()?;
    tokenizer.encode_rendered(&rendered);
    Some(rendered.text().to_owned())
}

#[test]
fn made_up_templates_are_an_error_or_render() {
    let gguf = Gguf::from_bytes(tiny::tiny().to_bytes()).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    effort::check(400, &(template(), messages()), |(source, messages)| {
        render(&tokenizer, &source, &messages);
        Ok(())
    });
}

/// A real template with a piece cut out, doubled, or put in; and whatever users write in its messages.
#[test]
fn a_changed_real_template_is_an_error_or_renders() {
    let gguf = Gguf::open(tapri_registry::test_model("smollm2")).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let own = gguf.metadata().str("tokenizer.chat_template").unwrap().to_owned();
    let index = any::<prop::sample::Index>;
    let changes = (index(), index(), 0..4u8, prop::sample::select(&PIECES[..]), messages());
    effort::check(300, &changes, |(from, to, what, piece, messages)| {
        let at: Vec<usize> = own.char_indices().map(|(at, _)| at).collect();
        let (from, to) = (at[from.index(at.len())], at[to.index(at.len())]);
        let (from, to) = (from.min(to), from.max(to));
        let (head, middle, tail) = (&own[..from], &own[from..to], &own[to..]);
        let source = match what {
            0 => format!("{head}{tail}"),
            1 => format!("{head}{middle}{middle}{tail}"),
            2 => format!("{head}{piece}{middle}{tail}"),
            _ => own.clone(),
        };
        render(&tokenizer, &source, &messages);
        Ok(())
    });
}
