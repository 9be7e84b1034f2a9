//! How long tokenising takes: the case file (104 kB of court papers) with both development models, cold (a tokenizer
//! that has seen nothing), warm (the same text again, its fragments known) and known (the text with another question
//! behind it, as on a cache hit: only the question is tokenised), and loading a tokenizer.
//!
//! `cargo bench -p tapri-text`
#![allow(missing_docs, clippy::unwrap_used)]

use std::{hint::black_box, path::Path, time::Duration};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tapri_gguf::Gguf;
use tapri_text::{KnownTexts, Special, TextUse, Tokenizer};

fn tokenize(criterion: &mut Criterion) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/case_file/case_file.txt");
    let text = std::fs::read_to_string(path).unwrap();
    for model in ["gemma-3-270m", "smollm2"] {
        let gguf = Gguf::open(tapri_registry::test_model(model)).unwrap();
        let mut group = criterion.benchmark_group(model);
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(3))
            .warm_up_time(Duration::from_secs(1));
        group.bench_function("load", |bencher| {
            bencher.iter(|| Tokenizer::from_gguf(black_box(&gguf)).unwrap())
        });
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("case file, cold", |bencher| {
            bencher.iter_batched_ref(
                || Tokenizer::from_gguf(&gguf).unwrap(),
                |tokenizer| tokenizer.encode(black_box(&text), Special::AsText),
                BatchSize::PerIteration,
            );
        });
        let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
        group.bench_function("case file, warm", |bencher| {
            bencher.iter(|| tokenizer.encode(black_box(&text), Special::AsText));
        });
        group.bench_function("case file, warm, control tokens parsed", |bencher| {
            bencher.iter(|| tokenizer.encode(black_box(&text), Special::Parse));
        });
        let known = KnownTexts::new(32 << 20);
        let whose = TextUse { scope: b"tenant", salt: b"", read: true, store: true };
        known.encode_prompt(&tokenizer, &text, Special::AsText, &whose);
        let question = format!(
            "{text}\nWhat does the claimant ask for, and on which facts does the claim rest?"
        );
        group.bench_function("case file with a question, known", |bencher| {
            bencher.iter(|| {
                known.encode_prompt(&tokenizer, black_box(&question), Special::AsText, &whose)
            });
        });
        group.finish();
    }
}

criterion_group!(benches, tokenize);
criterion_main!(benches);
