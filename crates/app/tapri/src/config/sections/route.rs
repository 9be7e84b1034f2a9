//! `[[route]]`: which calls, who answers them, and what the caches do for them.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::{Names, named, upstream};
use crate::config::reader::{At, Section, number, text, truth, word};
use crate::quantity;
use crate::report::period::share;

/// `[[route]]`.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) name: String,
    /// The models it is for, with `*` for any characters; empty for all.
    pub(crate) models: Vec<String>,
    /// Who answers; `None` for whoever serves the model.
    pub(crate) upstreams: Option<Vec<String>>,
    /// Whether cache markers are put into requests to Anthropic that have none.
    pub(crate) cache_control: Option<bool>,
    pub(crate) exact: Option<Exact>,
    pub(crate) semantic: Semantic,
}

/// `[route.exact]`. Written at all, it turns the cache on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exact {
    pub(crate) mode: ExactMode,
    pub(crate) ttl: Option<Duration>,
    pub(crate) variants: Option<NonZeroUsize>,
    pub(crate) max_entry: Option<u64>,
}

/// When answers are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExactMode {
    Off,
    Deterministic,
    Always,
}

/// `[route.semantic]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Semantic {
    pub(crate) mode: SemanticMode,
    /// The share of hits that may be wrong.
    pub(crate) budget: Option<f64>,
    /// How long an answer is served.
    pub(crate) ttl: Option<Duration>,
    /// Who judges in shadow: an upstream's model, `upstream:NAME/MODEL`, or a model's name.
    pub(crate) judge: Option<String>,
    /// The share of served hits that are checked again.
    pub(crate) recheck: Option<f64>,
}

/// What the semantic cache does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SemanticMode {
    #[default]
    Off,
    Shadow,
    Serve,
}

const EXACT: &[(&str, ExactMode)] = &[
    ("off", ExactMode::Off),
    ("deterministic", ExactMode::Deterministic),
    ("always", ExactMode::Always),
];

const SEMANTIC: &[(&str, SemanticMode)] =
    &[("off", SemanticMode::Off), ("shadow", SemanticMode::Shadow), ("serve", SemanticMode::Serve)];

pub(super) fn read(
    section: &Section<'_, '_>,
    upstreams: &[String],
    names: &mut Names,
) -> Option<Route> {
    let name = names.take("route", section);
    let models = section.list("models", false, text).unwrap_or_default();
    let route = Route {
        name: name.unwrap_or_default(),
        models: models.into_iter().map(|At { value, .. }| value).collect(),
        upstreams: named(section, "upstreams", "upstream", upstreams),
        cache_control: section.get("cache_control", truth),
        exact: section.section_if("exact").map(|section| exact(&section)),
        semantic: semantic(&section.section("semantic"), upstreams),
    };
    let keeps_none = route.exact.is_some_and(|exact| exact.mode == ExactMode::Off);
    if keeps_none && route.semantic.mode != SemanticMode::Off {
        let what = "the exact cache of this route is off, and it keeps the answers that the semantic cache gives";
        let hint = "write mode = \"always\" in [route.exact]".to_owned();
        section.wrong("semantic", section.line(), what, Some(hint));
    }
    section.end();
    (!route.name.is_empty()).then_some(route)
}

fn exact(section: &Section<'_, '_>) -> Exact {
    let exact = Exact {
        mode: section.or("mode", ExactMode::Always, word(EXACT)),
        ttl: section.get("ttl", quantity::duration),
        variants: section.get("variants", variants),
        max_entry: section.get("max_entry", quantity::bytes),
    };
    section.end();
    exact
}

fn semantic(section: &Section<'_, '_>, upstreams: &[String]) -> Semantic {
    let semantic = Semantic {
        mode: section.or("mode", SemanticMode::Off, word(SEMANTIC)),
        budget: section.get("budget", share),
        ttl: section.get("ttl", quantity::duration),
        judge: section.get("judge", |written| {
            let written = text(written)?;
            upstream::model(&written, upstreams).map(|()| written)
        }),
        recheck: section.get("recheck", share),
    };
    section.end();
    semantic
}

fn variants(text: &str) -> Result<NonZeroUsize, String> {
    match number::<NonZeroUsize>(text) {
        Ok(count) if count.get() <= 32 => Ok(count),
        _ => Err("it should be a number from 1 to 32".to_owned()),
    }
}
