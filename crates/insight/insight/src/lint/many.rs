//! Checks over many requests: what differed between them in front of what was equal.

use std::collections::BTreeMap;

use tapri_ledger::MissReason;

use crate::explain::Found;
use crate::history::{Break, History, Options, PathShape};
use crate::lint::alone::{self, move_it, rule_of};
use crate::lint::rule::{Finding, Rule, Severity};
use crate::prompt::PromptDoc;
use crate::rules::Rules;

/// A difference that loses fewer tokens than this is not worth a word.
const WORTH_SAYING: u64 = 64;

/// Bytes of recent prompts that a new one is compared with.
const MEMORY: usize = 64 << 20;

/// Findings of one kind at one kind of place are one.
type Key = (Rule, PathShape, String);

/// Takes requests one by one, in bounded memory.
pub struct Linter<'a> {
    rules: Option<&'a Rules>,
    history: History<'a>,
    found: BTreeMap<Key, Finding>,
}

impl<'a> Linter<'a> {
    /// With the providers' rules, where they are known.
    #[must_use]
    pub fn new(rules: Option<&'a Rules>) -> Self {
        let options = Options { bytes: MEMORY, rules, ..Options::default() };
        Linter { rules, history: History::new(options), found: BTreeMap::new() }
    }

    /// Requests taken so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.history.calls()
    }

    /// Takes a request; `at` is where it stands in the file.
    pub fn add(&mut self, doc: PromptDoc, at: &str) {
        for finding in alone::check(&doc, self.rules) {
            // What a message says after its first word differs with the value; the kind of value doesn't.
            let kind = finding.message.rsplit('"').next().unwrap_or_default();
            let kind = kind.split(',').next().unwrap_or_default();
            let kind: String = kind.chars().filter(|c| !c.is_ascii_digit()).collect();
            let key = (finding.rule, PathShape::of(&finding.path), kind);
            let seen = self.found.entry(key).or_insert(Finding { requests: 0, ..finding });
            if seen.requests == 0 {
                at.clone_into(&mut seen.at);
            }
            seen.requests += 1;
        }
        self.history.add(doc, at);
    }

    /// The findings: the worst first, then by rule, in the order of the file.
    #[must_use]
    pub fn finish(self) -> Vec<Finding> {
        let mut found: Vec<Finding> = self.found.into_values().collect();
        let report = self.history.finish();
        let mut observed: BTreeMap<(Rule, PathShape), (Finding, u64)> = BTreeMap::new();
        for one in &report.breaks {
            let Some((finding, lost)) = observe(one) else { continue };
            let key = (finding.rule, PathShape::of(&finding.path));
            let (seen, sum) =
                observed.entry(key).or_insert((Finding { requests: 0, ..finding }, 0));
            seen.requests += 1;
            *sum += lost;
        }
        for ((rule, path), (mut finding, lost)) in observed {
            let calls = finding.requests;
            let times = if calls == 1 { "once".to_owned() } else { format!("{calls} times") };
            let seen = format!(
                "changed between requests {times}, and about {lost} tokens behind it were the same"
            );
            let known =
                found.iter_mut().find(|own| own.rule == rule && PathShape::of(&own.path) == path);
            match known {
                Some(own) => own.message = format!("{}; it {seen}", own.message),
                None => {
                    finding.message = format!("{} {seen}", finding.message);
                    found.push(finding);
                }
            }
        }
        found.sort_by(|a, b| {
            (std::cmp::Reverse(a.severity), a.rule, &a.path, a.character).cmp(&(
                std::cmp::Reverse(b.severity),
                b.rule,
                &b.path,
                b.character,
            ))
        });
        found
    }
}

/// What a break between two requests says about their layout, and the tokens it lost.
fn observe(one: &Break) -> Option<(Finding, u64)> {
    let against = one.nearest.as_ref().or(one.previous.as_ref())?;
    let what = &against.found;
    if !what.is_alarm() || what.lost.count < WORTH_SAYING {
        return None;
    }
    let rule = observed_rule(what.reason)?;
    let place = what.place.as_ref();
    let path = place.map_or("", |place| place.path.as_str());
    let mut finding = Finding::new(rule, path, subject(rule, what), advice(rule, what));
    finding.character = place.and_then(|place| place.character);
    finding.severity = Severity::Warning;
    one.call.at.clone_into(&mut finding.at);
    Some((finding, what.lost.count))
}

fn observed_rule(reason: MissReason) -> Option<Rule> {
    Some(match reason {
        MissReason::Time
        | MissReason::Date
        | MissReason::Uuid
        | MissReason::RequestId
        | MissReason::Counter
        | MissReason::RandomValue
        | MissReason::UserName => rule_of(reason),
        MissReason::ToolsReordered | MissReason::ToolAdded | MissReason::ToolRemoved => {
            Rule::ToolOrder
        }
        MissReason::ToolReserialised | MissReason::KeysReordered => Rule::UnsortedJson,
        MissReason::InstructionsEdited | MissReason::FileChanged => Rule::StableBehindVolatile,
        MissReason::WhitespaceOnly | MissReason::PagesReordered | MissReason::ToolEdited => {
            Rule::UnstableStart
        }
        _ => return None,
    })
}

fn subject(rule: Rule, what: &Found) -> String {
    match (rule, &what.looks_like) {
        (Rule::VolatileTime | Rule::VolatileId | Rule::UserText, Some(looks)) => {
            format!("a value that {looks}")
        }
        _ => what.reason.describe().trim_end_matches('.').to_owned() + ": it",
    }
}

fn advice(rule: Rule, what: &Found) -> String {
    match rule {
        Rule::VolatileTime | Rule::VolatileId | Rule::UserText => move_it(rule).to_owned(),
        _ => what.suggestion.clone(),
    }
}

#[cfg(test)]
#[path = "many/tests.rs"]
mod tests;
