//! Instructions, tools and pages chosen: what stands before the questions.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Form};
use jiff::Timestamp;
use serde::Deserialize;
use tapri_casefile::Sections;

use super::fit::{counted, fit};
use super::{blocking, find, models, not_running, tenant};
use crate::pages::render::{self, Page};
use crate::pages::texts::{ENGLISH, fill};
use crate::pages::visitor::Visitor;
use crate::routes::App;

/// The longest instructions, in characters.
const LONGEST: usize = 20_000;

#[derive(Deserialize)]
pub(super) struct Instructed {
    #[serde(default)]
    instructions: String,
    /// A box that isn't ticked sends nothing.
    tools: Option<String>,
    search_first: Option<String>,
    /// Back to what they were at first.
    reset: Option<String>,
    /// The model that answers, where there are several.
    model: Option<String>,
}

/// `POST /casefile/{case}/instructions`.
pub(super) async fn instruct(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    Form(given): Form<Instructed>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    let t = &ENGLISH.case;
    if given.instructions.chars().count() > LONGEST {
        let message = fill(t.long_instructions, &[&LONGEST]);
        return Err(render::trouble(StatusCode::UNPROCESSABLE_ENTITY, &message, None).into());
    }
    let caller = tenant(&visitor)?;
    let own = models::model(&app, caller, case.model.as_deref())
        .map(|card| models::layout(&card).instructions())
        .unwrap_or_default();
    let text = given.instructions.replace("\r\n", "\n").trim().to_owned();
    // What says nothing of its own follows the layout's, should that become better.
    let text = Some(text).filter(|text| given.reset.is_none() && text != own);
    // Where there is no tool, its box isn't shown, and its absence says nothing.
    let has_tools = app.pages().is_some_and(|pages| pages.config.judgments.is_some());
    let tools = if has_tools { given.tools.is_some() } else { case.tools };
    let search_first = if has_tools { given.search_first.is_some() } else { case.search_first };
    // One that this tenant may not use, or that isn't served any more, is no choice.
    let served = models::models(&app, caller);
    let model = given.model.filter(|name| served.iter().any(|card| card.id == *name));
    let id = case.id.clone();
    blocking(&app, move |store| {
        store.instruct(&id, text.as_deref(), tools, Timestamp::now())?;
        store.set_search_first(&id, search_first)?;
        match model {
            Some(model) => store.set_model(&id, Some(&model)),
            None => Ok(()),
        }
    })
    .await?;
    Ok(render::go_to(&format!("/casefile/{}", case.id)))
}

#[derive(Deserialize)]
pub(super) struct Chosen {
    #[serde(default)]
    pages: String,
}

/// `POST /casefile/{case}/files/{file}/chosen`: which pages the model reads. Nothing written means all.
pub(super) async fn choose(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path((name, file)): Path<(String, String)>,
    Form(given): Form<Chosen>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    let t = &ENGLISH.case;
    let refuse = |message: &str| {
        render::trouble(StatusCode::UNPROCESSABLE_ENTITY, message, Some(t.choose_hint))
    };
    let (id, of) = (case.id.clone(), file.clone());
    let text = blocking(&app, move |store| store.text(&id, &of)).await?;
    let all = tapri_casefile::sections::sections(&text).len();
    let chosen = match given.pages.trim() {
        "" => None,
        written => {
            let chosen: Sections = written
                .parse()
                .map_err(|error: tapri_casefile::SectionsError| refuse(&format!("{error}.")))?;
            if chosen.last() as usize > all {
                return Err(refuse(&fill(t.no_such_page, &[&chosen.last(), &all])).into());
            }
            Some(chosen).filter(|it| *it != Sections::first(all as u32))
        }
    };
    let id = case.id.clone();
    blocking(&app, move |store| store.choose(&id, &file, chosen.as_ref())).await?;
    Ok(render::go_to(&format!("/casefile/{}", case.id)))
}

/// `POST /casefile/{case}/cut`: leaves of the files what fits, in their order.
pub(super) async fn cut(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    let id = case.id.clone();
    let files = blocking(&app, move |store| counted(store, &id)).await?;
    let most = app.pages().map_or(0, |pages| pages.config.answer_tokens);
    let card = models::model(&app, tenant(&visitor)?, case.model.as_deref()).ok();
    if let Some(fit) = card.and_then(|card| fit(&card, most, &files)) {
        let id = case.id.clone();
        blocking(&app, move |store| {
            for ((file, _), chosen) in files.iter().zip(&fit.cut) {
                if file.chosen.as_ref() != Some(chosen) {
                    store.choose(&id, &file.id, Some(chosen))?;
                }
            }
            Ok(())
        })
        .await?;
    }
    Ok(render::go_to(&format!("/casefile/{}", case.id)))
}
