//! llama-server as a real upstream: run on demand, see docs/upstreams.md.

use serde_json::json;
use tapri_api::Format;
use tapri_upstream::{Api, Backend, Fleet, FleetConfig};

use super::scene::*;

/// `TAPRI_LLAMA_SERVER=http://127.0.0.1:8081 cargo test -p tapri-upstream --test upstreams -- --ignored llama`
#[tokio::test]
#[ignore = "needs a llama-server; see docs/upstreams.md"]
async fn llama_server_answers_streams_and_caches() {
    let url = std::env::var("TAPRI_LLAMA_SERVER").expect("its address in TAPRI_LLAMA_SERVER");
    let mut config = FleetConfig {
        upstreams: vec![upstream("llama", &url, Api::OpenAi)],
        ..FleetConfig::default()
    };
    Fleet::discover(&mut config).await;
    let fleet = Fleet::new(config).unwrap();
    let model = fleet.models()[0].id.clone();
    let file = "The lease of the shop began in May and runs for ten years. ".repeat(60);
    let body = |question: &str| {
        json!({"model": model, "temperature": 0, "max_tokens": 16, "messages": [
            {"role": "system", "content": file}, {"role": "user", "content": question}]})
    };
    let first = ask(&fleet, call(Format::Chat, body("When did it begin?"))).await.unwrap();
    let usage = first.finish().usage;
    assert!(!first.text.is_empty() && usage.prompt() > Some(500), "{usage:?}");
    let second =
        ask(&fleet, call(Format::Chat, streamed(body("How long does it run?")))).await.unwrap();
    let usage = second.finish().usage;
    assert!(!second.text.is_empty(), "a stream says something");
    assert!(usage.cached() > Some(500), "the file is read once: {usage:?}");
    let sums = fleet.upstreams().remove(0).calibration;
    let error = sums.error as f64 / sums.realised.max(1) as f64;
    assert!(sums.predicted > 0 && error < 0.2, "{sums:?}");
    // A client that leaves is noticed: the next call is answered though there is one slot.
    let mut long = body("Tell a story.");
    long["max_tokens"] = 2000.into();
    let mut stream = fleet.start(call(Format::Chat, streamed(long))).await.unwrap();
    for _ in 0..3 {
        stream.next().await.unwrap();
    }
    drop(stream);
    assert!(ask(&fleet, call(Format::Chat, body("When?"))).await.unwrap().end.is_ok());
    let bad = json!({"model": model, "messages": [{"role": "user"}]});
    assert!(ask(&fleet, call(Format::Chat, bad)).await.is_err());
}
