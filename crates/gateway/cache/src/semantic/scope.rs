//! What is asked, and everything else: the hard scope.
//!
//! Of a request only the last question's text is compared by meaning. All else, down to the field (tenant, salt, route,
//! model build, system prompt, tools, documents, earlier turns, parameters, what stands beside the question in its
//! message), must be the very same: a question is looked for only among those of one scope. The scope is the exact
//! cache's key of the same call without the question's text, so that both caches agree on what makes calls differ.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tapri_api::{Call, Format, Inbound, Prompt};

use crate::exact::{Key, NoKey, Resolved};

/// The longest question that is compared by meaning, in characters. A longer text carries what it asks about: a
/// document, a log, a letter, which would be compared by a vector that can't hold it.
pub const LONGEST_QUESTION: usize = 600;

/// What stands for the question in the scope.
const PLACEHOLDER: &str = "\u{0}question";

/// A call's question and its scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The question as it was asked.
    pub question: String,
    /// Equal only for calls that are the same but for their questions.
    pub scope: Key,
}

/// Why a call is not looked at by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unfit {
    /// The API asks no question: a text to go on from, token ids, embeddings.
    Format,
    /// The last turn is not the person's, or is no plain text: an image, a file, a tool's result.
    LastTurn,
    /// The question is too long, or empty.
    Length,
    /// The exact cache would not keep it either.
    NoKey(NoKey),
    /// More than one answer is asked for.
    Choices,
}

impl Unfit {
    /// The stable name, as in records and headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Unfit::Format => "format",
            Unfit::LastTurn => "last_turn",
            Unfit::Length => "length",
            Unfit::NoKey(_) => "no_key",
            Unfit::Choices => "choices",
        }
    }
}

/// Takes a call apart.
///
/// # Errors
/// [`Unfit`], where its question can't be told from the rest.
pub fn asked(call: &Call, resolved: &Resolved<'_>) -> Result<Asked, Unfit> {
    let Prompt::Request(inbound) = &call.prompt else { return Err(Unfit::Format) };
    if call.choices != 1 || inbound.body.get("n").is_some_and(|n| *n != 1) {
        return Err(Unfit::Choices);
    }
    let (question, body) = split(inbound.format, &inbound.body)?;
    let rest = Inbound {
        format: inbound.format,
        bytes: Bytes::from(serde_json::to_vec(&body).unwrap_or_default()),
        body,
        headers: inbound.headers.clone(),
        model: inbound.model.clone(),
        stream: inbound.stream,
    };
    // A name that came twice can't be seen in the parsed body any more; the key of the call as it came refuses it.
    Key::of(call, resolved).map_err(Unfit::NoKey)?;
    let mut same = call.clone();
    same.prompt = Prompt::Request(Arc::new(rest));
    let scope = Key::of(&same, resolved).map_err(Unfit::NoKey)?;
    Ok(Asked { question, scope })
}

/// The question, and the body with a placeholder in its place.
fn split(format: Format, body: &Map<String, Value>) -> Result<(String, Map<String, Value>), Unfit> {
    let mut body = body.clone();
    let place = match format {
        Format::Chat | Format::Messages => last_turn(body.get_mut("messages"), "text")?,
        Format::Responses => match body.get_mut("input") {
            Some(text @ Value::String(_)) => text,
            turns => last_turn(turns, "input_text")?,
        },
        Format::Completion | Format::Embeddings => return Err(Unfit::Format),
    };
    let Value::String(text) = place else { return Err(Unfit::LastTurn) };
    let length = text.trim().chars().take(LONGEST_QUESTION + 1).count();
    if length == 0 || length > LONGEST_QUESTION {
        return Err(Unfit::Length);
    }
    let question = std::mem::replace(text, PLACEHOLDER.to_owned());
    Ok((question, body))
}

/// The text of the last part of the last turn, which is the person's and holds nothing but text. Parts before it stay
/// where they are and belong to the scope: a document that comes with the question is no part of the question.
fn last_turn<'a>(turns: Option<&'a mut Value>, kind: &str) -> Result<&'a mut Value, Unfit> {
    let turn = turns.and_then(Value::as_array_mut).and_then(|turns| turns.last_mut());
    let turn = turn.and_then(Value::as_object_mut).ok_or(Unfit::LastTurn)?;
    if turn.get("role").and_then(Value::as_str) != Some("user") {
        return Err(Unfit::LastTurn);
    }
    match turn.get_mut("content") {
        Some(text @ Value::String(_)) => Ok(text),
        Some(Value::Array(parts)) => {
            let plain = parts.iter().all(|part| {
                part.get("type").and_then(Value::as_str) == Some(kind)
                    && part.get("text").is_some_and(Value::is_string)
            });
            if !plain {
                return Err(Unfit::LastTurn);
            }
            parts.last_mut().and_then(|part| part.get_mut("text")).ok_or(Unfit::LastTurn)
        }
        _ => Err(Unfit::LastTurn),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(format: Format, body: &Value) -> Call {
        let bytes = Bytes::from(body.to_string());
        Call::request(Arc::new(Inbound::read(format, bytes, Vec::new()).unwrap()))
    }

    fn ask(format: Format, body: &Value) -> Result<Asked, Unfit> {
        asked(&call(format, body), &Resolved::default())
    }

    #[test]
    fn the_last_question_of_every_format() {
        let bodies = [
            (Format::Chat, json!({"messages": [{"role": "user", "content": "Why?"}]})),
            (
                Format::Chat,
                json!({"messages": [{"role": "user", "content": [
                    {"type": "text", "text": "A long document"}, {"type": "text", "text": "Why?"}]}]}),
            ),
            (
                Format::Messages,
                json!({"max_tokens": 9, "system": "Be kind", "messages": [
                    {"role": "user", "content": [{"type": "text", "text": "Why?"}]}]}),
            ),
            (Format::Responses, json!({"input": "Why?"})),
            (
                Format::Responses,
                json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "Why?"}]}]}),
            ),
        ];
        for (format, body) in bodies {
            assert_eq!(ask(format, &body).unwrap().question, "Why?", "{body}");
        }
    }

    #[test]
    fn what_has_no_question() {
        let long = "word ".repeat(200);
        let image = json!([{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "x"}}]);
        for (format, body, why) in [
            (Format::Completion, json!({"prompt": "Why?"}), Unfit::Format),
            (Format::Chat, json!({"messages": []}), Unfit::LastTurn),
            (
                Format::Chat,
                json!({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]}),
                Unfit::LastTurn,
            ),
            (
                Format::Chat,
                json!({"messages": [{"role": "user", "content": image}]}),
                Unfit::LastTurn,
            ),
            (Format::Chat, json!({"messages": [{"role": "user", "content": long}]}), Unfit::Length),
            (Format::Chat, json!({"messages": [{"role": "user", "content": " "}]}), Unfit::Length),
            (
                Format::Chat,
                json!({"n": 2, "messages": [{"role": "user", "content": "a"}]}),
                Unfit::Choices,
            ),
        ] {
            assert_eq!(ask(format, &body), Err(why), "{body}");
        }
        let stateful = json!({"input": "Why?", "previous_response_id": "r"});
        assert!(matches!(ask(Format::Responses, &stateful), Err(Unfit::NoKey(_))));
    }

    #[test]
    fn all_but_the_question_is_the_scope() {
        let body = json!({"model": "m", "temperature": 0, "tools": [], "messages": [
            {"role": "system", "content": "Be kind"},
            {"role": "user", "content": "Before"},
            {"role": "assistant", "content": "Answered"},
            {"role": "user", "content": [{"type": "text", "text": "Doc"}, {"type": "text", "text": "Why?"}]}]});
        let first = ask(Format::Chat, &body).unwrap();
        let scope = |change: &dyn Fn(&mut Value)| {
            let mut body = body.clone();
            change(&mut body);
            ask(Format::Chat, &body).unwrap().scope
        };
        assert_eq!(scope(&|b| b["messages"][3]["content"][1]["text"] = json!("How?")), first.scope);
        assert_eq!(scope(&|b| b["stream"] = json!(true)), first.scope);
        let changes: [&dyn Fn(&mut Value); 9] = [
            &|b| b["model"] = json!("other"),
            &|b| b["temperature"] = json!(1),
            &|b| b["tools"] = json!([{"type": "function", "function": {"name": "f"}}]),
            &|b| b["messages"][0]["content"] = json!("Be rude"),
            &|b| b["messages"][1]["content"] = json!("Earlier"),
            &|b| b["messages"][2]["content"] = json!("Other"),
            &|b| b["messages"][3]["content"][0]["text"] = json!("Other doc"),
            &|b| b["messages"][3]["name"] = json!("Mia"),
            &|b| b["something_new"] = json!(1),
        ];
        for (number, change) in changes.iter().enumerate() {
            assert_ne!(scope(change), first.scope, "change {number}");
        }
        // Tenants, salts, models' builds.
        let mut other = call(Format::Chat, &body);
        other.scope.0 = vec![7];
        assert_ne!(asked(&other, &Resolved::default()).unwrap().scope, first.scope);
        let built = Resolved { build: "b2", ..Resolved::default() };
        assert_ne!(asked(&call(Format::Chat, &body), &built).unwrap().scope, first.scope);
    }

    /// Last messages that look alike, after different turns: never in one scope.
    #[test]
    fn conversations_never_meet() {
        let text = include_str!("../../data/pairs/conversations_billing.jsonl");
        let mut seen = 0;
        for line in text.lines() {
            let pair: Value = serde_json::from_str(line).unwrap();
            let scopes = ["a", "b"]
                .map(|side| ask(Format::Chat, &json!({"messages": pair[side]})).unwrap().scope);
            assert_ne!(scopes[0], scopes[1], "{}", pair["id"]);
            seen += 1;
        }
        assert_eq!(seen, 60);
    }
}
