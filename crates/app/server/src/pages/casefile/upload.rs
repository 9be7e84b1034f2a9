//! Files in: each is read into text, and its tokens are counted.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::multipart::{Multipart, MultipartError};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use tapri_casefile::{CaseId, Document, NewFile};
use tokio::time::timeout;

use super::{blocking, find, models, not_running, tenant, view};
use crate::pages::render::{self, Page, Refused};
use crate::pages::texts::{ENGLISH, fill};
use crate::pages::visitor::Visitor;
use crate::routes::App;

/// How long an upload may bring nothing: a connection that is held open for no file is ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files of one upload.
const MOST_FILES: usize = 50;

/// The longest name that is kept.
const LONGEST_NAME: usize = 200;

/// A file as it was sent.
struct Sent {
    name: String,
    bytes: Vec<u8>,
}

/// A file that gave no text.
pub(super) struct NotRead {
    pub(super) name: String,
    pub(super) why: String,
    pub(super) hint: Option<&'static str>,
}

/// `POST /casefile`: a new case.
pub(super) async fn begin(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    multipart: Multipart,
) -> Page {
    let caller = tenant(&visitor)?.clone();
    let sent = receive(&app, multipart).await?;
    let (documents, not_read) = read(&app, sent).await?;
    let Some(first) = documents.first() else { return Err(view::not_read(&not_read, None).into()) };
    let (name, title) = (caller.name().to_owned(), first.name().to_owned());
    let case = blocking(&app, move |store| store.create(&name, &title, Timestamp::now())).await?;
    keep(&app, &visitor, &case, documents).await?;
    done(&case, &not_read)
}

/// `POST /casefile/{case}/files`: more files for a case.
pub(super) async fn add(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(name): Path<String>,
    multipart: Multipart,
) -> Page {
    let case = find(&app, &visitor, &name).await?;
    not_running(&app, &case.id)?;
    let sent = receive(&app, multipart).await?;
    let (documents, not_read) = read(&app, sent).await?;
    if documents.is_empty() {
        return Err(view::not_read(&not_read, None).into());
    }
    keep(&app, &visitor, &case.id, documents).await?;
    done(&case.id, &not_read)
}

fn done(case: &CaseId, not_read: &[NotRead]) -> Page {
    let path = format!("/casefile/{case}");
    if not_read.is_empty() {
        return Ok(render::go_to(&path));
    }
    Ok(view::not_read(not_read, Some(&path)))
}

/// The files of an upload, in their order, within the limit.
async fn receive(app: &App, mut multipart: Multipart) -> Result<Vec<Sent>, Refused> {
    let t = &ENGLISH.case;
    let limit = app.pages().map_or(0, |pages| pages.config.upload_limit);
    let broken = |error: MultipartError| {
        let status = error.status();
        tracing::debug!("an upload broke off: {error}");
        render::trouble(status, t.broken_upload, Some(t.broken_upload_hint))
    };
    let mut files: Vec<Sent> = Vec::new();
    let mut taken = 0;
    let slow = |_| {
        render::trouble(StatusCode::REQUEST_TIMEOUT, t.broken_upload, Some(t.broken_upload_hint))
    };
    while let Some(mut field) =
        timeout(PATIENCE, multipart.next_field()).await.map_err(slow)?.map_err(broken)?
    {
        let Some(name) = field.file_name().map(plain_name) else { continue };
        let mut bytes = Vec::new();
        while let Some(chunk) =
            timeout(PATIENCE, field.chunk()).await.map_err(slow)?.map_err(broken)?
        {
            taken += chunk.len();
            if taken > limit {
                let message = fill(t.too_large, &[&(limit >> 20)]);
                let status = StatusCode::PAYLOAD_TOO_LARGE;
                return Err(render::trouble(status, &message, Some(t.too_large_hint)).into());
            }
            bytes.extend_from_slice(&chunk);
        }
        // A form without a chosen file sends one without a name.
        if name.is_empty() && bytes.is_empty() {
            continue;
        }
        if files.len() == MOST_FILES {
            let message = fill(t.too_many_files, &[&MOST_FILES]);
            return Err(render::trouble(StatusCode::UNPROCESSABLE_ENTITY, &message, None).into());
        }
        files.push(Sent { name, bytes });
    }
    if files.is_empty() {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return Err(render::trouble(status, t.no_files, Some(t.no_files_hint)).into());
    }
    Ok(files)
}

/// A file's name without folders, control characters and what makes text run the other way.
fn plain_name(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let is_plain = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    name.chars().filter(is_plain).take(LONGEST_NAME).collect::<String>().trim().to_owned()
}

async fn read(app: &App, sent: Vec<Sent>) -> Result<(Vec<Document>, Vec<NotRead>), Refused> {
    let Some(pages) = app.pages() else { return Err(render::gone().into()) };
    let (mut documents, mut not_read) = (Vec::new(), Vec::new());
    for Sent { name, bytes } in sent {
        let reader = Arc::clone(&pages.config.reader);
        let place = Arc::clone(&pages.readers).acquire_owned().await;
        let read = tokio::task::spawn_blocking(move || {
            let _place = place;
            reader(&name, &bytes).map_err(|error| NotRead {
                why: error.to_string(),
                hint: error.hint(),
                name,
            })
        });
        match read.await.map_err(|_| render::failed())? {
            Ok(document) => documents.push(document),
            Err(why) => not_read.push(why),
        }
    }
    Ok((documents, not_read))
}

async fn keep(
    app: &App,
    visitor: &Visitor,
    case: &CaseId,
    documents: Vec<Document>,
) -> Result<(), Refused> {
    for document in documents {
        let tokens = count(app, visitor, &document).await;
        let case = case.clone();
        blocking(app, move |store| {
            let new = NewFile { document: &document, tokens: tokens.as_deref() };
            store.add_file(&case, new, Timestamp::now())
        })
        .await?;
    }
    if let Some(pages) = app.pages() {
        pages.answers.hub(case).touch();
    }
    Ok(())
}

/// Tokens of each section, where the model's tokenizer is at hand.
async fn count(app: &App, visitor: &Visitor, document: &Document) -> Option<Vec<u64>> {
    let caller = visitor.caller.as_ref()?;
    let card = models::model(app, caller, None).ok()?;
    // An upstream would have to be asked for each, and may charge for it.
    card.vocabulary?;
    let mut tokens = Vec::new();
    for section in tapri_casefile::sections::sections(document.text()) {
        let ids = app.pipeline().tokenize_piece(section.to_owned()).await.ok()?;
        tokens.push(ids.len() as u64);
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(plain_name("C:\\cases\\A v. B.pdf"), "A v. B.pdf");
        assert_eq!(plain_name("../../etc/passwd"), "passwd");
        assert_eq!(plain_name("a\u{202e}fdp.exe\n"), "afdp.exe");
        assert_eq!(plain_name(&"x".repeat(500)).len(), LONGEST_NAME);
    }
}
