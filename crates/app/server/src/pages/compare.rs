//! The page at `/compare`: two prompts side by side, where they part, what would be reused, and a better order.
//!
//! Nothing of what is compared is kept, and no cache is asked: what would be reused follows from the two prompts alone.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::Form;
use axum::Router;
use axum::extract::rejection::FormRejection;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::get;
use serde::Deserialize;
use tapri_api::{Format, Inbound, Prompt};
use tapri_insight::compare::Prompt as Given;
use tapri_insight::compare::{Better, Comparison, Form as TextForm, ReadError, SidePart, Standing};
use tapri_insight::explain::show_place;
use tapri_insight::lint::Severity;
use tapri_insight::prompt::Dialect;

use super::chart::{Entry, Fill, strip};
use super::figures::sentence;
use super::render::{self, Frame, Page, Refused};
use super::show::{Html, Number};
use super::texts::{CompareTexts, ENGLISH, fill};
use super::visitor::Visitor;
use crate::routes::App;

/// The page's address.
pub(super) const PATH: &str = "/compare";

/// The most bytes of a form; text may take three times its size in one.
const FORM_LIMIT: usize = 12 << 20;

/// Characters of a text that are shown around the first difference, and of other texts.
const AROUND: usize = 400;
const ELSEWHERE: usize = 160;

/// Findings that are listed.
const FINDINGS: usize = 20;

pub(super) fn routes() -> Router<App> {
    let limit = DefaultBodyLimit::max(FORM_LIMIT);
    Router::new().route(PATH, get(page).post(compare).layer(limit))
}

#[derive(Template)]
#[template(path = "compare/page.html")]
struct ComparePage {
    frame: Frame,
    t: &'static CompareTexts,
}

/// `GET /compare`.
async fn page(Extension(visitor): Extension<Visitor>) -> Page {
    let t = &ENGLISH.compare;
    Ok(render::page(&ComparePage { frame: Frame::new(&visitor, PATH, t.title), t }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Asked {
    first: String,
    second: String,
    /// `text`: both are plain text, whatever they look like.
    form: String,
}

#[derive(Template)]
#[template(path = "compare/result.html")]
struct ResultPart {
    t: &'static CompareTexts,
    reason: &'static str,
    place: Option<String>,
    looks_like: Option<String>,
    to_do: String,
    /// Where the counts are from.
    counted: Html,
    strip: Html,
    legend: Vec<Entry>,
    sides: [Side; 2],
    better: Option<BetterPart>,
    /// Whether a better order could be looked for at all.
    requests: bool,
    findings: Vec<FindingRow>,
}

struct Side {
    id: &'static str,
    title: &'static str,
    parts: Vec<ShownPart>,
}

struct ShownPart {
    path: String,
    class: &'static str,
    standing: &'static str,
    before: String,
    changed: String,
    after: String,
}

struct BetterPart {
    words: Html,
    reuse: Html,
    request: String,
}

struct FindingRow {
    class: &'static str,
    severity: &'static str,
    rule: String,
    message: String,
    at: String,
    suggestion: String,
}

/// `POST /compare`.
async fn compare(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    asked: Result<Form<Asked>, FormRejection>,
) -> Page {
    let t = &ENGLISH.compare;
    let Ok(Form(asked)) = asked else {
        return Err(refused(StatusCode::PAYLOAD_TOO_LARGE, t.too_large, t.too_large_hint));
    };
    let form = if asked.form == "text" { TextForm::Text } else { TextForm::Detect };
    let old = read(&asked.first, form, t.first)?;
    let new = read(&asked.second, form, t.second)?;
    let tokens = match (tokens(&app, &visitor, &old).await, tokens(&app, &visitor, &new).await) {
        (Some(old), Some(new)) => Some((old, new)),
        _ => None,
    };
    let block = app.pipeline().stats().map_or(0, |stats| stats.block_tokens as u64);
    // Long prompts take their time.
    let work = move || {
        let ids = tokens.as_ref().map(|(old, new)| (old.as_slice(), new.as_slice()));
        let compared = Comparison::of(&old, &new, ids);
        shown(&compared, ids, block, old.request.is_some() && new.request.is_some())
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(part) => Ok(render::page(&part)),
        // A panic has been printed by its own hook.
        Err(_) => Err(render::failed().into()),
    }
}

fn refused(status: StatusCode, message: &str, hint: &str) -> Refused {
    render::trouble(status, message, Some(hint)).into()
}

fn read(text: &str, form: TextForm, which: &str) -> Result<Given, Refused> {
    let t = &ENGLISH.compare;
    Given::read(text, form).map_err(|error| {
        let hint = match &error {
            ReadError::Empty => t.empty_hint,
            ReadError::Json(_) => t.json_hint,
            _ => t.request_hint,
        };
        let why = match &error {
            ReadError::Empty => t.empty.to_owned(),
            error => error.to_string(),
        };
        let message = fill(t.not_read, &[&which, &why]);
        refused(StatusCode::UNPROCESSABLE_ENTITY, &message, hint)
    })
}

/// The token ids that this server's model reads. `None` where it can't: then they are estimated.
async fn tokens(app: &App, visitor: &Visitor, given: &Given) -> Option<Vec<u32>> {
    let prompt = match &given.request {
        None => {
            let text: String = given.doc.parts.iter().map(|part| &*part.text).collect();
            Prompt::Text(text)
        }
        Some(request) => {
            let format = match given.doc.dialect {
                Dialect::ChatCompletions => Format::Chat,
                Dialect::Responses => Format::Responses,
                Dialect::Completions => Format::Completion,
                Dialect::Messages => Format::Messages,
                Dialect::Text => return None,
            };
            let mut inbound = Inbound::read(format, request.to_string().into(), Vec::new()).ok()?;
            if format == Format::Messages {
                inbound.body.entry("max_tokens").or_insert_with(|| 1.into());
            }
            // It is counted as this server's model reads it, whoever it was written for.
            if inbound.model.as_deref().is_some_and(|name| !may_use(app, visitor, name)) {
                inbound.model = None;
                inbound.body.remove("model");
            }
            Prompt::Request(Arc::new(inbound))
        }
    };
    app.pipeline().tokenize(prompt).await.ok().filter(|ids| !ids.is_empty())
}

fn may_use(app: &App, visitor: &Visitor, name: &str) -> bool {
    app.pipeline().model(Some(name)).is_ok()
        && visitor.caller.as_ref().is_none_or(|caller| caller.may_use(name))
}

fn shown(
    compared: &Comparison,
    ids: Option<(&[u32], &[u32])>,
    block: u64,
    requests: bool,
) -> ResultPart {
    let t = &ENGLISH.compare;
    let found = &compared.found;
    let (counted, strip, legend) = reuse(compared, ids, block);
    ResultPart {
        t,
        reason: found.reason.describe(),
        place: found.place.as_ref().map(show_place),
        looks_like: found.looks_like.clone(),
        to_do: sentence(&found.suggestion),
        counted,
        strip,
        legend,
        sides: [
            Side { id: "first-side", title: t.first, parts: parts(&compared.old) },
            Side { id: "second-side", title: t.second, parts: parts(&compared.new) },
        ],
        better: compared.better.as_ref().map(better),
        requests,
        findings: compared.findings.iter().take(FINDINGS).map(finding).collect(),
    }
}

/// How many tokens would be reused: counted, where this server's model can, else estimated.
fn reuse(
    compared: &Comparison,
    ids: Option<(&[u32], &[u32])>,
    block: u64,
) -> (Html, Html, Vec<Entry>) {
    let t = &ENGLISH.compare;
    let (shared, prompt) = match ids {
        Some((old, new)) => {
            let same = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            (same as u64, new.len() as u64)
        }
        None => (compared.found.shared.count, compared.found.prompt.count),
    };
    // Only full blocks are kept, and the last token is always computed.
    let most = shared.min(prompt.saturating_sub(1));
    let reused = most.checked_div(block).map_or(most, |blocks| blocks * block);
    let fresh = prompt.saturating_sub(reused);
    let words = match (ids.is_some(), block > 0) {
        (true, true) => t.counted_blocks,
        (true, false) => t.counted,
        (false, _) => t.estimated,
    };
    let counted = fill(words, &[&Number(reused), &Number(prompt), &Number(shared), &Number(block)]);
    let whole = prompt.max(1) as f64;
    let label = fill(t.strip_label, &[&reused, &prompt]);
    let parts = [
        (Fill::Cached, reused as f64 / whole, String::new()),
        (Fill::Fresh, fresh as f64 / whole, String::new()),
    ];
    let legend = vec![
        Entry::new(Fill::Cached, fill(t.reused, &[&Number(reused)])),
        Entry::new(Fill::Fresh, fill(t.read_again, &[&Number(fresh)])),
    ];
    let mark = (shared < prompt).then(|| shared as f64 / whole);
    (Html(counted), strip("strip", &label, &parts, 0, mark), legend)
}

/// Same parts before the difference and all behind it are shown by their beginnings.
fn parts(side: &[SidePart]) -> Vec<ShownPart> {
    let t = &ENGLISH.compare;
    side.iter()
        .map(|part| match part.standing {
            Standing::Same => ShownPart {
                path: part.path.clone(),
                class: "same",
                standing: t.same,
                before: beginning(&part.before, ELSEWHERE),
                changed: String::new(),
                after: String::new(),
            },
            Standing::Differs => ShownPart {
                path: part.path.clone(),
                class: "differs",
                standing: t.differs,
                before: end(&part.before, AROUND),
                changed: beginning(&part.changed, AROUND),
                after: beginning(&part.after, AROUND),
            },
            Standing::Behind => ShownPart {
                path: part.path.clone(),
                class: "behind",
                standing: t.behind,
                before: String::new(),
                changed: String::new(),
                after: beginning(&part.after, ELSEWHERE),
            },
        })
        .collect()
}

fn beginning(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{} …", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn end(text: &str, most: usize) -> String {
    match text.char_indices().rev().nth(most.saturating_sub(1)) {
        Some((at, _)) if at > 0 => format!("… {}", text.get(at..).unwrap_or_default()),
        _ => text.to_owned(),
    }
}

fn better(better: &Better) -> BetterPart {
    let t = &ENGLISH.compare;
    let mut words = Vec::new();
    if better.lines > 0 {
        words.push(match better.lines {
            1 => t.line_moved.to_owned(),
            lines => fill(t.lines_moved, &[&Number(lines)]),
        });
    }
    if better.tools {
        words.push(t.tools_sorted.to_owned());
    }
    let (before, after) = better.reused;
    BetterPart {
        words: Html(words.join(" ")),
        reuse: Html(fill(t.reuse_of_order, &[&Number(before), &Number(after)])),
        request: serde_json::to_string_pretty(&better.request).unwrap_or_default(),
    }
}

fn finding(finding: &tapri_insight::lint::Finding) -> FindingRow {
    let t = &ENGLISH.compare;
    let (class, severity) = match finding.severity {
        Severity::Error => ("bad", t.error),
        Severity::Warning => ("warn", t.warning),
        Severity::Note => ("plain", t.note),
    };
    FindingRow {
        class,
        severity,
        rule: format!("{} {}", finding.rule.id(), finding.rule.name()),
        message: sentence(&finding.message),
        at: finding.path.clone(),
        suggestion: sentence(&finding.suggestion),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_characters() {
        assert_eq!(beginning("नमस्ते", 2), "नम …");
        assert_eq!(end("नमस्ते", 2), "… ते");
        assert_eq!((beginning("ab", 2), end("ab", 2)), ("ab".to_owned(), "ab".to_owned()));
    }

    #[test]
    fn html_is_text_and_full_blocks_are_reused() {
        let given = |text: &str| Given::read(text, TextForm::Detect).unwrap();
        let (old, new) = (given("<b>one</b> and so on"), given("<b>two</b><script>x</script>"));
        let ids: (Vec<u32>, Vec<u32>) = ((0..40).collect(), (0..35).chain([99; 20]).collect());
        let ids = (ids.0.as_slice(), ids.1.as_slice());
        let compared = Comparison::of(&old, &new, Some(ids));
        let html = shown(&compared, Some(ids), 16, false).render().unwrap();
        assert!(!html.contains("<script>") && !html.contains("<b>"), "{html}");
        assert!(html.contains("data-number=\"32\"") && html.contains("data-number=\"55\""));
        let whole = shown(&compared, None, 16, false).render().unwrap();
        assert!(whole.contains("estimate"));
    }
}
