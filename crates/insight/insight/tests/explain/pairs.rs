//! `data/pairs.jsonl`: two requests, the reason, the path and the position that a person would give.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tapri_insight::explain::{Evidence, Found, explain};
use tapri_insight::ledger::MissReason;
use tapri_insight::prompt::PromptDoc;
use tapri_insight::rules::Rules;
use tapri_kv::StopReason;

#[derive(Deserialize)]
pub(crate) struct Pair {
    pub(crate) name: String,
    reason: String,
    path: Option<String>,
    character: Option<u64>,
    page: Option<u64>,
    old_value: Option<String>,
    new_value: Option<String>,
    #[serde(default)]
    evidence: Given,
    pub(crate) old: Value,
    pub(crate) new: Value,
}

#[derive(Deserialize, Default)]
struct Given {
    stop: Option<String>,
    cached: Option<u64>,
    block: Option<u64>,
    prompt: Option<u64>,
    gap_seconds: Option<u64>,
    #[serde(default)]
    restarted: bool,
}

pub(crate) fn all() -> Vec<Pair> {
    include_str!("data/pairs.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

pub(crate) fn found(pair: &Pair) -> Found {
    let rules = Rules::bundled().unwrap();
    let doc = |value: &Value| PromptDoc::from_value(value).unwrap();
    let stop = pair
        .evidence
        .stop
        .as_deref()
        .map(|name| StopReason::ALL.into_iter().find(|stop| stop.as_str() == name).unwrap());
    let evidence = Evidence {
        stop,
        cached: pair.evidence.cached,
        block: pair.evidence.block,
        prompt: pair.evidence.prompt,
        gap: pair.evidence.gap_seconds.map(Duration::from_secs),
        restarted: pair.evidence.restarted,
        rules: Some(&rules),
        ..Evidence::default()
    };
    explain(&doc(&pair.old), &doc(&pair.new), &evidence)
}

#[test]
fn every_pair_gets_its_reason_its_path_and_its_position() {
    let pairs = all();
    let mut wrong = Vec::new();
    for pair in &pairs {
        let found = found(pair);
        let place = found.place.as_ref();
        let seen = (
            found.reason.as_str(),
            place.map(|place| place.path.as_str()),
            place.and_then(|place| place.character),
            place.and_then(|place| place.page),
        );
        let expected = (pair.reason.as_str(), pair.path.as_deref(), pair.character, pair.page);
        if seen != expected {
            wrong.push(format!("{}:\n    expected {expected:?}\n    found    {seen:?}", pair.name));
        }
        let told = pair.old_value.is_some() || pair.new_value.is_some();
        if told && (&found.old, &found.new) != (&pair.old_value, &pair.new_value) {
            wrong.push(format!("{}: {}", pair.name, found.line(true)));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), pairs.len(), wrong.join("\n"));
}

#[test]
fn every_reason_has_a_pair_and_growth_has_ten() {
    let pairs = all();
    let reasons: BTreeSet<&str> = pairs.iter().map(|pair| pair.reason.as_str()).collect();
    let missing: Vec<_> =
        MissReason::ALL.iter().filter(|reason| !reasons.contains(reason.as_str())).collect();
    assert!(missing.is_empty(), "no pair for {missing:?}");
    let growth: Vec<&Pair> = pairs.iter().filter(|pair| pair.name.starts_with("growth")).collect();
    assert!(growth.len() >= 10 && pairs.len() - growth.len() >= 44);
    for pair in growth {
        let found = found(pair);
        assert!(!found.is_alarm(), "{}: {}", pair.name, found.line(true));
    }
}

#[test]
fn what_a_person_reads() {
    let text: String = all()
        .iter()
        .map(|pair| {
            let found = found(pair);
            format!("{}\n  {}\n  -> {}\n", pair.name, found.line(true), found.suggestion)
        })
        .collect();
    insta::assert_snapshot!("pairs", text);
}
