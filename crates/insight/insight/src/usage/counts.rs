//! The shapes of token counts, one function each.

use super::sketch::Sketch;
use super::{Shape, Usage, UsageError};

/// More tokens than any prompt has; a larger number is no count.
const MOST: u64 = 1 << 40;

/// Where counts are found. The first place with a cached count wins, else the first place with counts.
const PLACES: [&[&str]; 17] = [
    &[],
    &["usage"],
    &["response", "usage"],
    // Sessions of Claude Code, and the first event of Anthropic's stream.
    &["message", "usage"],
    // OpenAI's batches, Anthropic's batches.
    &["response", "body", "usage"],
    &["result", "message", "usage"],
    &["body", "usage"],
    &["response"],
    &["response", "body"],
    &["usageMetadata"],
    &["usage_metadata"],
    &["response", "usageMetadata"],
    &["response", "usage_metadata"],
    // LiteLLM's payload for loggers, its spend log.
    &["metadata", "usage_object"],
    &["metadata", "additional_usage_values"],
    &["attributes"],
    &["tokens"],
];

/// The counts of a line, or `None` where it has none.
pub(super) fn find(line: &Sketch) -> Result<Option<Usage>, UsageError> {
    let mut best: Option<Usage> = None;
    for place in PLACES {
        let Some(found) = line.at(place) else { continue };
        let found = if place == ["tokens"] { tapri(found)? } else { counts(found)? };
        match found {
            Some(usage) if usage.cached.is_some() => return Ok(Some(usage)),
            Some(usage) if best.is_none() => best = Some(usage),
            _ => {}
        }
    }
    // LiteLLM's spend log keeps the cache's counts apart from the prompt's.
    if let Some(usage) = &mut best
        && let Some(more) = line.at(&["metadata", "additional_usage_values"])
    {
        usage.cached = match count(more, "cache_read_input_tokens")? {
            None => within(more, "prompt_tokens_details", &["cached_tokens"])?,
            read => read,
        };
        usage.written = count(more, "cache_creation_input_tokens")?;
        usage.shape = Shape::LiteLlm;
    }
    Ok(best)
}

type Reader = fn(&Sketch) -> Result<Usage, UsageError>;

fn counts(usage: &Sketch) -> Result<Option<Usage>, UsageError> {
    if usage.get("timings").is_some_and(|timings| timings.has("prompt_n")) {
        return llama_server(usage).map(Some);
    }
    let readers: [(&str, Reader); 6] = [
        ("prompt_tokens", chat),
        ("input_tokens", input),
        ("promptTokenCount", gemini),
        ("prompt_token_count", gemini_snake),
        ("inputTokens", bedrock),
        ("gen_ai.usage.input_tokens", telemetry),
    ];
    for (key, reader) in readers {
        if usage.get(key).is_some() {
            return reader(usage).map(Some);
        }
    }
    Ok(None)
}

/// A count that may be missing.
fn count(usage: &Sketch, field: &str) -> Result<Option<u64>, UsageError> {
    let Some(value) = usage.get(field) else { return Ok(None) };
    let counted = match value {
        Sketch::Whole(count) => Some(*count),
        // Some loggers write every number as a float.
        Sketch::Number(n) if n.fract() == 0.0 && *n >= 0.0 => Some(*n as u64),
        Sketch::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    match counted {
        Some(count) if count <= MOST => Ok(Some(count)),
        _ => Err(UsageError::NoCount { field: field.to_owned(), value: value.to_string() }),
    }
}

/// The first of several names that is there.
fn first(usage: &Sketch, fields: &[&str]) -> Result<Option<u64>, UsageError> {
    for field in fields {
        if let Some(count) = count(usage, field)? {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// A count inside a field that may be missing or `null`.
fn within(usage: &Sketch, outer: &str, fields: &[&str]) -> Result<Option<u64>, UsageError> {
    usage.get(outer).map_or(Ok(None), |details| first(details, fields))
}

fn required(usage: &Sketch, field: &str) -> Result<u64, UsageError> {
    count(usage, field)?
        .ok_or_else(|| UsageError::NoCount { field: field.to_owned(), value: "missing".to_owned() })
}

/// Everything that says `prompt_tokens`.
fn chat(usage: &Sketch) -> Result<Usage, UsageError> {
    let prompt = required(usage, "prompt_tokens")?;
    let answer = count(usage, "completion_tokens")?;
    if let Some(total) = count(usage, "total_tokens")?
        && total < prompt
    {
        return Err(UsageError::TooMany { part: prompt, what: "of the prompt", prompt: total });
    }
    let details = "prompt_tokens_details";
    let mut found = Usage {
        shape: Shape::OpenAiChat,
        prompt,
        cached: within(usage, details, &["cached_tokens"])?,
        // OpenAI's, LiteLLM's and vLLM's names.
        written: within(
            usage,
            details,
            &["cache_write_tokens", "cache_creation_tokens", "created_cache_tokens"],
        )?,
        written_long: None,
        answer,
    };
    if let Some(hit) = count(usage, "prompt_cache_hit_tokens")? {
        found.shape = Shape::DeepSeek;
        found.cached = Some(hit);
        if let Some(miss) = count(usage, "prompt_cache_miss_tokens")?
            && hit + miss != prompt
        {
            return Err(disagree("prompt_tokens", prompt, "hit and miss together", hit + miss));
        }
    } else if usage.has("cache_read_input_tokens") || usage.has("cache_creation_input_tokens") {
        found.shape = Shape::LiteLlm;
        let read = count(usage, "cache_read_input_tokens")?;
        if let (Some(cached), Some(read)) = (found.cached, read)
            && cached != read
        {
            return Err(disagree("cached_tokens", cached, "cache_read_input_tokens", read));
        }
        found.cached = read.or(found.cached);
        found.written = count(usage, "cache_creation_input_tokens")?.or(found.written);
        found.written_long = long_lived(usage)?;
    } else if found.cached.is_none()
        && let Some(cached) = first(usage, &["cached_tokens", "cached_prompt_tokens"])?
    {
        found.shape = Shape::Flat;
        found.cached = Some(cached);
        found.written = first(usage, &["written_tokens", "cache_write_tokens"])?.or(found.written);
    } else if !usage.has(details) && !usage.has("total_tokens") {
        found.shape = Shape::Flat;
    }
    Ok(found)
}

fn disagree(one: &'static str, first: u64, other: &'static str, second: u64) -> UsageError {
    UsageError::Disagree { one, first, other, second }
}

/// Of Anthropic's written tokens, those that live an hour.
fn long_lived(usage: &Sketch) -> Result<Option<u64>, UsageError> {
    within(usage, "cache_creation", &["ephemeral_1h_input_tokens"])
}

/// Everything that says `input_tokens`: OpenAI's responses include the cached, Anthropic's messages don't.
fn input(usage: &Sketch) -> Result<Usage, UsageError> {
    let input = required(usage, "input_tokens")?;
    let answer = count(usage, "output_tokens")?;
    let details = "input_tokens_details";
    if usage.has(details) || usage.has("cached_tokens") {
        return Ok(Usage {
            shape: Shape::OpenAiResponses,
            prompt: input,
            cached: within(usage, details, &["cached_tokens"])?.or(count(usage, "cached_tokens")?),
            written: within(usage, details, &["cache_write_tokens"])?,
            written_long: match usage.get(details) {
                Some(details) => {
                    within(details, "cache_write_tokens_details", &["ttl_12h_tokens"])?
                }
                None => None,
            },
            answer,
        });
    }
    let read = count(usage, "cache_read_input_tokens")?;
    let by_life = ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"];
    let long = long_lived(usage)?;
    let parts = match usage.get("cache_creation") {
        Some(creation) => {
            let short = count(creation, by_life[0])?;
            short.or(long).map(|_| short.unwrap_or(0) + long.unwrap_or(0))
        }
        None => None,
    };
    let written = count(usage, "cache_creation_input_tokens")?.or(parts);
    Ok(Usage {
        shape: Shape::Anthropic,
        prompt: input + read.unwrap_or(0) + written.unwrap_or(0),
        cached: read,
        written,
        written_long: long,
        answer,
    })
}

/// `timings.prompt_n` is what was computed. Builds without `cache_n` say the whole prompt in `tokens_evaluated`.
fn llama_server(line: &Sketch) -> Result<Usage, UsageError> {
    let empty = Sketch::Null;
    let timings = line.get("timings").unwrap_or(&empty);
    let computed = required(timings, "prompt_n")?;
    let whole = match count(line, "tokens_evaluated")? {
        Some(whole) => Some(whole),
        None => within(line, "usage", &["prompt_tokens"])?,
    };
    let cached = match (count(timings, "cache_n")?, whole) {
        (Some(reused), _) => Some(reused),
        (None, Some(whole)) if whole < computed => {
            return Err(UsageError::TooMany { part: computed, what: "computed", prompt: whole });
        }
        (None, Some(whole)) => Some(whole - computed),
        (None, None) => None,
    };
    let prompt = computed + cached.unwrap_or(0);
    if let Some(whole) = whole
        && whole != prompt
    {
        return Err(disagree("the prompt", whole, "cache_n and prompt_n together", prompt));
    }
    Ok(Usage {
        shape: Shape::LlamaServer,
        prompt,
        cached,
        written: None,
        written_long: None,
        answer: count(timings, "predicted_n")?,
    })
}

/// A count of zero is left out of Gemini's JSON, so a missing one stays unknown.
fn gemini(usage: &Sketch) -> Result<Usage, UsageError> {
    Ok(Usage {
        shape: Shape::Gemini,
        prompt: required(usage, "promptTokenCount")?,
        cached: count(usage, "cachedContentTokenCount")?,
        written: None,
        written_long: None,
        answer: count(usage, "candidatesTokenCount")?,
    })
}

fn gemini_snake(usage: &Sketch) -> Result<Usage, UsageError> {
    Ok(Usage {
        shape: Shape::Gemini,
        prompt: required(usage, "prompt_token_count")?,
        cached: count(usage, "cached_content_token_count")?,
        written: None,
        written_long: None,
        answer: count(usage, "candidates_token_count")?,
    })
}

fn bedrock(usage: &Sketch) -> Result<Usage, UsageError> {
    let read = count(usage, "cacheReadInputTokens")?;
    let written = count(usage, "cacheWriteInputTokens")?;
    Ok(Usage {
        shape: Shape::Bedrock,
        prompt: required(usage, "inputTokens")? + read.unwrap_or(0) + written.unwrap_or(0),
        cached: read,
        written,
        written_long: None,
        answer: count(usage, "outputTokens")?,
    })
}

fn telemetry(usage: &Sketch) -> Result<Usage, UsageError> {
    Ok(Usage {
        shape: Shape::OpenTelemetry,
        prompt: required(usage, "gen_ai.usage.input_tokens")?,
        cached: count(usage, "gen_ai.usage.cache_read.input_tokens")?,
        // The newer name, and the one before it.
        written: first(
            usage,
            &["gen_ai.usage.cache_write.input_tokens", "gen_ai.usage.cache_creation.input_tokens"],
        )?,
        written_long: None,
        answer: count(usage, "gen_ai.usage.output_tokens")?,
    })
}

/// The record's own names; a record whose prompt wasn't counted says nothing.
fn tapri(tokens: &Sketch) -> Result<Option<Usage>, UsageError> {
    let Some(prompt) = count(tokens, "prompt")? else { return Ok(None) };
    Ok(Some(Usage {
        shape: Shape::Tapri,
        prompt,
        cached: count(tokens, "cached")?,
        written: count(tokens, "written")?,
        written_long: None,
        answer: count(tokens, "answer")?,
    }))
}
