//! The pages for people: server-rendered, without a build step, everything compiled in.
//!
//! A page is a template of its own with the frame (`render::Frame`) around it, and every word of it stands in
//! `texts`. Nothing is loaded from anywhere else, and the content security policy holds the browser to that.
//!
//! Invariants:
//! - Text of a file, a question or an answer reaches HTML through a template, which escapes it.
//! - A request that changes something comes from a page of this server: same origin, and a token that only such a page has.
//! - Without keys, pages answer under this machine's own names alone, so that a stranger's site can't point a name of its
//!   own here.
//! - With keys, what a person sees and does is their tenant's: its scope, its limits, its routes, its files.
//!
//! Map: `gate` what every request of a page passes; `visitor` who looks at it, and sign-ins; `sign_in` that page;
//! `render` templates to answers; `show` numbers, times and money; `texts` the words; `assets` style and scripts;
//! `casefile` the page at `/`; `calls`, `cache`, `savings` and `compare` those at these names; `reading` the
//! ledger, and who sees what of it; `stream` what an open page is told; `chart` SVG; `figures` more values.

pub(crate) mod assets;
mod cache;
mod calls;
pub(crate) mod casefile;
mod chart;
mod compare;
mod figures;
mod gate;
mod reading;
pub(crate) mod render;
mod savings;
pub(crate) mod show;
mod sign_in;
mod stream;
pub(crate) mod texts;
pub(crate) mod visitor;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::middleware;
use axum::routing::{get, post};
use tapri_casefile::{Document, DocumentError, Judgments, Store};
use tapri_pipeline::Live;
use tokio::sync::Semaphore;

use self::casefile::answers::Answers;
use self::visitor::SignIns;
use crate::routes::App;
use crate::tenants::Snapshot;

/// Reads a file's bytes, by its name.
pub type Reader = Arc<dyn Fn(&str, &[u8]) -> Result<Document, DocumentError> + Send + Sync>;

/// Files that are read at once: each may take a core and a gigabyte.
const READERS: usize = 2;

/// Settings of the pages.
#[derive(Clone)]
pub struct PagesConfig {
    /// Where cases are kept.
    pub store: Arc<Store>,
    /// What the tokens against forged requests are made from: kept, so that a page that was open when the server was
    /// started again still works.
    pub secret: String,
    /// Reads a file's bytes by its name: in a process of its own, for files come from anywhere. Blocks.
    pub reader: Reader,
    /// Past judgments that models may search.
    pub judgments: Option<Arc<Judgments>>,
    /// The most bytes of an upload, all its files together.
    pub upload_limit: usize,
    /// The most tokens of an answer.
    pub answer_tokens: usize,
}

impl fmt::Debug for PagesConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagesConfig")
            .field("upload_limit", &self.upload_limit)
            .finish_non_exhaustive()
    }
}

/// What the pages share.
pub(crate) struct Pages {
    pub(crate) config: PagesConfig,
    /// The name or address that the server was told to listen on.
    pub(crate) host: String,
    pub(crate) sign_ins: SignIns,
    pub(crate) answers: Arc<Answers>,
    pub(crate) readers: Arc<Semaphore>,
    /// Calls as they end.
    pub(crate) live: Live,
}

impl Pages {
    pub(crate) fn new(config: PagesConfig, host: &str) -> Self {
        Pages {
            sign_ins: SignIns::new(&config.secret, Arc::clone(&config.store)),
            config,
            host: host.to_owned(),
            answers: Arc::default(),
            readers: Arc::new(Semaphore::new(READERS)),
            live: Live::default(),
        }
    }

    /// Ends the sign-ins whose keys are not known (any more). Blocks for a disk's time.
    pub(crate) fn end_unknown_sign_ins(&self, now: &Snapshot) {
        self.sign_ins.retain(|key| now.knows(key));
    }
}

/// The pages in the order of the navigation: address and name. What is the operator's alone is shown to no one else.
pub(crate) fn navigation(
    t: &texts::FrameTexts,
    operator: bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    [
        ("/", t.case_file),
        (calls::PATH, t.calls),
        (cache::PATH, t.cache),
        (savings::PATH, t.savings),
        (compare::PATH, t.compare),
    ]
    .into_iter()
    .filter(move |(path, _)| operator || *path != cache::PATH)
}

/// The paths of the pages; none where they are switched off.
pub(crate) fn routes(app: &App) -> Router {
    if app.pages().is_none() {
        return Router::new();
    }
    Router::new()
        .merge(casefile::routes())
        .merge(calls::routes())
        .merge(cache::routes())
        .merge(savings::routes())
        .merge(compare::routes())
        .route("/sign-in", get(sign_in::page).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/assets/{version}/{name}", get(assets::get))
        .layer(middleware::from_fn_with_state(app.clone(), gate::pass))
        .with_state(app.clone())
}
