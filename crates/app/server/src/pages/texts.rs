//! All that the pages say, in one place: English now, other languages beside it.
//!
//! A text with a value in it has `{}` where it goes, or `{0}` and `{1}` where there are two: other languages may want
//! them in another order. Numbers are put in as elements that the browser writes in the person's own way.

mod cache;
mod calls;
mod casefile;
mod compare;
mod frame;
mod operator;
mod savings;

pub(crate) use cache::CacheTexts;
pub(crate) use calls::CallsTexts;
pub(crate) use casefile::{CaseTexts, reason};
pub(crate) use compare::CompareTexts;
pub(crate) use frame::{FrameTexts, SignInTexts};
pub(crate) use operator::OperatorTexts;
pub(crate) use savings::SavingsTexts;

/// Every text of the pages.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) frame: FrameTexts,
    pub(crate) sign_in: SignInTexts,
    pub(crate) case: CaseTexts,
    pub(crate) operator: OperatorTexts,
    pub(crate) calls: CallsTexts,
    pub(crate) cache: CacheTexts,
    pub(crate) savings: SavingsTexts,
    pub(crate) compare: CompareTexts,
}

/// The texts in English.
pub(crate) static ENGLISH: Texts = Texts {
    frame: frame::ENGLISH,
    sign_in: frame::SIGN_IN,
    case: casefile::ENGLISH,
    operator: operator::ENGLISH,
    calls: calls::ENGLISH,
    cache: cache::ENGLISH,
    savings: savings::ENGLISH,
    compare: compare::ENGLISH,
};

/// Puts values into a text: `{}` takes the next, `{0}` one by its place, and `{0|file|files}` is the first of the two
/// words where that value is shown as 1, and else the second. What is put in is taken as it is: HTML where the result
/// is used as HTML.
pub(crate) fn fill(text: &str, values: &[&dyn std::fmt::Display]) -> String {
    let mut filled = String::with_capacity(text.len() + 32);
    let mut rest = text;
    let mut next = 0;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            filled.push('{');
            rest = after;
            continue;
        };
        let mut parts = name.split('|');
        let place = parts.next().unwrap_or_default();
        let at = place.parse().unwrap_or(next);
        if name.is_empty() {
            next += 1;
        }
        let value = values.get(at).map(ToString::to_string);
        match (value, parts.next(), parts.next()) {
            (Some(value), Some(one), Some(other)) => {
                filled.push_str(if is_one(&value) { one } else { other });
            }
            (Some(value), ..) => filled.push_str(&value),
            (None, ..) => {}
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

/// Whether a value is shown as 1: a bare number, or one in its element.
fn is_one(shown: &str) -> bool {
    let mut in_tag = false;
    let text = shown.chars().filter(|c| {
        let was = in_tag;
        in_tag = match c {
            '<' => true,
            '>' => false,
            _ => in_tag,
        };
        !was && !in_tag
    });
    text.eq(['1'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_the_text_says() {
        assert_eq!(fill("{} of {}", &[&1, &2]), "1 of 2");
        assert_eq!(fill("{1}, {0}: {1}", &[&"a", &"b"]), "b, a: b");
        assert_eq!(fill("no value {", &[]), "no value {");
        assert_eq!(fill("{} and {}", &[&"<b>"]), "<b> and ");
    }

    #[test]
    fn one_is_not_many() {
        let text = "{0} {0|block|blocks} of {1} {1|is|are} used";
        assert_eq!(fill(text, &[&1, &0]), "1 block of 0 are used");
        assert_eq!(fill(text, &[&21, &1]), "21 blocks of 1 is used");
        let shown = fill("{0} {0|block|blocks}", &[&super::super::show::Number(1)]);
        assert!(shown.ends_with("</span> block"), "{shown}");
        let shown = fill("{0} {0|block|blocks}", &[&super::super::show::Number(1001)]);
        assert!(shown.ends_with("1,001</span> blocks"), "{shown}");
        assert_eq!(fill("{0|a|b}", &[]), "", "a value that isn't there");
    }

    /// A count before a word in the plural alone would be wrong for one.
    #[test]
    fn counts_have_both_forms() {
        // This one is filled by a script, and no prompt has a single token.
        let all = format!("{ENGLISH:?}").replace(ENGLISH.case.reading_of, "");
        for noun in
            ["blocks", "tokens", "answers", "calls", "files", "pages", "days", "minutes", "pins"]
        {
            for value in ["{}", "{0}", "{1}", "{2}", "{3}"] {
                let found = all.split(&format!("{value} {noun}")).nth(1);
                assert!(found.is_none(), "{value} {noun}: {found:.60?}");
            }
        }
    }
}
