//! What is measured: a file of targets and cases.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};

use super::questions;

/// A plan.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    pub(crate) upstream: Server,
    #[serde(rename = "target")]
    targets: Vec<Server>,
    #[serde(rename = "case")]
    cases: Vec<Case>,
}

/// A program that is started for the measurement. In its strings `{port}` is the port to listen on, `{upstream}` the
/// upstream's URL, `{upstream_host}` its host and port, `{dir}` a folder of its own, and `{NAME}` what `--set NAME=...` says.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    #[serde(default)]
    pub(crate) name: String,
    pub(crate) command: String,
    /// Where it says that it is up.
    #[serde(default = "health")]
    pub(crate) health: String,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Files that are written into its folder first.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Headers of every request to it.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether it takes part in the cases alone that name it.
    #[serde(default)]
    pub(crate) by_name: bool,
}

impl Server {
    /// Whether it takes part in a case.
    pub(crate) fn takes(&self, case: &Case) -> bool {
        case.only.as_ref().map_or(!self.by_name, |names| names.contains(&self.name))
    }
}

fn health() -> String {
    "/health".to_owned()
}

/// A kind of call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Calls a second.
    pub(crate) rate: f64,
    /// Tokens of the prompt, four characters each.
    pub(crate) prompt_tokens: usize,
    #[serde(default)]
    pub(crate) stream: bool,
    /// Whether every call asks the same.
    #[serde(default)]
    pub(crate) same: bool,
    /// Only these targets take part.
    #[serde(default)]
    pub(crate) only: Option<Vec<String>>,
    /// So many questions about the one prompt are asked before, for a semantic cache to keep; then each call asks one of
    /// them in other words. See [`super::questions`].
    #[serde(default)]
    pub(crate) questions: Option<u64>,
    /// What the header `Cache-Status` of a good answer holds; the straight way has none.
    #[serde(default)]
    pub(crate) cache_status: Option<String>,
    /// Headers of its requests.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
}

impl Plan {
    /// Reads a plan, with what `--set` says filled in.
    pub(crate) fn read(path: &Path, set: &[String]) -> Result<Plan> {
        let mut text = std::fs::read_to_string(path)
            .with_context(|| format!("read the plan {}", path.display()))?;
        for pair in set {
            let (name, value) =
                pair.split_once('=').with_context(|| format!("--set {pair} is not NAME=VALUE"))?;
            text = text.replace(&format!("{{{name}}}"), value);
        }
        toml::from_str(&text).with_context(|| format!("read the plan {}", path.display()))
    }

    pub(crate) fn cases(&self, names: &[String]) -> Result<Vec<&Case>> {
        chosen(&self.cases, names, "case", |case| &case.name)
    }

    pub(crate) fn targets(&self, names: &[String]) -> Result<Vec<&Server>> {
        chosen(&self.targets, names, "target", |target| &target.name)
    }
}

fn chosen<'a, T>(
    all: &'a [T],
    names: &[String],
    what: &str,
    name: impl Fn(&T) -> &String,
) -> Result<Vec<&'a T>> {
    if let Some(missing) = names.iter().find(|wanted| !all.iter().any(|one| name(one) == *wanted)) {
        let known: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        bail!("the plan has no {what} {missing}; it has {}", known.join(", "));
    }
    Ok(all.iter().filter(|one| names.is_empty() || names.contains(name(one))).collect())
}

impl Case {
    /// The body of a call: its number and round make it one that nobody asked before, unless all are the same.
    pub(crate) fn body(&self, round: u64, number: u64) -> Vec<u8> {
        if let Some(questions) = self.questions {
            // Steps of a prime: one round's questions are another's only where there are too few.
            let at = (round * 7919 + number) % questions.max(1);
            return self.asks("", &questions::in_other_words(at));
        }
        let mark = if self.same { String::new() } else { format!("{round}-{number} ") };
        self.asks(&mark, &format!("{mark}When was the notice served?"))
    }

    /// The body that asks the question to be kept.
    pub(crate) fn first_asked(&self, question: u64) -> Vec<u8> {
        self.asks("", &questions::first(question))
    }

    fn asks(&self, mark: &str, question: &str) -> Vec<u8> {
        let filler = "The notice of termination was served on the tenant by hand. ";
        let chars = self.prompt_tokens * 4;
        let mut text = format!("{}{mark}", self.name);
        while text.len() < chars {
            text.push_str(filler);
        }
        text.truncate(chars.max(1));
        let mut body = json!({
            "model": "bench",
            "temperature": 0,
            "max_tokens": 16,
            "messages": [
                {"role": "system", "content": text},
                {"role": "user", "content": question},
            ],
        });
        if self.stream {
            body["stream"] = Value::Bool(true);
        }
        serde_json::to_vec(&body).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_of_the_repository_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway.toml");
        let plan = Plan::read(&path, &["portkey=/p".to_owned()]).unwrap();
        assert!(plan.targets(&["tapri".to_owned()]).unwrap()[0].command.contains("{port}"));
        // Who learns from what is asked takes part in no other case, and the rivals take no part in his.
        let semantic = plan.cases(&["semantic 1k".to_owned()]).unwrap()[0];
        let takers = |case: &Case| {
            let all = plan.targets.iter().filter(|target| target.takes(case));
            all.map(|target| target.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(takers(semantic), ["tapri-semantic"]);
        assert!(
            !takers(plan.cases(&["hit 1k".to_owned()]).unwrap()[0]).contains(&takers(semantic)[0])
        );
        let error = plan.cases(&["nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("the plan has no case nothing; it has"), "{error}");
    }

    #[test]
    fn bodies_are_of_their_size_and_all_different_or_all_the_same() {
        let mut case = Case {
            name: "c".into(),
            rate: 1.0,
            prompt_tokens: 1000,
            stream: true,
            same: false,
            only: None,
            questions: None,
            cache_status: None,
            headers: BTreeMap::new(),
        };
        let body = case.body(1, 2);
        assert!((4000..4300).contains(&body.len()), "{}", body.len());
        assert_ne!(body, case.body(1, 3));
        assert_ne!(body, case.body(2, 2));
        case.same = true;
        assert_eq!(case.body(1, 2), case.body(2, 3));
        case.questions = Some(1000);
        assert_ne!(case.body(1, 2), case.body(1, 3));
        assert_ne!(case.body(1, 2), case.first_asked((7919 + 2) % 1000));
    }
}
