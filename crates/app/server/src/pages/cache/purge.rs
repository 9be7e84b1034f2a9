//! Erasing what the caches hold, in two steps: what would go is said first, and then done.

use std::time::Duration;

use askama::Template;
use axum::Extension;
use axum::Form;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use tapri_pipeline::cache::exact::Filter;

use super::PATH;
use crate::pages::reading;
use crate::pages::render::{self, Page};
use crate::pages::show::{Html, Number};
use crate::pages::texts::{CacheTexts, ENGLISH, fill};
use crate::pages::visitor::Visitor;
use crate::routes::App;

#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub(super) struct Asked {
    tenant: String,
    age: String,
    /// Whether the person has seen what would go.
    sure: String,
}

#[derive(Template)]
#[template(path = "cache/purge.html")]
struct Purge {
    t: &'static CacheTexts,
    /// What would go, as text.
    question: Option<String>,
    done: Option<Html>,
    tenant: String,
    age: String,
}

/// Ages of answers, in hours.
const AGES: [(&str, u64); 3] = [("1d", 24), ("7d", 168), ("30d", 720)];

/// `POST /cache/purge`.
pub(super) async fn purge(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Form(asked): Form<Asked>,
) -> Page {
    let t = &ENGLISH.cache;
    reading::operators(&visitor, PATH, t.title)?;
    let refuse = |message: String| {
        Err(render::trouble(StatusCode::UNPROCESSABLE_ENTITY, &message, None).into())
    };
    let Asked { tenant, age, sure } = asked;
    let known = app.tenants().current().tenants.iter().any(|known| known.name() == tenant);
    if !tenant.is_empty() && !known {
        return refuse(fill(t.no_such_tenant, &[&tenant]));
    }
    let hours = AGES.iter().find(|(name, _)| *name == age).map(|(_, hours)| *hours);
    if !age.is_empty() && hours.is_none() {
        return refuse(fill(t.no_such_age, &[&age]));
    }
    let whose = if tenant.is_empty() { t.of_all.to_owned() } else { fill(t.of_tenant, &[&tenant]) };
    if sure != "yes" {
        let question = match hours {
            // Blocks are no older than the process, and go with their use: an age is for answers alone.
            Some(_) => fill(t.purge_old_question, &[&whose, &words(&age)]),
            None => fill(t.purge_question, &[&whose]),
        };
        return Ok(render::page(&Purge { t, question: Some(question), done: None, tenant, age }));
    }
    let filter = Filter {
        tenant: Some(tenant.clone()).filter(|tenant| !tenant.is_empty()),
        older_than: hours.map(|hours| Duration::from_secs(hours * 3600)),
        ..Filter::default()
    };
    match app.purge(&filter).await {
        Ok(report) => {
            tracing::info!(
                answers = report.answers,
                kv_blocks = report.kv_blocks,
                "purged from the cache page"
            );
            let answers = Number(report.answers);
            let done = match (report.kv_blocks, report.kv_blocks_in_use.unwrap_or(0)) {
                (None, _) => fill(t.purged_answers, &[&answers]),
                (Some(blocks), 0) => fill(t.purged, &[&answers, &Number(blocks)]),
                (Some(blocks), in_use) => {
                    fill(t.purged_in_use, &[&answers, &Number(blocks), &Number(in_use)])
                }
            };
            Ok(render::page(&Purge { t, question: None, done: Some(Html(done)), tenant, age }))
        }
        Err(error) => {
            tracing::error!("a purge failed: {error}");
            let message = fill(t.purge_failed, &[&error]);
            let hint = Some(t.purge_failed_hint);
            Err(render::trouble(StatusCode::SERVICE_UNAVAILABLE, &message, hint).into())
        }
    }
}

fn words(age: &str) -> &'static str {
    let ages = ENGLISH.cache.ages;
    ages.iter().find(|(name, _)| *name == age).map_or("", |(_, words)| words)
}
