//! The lines that the example prints.
#![allow(clippy::unwrap_used)]

#[path = "../examples/prefix_match.rs"]
#[allow(dead_code, reason = "the example's main prints what is compared here")]
mod example;

#[test]
fn the_five_lines() {
    let expected = [
        "first question:  0",
        "second question: 32000",
        "time at token 5: 0",
        "fix on page 30:  23200",
        "other customer:  0",
    ];
    assert_eq!(example::lines().unwrap(), expected);
}
