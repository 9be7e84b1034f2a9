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

/// Puts values into a text: `{}` takes the next, `{0}` one by its place. What is put in is taken as it is: HTML where
/// the result is used as HTML.
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
        let at = name.parse().unwrap_or(next);
        if name.is_empty() {
            next += 1;
        }
        if let Some(value) = values.get(at) {
            filled.push_str(&value.to_string());
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
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
}
