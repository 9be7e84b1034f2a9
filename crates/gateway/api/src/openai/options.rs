//! What chat completions and completions have in common.

use serde_json::{Map, Value};

use crate::ApiError;
use crate::call::{CacheSalt, Call, MAX_TOP_LOGPROBS, Sampling, Stop};
use crate::openai::fields::{Fields, integer, wrong};

/// The most stop strings of a request. OpenAI takes 4.
pub const MAX_STOP_STRINGS: usize = 16;

/// The most answers to one request, as in OpenAI's API.
pub const MAX_CHOICES: i64 = 128;

/// How many answers are asked for.
pub(crate) fn choices(fields: &mut Fields) -> Result<usize, ApiError> {
    let n = fields.integer("n", 1..=MAX_CHOICES)?.unwrap_or(1);
    Ok(usize::try_from(n).unwrap_or(1))
}

/// A request as it was read: the call, and how its answer is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// What is asked. Headers (`Cache-Control`) and the tenant are for the server to add.
    pub call: Call,
    /// Whether the answer is sent in chunks.
    pub stream: bool,
    /// Whether a last chunk has the usage.
    pub include_usage: bool,
}

/// Reads the fields that both formats share into a call, and says how to send the answer.
pub(crate) fn read(fields: &mut Fields, mut call: Call) -> Result<Request, ApiError> {
    call.model = fields.string("model")?;
    call.sampling = sampling(fields)?;
    call.stop = Stop {
        strings: stop_strings(fields, "stop")?,
        token_ids: match fields.take("stop_token_ids") {
            None => Vec::new(),
            Some(value) => token_ids("stop_token_ids", value)?,
        },
        ignore_eos: fields.boolean("ignore_eos")?.unwrap_or(false),
    };
    call.prompt_logprobs = prompt_logprobs(fields)?;
    call.salt = salt(fields)?;
    call.origin.conversation = conversation(fields.map());
    let stream = fields.boolean("stream")?.unwrap_or(false);
    let include_usage = match fields.take("stream_options") {
        None => false,
        Some(_) if !stream => {
            return Err(ApiError::invalid(
                "stream_options",
                "`stream_options` is only allowed with `stream: true`",
            )
            .code("invalid_value")
            .hint("Leave it out; without `stream` the usage is always there"));
        }
        Some(value) => {
            Fields::at("stream_options".into(), value)?.boolean("include_usage")?.unwrap_or(false)
        }
    };
    Ok(Request { call, stream, include_usage })
}

fn sampling(fields: &mut Fields) -> Result<Sampling, ApiError> {
    let defaults = Sampling::default();
    let top_p = fields.number("top_p", 0.0..=1.0)?.unwrap_or(defaults.top_p);
    Ok(Sampling {
        temperature: fields.number("temperature", 0.0..=2.0)?.unwrap_or(defaults.temperature),
        // 0 keeps the one likeliest token, as OpenAI's servers take it; the engine wants more than nothing.
        top_p: if top_p == 0.0 { f32::MIN_POSITIVE } else { top_p },
        min_p: fields.number("min_p", 0.0..=1.0)?.unwrap_or(defaults.min_p),
        // -1 and 0 keep all, as in vLLM and llama-server.
        top_k: match fields.integer("top_k", -1..=i64::from(i32::MAX))? {
            None | Some(-1 | 0) => None,
            Some(k) => u32::try_from(k).ok(),
        },
        // OpenAI's seed is a signed number; any two different ones stay different.
        seed: fields.integer("seed", i64::MIN..=i64::MAX)?.map(i64::cast_unsigned),
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?.unwrap_or(0.0),
        repetition_penalty: repetition_penalty(fields)?,
        logit_bias: logit_bias(fields)?,
    })
}

/// vLLM's; 0 would divide by nothing.
fn repetition_penalty(fields: &mut Fields) -> Result<f32, ApiError> {
    let penalty = fields.number("repetition_penalty", 0.0..=10.0)?.unwrap_or(1.0);
    if penalty > 0.0 {
        return Ok(penalty);
    }
    let path = fields.path("repetition_penalty");
    let message = format!("`{path}` must be above 0 and at most 10");
    Err(ApiError::invalid(path, message).code("invalid_value").hint("1 changes nothing"))
}

/// How many rivals of the prompt's tokens are asked for, if their logprobs are.
pub(crate) fn prompt_logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let top = fields.integer("prompt_logprobs", 0..=i64::from(MAX_TOP_LOGPROBS))?;
    Ok(top.and_then(|n| u32::try_from(n).ok()))
}

/// OpenAI's form: an object of token ids, written as strings, and numbers.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let Some(value) = fields.take("logit_bias") else { return Ok(Vec::new()) };
    let Value::Object(biases) = value else {
        return Err(wrong("logit_bias", "an object of token ids and numbers", &value));
    };
    biases
        .iter()
        .map(|(token, bias)| {
            let bias = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
            token.parse().ok().zip(bias).map(|(token, bias)| (token, bias as f32)).ok_or_else(|| {
                ApiError::invalid(
                    "logit_bias",
                    format!("`logit_bias` must map token ids to numbers from -100 to 100, and `{token}` isn't one or its number isn't"),
                )
                .code("invalid_value")
            })
        })
        .collect()
}

/// The stop strings, which are called `stop` or, in messages, `stop_sequences`.
pub(crate) fn stop_strings(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let wanted = "a string or a list of strings";
    let strings = match fields.take(name) {
        None => return Ok(Vec::new()),
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => list
            .into_iter()
            .enumerate()
            .map(|(i, value)| match value {
                Value::String(text) => Ok(text),
                other => Err(wrong(&format!("{name}[{i}]"), "a string", &other)),
            })
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong(name, wanted, &other)),
    };
    if strings.len() > MAX_STOP_STRINGS {
        let message = format!(
            "`{name}` has {} strings, and at most {MAX_STOP_STRINGS} are taken",
            strings.len()
        );
        return Err(ApiError::invalid(name, message).code("invalid_value"));
    }
    if strings.iter().any(String::is_empty) {
        return Err(ApiError::invalid(
            name,
            format!("`{name}` holds an empty string, which every answer begins with"),
        )
        .code("invalid_value")
        .hint("Leave it out"));
    }
    Ok(strings)
}

pub(crate) fn salt(fields: &mut Fields) -> Result<Option<CacheSalt>, ApiError> {
    let Some(salt) = fields.string("cache_salt")? else { return Ok(None) };
    CacheSalt::new(salt).map(Some).map_err(|error| {
        ApiError::invalid("cache_salt", format!("`cache_salt` can't be used: {error}"))
            .code("invalid_value")
            .hint("Give a secret of some 40 random characters, or leave it out")
    })
}

/// The conversation, where a field names it: `conversation` (an id, or an object with one, as in OpenAI's Responses),
/// `conversation_id` or `session_id` in `metadata`, or `prompt_cache_key`. It changes no answer, so a value of another
/// type is ignored.
pub(crate) fn conversation(body: &Map<String, Value>) -> Option<String> {
    let metadata = |name: &str| body.get("metadata")?.get(name);
    [
        body.get("conversation").map(|value| value.get("id").unwrap_or(value)),
        metadata("conversation_id"),
        metadata("session_id"),
        body.get("prompt_cache_key"),
    ]
    .into_iter()
    .flatten()
    .find_map(Value::as_str)
    .map(|name| name.chars().take(MAX_CONVERSATION).collect())
}

/// Characters that are kept of a conversation's name.
const MAX_CONVERSATION: usize = 128;

/// A list of token ids at a path. Whether the model has such tokens is for the backend to say.
pub(crate) fn token_ids(path: &str, value: Value) -> Result<Vec<u32>, ApiError> {
    let Value::Array(list) = value else { return Err(wrong(path, "a list of token ids", &value)) };
    list.iter()
        .enumerate()
        .map(|(i, value)| {
            // The path is only written where it is needed: prompts have many ids.
            match value.as_u64().and_then(|id| u32::try_from(id).ok()) {
                Some(id) => Ok(id),
                None => Err(integer(&format!("{path}[{i}]"), value, 0..=i64::from(u32::MAX))
                    .err()
                    .unwrap_or_else(|| wrong(path, "a list of token ids", value))),
            }
        })
        .collect()
}

/// The token limit, under whichever of these names it goes.
pub(crate) fn max_tokens(
    fields: &mut Fields,
    names: &[&'static str],
) -> Result<Option<usize>, ApiError> {
    let mut found: Option<(&str, usize)> = None;
    for name in names {
        let Some(tokens) = fields.integer(name, 0..=i64::from(i32::MAX))? else { continue };
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        match found {
            Some((other, n)) if n != tokens => {
                return Err(ApiError::invalid(
                    *name,
                    format!("`{name}` is {tokens}, but `{other}` is {n}"),
                )
                .code("invalid_value")
                .hint("Give one of them"));
            }
            _ => found = Some((name, tokens)),
        }
    }
    Ok(found.map(|(_, tokens)| tokens))
}
