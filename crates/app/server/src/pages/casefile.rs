//! The page at `/`: files in, questions asked, answers as they come.
//!
//! A question runs on its own, apart from the browser that asked it: two windows on one case see the same answer grow,
//! and one that is closed loses nothing.
//!
//! Map: [`answers`] questions that run, and who watches them; `asking` one question's way; `models` who may answer it; `records` what
//! its record says; `searching` the tool that models may
//! call for it; `upload` files in; `settings` instructions and pages chosen; `fit` what of the files fits; `export` a case to take
//! along; `events`
//! what a page is told while it is open; `view` what is shown.

pub(crate) mod answers;
mod asking;
mod events;
mod export;
mod fit;
mod models;
mod records;
mod searching;
mod settings;
mod upload;
mod view;

pub(crate) use records::Records;

use std::time::Duration;

use axum::Extension;
use axum::Form;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{Response, StatusCode};
use axum::routing::{get, post};
use jiff::Timestamp;
use serde::Deserialize;
use tapri_api::Origin;
use tapri_casefile::{Case, CaseId, Store, StoreError};
use tapri_pipeline::cache::exact::Filter;

use super::render::{self, Frame, Page, Refused};
use super::texts::{ENGLISH, fill};
use super::visitor::Visitor;
use crate::routes::App;
use crate::tenants::caller::Caller;

/// The route that records name for questions of this page, where no configured route takes them.
const ROUTE: &str = "casefile";

/// How long the ledger may take to let texts go.
const LEDGER_LIMIT: Duration = Duration::from_secs(10);

/// The longest question, in characters: some pages of text.
const LONGEST_QUESTION: usize = 20_000;

pub(super) fn routes() -> Router<App> {
    Router::new()
        .route("/", get(home))
        .route("/casefile", post(upload::begin).layer(DefaultBodyLimit::disable()))
        .route("/casefile/{case}", get(case).delete(delete_case))
        .route("/casefile/{case}/files", post(upload::add).layer(DefaultBodyLimit::disable()))
        .route("/casefile/{case}/files/{file}", axum::routing::delete(delete_file))
        .route("/casefile/{case}/files/{file}/chosen", post(settings::choose))
        .route("/casefile/{case}/cut", post(settings::cut))
        .route("/casefile/{case}/instructions", post(settings::instruct))
        .route("/casefile/{case}/export.md", get(export::markdown))
        .route("/casefile/{case}/print", get(export::print))
        .route("/casefile/{case}/turns", get(turns).post(ask))
        .route("/casefile/{case}/turns/{n}/again", post(again))
        .route("/casefile/{case}/stop", post(stop))
        .route("/casefile/{case}/events", get(events::stream))
}

/// Runs what waits for the disk where it may.
pub(super) async fn blocking<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, Refused> {
    let Some(pages) = app.pages() else { return Err(render::gone().into()) };
    let store = std::sync::Arc::clone(&pages.config.store);
    match tokio::task::spawn_blocking(move || work(&store)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(store_trouble(&error).into()),
        // A panic has been printed by its own hook.
        Err(_) => Err(render::failed().into()),
    }
}

fn store_trouble(error: &StoreError) -> Response<Body> {
    let t = &ENGLISH.case;
    match error {
        StoreError::NoCase | StoreError::NoFile => render::gone(),
        StoreError::Busy => render::trouble(StatusCode::CONFLICT, t.busy, Some(t.busy_hint)),
        error => {
            tracing::error!("{error}");
            render::failed()
        }
    }
}

/// The tenant that a visitor acts as: an operator who signed in has no case files.
pub(super) fn tenant(visitor: &Visitor) -> Result<&Caller, Refused> {
    visitor.caller.as_ref().ok_or_else(|| {
        let t = &ENGLISH.frame;
        let frame = Frame::new(visitor, "/", ENGLISH.case.title);
        render::message(StatusCode::FORBIDDEN, frame, t.tenant_only, Some(t.tenant_only_hint))
            .into()
    })
}

/// The case that an address names, if it is the visitor's.
pub(super) async fn find(app: &App, visitor: &Visitor, name: &str) -> Result<Case, Refused> {
    let tenant = tenant(visitor)?.name().to_owned();
    let id: CaseId = name.parse().map_err(|_| render::gone())?;
    blocking(app, move |store| store.case(&tenant, &id)).await
}

async fn home(State(app): State<App>, Extension(visitor): Extension<Visitor>) -> Page {
    let name = tenant(&visitor)?.name().to_owned();
    let cases = blocking(&app, move |store| store.list(&name)).await?;
    Ok(view::home(&app, &visitor, &cases))
}

async fn case(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    let id = case.id.clone();
    let (files, turns) =
        blocking(&app, move |store| Ok((fit::counted(store, &id)?, store.turns(&id)?))).await?;
    Ok(view::case(&app, &visitor, &case, &files, &turns))
}

async fn turns(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    let id = case.id.clone();
    let turns = blocking(&app, move |store| store.turns(&id)).await?;
    Ok(view::turns(&case, &turns))
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    question: String,
}

async fn ask(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    Form(Asked { question }): Form<Asked>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    let t = &ENGLISH.case;
    let question = question.trim().replace("\r\n", "\n");
    let refuse = |message: &str| {
        Err(render::trouble(StatusCode::UNPROCESSABLE_ENTITY, message, None).into())
    };
    if question.is_empty() {
        return refuse(t.empty_question);
    }
    if question.chars().count() > LONGEST_QUESTION {
        return refuse(&fill(t.long_question, &[&LONGEST_QUESTION]));
    }
    let caller = tenant(&visitor)?.clone();
    let (id, asked) = (case.id.clone(), question.clone());
    let n = blocking(&app, move |store| store.ask(&id, &asked, Timestamp::now())).await?;
    asking::start(&app, caller, case, n, question);
    Ok(render::nothing())
}

async fn again(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path((name, n)): Path<(String, u32)>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    let caller = tenant(&visitor)?.clone();
    let id = case.id.clone();
    let again = blocking(&app, move |store| store.ask_again(&id, n, Timestamp::now())).await?;
    let Some((n, question)) = again else { return Err(render::gone().into()) };
    asking::start(&app, caller, case, n, question);
    Ok(render::nothing())
}

async fn stop(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    if let Some(pages) = app.pages() {
        pages.answers.stop(&case.id);
    }
    Ok(render::nothing())
}

async fn delete_file(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path((name, file)): Path<(String, String)>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    let id = case.id.clone();
    let files = blocking(&app, move |store| store.files(&id)).await?;
    if files.iter().all(|known| known.id == file) {
        return erase_case(&app, &visitor, case).await;
    }
    let id = case.id.clone();
    blocking(&app, move |store| store.delete_file(&id, &file, Timestamp::now())).await?;
    erase(&app, &visitor, &case.id).await?;
    Ok(render::go_to(&format!("/casefile/{}", case.id)))
}

async fn delete_case(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    erase_case(&app, &visitor, case).await
}

async fn erase_case(app: &App, visitor: &Visitor, case: Case) -> Page {
    let id = case.id.clone();
    blocking(app, move |store| store.delete(&id)).await?;
    erase(app, visitor, &case.id).await?;
    Ok(render::go_to("/"))
}

fn not_running(app: &App, case: &CaseId) -> Result<(), Refused> {
    let running = app.pages().is_some_and(|pages| pages.answers.is_running(case));
    if running { Err(store_trouble(&StoreError::Busy).into()) } else { Ok(()) }
}

/// Erases what every cache holds of a case. The store of cases has let it go already.
async fn erase(app: &App, visitor: &Visitor, case: &CaseId) -> Result<(), Refused> {
    let tenant = tenant(visitor)?.name().to_owned();
    let filter = Filter {
        tenant: Some(tenant.clone()),
        session: Some(case.to_string()),
        ..Filter::default()
    };
    let purged = app.purge(&filter).await.map_err(|error| error.to_string());
    let recorder = app.pipeline().recorder().clone();
    let (owner, session) = (tenant, case.to_string());
    // The ledger keeps counts and fingerprints; where it keeps texts, those of the case go.
    let ledger = tokio::task::spawn_blocking(move || {
        recorder.erase_texts(&owner, &session, LEDGER_LIMIT).map_err(|error| error.to_string())
    });
    let ledger = ledger.await.unwrap_or_else(|error| Err(error.to_string()));
    match purged.and_then(|report| ledger.map(|_| report)) {
        Ok(report) => {
            tracing::info!(
                answers = report.answers,
                kv_blocks = report.kv_blocks,
                "a case's files were erased"
            );
            Ok(())
        }
        Err(error) => {
            tracing::error!("a case's files were not erased everywhere: {error}");
            let message = fill(ENGLISH.case.deleted_incomplete, &[&error]);
            Err(render::trouble(StatusCode::SERVICE_UNAVAILABLE, &message, None).into())
        }
    }
}

/// Where a question of a case comes from, for its record, and for erasing what is stored for it.
fn origin(caller: &Caller, case: &CaseId) -> Origin {
    Origin {
        tenant: caller.name().to_owned().into(),
        conversation: Some(case.to_string()),
        document: Some(case.to_string()),
        ..Origin::of(ROUTE)
    }
}
