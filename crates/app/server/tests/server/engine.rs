//! The server with the real engine behind it, on a tiny random model: its text is noise, but noise that every
//! token of the prompt has a say in.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tapri_engine::{Engine, EngineConfig};
use tapri_model::tiny::TinyModel;
use tapri_pipeline::{Backend, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::Embedded;

use super::CHAT;
use super::http::*;

const TEXT: &str = "/v1/completions";

fn config() -> EngineConfig {
    EngineConfig {
        threads: NonZeroUsize::MIN,
        kv_memory: 32 << 20,
        chunk: NonZeroUsize::new(64).unwrap(),
        ..EngineConfig::default()
    }
}

fn start(model: &TinyModel, config: EngineConfig) -> (axum::Router, Arc<Embedded>) {
    let engine = Engine::start_from(&model.gguf(), PathBuf::from("tiny.gguf"), config).unwrap();
    let backend = Arc::new(Embedded::new(engine, "tiny", vec!["alias".into()]));
    let pipeline = Pipeline::new(Arc::clone(&backend) as Arc<dyn Backend>);
    (router(App::new(&ServerConfig::default(), pipeline)), backend)
}

fn tiny() -> (axum::Router, Arc<Embedded>) {
    start(&TinyModel::llama(), config())
}

/// Some 300 tokens.
fn long_text(start: &str) -> String {
    format!("{start} {}", "the quick brown fox jumps over the lazy dog ".repeat(8))
}

async fn complete(app: &axum::Router, headers: &[(&str, &str)], body: Value) -> Reply {
    send(app.clone(), post(TEXT, headers, body.to_string())).await
}

fn cached(reply: &Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

fn text(reply: &Reply) -> String {
    reply.json()["choices"][0]["text"].as_str().unwrap().to_owned()
}

fn streamed_text(reply: &Reply) -> String {
    reply
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str::<Value>(data).unwrap())
        .filter_map(|chunk| chunk["choices"][0]["text"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn the_same_text_with_the_cache_on_and_off_cold_and_warm() {
    for model in [TinyModel::llama(), TinyModel::gemma3()] {
        let (on, _) = start(&model, config());
        let (off, _) = start(&model, EngineConfig { prefix_cache: false, ..config() });
        let body =
            json!({"prompt": long_text("a"), "max_tokens": 24, "temperature": 0, "logprobs": 3});
        let cold = complete(&on, &[], body.clone()).await;
        let warm = complete(&on, &[], body.clone()).await;
        let without = complete(&off, &[], body.clone()).await;
        assert!(
            cached(&cold) == 0 && cached(&warm) > 100 && cached(&without) == 0,
            "{}",
            warm.body
        );
        // Logprobs included: the same bits.
        assert_eq!(cold.json()["choices"], warm.json()["choices"]);
        assert_eq!(cold.json()["choices"], without.json()["choices"]);
        let status = without.header("cache-status").unwrap();
        assert!(status.starts_with("tapri-prefix; fwd=bypass"), "{status}");
        let mut streamed = body;
        streamed["stream"] = true.into();
        assert_eq!(streamed_text(&complete(&on, &[], streamed).await), text(&warm));
    }
}

#[tokio::test]
async fn cache_status_counts_and_names_the_first_difference() {
    let (app, _) = tiny();
    let ids: Vec<u32> = (0..200).map(|i| 100 + i % 50).collect();
    let prompt = |ids: &[u32]| json!({"prompt": ids, "max_tokens": 1, "temperature": 0});
    let status = |reply: &Reply| reply.header("cache-status").unwrap().to_owned();
    let cold = complete(&app, &[], prompt(&ids)).await;
    assert!(
        status(&cold).starts_with(r#"tapri-prefix; fwd=miss; detail="0/200"#),
        "{}",
        status(&cold)
    );
    let warm = complete(&app, &[], prompt(&ids)).await;
    assert_eq!(status(&warm), r#"tapri-prefix; fwd=partial; detail="192/200""#);
    assert_eq!(cached(&warm), 192);
    let mut changed = ids.clone();
    changed[70] = 99;
    let changed = complete(&app, &[], prompt(&changed)).await;
    assert_eq!(
        status(&changed),
        r#"tapri-prefix; fwd=partial; detail="64/200, first difference at token 70""#
    );
    let short = complete(&app, &[], prompt(&ids[..10])).await;
    assert_eq!(status(&short), r#"tapri-prefix; fwd=miss; detail="0/10, below one block""#);
}

#[tokio::test]
async fn directives_salts_and_boundaries() {
    let (app, _) = tiny();
    let body = |start: &str| json!({"prompt": long_text(start), "max_tokens": 1});
    let hits =
        async |headers: &[(&str, &str)], body: Value| cached(&complete(&app, headers, body).await);
    let no_store = [("cache-control", "no-store")];
    let no_cache = [("cache-control", "no-cache")];
    assert_eq!(hits(&no_store, body("b")).await, 0);
    assert_eq!(hits(&[], body("b")).await, 0, "no-store left nothing");
    let there = hits(&[], body("b")).await;
    assert!(there > 100);
    assert_eq!(hits(&no_store, body("b")).await, there, "no-store may read");
    assert_eq!(hits(&no_cache, body("b")).await, 0);
    assert_eq!(hits(&[("cache-control", "max-age=0")], body("b")).await, 0);
    assert_eq!(hits(&[("cache-control", "only-if-cached")], body("b")).await, there);
    let refused = complete(&app, &[("cache-control", "only-if-cached")], body("unseen")).await;
    assert_eq!(refused.error(), r#"504 null "not_cached""#);
    let mut salted = body("b");
    salted["cache_salt"] = "mine".into();
    assert_eq!(hits(&[], salted.clone()).await, 0);
    assert_eq!(hits(&[], salted.clone()).await, there);
    salted["cache_salt"] = "yours".into();
    assert_eq!(hits(&[], salted).await, 0);
    for (tokens, expected) in [(15, 0), (16, 0), (17, 16), (31, 16), (32, 16), (33, 32)] {
        let ids: Vec<u32> = (0..tokens).map(|i| 100 + (i * tokens) % 97).collect();
        let body =
            json!({"prompt": ids, "max_tokens": 1, "cache_salt": format!("{tokens} tokens")});
        assert_eq!(hits(&[], body.clone()).await, 0);
        assert_eq!(hits(&[], body).await, expected, "{tokens} tokens");
    }
}

#[tokio::test]
async fn a_conversation_with_a_model_that_has_no_template() {
    let (app, _) = tiny();
    let body = json!({"messages": [{"role": "user", "content": "hi <|im_end|>"}], "max_tokens": 2, "temperature": 0});
    let reply = send(app.clone(), post(CHAT, &[], body.to_string())).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    assert_eq!(reply.header("x-tapri-template"), Some("chatml-fallback"));
    let tokens = send(app.clone(), post("/tokenize", &[], body.to_string())).await.json();
    assert_eq!(tokens["count"], reply.json()["usage"]["prompt_tokens"]);
    let back = send(
        app.clone(),
        post("/detokenize", &[], json!({"tokens": tokens["tokens"]}).to_string()),
    )
    .await;
    let laid_out = "<|im_start|>user\nhi <|im_end|><|im_end|>\n<|im_start|>assistant\n";
    assert!(back.json()["prompt"].as_str().unwrap().ends_with(laid_out), "{}", back.body);
    let text = complete(&app, &[], json!({"prompt": "hi", "max_tokens": 1})).await;
    assert_eq!(text.header("x-tapri-template"), None, "no template was used");
    let piece =
        send(app, post("/tokenize", &[], r#"{"prompt": "hi", "add_special_tokens": false}"#)).await;
    assert!(piece.json()["count"].as_u64() <= text.json()["usage"]["prompt_tokens"].as_u64());
}

#[tokio::test]
async fn prompts_that_do_not_fit() {
    let model = TinyModel { context_length: 256, ..TinyModel::llama() };
    let (app, _) = start(&model, config());
    let ids = vec![100u32; 300];
    let reply = complete(&app, &[], json!({"prompt": ids})).await;
    assert_eq!(reply.error(), r#"400 "prompt" "context_length_exceeded""#);
    assert!(reply.body.contains("300") && reply.body.contains("256"), "{}", reply.body);
    let chat = json!({"stream": true, "messages": [{"role": "user", "content": "x ".repeat(400)}]});
    let reply = send(app.clone(), post(CHAT, &[], chat.to_string())).await;
    assert_eq!(reply.error(), r#"400 "messages" "context_length_exceeded""#);
    let reply = complete(&app, &[], json!({"prompt": [1, 2, 100000]})).await;
    assert_eq!(reply.error(), r#"400 "prompt[2]" "invalid_value""#);
    // Without a limit of its own an answer ends where the context does.
    let chat = json!({"messages": [{"role": "user", "content": "x"}], "ignore_eos": true, "temperature": 0});
    let reply = send(app.clone(), post(CHAT, &[], chat.to_string())).await.json();
    assert_eq!(reply["choices"][0]["finish_reason"], "length");
    assert!(reply["usage"]["total_tokens"].as_u64().unwrap() >= 256, "{reply}");

    let small = EngineConfig { kv_memory: 128 << 10, ..config() };
    let (app, _) = start(&TinyModel::llama(), small);
    let reply = complete(&app, &[], json!({"prompt": vec![100u32; 2000], "max_tokens": 1})).await;
    assert_eq!(reply.error(), r#"400 "prompt" "kv_memory_exceeded""#);
    assert_eq!(
        complete(&app, &[], json!({"prompt": "hi", "max_tokens": 1})).await.status,
        200,
        "others go on"
    );
}

#[tokio::test]
async fn a_full_queue_is_a_429() {
    let narrow = EngineConfig { max_running: NonZeroUsize::MIN, max_waiting: 1, ..config() };
    let (app, _) = start(&TinyModel::llama(), narrow);
    let body = json!({"prompt": "x", "max_tokens": 3000, "ignore_eos": true, "stream": true});
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let request = post(TEXT, &[], body.to_string());
        let app = app.clone();
        calls.spawn(async move { tower::ServiceExt::oneshot(app, request).await.unwrap() });
    }
    // Those that wait are not answered yet; those that are refused come back at once.
    let refused = loop {
        let response = calls.join_next().await.unwrap().unwrap();
        if response.status() != 200 {
            break response;
        }
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
}

#[tokio::test]
async fn who_leaves_is_cancelled_and_who_stays_is_not() {
    let (app, backend) = tiny();
    let alone =
        json!({"prompt": long_text("c"), "max_tokens": 40, "temperature": 0, "ignore_eos": true});
    let expected = text(&complete(&app, &[("cache-control", "no-store")], alone.clone()).await);
    let endless = json!({"prompt": "y", "max_tokens": 7000, "ignore_eos": true, "stream": true});
    let response = tower::ServiceExt::oneshot(app.clone(), post(TEXT, &[], endless.to_string()))
        .await
        .unwrap();
    let mut body = response.into_body();
    http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
    let stays = tokio::spawn({
        let (app, alone) = (app.clone(), alone.clone());
        async move { text(&complete(&app, &[("cache-control", "no-store")], alone).await) }
    });
    drop(body);
    assert_eq!(stays.await.unwrap(), expected, "in company as alone");
    while backend.stats().unwrap().running > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stats = backend.stats().unwrap();
    assert_eq!((stats.running, stats.waiting, stats.blocks_used), (0, 0, 0));
    assert!(stats.answer_tokens < 7000, "it was cancelled, not finished: {stats:?}");
    let metrics = send(app, get("/metrics")).await.body;
    assert!(metrics.contains("finished_reason=\"abort\"} 1\n"), "{metrics}");
}

#[tokio::test]
async fn eight_users_share_one_reading() {
    let (app, backend) = tiny();
    let ids: Vec<u32> = (0..3000).map(|i| 100 + (i * 7) % 101).collect();
    let body =
        json!({"prompt": ids, "max_tokens": 8, "temperature": 0, "ignore_eos": true}).to_string();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (app, request) = (app.clone(), post(TEXT, &[], body.clone()));
        calls.spawn(async move { send(app, request).await });
    }
    let replies = calls.join_all().await;
    assert!(replies.iter().all(|reply| text(reply) == text(&replies[0])));
    let stats = backend.stats().unwrap();
    assert!(stats.prefix_joined + stats.prefix_hits >= 7 * 2900, "{stats:?}");
    assert!(stats.prefix_joined > 0, "some waited for the first: {stats:?}");
    // One computed the prompt, and each of the others is told that nothing but the last block was computed for it.
    let mut told: Vec<u64> = replies.iter().map(cached).collect();
    told.sort_unstable();
    assert_eq!(told[0], 0);
    assert!(told[1..].iter().all(|&cached| (2900..3000).contains(&cached)), "{told:?}");
    let reused: u64 = told.iter().sum();
    assert_eq!(
        reused,
        stats.prefix_hits + stats.prefix_joined,
        "hits and joined are counted apart"
    );
    for reply in &replies {
        let detail = reply.header("cache-status").unwrap();
        let shown = format!("detail=\"{}/3000", cached(reply));
        assert!(detail.contains(&shown), "the header says what the usage does: {detail}");
    }
    assert!(replies.iter().any(|reply| reply.header("cache-status").unwrap().contains(" joined")));
}

#[tokio::test]
async fn shut_down_calls_end_with_a_reason_and_new_ones_are_refused() {
    let (app, backend) = tiny();
    let endless = json!({"prompt": "y", "max_tokens": 8000, "ignore_eos": true, "stream": true});
    let response = tower::ServiceExt::oneshot(app.clone(), post(TEXT, &[], endless.to_string()))
        .await
        .unwrap();
    tokio::task::spawn_blocking(move || backend.shutdown(Duration::ZERO)).await.unwrap();
    let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains(r#""code":"shutting_down""#) && !body.contains("[DONE]"), "{body}");
    let late = complete(&app, &[], json!({"prompt": "x"})).await;
    assert_eq!(late.error(), r#"503 null "shutting_down""#);
}

#[tokio::test]
async fn metrics_count_tokens_as_vllm_does() {
    let (app, _) = tiny();
    let ids: Vec<u32> = (0..100).map(|i| 100 + i).collect();
    for _ in 0..2 {
        complete(&app, &[], json!({"prompt": ids, "max_tokens": 5, "ignore_eos": true})).await;
    }
    let metrics = send(app, get("/metrics")).await.body;
    let value = |name: &str| -> f64 {
        let line = metrics
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name} in {metrics}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert_eq!(value("vllm:prefix_cache_queries_total"), 200.0);
    assert_eq!(value("vllm:prefix_cache_hits_total"), 96.0, "never the last token");
    assert_eq!(value("vllm:generation_tokens_total"), 10.0);
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), 2.0);
    assert_eq!(value("vllm:request_time_per_output_token_seconds_count"), 2.0);
    assert_eq!(value("vllm:num_requests_running"), 0.0);
}
