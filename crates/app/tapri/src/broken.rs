//! Lines of a log that could not be used, on stderr.

use tapri_insight::lines::Broken;

use crate::quantity::show_count;

/// Says how many, and names the first few.
pub(crate) fn say(file: &str, broken: &Broken) {
    if broken.count == 0 {
        return;
    }
    let count = usize::try_from(broken.count).unwrap_or(usize::MAX);
    let lines = if count == 1 { "line" } else { "lines" };
    eprintln!("warning: {} {lines} of {file} could not be used", show_count(count));
    for (line, what) in &broken.first {
        eprintln!("  line {line}: {what}");
    }
    if count > broken.first.len() {
        eprintln!("  and {} more", show_count(count - broken.first.len()));
    }
}
