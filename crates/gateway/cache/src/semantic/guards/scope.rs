//! How far it reaches: words of place, time and quantity that each mean themselves alone, and whose things it is about.

use super::{counted, difference};
use crate::semantic::question::{Person, Question};

/// `of` and `for` join nouns as a mere order of words does; the rest of the closed class counts.
const FREE: [&str; 3] = ["of", "for", "it"];

pub(super) fn differ(a: &Question, b: &Question) -> Option<String> {
    let (owned_a, owned_b) = (owners(a), owners(b));
    if let (Some(x), Some(y)) = (owned_a, owned_b)
        && x != y
    {
        return Some(format!("{} against {} things", x, y));
    }
    let closed = |q: &'_ Question| -> Vec<String> {
        let terms = q.core.iter().filter(|t| t.closed && !FREE.contains(&t.text.as_str()));
        terms.map(|t| t.text.clone()).collect()
    };
    let (a, b) = (closed(a), closed(b));
    difference(&counted(a.iter().map(String::as_str)), &counted(b.iter().map(String::as_str)))
}

/// The one whose things it is about, the asker's own or the asked one's; `None` where nobody's are named.
fn owners(question: &Question) -> Option<&'static str> {
    match question.owners.as_slice() {
        [] => None,
        [Person::First] => Some("my"),
        [Person::Second] => Some("your"),
        [Person::He] => Some("his"),
        [Person::She] => Some("her"),
        [Person::They] => Some("their"),
        _ => Some("several people's"),
    }
}
