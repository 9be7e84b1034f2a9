//! Values without meaning: nonces, keys, hashes. Known by how evenly their characters are spread.

use std::ops::Range;

use tapri_ledger::MissReason;

use super::{Volatile, Window};

/// Shorter values are never called random: a word or a number can look like anything.
const SHORTEST: usize = 8;

/// Recognises a random value around `at` in both texts.
pub(super) fn recognise(old: &str, new: &str, at: usize) -> Option<Volatile> {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '_' | '-');
    let (a, b) = (Window::around(old, at).run(inner), Window::around(new, at).run(inner));
    let looks_like = match (shape(&old[a.clone()]), shape(&new[b.clone()])) {
        (Some(x), Some(y)) if x == y => x,
        (Some(_), Some(_)) => "looks like a random value",
        _ => return None,
    };
    same_start(&a, &b).then_some(Volatile {
        reason: MissReason::RandomValue,
        looks_like,
        old: a,
        new: b,
    })
}

fn same_start(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start == b.start
}

pub(super) fn shape(value: &str) -> Option<&'static str> {
    if value.len() < SHORTEST {
        return None;
    }
    let letters = value.bytes().filter(u8::is_ascii_alphabetic).count();
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    if value.bytes().all(|byte| byte.is_ascii_hexdigit()) && digits > 0 && letters > 0 {
        return Some("looks like a random value in hexadecimal");
    }
    let mixed_case = value.bytes().any(|byte| byte.is_ascii_lowercase())
        && value.bytes().any(|byte| byte.is_ascii_uppercase());
    // Random characters of 64 change class (lower, upper, digit, other) about two times in three; words and
    // identifiers rarely.
    let changes =
        value.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
    let even = changes * 3 >= value.len();
    (even && letters > 0 && (digits > 0 || mixed_case)).then_some("looks like a random value")
}

fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}
