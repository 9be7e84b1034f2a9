//! The tool that models may call: search over past judgments.

use serde_json::{Value, json};
use tapri_api::Says;
use tapri_casefile::{Judgments, SearchFigures};

/// Its name, as models call it.
pub(super) const NAME: &str = "search_judgments";

/// How often one question may have it called: models are known to search for ever.
pub(super) const MOST_ROUNDS: u32 = 3;

/// Calls of one round that are answered.
const MOST_CALLS: usize = 4;

/// Passages that one search shows.
const PASSAGES: usize = 3;

/// The tools, as a request of OpenAI's API offers them.
pub(super) fn tools() -> Value {
    json!([{
        "type": "function",
        "function": {
            "name": NAME,
            "description": "Searches a folder of past judgments and gives the passages that fit best, with their source. \
                            Use it when the question asks for a precedent or for something that the documents don't say.",
            "parameters": {
                "type": "object",
                "properties": {
                    // Where an answer is kept to this, a small model comes to an end.
                    "query": {
                        "type": "string", "minLength": 2, "maxLength": 120,
                        "description": "Words that the passage should contain."
                    }
                },
                "required": ["query"],
                "additionalProperties": false
            }
        }
    }])
}

/// A call of a tool, as it comes in pieces.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ToolCall {
    id: String,
    name: String,
    arguments: String,
}

/// Hears a piece of an answer.
pub(super) fn hear(calls: &mut Vec<ToolCall>, says: Says) {
    match says {
        Says::ToolCall { index, id, name } if index < MOST_CALLS => {
            if calls.len() <= index {
                calls.resize(index + 1, ToolCall::default());
            }
            if let Some(call) = calls.get_mut(index) {
                (call.id, call.name) = (id, name);
            }
        }
        Says::ToolArguments { index, json } => {
            if let Some(call) = calls.get_mut(index) {
                call.arguments.push_str(&json);
            }
        }
        _ => {}
    }
}

/// The messages that answer a round's calls, and what was searched for.
pub(super) fn answers(
    judgments: &Judgments,
    calls: &[ToolCall],
    said: &str,
) -> (Vec<Value>, Vec<SearchFigures>) {
    let asked: Vec<Value> = calls
        .iter()
        .map(|call| {
            json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })
        })
        .collect();
    let content = Some(said).filter(|said| !said.is_empty());
    let mut messages =
        vec![json!({ "role": "assistant", "content": content, "tool_calls": asked })];
    let mut searches = Vec::new();
    for call in calls {
        let content = match query(call) {
            Ok(query) => {
                let found = judgments.search(&query, PASSAGES);
                let files = found.iter().map(|it| format!("{}, {}", it.file, it.place)).collect();
                let shown: Vec<String> = found
                    .iter()
                    .map(|it| format!("[{}, {}]\n{}", it.file, it.place, it.text))
                    .collect();
                searches.push(SearchFigures { query, found: files });
                match shown.is_empty() {
                    true => "No judgment contains these words.".to_owned(),
                    false => shown.join("\n\n"),
                }
            }
            // The model may try again.
            Err(problem) => problem,
        };
        messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": content }));
    }
    (messages, searches)
}

fn query(call: &ToolCall) -> Result<String, String> {
    if call.name != NAME {
        return Err(format!("There is no such tool. The tool is {NAME}."));
    }
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
    match arguments.get("query").and_then(Value::as_str).map(str::trim) {
        Some(query) if !query.is_empty() => Ok(query.chars().take(500).collect()),
        _ => Err("The arguments must be JSON with a string named query.".to_owned()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_call_in_pieces_is_answered_and_a_wrong_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "The easement passed with the land.").unwrap();
        let judgments = Judgments::open(folder.path(), tapri_casefile::Document::open).unwrap();
        let mut calls = Vec::new();
        let name = |name: &str| name.to_owned();
        hear(&mut calls, Says::ToolCall { index: 0, id: name("1"), name: name(NAME) });
        for json in ["{\"query\": \"ease", "ments\"}"] {
            hear(&mut calls, Says::ToolArguments { index: 0, json: json.to_owned() });
        }
        hear(&mut calls, Says::ToolCall { index: 1, id: name("2"), name: name("delete_all") });
        hear(&mut calls, Says::ToolCall { index: 99, id: name("3"), name: name(NAME) });
        let (messages, searches) = answers(&judgments, &calls, "");
        assert_eq!(messages.len(), 3);
        assert_eq!(messages[1]["content"], "[a.txt, part 1]\nThe easement passed with the land.");
        assert!(messages[2]["content"].as_str().unwrap().contains("no such tool"));
        assert_eq!(searches[0].found, ["a.txt, part 1"]);
        let unnamed = ToolCall { name: name(NAME), ..ToolCall::default() };
        assert!(query(&unnamed).unwrap_err().contains("a string named query"));
    }
}
