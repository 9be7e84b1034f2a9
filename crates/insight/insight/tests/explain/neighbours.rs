//! Real calls, and a plain difference of neighbours that knows nothing of prompts.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde_json::Value;
use tapri_insight::explain::Found;
use tapri_insight::history::{History, Options, Report, read};
use tapri_insight::ledger::MissReason;
use tapri_insight::lines::decompressed;

use crate::example;

fn report(path: &Path) -> Report {
    let mut history = History::new(Options { breaks: usize::MAX / 2, ..Options::default() });
    let reader = decompressed(File::open(path).unwrap()).unwrap();
    read(reader, None, &mut |doc, at| history.add(doc, at)).unwrap();
    history.finish()
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

/// Characters that two texts share from the start.
fn common(a: &[char], b: &[char]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// How each call differs from the one before it, by its number: only what the report says.
fn against_previous(report: &Report) -> HashMap<u64, &Found> {
    report
        .breaks
        .iter()
        .filter_map(|found| Some((found.call.number, &found.previous.as_ref()?.found)))
        .collect()
}

#[test]
fn every_break_of_the_agents_texts_is_found_at_its_character() {
    let folder = example("agent-text");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "gz"))
        .collect();
    files.sort();
    let (mut pairs, mut grown, mut broken) = (0, 0, 0);
    for path in &files {
        let report = report(path);
        let said = against_previous(&report);
        let inputs: Vec<Vec<char>> = text(path)
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|line| line["input"].as_str().unwrap().chars().collect())
            .collect();
        assert_eq!(report.calls as usize, inputs.len());
        assert_eq!(report.more_breaks, 0);
        for (index, pair) in inputs.windows(2).enumerate() {
            let number = index as u64 + 2;
            let shared = common(&pair[0], &pair[1]);
            pairs += 1;
            if shared == pair[0].len() {
                grown += 1;
                let silent = said.get(&number).is_none_or(|found| {
                    // A prompt behind an empty one grew from nothing.
                    !found.is_alarm() && (found.reason == MissReason::Growth || pair[0].is_empty())
                });
                assert!(silent, "{}: call {number} grew", path.display());
                continue;
            }
            broken += 1;
            let found = said.get(&number).unwrap_or_else(|| {
                panic!("{}: call {number} breaks at character {shared}", path.display())
            });
            if shared == pair[1].len() {
                assert_eq!(found.reason, MissReason::CutAtEnd, "{}: {number}", path.display());
                continue;
            }
            let place = found.place.as_ref().unwrap();
            assert_eq!(
                (place.path.as_str(), place.character),
                ("input", Some(shared as u64)),
                "{}: call {number}: {found:?}",
                path.display()
            );
        }
    }
    assert_eq!((files.len(), pairs, grown, broken), (12, 288, 139, 149));
}

#[test]
fn the_airline_agents_calls_are_compared_as_a_reader_would() {
    let path = example("airline_agent_18.json.gz");
    let report = report(&path);
    let said = against_previous(&report);
    // Every message of the assistant answers the messages before it: the calls, one after another.
    let episodes: Vec<Value> = serde_json::from_str(&text(&path)).unwrap();
    let mut number = 0;
    let mut firsts = 0;
    for episode in &episodes {
        let messages = episode["traj"].as_array().unwrap();
        let mut before: Option<&[Value]> = None;
        for (index, message) in messages.iter().enumerate() {
            if message["role"] != "assistant" {
                continue;
            }
            number += 1;
            let now = &messages[..index];
            match before {
                // Within an episode the list of messages only grows.
                Some(before) => {
                    assert_eq!(&now[..before.len()], before);
                    assert!(!said.contains_key(&number), "call {number}");
                }
                None => firsts += 1,
            }
            before = Some(now);
        }
    }
    assert_eq!((report.calls, firsts, report.conversations), (number, 18, 18));
    assert_eq!(
        (report.calls, report.grew, report.new_questions, report.never_seen),
        (264, 246, 17, 1)
    );
    assert_eq!(report.alarms, 0);
    // The first question of each episode differs from an earlier one's behind the same instructions.
    for found in &report.breaks {
        let place = found.found().unwrap().place.as_ref().unwrap();
        assert_eq!(place.path, "traj[1].content");
    }
}

/// The same trajectories with the time that their third line asks for: what a reader sees at once.
#[test]
fn a_clock_in_the_airline_agents_instructions_is_found_on_every_call() {
    let source = text(&example("airline_agent_18.json.gz"));
    let mut episodes: Vec<Value> = serde_json::from_str(&source).unwrap();
    for (minute, episode) in episodes.iter_mut().enumerate() {
        let system = episode["traj"][0]["content"].as_str().unwrap();
        let line = system.find("15:00:00").unwrap();
        let moved = system.replacen("15:00:00", &format!("15:{minute:02}:00"), 1);
        // The difference of two minutes below ten is in their second digit.
        assert_eq!(system[..line].chars().count(), 55);
        episode["traj"][0]["content"] = moved.into();
    }
    let mut history = History::new(Options::default());
    let lines = serde_json::to_string(&episodes).unwrap();
    read(lines.as_bytes(), None, &mut |doc, at| history.add(doc, at)).unwrap();
    let report = history.finish();
    assert_eq!((report.alarms, report.grew), (17, 246));
    assert_eq!(report.causes.len(), 1);
    assert_eq!(report.causes[0].reason, MissReason::Date);
    for found in &report.breaks {
        let found = found.found().unwrap();
        let place = found.place.as_ref().unwrap();
        assert_eq!(place.path, "traj[0].content");
        // "15:" begins at 55, the minutes at 58.
        assert!([58, 59].contains(&place.character.unwrap()), "{}", found.line(true));
        assert!(
            found.line(true).contains(":00 EST\" was \"2024-05-15 15:"),
            "{}",
            found.line(true)
        );
        assert!(found.lost.count > 1_000, "{found:?}");
    }
}
