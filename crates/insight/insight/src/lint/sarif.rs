//! Findings as SARIF 2.1.0, for tools that show them beside the code.

use serde_json::{Value, json};

use crate::lint::locate::Position;
use crate::lint::rule::{Finding, Rule};

/// A finding and its place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The file, with forward slashes.
    pub file: String,
    /// Where in it, if that could be told.
    pub position: Option<Position>,
    /// The finding.
    pub finding: Finding,
}

/// The findings as one SARIF log.
#[must_use]
pub fn render(found: &[Located], version: &str) -> Value {
    let rules: Vec<_> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.id(),
                "name": rule.name(),
                "shortDescription": {"text": rule.describe()},
                "defaultConfiguration": {"level": rule.severity().as_str()},
            })
        })
        .collect();
    let results: Vec<_> = found.iter().map(result).collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "tapri lint", "version": version, "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn result(one: &Located) -> Value {
    let finding = &one.finding;
    let mut place = json!({"artifactLocation": {"uri": uri(&one.file)}});
    if let Some(position) = one.position {
        place["region"] = json!({"startLine": position.line, "startColumn": position.column});
    }
    let name = match finding.character {
        Some(character) => format!("{}, character {character}", finding.path),
        None => finding.path.clone(),
    };
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": Rule::ALL.iter().position(|rule| *rule == finding.rule),
        "level": finding.severity.as_str(),
        "message": {"text": format!("{}. {}", capital(&finding.message), finding.suggestion)},
        "locations": [{
            "physicalLocation": place,
            "logicalLocations": [{"fullyQualifiedName": name}],
        }],
        "occurrenceCount": finding.requests,
    })
}

/// A path as a relative reference: whatever a URI can't hold is escaped.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.replace('\\', "/").bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sarif_requires_is_there() {
        let finding =
            Finding::new(Rule::TooManyMarkers, "system[4]", "5 markers", "Take one away.");
        let one = Located {
            file: "logs/a b.json".into(),
            position: Some(Position { line: 3, column: 7 }),
            finding,
        };
        let log = render(&[one], "0.1.0");
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["name"], "tapri lint");
        let rules = run["tool"]["driver"]["rules"].as_array().map_or(0, Vec::len);
        assert_eq!(rules, Rule::ALL.len());
        let result = &run["results"][0];
        assert_eq!((&result["ruleId"], &result["level"]), (&json!("TPL008"), &json!("error")));
        assert_eq!(
            run["tool"]["driver"]["rules"][result["ruleIndex"].as_u64().map_or(99, |n| n as usize)]
                ["id"],
            "TPL008"
        );
        assert_eq!(result["message"]["text"], "5 markers. Take one away.");
        let place = &result["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "logs/a%20b.json");
        assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 7}));
        // Nothing found is a run with no results, not no run.
        assert_eq!(render(&[], "0.1.0")["runs"][0]["results"], json!([]));
    }
}
