//! Tense, voice, and whether it can, should or will be: was my bill, is my bill; when do I pay, when am I paid.

use crate::semantic::question::{Mode, Question};

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let modes = |q: &Question| -> Vec<Mode> {
        // The future of what is asked about is asked for in the present as well.
        q.modes.iter().copied().filter(|mode| *mode != Mode::Will).collect()
    };
    let (of_a, of_b) = (modes(a), modes(b));
    if of_a != of_b {
        let name = |modes: &[Mode]| match modes {
            [] => "what is".to_owned(),
            modes => {
                let names: Vec<&str> = modes
                    .iter()
                    .map(|mode| match mode {
                        Mode::Past => "what was",
                        Mode::Will => "what will be",
                        Mode::Can => "what can be",
                        Mode::Should => "what should be",
                    })
                    .collect();
                names.join(" and ")
            }
        };
        return Some(format!("{} against {}", name(&of_a), name(&of_b)));
    }
    for term in a.content() {
        let twin = b.content().find(|other| term.is(other));
        if let Some(twin) = twin
            && twin.passive != term.passive
        {
            return Some(format!("'{}' is done in one and suffered in the other", term.text));
        }
    }
    None
}
