//! One call: what became of its prompt, and why.

use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use tapri_insight::prompt_map::{PromptMap, Share};
use tapri_ledger::{CallRecord, Explanation, Found, PartKind};

use super::PATH;
use super::rows::{Status, status};
use crate::pages::chart::{Entry, Fill, strip};
use crate::pages::figures::{count, escaped, money, print, seconds, sentence};
use crate::pages::reading::{self, Sees};
use crate::pages::render::{self, Frame, Page};
use crate::pages::show::{Html, Moment, Number};
use crate::pages::texts::{CallsTexts, ENGLISH, fill};
use crate::pages::visitor::Visitor;
use crate::routes::App;

/// More blocks than this are no longer told apart on a strip.
const CUTS: u64 = 160;

#[derive(Template)]
#[template(path = "calls/call.html")]
struct CallPage {
    frame: Frame,
    t: &'static CallsTexts,
    status: Status,
    id: String,
    facts: Vec<(&'static str, Html)>,
    map: Option<Map>,
    stored: bool,
    why: Option<Why>,
    parts: Vec<Part>,
    text: Option<String>,
}

/// The strip.
struct Map {
    summary: Html,
    strip: Html,
    /// Where the mark's words stand, in percent from the left, as text is laid out.
    mark: Option<Html>,
    legend: Vec<Entry>,
    rows: Vec<(String, Html, Html)>,
}

struct Why {
    reason: String,
    place: Option<Html>,
    new: Option<String>,
    old: Option<String>,
    looks_like: Option<String>,
    shared: Option<Html>,
    to_do: String,
    nearest: Option<(String, String)>,
}

struct Part {
    path: String,
    kind: &'static str,
    chars: Html,
    tokens: Html,
    print: String,
}

/// `GET /calls/{id}`.
pub(super) async fn call(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(id): Path<String>,
) -> Page {
    let t = &ENGLISH.calls;
    let sees = Sees::of(&app, &visitor, PATH, t.title)?;
    let found = reading::ledger(&app, move |ledger| ledger.find(&id)).await?;
    let record = match found {
        // Another's call and none are the same to who may not see it.
        Some(Found::One(record)) if sees.may_see(&record) => sees.censored(*record),
        _ => return Ok(not_there(&visitor)),
    };
    // A call that an upstream answered has blocks that nobody here knows.
    let block = match record.upstream.as_str() {
        "embedded" => Some(app.pipeline().stats().map_or(0, |stats| stats.block_tokens as u64)),
        _ => None,
    };
    Ok(render::page(&shown(&visitor, record, block.filter(|&block| block > 0))))
}

fn not_there(visitor: &Visitor) -> axum::http::Response<axum::body::Body> {
    let t = &ENGLISH.calls;
    let frame = Frame::new(visitor, PATH, t.no_such_call);
    let status = axum::http::StatusCode::NOT_FOUND;
    render::message(status, frame, t.no_such_call_message, Some(t.no_such_call_hint))
}

fn shown(visitor: &Visitor, record: CallRecord, block: Option<u64>) -> CallPage {
    let t = &ENGLISH.calls;
    let map = PromptMap::of(&record, block);
    let parts = record.parts.iter().zip(map.iter().flat_map(|map| &map.parts));
    let parts = parts
        .map(|(part, span)| Part {
            path: part.path.clone(),
            kind: kind(part.kind),
            chars: Html(Number(part.chars).to_string()),
            tokens: Html(fill(t.about, &[&Number(span.tokens)])),
            print: print(part.print),
        })
        .collect();
    CallPage {
        status: status(&record),
        facts: facts(&record),
        stored: record.is_stored_answer(),
        map: map.as_ref().map(drawn),
        why: record.explanation.as_ref().map(|it| why(&record, it)),
        parts,
        text: record.text.clone(),
        frame: Frame::new(visitor, PATH, fill(t.call, &[&super::short(&record.id)])),
        id: record.id,
        t,
    }
}

fn drawn(map: &PromptMap) -> Map {
    let t = &ENGLISH.calls;
    let whole = map.prompt as f64;
    let words = |share: Share| match share {
        Share::Hit => (Fill::Cached, t.hit),
        Share::Joined => (Fill::Joined, t.joined),
        Share::Computed => (Fill::Fresh, t.computed),
        Share::Uncacheable => (Fill::Other, t.uncacheable),
        Share::Unknown => (Fill::Other, t.unknown_share),
    };
    let mut parts = Vec::new();
    let (mut legend, mut rows) = (Vec::new(), Vec::new());
    for segment in &map.segments {
        let (fill_with, name) = words(segment.share);
        let until = segment.from + segment.tokens;
        let title = fill(t.segment, &[&name, &segment.from, &(until - 1)]);
        parts.push((fill_with, segment.tokens as f64 / whole, title));
        legend.push(Entry::new(fill_with, fill(t.legend, &[&name, &Number(segment.tokens)])));
        let range = fill(t.range, &[&Number(segment.from), &Number(until - 1)]);
        rows.push((name.to_owned(), Html(range), Html(Number(segment.tokens).to_string())));
    }
    let cuts = map.block.map_or(0, |block| map.prompt.div_ceil(block));
    // A cut for each block, where the strip has room for them.
    let lines = if cuts <= CUTS { cuts } else { 0 };
    let mark = map.difference.map(|at| at as f64 / whole);
    let label: Vec<String> = map
        .segments
        .iter()
        .map(|segment| fill(t.spoken, &[&words(segment.share).1, &segment.tokens]))
        .collect();
    let mut label = fill(t.strip_label, &[&map.prompt, &label.join(", ")]);
    if let Some(at) = map.difference {
        label.push_str(&fill(t.strip_difference, &[&at]));
    }
    let summary = match map.block {
        Some(block) => fill(t.blocks, &[&Number(map.prompt), &Number(cuts), &Number(block)]),
        None => fill(t.no_blocks, &[&Number(map.prompt)]),
    };
    let mark_words = map.difference.map(|at| {
        let words = if map.estimated { t.difference_estimated } else { t.difference };
        Html(fill(words, &[&Number(at)]))
    });
    Map {
        summary: Html(summary),
        strip: strip("strip", &label, &parts, lines, mark),
        mark: mark_words,
        legend,
        rows,
    }
}

fn facts(record: &CallRecord) -> Vec<(&'static str, Html)> {
    let t = &ENGLISH.calls;
    let mut facts = vec![
        (t.time, Html(Moment(record.at).to_string())),
        (t.tenant, escaped(&record.tenant)),
        (t.route, escaped(&record.route)),
        (t.model, escaped(&record.model)),
        (t.upstream, escaped(&record.upstream)),
    ];
    if let Some(conversation) = &record.conversation {
        facts.push((t.conversation, escaped(conversation)));
    }
    let tokens = &record.tokens;
    facts.extend([
        (t.prompt, count(tokens.prompt)),
        (t.cached, count(tokens.cached)),
        (t.written, count(tokens.written)),
        (t.answer, count(tokens.answer)),
        (t.first_token, seconds(record.ttft)),
        (t.total, seconds(Some(record.total))),
    ]);
    let caches = [
        (t.exact_cache, &record.exact),
        (t.semantic_cache, &record.semantic),
        (t.prefix_cache, &record.prefix),
    ];
    for (name, cache) in caches {
        let Some(cache) = cache else { continue };
        let words = match &cache.reason {
            Some(reason) => format!("{} ({reason})", cache.outcome.as_str()),
            None => cache.outcome.as_str().to_owned(),
        };
        facts.push((name, escaped(&words)));
    }
    if let Some(cost) = &record.cost {
        let amount = |amount| money(std::iter::once((cost.paid.currency.as_str(), amount)));
        facts.push((t.cost, amount(cost.paid.amount)));
        facts.push((t.without_cache, amount(cost.without_cache.amount)));
    }
    facts
}

fn why(record: &CallRecord, it: &Explanation) -> Why {
    let t = &ENGLISH.calls;
    let place = it.place.as_ref().map(|place| {
        let mut words = fill(t.at_path, &[&escaped(&place.path)]);
        if let Some(page) = place.page {
            words.push_str(&fill(t.at_page, &[&Number(page)]));
        }
        if let Some(character) = place.character {
            words.push_str(&fill(t.at_character, &[&Number(character)]));
        }
        Html(words)
    });
    let shared = it.shared_tokens.map(|tokens| {
        Html(fill(if it.estimated { t.shared_estimated } else { t.shared }, &[&Number(tokens)]))
    });
    // The words for people who work on a case are no words for an operator's other calls.
    let case = crate::pages::texts::reason(it.reason).filter(|_| record.route == "casefile");
    Why {
        reason: case.map_or(it.reason.describe(), |(words, _)| words).to_owned(),
        place,
        new: it.new.clone(),
        old: it.old.clone(),
        looks_like: it.looks_like.clone(),
        shared,
        to_do: case.map_or_else(|| sentence(&it.suggestion), |(_, to_do)| to_do.to_owned()),
        nearest: it.nearest.as_ref().map(|id| (super::address(id), super::short(id))),
    }
}

fn kind(kind: PartKind) -> &'static str {
    let t = &ENGLISH.calls;
    match kind {
        PartKind::Tools => t.part_tools,
        PartKind::System => t.part_system,
        PartKind::Page => t.part_page,
        PartKind::Message => t.part_message,
        PartKind::Whole => t.part_whole,
    }
}
