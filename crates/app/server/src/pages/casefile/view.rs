//! What is shown.

use askama::Template;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use tapri_casefile::{
    Case, CaseFile, CaseTurn, Figures, Layout, SearchFigures, Sections, TurnState,
};

use super::fit::{Counted, Fit, fit};
use super::models;
use super::upload::NotRead;
use crate::pages::render::{self, Frame};
use crate::pages::show::{Amount, Escaped, Html, Moment, Number, Seconds};
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
    base: bool,
    model: String,
    /// The models that can be chosen from, where there are several.
    models: Vec<String>,
    files: Vec<ShownFile>,
    fit: Option<ShownFit>,
    instructions: String,
    tools: bool,
    search_first: bool,
    /// Judgments to search in, where there are any.
    judgments: Option<Html>,
    /// Whether an edit makes the model read everything again.
    warn: bool,
    turns: Turns,
}

/// What to do where the files don't fit.
struct ShownFit {
    words: Html,
    cut: Vec<Html>,
}

struct ShownFile {
    path: String,
    name: String,
    about: Html,
    /// Pages that can be chosen from, and those that are.
    sections: usize,
    chosen: String,
    is_paged: bool,
    choose_label: String,
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
    searches: Vec<Search>,
    too_long: bool,
    why: Option<Why>,
}

/// A search of the model's, and where it was found.
struct Search {
    words: String,
    found: Vec<String>,
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
    files: &[Counted],
    turns: &[CaseTurn],
) -> Response<Body> {
    let t = &ENGLISH.case;
    let path = path(case);
    let card =
        visitor.caller.as_ref().and_then(|it| models::model(app, it, case.model.as_deref()).ok());
    let most = app.pages().map_or(0, |pages| pages.config.answer_tokens);
    let fit =
        card.as_ref().and_then(|card| fit(card, most, files)).map(|fit| shown_fit(&fit, files));
    let tokens: Option<u64> = files.iter().map(|(file, _)| file.tokens).sum();
    let mut summary = vec![fill(t.count_of_files, &[&Number(files.len() as u64)])];
    if let Some(tokens) = tokens {
        summary.push(fill(t.tokens, &[&Number(tokens)]));
    }
    let files = files
        .iter()
        .map(|(file, sections)| ShownFile {
            path: format!("{path}/files/{}", file.id),
            name: file.name.clone(),
            about: about(file),
            sections: sections.as_ref().map_or(0, Vec::len),
            chosen: file.chosen.as_ref().map_or_else(String::new, ToString::to_string),
            is_paged: file.pages.is_some(),
            choose_label: choose_label(file, sections.as_ref().map_or(0, Vec::len)),
        })
        .collect();
    let layout = card.as_deref().map(models::layout);
    let own = layout.map_or("", Layout::instructions);
    let judgments = app.pages().and_then(|pages| pages.config.judgments.as_ref());
    let models = visitor.caller.as_ref().map(|it| models::models(app, it)).unwrap_or_default();
    render::page(&CasePage {
        models: models.iter().map(|card| card.id.clone()).filter(|_| models.len() > 1).collect(),
        fit,
        base: layout == Some(Layout::Completion),
        instructions: case.instructions.clone().unwrap_or_else(|| own.to_owned()),
        tools: case.tools,
        search_first: case.search_first,
        judgments: judgments
            .filter(|_| layout != Some(Layout::Completion))
            .map(|it| Html(fill(t.judgments, &[&Number(it.files() as u64)]))),
        warn: !turns.is_empty(),
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

pub(super) fn turns(case: &Case, turns: &[CaseTurn]) -> Response<Body> {
    let t = &ENGLISH.case;
    render::page(&Turns { t, path: path(case), turns: turns.iter().map(shown).collect() })
}

fn choose_label(file: &CaseFile, sections: usize) -> String {
    let t = &ENGLISH.case;
    let words = if file.pages.is_some() { t.choose_label } else { t.choose_parts_label };
    fill(words, &[&sections])
}

fn shown_fit(fit: &Fit, files: &[Counted]) -> ShownFit {
    let t = &ENGLISH.case;
    let cut = files
        .iter()
        .zip(&fit.cut)
        .map(|((file, _), chosen)| {
            let name = Escaped(&file.name);
            Html(match (*chosen == Sections::none(), file.pages) {
                (true, _) => fill(t.cut_nothing, &[&name]),
                (false, Some(_)) => fill(t.cut_pages, &[&name, chosen]),
                (false, None) => fill(t.cut_parts, &[&name, chosen]),
            })
        })
        .collect();
    let words = fill(t.too_long, &[&Number(fit.tokens), &Number(fit.room)]);
    ShownFit { words: Html(words), cut }
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

pub(super) fn title(case: &Case) -> String {
    match case.title.as_str() {
        "" => ENGLISH.case.untitled.to_owned(),
        title => title.to_owned(),
    }
}

pub(super) fn about(file: &CaseFile) -> Html {
    let t = &ENGLISH.case;
    let mut parts = Vec::new();
    match file.pages {
        Some(pages) => parts.push(fill(t.pages, &[&Number(pages.into())])),
        None => parts.push(fill(t.characters, &[&Number(file.chars)])),
    }
    if let Some(tokens) = file.tokens {
        parts.push(fill(t.tokens, &[&Number(tokens)]));
    }
    if let Some(chosen) = &file.chosen {
        let words = if file.pages.is_some() { t.chosen_pages } else { t.chosen_parts };
        parts.push(fill(words, &[chosen]));
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
        searches: figures.searches.iter().map(search).collect(),
        too_long: figures.error.as_ref().is_some_and(|error| error.too_long.is_some()),
        why: why(&figures),
    }
}

fn search(search: &SearchFigures) -> Search {
    let t = &ENGLISH.case;
    let words = if search.found.is_empty() { t.searched_in_vain } else { t.searched };
    Search { words: fill(words, &[&search.query]), found: search.found.clone() }
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
        if cost.saved != "0" {
            facts.push((t.saved, money(&cost.saved)));
        }
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
