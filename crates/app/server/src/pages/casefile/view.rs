//! What is shown.

use askama::Template;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use tapri_casefile::{Case, CaseFile, CaseTurn, Figures, TurnState};

use super::asking;
use super::upload::NotRead;
use crate::pages::render::{self, Frame};
use crate::pages::show::{Amount, Html, Moment, Number, Seconds};
use crate::pages::texts::{CaseTexts, ENGLISH, fill, reason};
use crate::pages::visitor::Visitor;
use crate::routes::App;

#[derive(Template)]
#[template(path = "casefile/home.html")]
struct Home {
    frame: Frame,
    t: &'static CaseTexts,
    limit: String,
    cases: Vec<Listed>,
}

/// A case among others.
struct Listed {
    path: String,
    title: String,
    used: Html,
}

#[derive(Template)]
#[template(path = "casefile/case.html")]
struct CasePage {
    frame: Frame,
    t: &'static CaseTexts,
    path: String,
    title: String,
    summary: Html,
    small: bool,
    model: String,
    files: Vec<ShownFile>,
    turns: Turns,
}

struct ShownFile {
    path: String,
    name: String,
    about: Html,
}

#[derive(Template)]
#[template(path = "casefile/turns.html")]
struct Turns {
    t: &'static CaseTexts,
    path: String,
    turns: Vec<ShownTurn>,
}

struct ShownTurn {
    n: u32,
    heading: String,
    question: String,
    answer: String,
    running: bool,
    /// What became of it, where it wasn't answered.
    ending: Option<&'static str>,
    /// What went wrong, and what to do.
    error: Option<(String, Option<String>)>,
    can_repeat: bool,
    dropped: Option<String>,
    facts: Vec<(&'static str, Html)>,
    bar: Option<Bar>,
    cost_hint: Option<String>,
    stored: bool,
    cut: bool,
    why: Option<Why>,
}

/// How much of a prompt came from the cache.
struct Bar {
    /// In hundredths of a percent, so that a small rest is still drawn.
    cached: String,
    fresh: String,
    label: String,
    cached_words: Html,
    fresh_words: Html,
}

struct Why {
    reason: String,
    to_do: String,
}

#[derive(Template)]
#[template(path = "casefile/not_read.html")]
struct NotReadPart<'a> {
    t: &'static CaseTexts,
    files: Vec<(String, &'a str, Option<&'a str>)>,
    path: Option<&'a str>,
}

pub(super) fn home(app: &App, visitor: &Visitor, cases: &[Case]) -> Response<Body> {
    let t = &ENGLISH.case;
    let cases = cases
        .iter()
        .map(|case| Listed {
            path: path(case),
            title: title(case),
            used: Html(fill(t.last_used, &[&Moment(case.updated)])),
        })
        .collect();
    let limit = app.pages().map_or(0, |pages| pages.config.upload_limit >> 20);
    let limit = fill(t.limit, &[&limit]);
    render::page(&Home { frame: Frame::new(visitor, "/", t.title), t, limit, cases })
}

pub(super) fn case(
    app: &App,
    visitor: &Visitor,
    case: &Case,
    files: &[CaseFile],
    turns: &[CaseTurn],
) -> Response<Body> {
    let t = &ENGLISH.case;
    let path = path(case);
    let card =
        visitor.caller.as_ref().and_then(|it| asking::model(app, it, case.model.as_deref()).ok());
    let tokens: Option<u64> = files.iter().map(|file| file.tokens).sum();
    let count = match files.len() {
        1 => t.one_file.to_owned(),
        n => fill(t.several_files, &[&Number(n as u64)]),
    };
    let mut summary = vec![count];
    if let Some(tokens) = tokens {
        summary.push(fill(t.tokens, &[&Number(tokens)]));
    }
    let files = files
        .iter()
        .map(|file| ShownFile {
            path: format!("{path}/files/{}", file.id),
            name: file.name.clone(),
            about: about(file),
        })
        .collect();
    render::page(&CasePage {
        frame: Frame::new(visitor, "/", title(case)),
        t,
        title: title(case),
        summary: Html(summary.join(" · ")),
        // Of a model elsewhere nobody here knows how large it is.
        small: card.as_ref().is_some_and(|card| card.vocabulary.is_some()),
        model: card.map_or_else(String::new, |card| card.id.clone()),
        files,
        turns: Turns { t, path: path.clone(), turns: turns.iter().map(shown).collect() },
        path,
    })
}

pub(super) fn turns(_: &Visitor, case: &Case, turns: &[CaseTurn]) -> Response<Body> {
    let t = &ENGLISH.case;
    render::page(&Turns { t, path: path(case), turns: turns.iter().map(shown).collect() })
}

/// Which files gave no text, why, and what to do; and a way on where others did.
pub(super) fn not_read(files: &[NotRead], path: Option<&str>) -> Response<Body> {
    let t = &ENGLISH.case;
    let files = files
        .iter()
        .map(|file| (fill(t.not_read, &[&file.name]), file.why.as_str(), file.hint))
        .collect();
    render::with_status(StatusCode::UNPROCESSABLE_ENTITY, &NotReadPart { t, files, path })
}

fn path(case: &Case) -> String {
    format!("/casefile/{}", case.id)
}

fn title(case: &Case) -> String {
    match case.title.as_str() {
        "" => ENGLISH.case.untitled.to_owned(),
        title => title.to_owned(),
    }
}

fn about(file: &CaseFile) -> Html {
    let t = &ENGLISH.case;
    let mut parts = Vec::new();
    match file.pages {
        Some(1) => parts.push(t.one_page.to_owned()),
        Some(pages) => parts.push(fill(t.pages, &[&Number(pages.into())])),
        None => parts.push(fill(t.characters, &[&Number(file.chars)])),
    }
    if let Some(tokens) = file.tokens {
        parts.push(fill(t.tokens, &[&Number(tokens)]));
    }
    Html(parts.join(" · "))
}

fn shown(turn: &CaseTurn) -> ShownTurn {
    let t = &ENGLISH.case;
    let figures = turn.figures.clone().unwrap_or_default();
    let running = turn.state == TurnState::Running;
    let ending = match turn.state {
        TurnState::Stopped => Some(t.stopped),
        TurnState::Interrupted => Some(t.interrupted),
        TurnState::Answered if turn.answer.is_empty() => Some(t.no_answer),
        _ => None,
    };
    ShownTurn {
        n: turn.n,
        heading: fill(t.question_number, &[&(turn.n + 1)]),
        question: turn.question.clone(),
        answer: turn.answer.clone(),
        running,
        ending,
        error: figures.error.as_ref().map(|error| (error.message.clone(), error.hint.clone())),
        can_repeat: matches!(
            turn.state,
            TurnState::Stopped | TurnState::Interrupted | TurnState::Failed
        ),
        dropped: figures.dropped.map(|turns| fill(t.dropped, &[&turns])),
        facts: facts(&figures),
        bar: bar(&figures),
        cost_hint: figures.cost.as_ref().map(|cost| fill(t.cost_hint, &[&cost.list])),
        stored: figures.stored.is_some(),
        cut: figures.cut,
        why: why(&figures),
    }
}

fn facts(figures: &Figures) -> Vec<(&'static str, Html)> {
    let t = &ENGLISH.case;
    let mut facts = Vec::new();
    if let Some(ttft) = figures.ttft_ms {
        facts.push((t.first_word, Html(Seconds(ttft).to_string())));
    }
    if let Some(total) = figures.total_ms {
        facts.push((t.whole_answer, Html(Seconds(total).to_string())));
    }
    if let Some(prompt) = figures.prompt {
        facts.push((t.prompt, Html(fill(t.tokens, &[&Number(prompt)]))));
    }
    if let Some(cost) = &figures.cost {
        let money = |amount| Html(Amount { amount, currency: &cost.currency }.to_string());
        facts.push((t.cost, money(&cost.paid)));
        facts.push((t.saved, money(&cost.saved)));
    }
    facts
}

fn bar(figures: &Figures) -> Option<Bar> {
    let t = &ENGLISH.case;
    let (prompt, cached) = (figures.prompt?, figures.cached?);
    if prompt == 0 || figures.stored.is_some() {
        return None;
    }
    let cached = cached.min(prompt);
    let share = cached as f64 / prompt as f64 * 100.0;
    Some(Bar {
        cached: format!("{share:.2}%"),
        fresh: format!("{:.2}%", 100.0 - share),
        label: fill(t.bar_label, &[&cached, &prompt]),
        cached_words: Html(fill(t.from_cache, &[&Number(cached)])),
        fresh_words: Html(fill(t.read_fresh, &[&Number(prompt - cached)])),
    })
}

fn why(figures: &Figures) -> Option<Why> {
    let found = figures.reason.as_ref()?;
    let known = found.reason.parse().ok()?;
    let (words, to_do) = match reason(known) {
        Some((words, to_do)) => (words.to_owned(), to_do.to_owned()),
        None => (known.describe().to_owned(), found.suggestion.clone()),
    };
    Some(Why { reason: words, to_do })
}
