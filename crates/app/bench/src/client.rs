//! One streamed completion, with the client's own clock.

use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::{Value, json};

/// What one completion took.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Completion {
    /// Seconds from sending the request to the first token.
    pub(crate) ttft_seconds: f64,
    /// Seconds from the first token to the last.
    pub(crate) answer_seconds: f64,
    /// Seconds from sending the request to the stream's end.
    pub(crate) total_seconds: f64,
    /// Tokens of the prompt, as the server counts them.
    pub(crate) prompt_tokens: u64,
    /// Tokens of the answer, as the server counts them.
    pub(crate) answer_tokens: u64,
    /// Prompt tokens that the server says it reused; absent where it says nothing.
    pub(crate) cached_tokens: Option<u64>,
    /// The answer.
    pub(crate) answer: String,
    /// When each event with a part of the answer came.
    #[serde(skip)]
    pub(crate) moments: Vec<Instant>,
}

impl Completion {
    /// Answer tokens a second, after the first.
    pub(crate) fn decode_rate(&self) -> Option<f64> {
        (self.answer_tokens > 1 && self.answer_seconds > 0.0)
            .then(|| (self.answer_tokens - 1) as f64 / self.answer_seconds)
    }
}

fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(1800)))
        .http_status_as_error(false)
        .build()
        .into()
}

/// Posts JSON and reads the answer, whatever it is.
pub(crate) fn post(endpoint: &str, body: &Value) -> Result<()> {
    let response = agent()
        .post(endpoint)
        .header("content-type", "application/json")
        .send(&serde_json::to_vec(body)?[..])
        .with_context(|| format!("post to {endpoint}"))?;
    let status = response.status();
    let text = response.into_body().read_to_string().unwrap_or_default();
    if !status.is_success() {
        bail!("{endpoint} answered {status}: {}", text.chars().take(400).collect::<String>());
    }
    Ok(())
}

/// Sends `prompt` to `/v1/completions` of `url` and reads the stream to its end. `slot` is the slot of a llama-server that has to
/// take it.
pub(crate) fn complete(
    url: &str,
    model: Option<&str>,
    prompt: &str,
    max_tokens: u32,
    slot: Option<usize>,
) -> Result<Completion> {
    complete_watched(url, model, prompt, max_tokens, slot, |_| ())
}

/// The same; `each` is told of each event with a part of the answer how many there were.
pub(crate) fn complete_watched(
    url: &str,
    model: Option<&str>,
    prompt: &str,
    max_tokens: u32,
    slot: Option<usize>,
    mut each: impl FnMut(usize),
) -> Result<Completion> {
    let agent = agent();
    let mut body = json!({
        "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": true,
        "stream_options": {"include_usage": true}, "ignore_eos": true,
    });
    if let Some(model) = model {
        body["model"] = model.into();
    }
    if let Some(slot) = slot {
        body["id_slot"] = slot.into();
        body["cache_prompt"] = true.into();
    }
    let body = serde_json::to_vec(&body)?;
    let endpoint = format!("{}/v1/completions", url.trim_end_matches('/'));
    let sent = Instant::now();
    let response = agent
        .post(&endpoint)
        .header("content-type", "application/json")
        .send(&body[..])
        .with_context(|| format!("send a completion to {endpoint}"))?;
    let status = response.status();
    if !status.is_success() {
        let text = response.into_body().read_to_string().unwrap_or_default();
        bail!("{endpoint} answered {status}: {}", text.chars().take(400).collect::<String>());
    }
    let mut moments = Vec::new();
    let mut usage: Option<Value> = None;
    let mut answer = String::new();
    for line in BufReader::new(response.into_body().into_reader()).lines() {
        let line = line.context("read the stream")?;
        let Some(data) = line.strip_prefix("data:").map(str::trim) else { continue };
        if data == "[DONE]" {
            break;
        }
        let event: Value =
            serde_json::from_str(data).with_context(|| format!("parse the event {data}"))?;
        if let Some(error) = event.get("error") {
            bail!("{endpoint} failed in the stream: {error}");
        }
        if let Some(choice) = event["choices"].get(0) {
            let text = choice["text"].as_str().unwrap_or("");
            // The last event of a stream carries the reason and no token.
            if !text.is_empty() || choice["finish_reason"].is_null() {
                moments.push(Instant::now());
                answer.push_str(text);
                each(moments.len());
            }
        }
        if event["usage"].is_object() {
            usage = Some(event["usage"].clone());
        }
    }
    let total = sent.elapsed();
    let (Some(&first), Some(&last)) = (moments.first(), moments.last()) else {
        bail!("the stream of {endpoint} ended without a token");
    };
    let usage = usage.context(
        "the stream carried no usage: the server does not honour stream_options.include_usage",
    )?;
    let count = |name: &str| usage[name].as_u64().with_context(|| format!("usage has no {name}"));
    Ok(Completion {
        ttft_seconds: (first - sent).as_secs_f64(),
        answer_seconds: (last - first).as_secs_f64(),
        total_seconds: total.as_secs_f64(),
        prompt_tokens: count("prompt_tokens")?,
        answer_tokens: count("completion_tokens")?,
        cached_tokens: usage["prompt_tokens_details"]["cached_tokens"].as_u64(),
        answer,
        moments,
    })
}
