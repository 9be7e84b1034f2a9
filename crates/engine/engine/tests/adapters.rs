//! Adapters in the engine: their prefixes are found again, by nobody else, and never for other weights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use support::{Answer, ask, config, finish, prompt, request, start, threads};
use tapri_engine::{
    AdapterFile, AdapterStartError, CacheUse, Engine, EngineConfig, GenerateRequest, Scope,
    StartError, SubmitError, TokenId,
};
use tapri_model::ModelConfig;
use tapri_model::tiny::{TinyAdapter, TinyModel, TinyWeights};

/// A folder of adapters' files, gone when dropped.
struct Files(PathBuf);

impl Files {
    fn new(name: &str) -> Files {
        let folder = std::env::temp_dir().join(format!("tapri-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Files(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.gguf"))
    }

    /// Writes an adapter for a model.
    fn write(&self, name: &str, model: &TinyModel, seed: u64) -> AdapterFile {
        let config = ModelConfig::from_gguf(&model.gguf()).unwrap();
        TinyAdapter::of(&config).seed(seed).writer().write(self.path(name)).unwrap();
        self.named(name)
    }

    fn named(&self, name: &str) -> AdapterFile {
        AdapterFile { name: name.to_owned(), path: self.path(name) }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn with(text: &[TokenId], adapter: Option<&str>) -> GenerateRequest {
    let adapter = adapter.map(str::to_owned);
    GenerateRequest { adapter, ..request(text.to_vec(), 12) }
}

fn cached(answer: &Answer) -> usize {
    answer.admitted.cached_tokens
}

#[test]
fn a_prefix_is_found_with_its_own_adapter_alone() {
    let model = TinyModel::llama();
    let files = Files::new("own-prefix");
    let adapters = vec![
        files.write("red", &model, 1),
        files.write("blue", &model, 2),
        files.write("again", &model, 1),
    ];
    let engine = start(&model, EngineConfig { adapters, ..config() });
    let text = prompt(200, 1);
    let base = ask(&engine, with(&text, None));
    let red = ask(&engine, with(&text, Some("red")));
    let blue = ask(&engine, with(&text, Some("blue")));
    assert_eq!([&base, &red, &blue].map(cached), [0; 3], "nobody finds another's");
    assert!(base.seen() != red.seen() && base.seen() != blue.seen() && red.seen() != blue.seen());
    for (name, first) in [(None, &base), (Some("red"), &red), (Some("blue"), &blue)] {
        let warm = ask(&engine, with(&text, name));
        assert_eq!((cached(&warm), warm.seen()), (192, first.seen()), "{name:?}");
    }
    // Another name with the same contents: the same numbers, so the same blocks.
    let again = ask(&engine, with(&text, Some("again")));
    assert_eq!((cached(&again), again.seen()), (192, red.seen()));
    // Nor across scopes, and an erasure of a scope reaches what its adapters left.
    let other = GenerateRequest { scope: Scope(b"other".to_vec()), ..with(&text, Some("red")) };
    assert_eq!(cached(&ask(&engine, other.clone())), 0);
    engine.forget(&other.scope).unwrap();
    assert_eq!(cached(&ask(&engine, other)), 0);
    engine.forget(&Scope::default()).unwrap();
    assert_eq!(cached(&ask(&engine, with(&text, Some("red")))), 0);
}

#[test]
fn the_same_name_with_other_weights_finds_nothing() {
    // One engine with both, under names that change places: what a restart over one store of blocks would see.
    let model = TinyModel::llama();
    let files = Files::new("other-weights");
    let text = prompt(200, 1);
    let run = |seed: u64| {
        let adapters = vec![files.write("legal", &model, seed)];
        let engine = start(&model, EngineConfig { adapters, ..config() });
        let info = engine.model().adapters[0].clone();
        (info.digest, info.fingerprint, ask(&engine, with(&text, Some("legal"))).seen())
    };
    let (first, second, third) = (run(1), run(2), run(1));
    assert_eq!(first, third);
    assert!(first.0 != second.0 && first.1 != second.1 && first.2 != second.2);
    // The key of a block is the digest, so blocks of the old weights are never found with the new ones: as two names in one engine.
    let adapters = vec![
        AdapterFile { name: "old".to_owned(), ..files.write("old-file", &model, 1) },
        AdapterFile { name: "legal".to_owned(), ..files.write("new-file", &model, 2) },
    ];
    let engine = start(&model, EngineConfig { adapters, ..config() });
    let digests: Vec<_> = engine.model().adapters.iter().map(|it| it.digest).collect();
    assert_eq!(digests, [first.0, second.0]);
    assert_eq!(ask(&engine, with(&text, Some("old"))).seen(), first.2);
    let new = ask(&engine, with(&text, Some("legal")));
    assert_eq!((cached(&new), new.seen()), (0, second.2));
}

#[test]
fn company_preemption_and_chunks_change_nothing() {
    for model in [
        TinyModel { layers: 2, ..TinyModel::llama() }.weights(TinyWeights::Q8_0),
        TinyModel { layers: 6, ..TinyModel::gemma3() },
    ] {
        let files = Files::new(&format!("company-{:?}", model.architecture));
        let adapters = vec![files.write("red", &model, 1), files.write("blue", &model, 2)];
        let names = [None, Some("red"), Some("blue"), Some("red"), None, Some("blue")];
        let texts: Vec<_> = (0..names.len()).map(|n| prompt(60 + 37 * n, n as u32 / 2)).collect();
        let cold = start(
            &model,
            EngineConfig {
                threads: threads(1),
                prefix_cache: false,
                chunk: NonZeroUsize::new(4096).unwrap(),
                adapters: adapters.clone(),
                ..config()
            },
        );
        let alone: Vec<_> = (texts.iter().zip(names))
            .map(|(text, name)| ask(&cold, with(text, name)).seen())
            .collect();
        let block = {
            let stats = cold.stats();
            stats.block_bytes as u64
        };
        for (chunk, blocks) in [(7, 4000), (64, 4000), (64, 90)] {
            let engine = start(
                &model,
                EngineConfig {
                    chunk: NonZeroUsize::new(chunk).unwrap(),
                    kv_memory: blocks * block,
                    adapters: adapters.clone(),
                    ..config()
                },
            );
            for round in 0..2 {
                let calls: Vec<_> = (texts.iter().zip(names))
                    .map(|(text, name)| engine.submit(with(text, name)).unwrap())
                    .collect();
                for (call, expected) in calls.into_iter().zip(&alone) {
                    let answer = finish(call).unwrap();
                    assert_eq!(
                        &answer.seen(),
                        expected,
                        "chunk {chunk}, {blocks} blocks, round {round}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_call_may_not_read_or_store_and_several_answers_share_one_prompt() {
    let model = TinyModel { layers: 2, ..TinyModel::llama() };
    let files = Files::new("cache-use");
    let adapters = vec![files.write("red", &model, 1)];
    let engine = start(&model, EngineConfig { adapters, ..config() });
    let text = prompt(100, 1);
    let hidden = CacheUse { read: true, store: false };
    let first = ask(&engine, GenerateRequest { cache: hidden, ..with(&text, Some("red")) });
    let answers = engine.submit_choices(with(&text, Some("red")), 3).unwrap();
    for answer in answers {
        let answer = finish(answer).unwrap();
        assert_eq!((cached(&answer), answer.seen()), (0, first.seen()));
    }
    assert_eq!(cached(&ask(&engine, with(&text, Some("red")))), 96);
}

fn refused(model: &TinyModel, adapters: Vec<AdapterFile>) -> StartError {
    let config = EngineConfig { adapters, ..config() };
    Engine::start_from(&model.gguf(), Path::new("tiny").to_owned(), config).unwrap_err()
}

#[test]
fn what_is_wrong_with_an_adapter_is_said_at_the_start() {
    let model = TinyModel { layers: 2, ..TinyModel::llama() };
    let files = Files::new("wrong");
    let red = files.write("red", &model, 1);
    let twice = refused(&model, vec![red.clone(), red.clone()]);
    assert_eq!(twice.to_string(), "two adapters have the name \"red\"");
    let missing = refused(&model, vec![files.named("missing")]);
    assert!(
        matches!(missing, StartError::Adapter(AdapterStartError::File { .. }))
            && missing.to_string().contains("missing.gguf"),
        "{missing}"
    );
    let gemma = TinyModel { layers: 1, ..TinyModel::gemma3() };
    let foreign = refused(&gemma, vec![red.clone()]).to_string();
    assert!(foreign.contains("\"red\"") && foreign.contains("gemma3"), "{foreign}");
    let larger = refused(&TinyModel { width: 128, ..model.clone() }, vec![red.clone()]).to_string();
    assert!(larger.contains("blk.0.attn_k.weight.lora_a"), "{larger}");

    let engine = start(&model, EngineConfig { adapters: vec![red.clone()], ..config() });
    let info = &engine.model().adapters[0];
    assert_eq!((info.name.as_str(), info.rank, info.matrices), ("red", 8, 14));
    assert_eq!(info.digest, red.digest().unwrap());
    assert!(info.bytes > 14 * 8 * 4 * 64);
    let unknown = engine.submit(with(&prompt(10, 1), Some("green"))).unwrap_err();
    assert_eq!(unknown, SubmitError::UnknownAdapter { name: "green".to_owned() });
}
