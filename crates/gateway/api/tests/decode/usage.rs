//! Each provider's counts, streamed and whole, in its own words.

use serde_json::json;
use tapri_api::decode::Options;
use tapri_api::usage::Parts;
use tapri_api::{Format, Usage};

use super::{body, finish, stream};

/// The same usage in a body and in the last chunk of a stream.
fn chat(usage: &str) -> Usage {
    let whole = body(
        Format::Chat,
        &format!(
            r#"{{"id":"c","choices":[{{"index":0,"message":{{"role":"assistant","content":"Hi"}},"finish_reason":"stop"}}],"usage":{usage}}}"#
        ),
    );
    let lines = [
        r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}],"usage":null}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        &format!(r#"{{"choices":[],"usage":{usage}}}"#),
        "[DONE]",
    ];
    let streamed = stream(Format::Chat, Options::default(), &lines);
    assert_eq!(finish(&whole).usage, finish(&streamed).usage, "streaming and not agree");
    finish(&whole).usage
}

fn responses(usage: &str) -> Usage {
    let response = format!(r#"{{"id":"r","status":"completed","output":[],"usage":{usage}}}"#);
    let whole = body(Format::Responses, &response);
    let line = format!(r#"{{"type":"response.completed","response":{response}}}"#);
    let streamed = stream(Format::Responses, Options::default(), &[&line]);
    assert_eq!(finish(&whole).usage, finish(&streamed).usage, "streaming and not agree");
    finish(&whole).usage
}

fn parts(prompt: usize, answer: usize) -> Parts {
    Parts { prompt: Some(prompt), answer: Some(answer), ..Parts::default() }
}

#[test]
fn openai_before_writes_were_priced() {
    let usage = chat(
        r#"{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}"#,
    );
    let expected = Parts { cached: Some(1920), reasoning: Some(0), ..parts(2006, 300) };
    assert_eq!(usage.parts(), expected);
    assert_eq!(usage.uncached(), Some(86));
}

#[test]
fn openai_with_writes() {
    let usage = chat(
        r#"{"prompt_tokens":5000,"completion_tokens":10,"total_tokens":5010,"prompt_tokens_details":{"cached_tokens":3000,"cache_write_tokens":1500}}"#,
    );
    assert_eq!(usage.parts(), Parts { cached: Some(3000), written: Some(1500), ..parts(5000, 10) });
    assert_eq!((usage.uncached(), usage.computed()), (Some(500), Some(2000)));
    let usage = responses(
        r#"{"input_tokens":5000,"input_tokens_details":{"cached_tokens":3000,"cache_write_tokens":1500,"cache_write_tokens_details":{"ttl_30m_tokens":1000,"ttl_12h_tokens":500}},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":5010}"#,
    );
    let expected = Parts {
        cached: Some(3000),
        written: Some(1500),
        written_short: Some(1000),
        written_long: Some(500),
        reasoning: Some(4),
        ..parts(5000, 10)
    };
    assert_eq!(usage.parts(), expected);
}

#[test]
fn vllm_that_says_nothing_of_its_cache() {
    let usage = chat(
        r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":null}"#,
    );
    assert_eq!(usage.parts(), parts(100, 5), "null is unknown, not zero");
    let hidden = usage.to_chat(false).unwrap();
    assert_eq!(hidden, json!({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105}));
}

#[test]
fn vllm_that_says_what_was_cached() {
    let usage = chat(
        r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":0}}"#,
    );
    assert_eq!(usage.cached(), Some(0), "a zero is known");
    assert_eq!(usage.to_chat(false).unwrap()["prompt_tokens_details"]["cached_tokens"], 0);
}

#[test]
fn deepseek() {
    let told = r#"{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_cache_hit_tokens":896,"prompt_cache_miss_tokens":104,"completion_tokens_details":{"reasoning_tokens":20}}"#;
    let expected = Parts { cached: Some(896), reasoning: Some(20), ..parts(1000, 50) };
    assert_eq!(chat(told).parts(), expected);
    assert_eq!(Usage::from_deepseek(&serde_json::from_str(told).unwrap()).parts(), expected);
    let without_total = json!({"prompt_cache_hit_tokens": 896, "prompt_cache_miss_tokens": 104});
    assert_eq!(Usage::from_deepseek(&without_total).prompt(), Some(1000));
}

#[test]
fn moonshot() {
    let told =
        r#"{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"cached_tokens":768}"#;
    assert_eq!(chat(told).parts(), Parts { cached: Some(768), ..parts(1000, 50) });
    let usage = Usage::from_moonshot(&serde_json::from_str(told).unwrap());
    assert_eq!(usage.cached(), Some(768));
}

#[test]
fn xai_that_counts_thinking_apart() {
    let usage = chat(
        r#"{"prompt_tokens":32,"completion_tokens":9,"total_tokens":135,"prompt_tokens_details":{"cached_tokens":6},"completion_tokens_details":{"reasoning_tokens":94}}"#,
    );
    let expected = Parts { cached: Some(6), reasoning: Some(94), ..parts(32, 103) };
    assert_eq!(usage.parts(), expected);
    assert_eq!(usage.total(), Some(135));
}

#[test]
fn openrouter_and_litellm() {
    let usage = chat(
        r#"{"prompt_tokens":1200,"completion_tokens":8,"total_tokens":1208,"prompt_tokens_details":{"cached_tokens":1000,"cache_write_tokens":100},"cost":0.001}"#,
    );
    assert_eq!((usage.written(), usage.uncached()), (Some(100), Some(100)));
    let usage = chat(
        r#"{"prompt_tokens":1200,"completion_tokens":8,"total_tokens":1208,"cache_read_input_tokens":1000,"cache_creation_input_tokens":100}"#,
    );
    assert_eq!((usage.cached(), usage.written()), (Some(1000), Some(100)));
}

#[test]
fn usage_in_the_chunk_of_the_end() {
    let lines = [
        r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}"#,
        "[DONE]",
    ];
    let events = stream(Format::Chat, Options::default(), &lines);
    assert_eq!(finish(&events).usage.parts(), parts(7, 1));
    assert_eq!(finish(&events).raw, None, "that chunk is a piece");
}

const ANTHROPIC: &str = r#"{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,"cache_creation":{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":25,"service_tier":"standard"}"#;

fn anthropic(start: &str, delta: &str) -> Usage {
    let lines = [
        &format!(
            r#"{{"type":"message_start","message":{{"id":"m","type":"message","role":"assistant","content":[],"model":"c","stop_reason":null,"stop_sequence":null,"usage":{start}}}}}"#
        ),
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":USAGE}"#
            .replace("USAGE", delta)
            .leak() as &str,
        r#"{"type":"message_stop"}"#,
    ];
    finish(&stream(Format::Messages, Options::default(), &lines)).usage
}

#[test]
fn anthropic_excludes_reads_and_writes_from_its_input() {
    let whole = body(
        Format::Messages,
        &format!(
            r#"{{"type":"message","content":[],"stop_reason":"end_turn","usage":{ANTHROPIC}}}"#
        ),
    );
    let usage = finish(&whole).usage;
    let expected = Parts {
        cached: Some(2000),
        written: Some(300),
        written_short: Some(100),
        written_long: Some(200),
        ..parts(2312, 25)
    };
    assert_eq!(usage.parts(), expected);
    assert_eq!(usage.uncached(), Some(12));
    assert_eq!(usage.total(), Some(2337));
    assert_eq!(usage.to_chat(false).unwrap()["prompt_tokens"], 2312, "OpenAI's total has them");
    // Streamed: the input at the start, the output at the end.
    let started = ANTHROPIC.replace(r#""output_tokens":25"#, r#""output_tokens":1"#);
    assert_eq!(anthropic(&started, r#"{"output_tokens":25}"#), usage);
}

#[test]
fn anthropic_s_deltas_are_cumulative_and_the_last_that_is_told_holds() {
    let usage = anthropic(
        r#"{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1}"#,
        r#"{"input_tokens":40,"cache_read_input_tokens":500,"cache_creation_input_tokens":null,"output_tokens":30}"#,
    );
    let expected = Parts { cached: Some(500), written: Some(0), ..parts(540, 30) };
    assert_eq!(usage.parts(), expected);
}

#[test]
fn anthropic_s_words_come_back_as_they_were() {
    let told: serde_json::Value = serde_json::from_str(ANTHROPIC).unwrap();
    let mut said = Usage::from_anthropic(&told).to_anthropic(false);
    said["service_tier"] = "standard".into();
    assert_eq!(said, told);
}

#[test]
fn counts_that_contradict_each_other_are_cut_down_and_never_negative() {
    let usage = chat(
        r#"{"prompt_tokens":10,"completion_tokens":-4,"total_tokens":6,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":9}}"#,
    );
    let expected =
        Parts { prompt: Some(10), cached: Some(10), written: Some(0), ..Parts::default() };
    assert_eq!(usage.parts(), expected);
    assert_eq!(usage.uncached(), Some(0));
}

#[test]
fn nothing_told_is_nothing_known() {
    let lines =
        [r#"{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}"#, "[DONE]"];
    let usage = finish(&stream(Format::Chat, Options::default(), &lines)).usage;
    assert!(usage.is_unknown());
    assert_eq!(usage.to_chat(false), None);
}
