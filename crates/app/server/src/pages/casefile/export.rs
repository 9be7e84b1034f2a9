//! A case to take along: as Markdown, and as a page to be printed or saved as PDF.

use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use tapri_casefile::{Case, CaseFile, CaseTurn};

use super::{blocking, find, view};
use crate::pages::render::{self, Frame, Page, Refused};
use crate::pages::show::{Html, Moment};
use crate::pages::texts::{CaseTexts, ENGLISH, fill};
use crate::pages::visitor::Visitor;
use crate::reply;
use crate::routes::App;

#[derive(Template)]
#[template(path = "casefile/print.html")]
struct Print {
    frame: Frame,
    t: &'static CaseTexts,
    title: String,
    asked: Html,
    files: Vec<(String, Html)>,
    turns: Vec<CaseTurn>,
}

async fn load(
    app: &App,
    visitor: &Visitor,
    name: &str,
) -> Result<(Case, Vec<CaseFile>, Vec<CaseTurn>), Refused> {
    let case = find(app, visitor, name).await?;
    let id = case.id.clone();
    let (files, turns) =
        blocking(app, move |store| Ok((store.files(&id)?, store.turns(&id)?))).await?;
    Ok((case, files, turns))
}

/// `GET /casefile/{case}/print`.
pub(super) async fn print(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let (case, files, turns) = load(&app, &visitor, &name).await?;
    let t = &ENGLISH.case;
    let title = view::title(&case);
    let asked = Html(fill(t.last_used, &[&Moment(case.updated)]));
    let files = files.iter().map(|file| (file.name.clone(), view::about(file))).collect();
    let frame = Frame::new(&visitor, "/", title.clone());
    Ok(render::page(&Print { frame, t, title, asked, files, turns }))
}

/// `GET /casefile/{case}/export.md`.
pub(super) async fn markdown(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let (case, files, turns) = load(&app, &visitor, &name).await?;
    let mut response = reply::typed("text/markdown; charset=utf-8", written(&case, &files, &turns));
    let name = format!("attachment; filename=\"case-{}.md\"", &case.id.as_str()[..8]);
    if let Ok(name) = HeaderValue::from_str(&name) {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn written(case: &Case, files: &[CaseFile], turns: &[CaseTurn]) -> String {
    let t = &ENGLISH.case;
    let mut text = format!("# {}\n\n", plain(&view::title(case)));
    for (n, file) in (1..).zip(files) {
        text.push_str(&format!("{n}. {}\n", plain(&file.name)));
    }
    for turn in turns {
        let heading = fill(t.question_number, &[&(turn.n + 1)]);
        text.push_str(&format!("\n## {heading}\n\n{}\n\n", quoted(&turn.question)));
        text.push_str(&lines(&turn.answer).join("\n"));
        text.push('\n');
        if let Some(tokens) = turn.figures.as_ref().and_then(|it| Some((it.prompt?, it.cached?))) {
            let words = fill(t.bar_label, &[&tokens.1, &tokens.0]);
            text.push_str(&format!("\n*{words}.*\n"));
        }
    }
    text.push_str(&format!("\n---\n\n{}\n", t.check_export));
    text
}

fn quoted(text: &str) -> String {
    lines(text).iter().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// Lines that Markdown shows as they are: what was asked or answered is text, not markup.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(plain).collect()
}

fn plain(line: &str) -> String {
    let mut plain = String::with_capacity(line.len() + 8);
    for (i, c) in line.chars().enumerate() {
        match c {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => {
                plain.push('\\');
                plain.push(c);
            }
            // A heading, a quotation or a list begins with these.
            '#' | '>' | '-' | '+' | '=' if i == 0 => {
                plain.push('\\');
                plain.push(c);
            }
            c => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_text() {
        assert_eq!(plain("# <b>*x*</b> & [y](z)"), "\\# &lt;b>\\*x\\*&lt;/b> &amp; \\[y\\](z)");
        assert_eq!(quoted("a\n- b"), "> a\n> \\- b");
    }
}
