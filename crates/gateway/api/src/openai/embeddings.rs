//! `/v1/embeddings`.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::ApiError;
use crate::inbound::Inbound;
use crate::openai::fields::{self, wrong};

/// The most texts of a request, as in OpenAI's API.
pub const MAX_INPUTS: usize = 2048;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The texts, at least one, none empty.
    pub inputs: Vec<String>,
    /// The length of the vectors, where the request wants one.
    pub dimensions: Option<usize>,
    /// How they are written.
    pub encoding: Encoding,
}

/// How a vector is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Encoding {
    /// A list of numbers.
    #[default]
    Float,
    /// The numbers' bytes, little-endian `f32`, in base64. The official SDKs ask for it unless told otherwise.
    Base64,
}

/// Reads a request, for an embedder that reads text.
///
/// # Errors
/// The first field that is missing or wrong.
pub fn parse(inbound: &Inbound) -> Result<Request, ApiError> {
    let mut fields = fields::parse(&inbound.bytes)?;
    let inputs = match fields.require("input", "a string or a list of strings")? {
        Value::String(text) => vec![text],
        Value::Array(list) => {
            let texts = list.into_iter().enumerate().map(|(at, value)| match value {
                Value::String(text) => Ok(text),
                Value::Number(_) | Value::Array(_) => Err(tokens()),
                other => Err(wrong(&format!("input[{at}]"), "a string", &other)),
            });
            texts.collect::<Result<Vec<_>, _>>()?
        }
        Value::Number(_) => return Err(tokens()),
        other => return Err(wrong("input", "a string or a list of strings", &other)),
    };
    if inputs.is_empty() || inputs.len() > MAX_INPUTS {
        let message =
            format!("`input` must have from 1 to {MAX_INPUTS} texts, not {}", inputs.len());
        return Err(ApiError::invalid("input", message).code("invalid_value"));
    }
    if let Some(at) = inputs.iter().position(String::is_empty) {
        let field = if inputs.len() == 1 { "input".to_owned() } else { format!("input[{at}]") };
        let message = format!("`{field}` is empty, and nothing has no meaning");
        return Err(ApiError::invalid(field, message).code("invalid_value"));
    }
    let dimensions = fields.integer("dimensions", 1..=i64::from(u16::MAX))?;
    let encoding = match fields.string("encoding_format")?.as_deref() {
        None | Some("float") => Encoding::Float,
        Some("base64") => Encoding::Base64,
        Some(_) => {
            let message = "`encoding_format` must be `float` or `base64`";
            return Err(ApiError::invalid("encoding_format", message).code("invalid_value"));
        }
    };
    Ok(Request { inputs, dimensions: dimensions.map(|n| n as usize), encoding })
}

fn tokens() -> ApiError {
    ApiError::invalid("input", "`input` has token ids, and this model reads text alone")
        .code("unsupported_field")
        .hint("Send strings. LangChain's `OpenAIEmbeddings` does with `check_embedding_ctx_length=False`")
}

/// Writes an answer's body.
pub fn body<'a>(
    model: &str,
    vectors: impl Iterator<Item = &'a [f32]>,
    encoding: Encoding,
    tokens: usize,
) -> String {
    let mut body = String::from(r#"{"object":"list","data":["#);
    for (index, vector) in vectors.enumerate() {
        if index > 0 {
            body.push(',');
        }
        // A string takes whatever is written.
        let _ = write!(body, r#"{{"object":"embedding","index":{index},"embedding":"#);
        match encoding {
            Encoding::Float => {
                let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
                let _ = write!(body, "[{}]", numbers.join(","));
            }
            Encoding::Base64 => {
                let bytes: Vec<u8> = vector.iter().flat_map(|n| n.to_le_bytes()).collect();
                let _ = write!(body, "\"{}\"", base64(&bytes));
            }
        }
        body.push('}');
    }
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    let _ = write!(body, r#"],"model":{},"usage":{usage}}}"#, Value::from(model));
    body
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0_u32, |word, &byte| word << 8 | u32::from(byte))
            << (8 * (3 - group.len()));
        for at in 0..4 {
            if at <= group.len() {
                text.push(LETTERS[(word >> (18 - 6 * at) & 63) as usize] as char);
            } else {
                text.push('=');
            }
        }
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Format;

    fn read(body: Value) -> Result<Request, ApiError> {
        let bytes = body.to_string().into_bytes().into();
        parse(&Inbound::read(Format::Embeddings, bytes, Vec::new())?)
    }

    #[test]
    fn texts_are_read_and_the_rest_is_named() {
        let one = read(json!({ "model": "m", "input": "a" })).unwrap();
        assert_eq!(
            one,
            Request { inputs: vec!["a".into()], dimensions: None, encoding: Encoding::Float }
        );
        let many =
            read(json!({ "input": ["a", "b"], "dimensions": 384, "encoding_format": "base64" }))
                .unwrap();
        assert_eq!(
            (many.inputs.len(), many.dimensions, many.encoding),
            (2, Some(384), Encoding::Base64)
        );
        for (body, field) in [
            (json!({}), "input"),
            (json!({ "input": [] }), "input"),
            (json!({ "input": "" }), "input"),
            (json!({ "input": ["a", ""] }), "input[1]"),
            (json!({ "input": ["a", null] }), "input[1]"),
            (json!({ "input": [1, 2] }), "input"),
            (json!({ "input": [[1, 2]] }), "input"),
            (json!({ "input": "a", "dimensions": 0 }), "dimensions"),
            (json!({ "input": "a", "encoding_format": "hex" }), "encoding_format"),
        ] {
            let error = read(body.clone()).unwrap_err();
            assert_eq!((error.status(), error.field.as_deref()), (400, Some(field)), "{body}");
        }
    }

    #[test]
    fn vectors_are_written_both_ways() {
        let vectors: [&[f32]; 2] = [&[1.0, -0.5], &[0.1, 0.0]];
        let value: Value =
            serde_json::from_str(&body("m", vectors.into_iter(), Encoding::Float, 7)).unwrap();
        assert_eq!(value["data"][1]["embedding"], json!([0.1, 0]));
        assert_eq!(value["usage"], json!({ "prompt_tokens": 7, "total_tokens": 7 }));
        let value: Value =
            serde_json::from_str(&body("m", vectors.into_iter(), Encoding::Base64, 7)).unwrap();
        // 1.0 is 0x3f800000 and -0.5 is 0xbf000000.
        assert_eq!(value["data"][0]["embedding"], "AACAPwAAAL8=");
        assert_eq!(
            (base64(b"a"), base64(b"ab"), base64(b"abc")),
            ("YQ==".into(), "YWI=".into(), "YWJj".into())
        );
    }
}
