//! The paths that generate: `/v1/chat/completions`, `/v1/completions`, `/v1/responses` and `/v1/messages`.
//!
//! A request is read as far as every format goes and no further: what a field means is for whoever answers. The answer
//! is written in the caller's format, whoever gave it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use tapri_api::encode::{Encoder, Head};
use tapri_api::{
    AFFECTING_HEADERS, ApiError, CacheDirectives, Call, CallEvent, CallId, ErrorKind, Format,
    Inbound, Origin, Outline,
};
use tapri_pipeline::Running;

use super::App;
use crate::meter::Meter;
use crate::tenants::caller::Caller;
use crate::tenants::limits::{Entry, Size};
use crate::{body, reply};

/// How long a stream may be silent before a comment says that it still lives: proxies tend to cut at a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Asks for the reason of what was not reused.
const EXPLAIN: &str = "x-tapri-explain";

/// Names the conversation that a call belongs to, for its record.
const CONVERSATION: &str = "x-tapri-conversation";

/// Names the document that a call is about: what is stored for it can be erased by this name.
const DOCUMENT: &str = "x-tapri-document";

/// The caller's span (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// `POST /v1/chat/completions`.
pub(super) async fn chat(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Chat, request).await
}

/// `POST /v1/completions`.
pub(super) async fn completion(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Completion, request).await
}

/// `POST /v1/responses`.
pub(super) async fn responses(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Responses, request).await
}

/// `POST /v1/messages`.
pub(super) async fn messages(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Messages, request).await
}

/// `POST /v1/embeddings`.
pub(super) async fn embeddings(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Embeddings, request).await
}

async fn generate(app: App, format: Format, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut origin = Origin::of(format.path());
    let read = async {
        let caller = Caller::of(&parts.extensions)?;
        origin.tenant = caller.name().to_owned().into();
        let bytes = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
        let size = bytes.len();
        let inbound = Inbound::read(format, bytes, affecting(&parts.headers))?;
        if let Some(route) = caller.route(&parts.headers, inbound.model.as_deref())? {
            origin.route = route.name.clone().into();
        }
        let answers = inbound.choices() as u64;
        let answer = inbound.max_tokens().map(|tokens| tokens.saturating_mul(answers));
        let entry = caller.enter(Size { body: size, answer })?;
        let inbound = Arc::new(inbound);
        let mut call = Call::request(Arc::clone(&inbound));
        call.salt = inbound.salt()?;
        call.outline = Some(Outline::Body(inbound.bytes.clone()));
        caller.sign(&mut call);
        Ok((call, inbound, caller, entry))
    };
    let (mut call, inbound, caller, entry) = match read.await {
        Ok(read) => read,
        Err(error) => {
            let id = CallId::random();
            app.pipeline().refused(id, &origin, "", &error);
            return app.respond_in(format, id, Err(error));
        }
    };
    let conversation = named(&parts.headers, CONVERSATION).or_else(|| inbound.conversation());
    let document = named(&parts.headers, DOCUMENT);
    let traceparent = named(&parts.headers, TRACEPARENT);
    call.origin = Origin { conversation, document, traceparent, ..origin };
    call.cache = cache_directives(&parts.headers);
    let id = call.id;
    // What was reused tells what others asked; where that is hidden, so is the reason.
    let hide = app.hides_hits(&caller);
    let told = Told { hide, explain: wants_explanation(&parts.headers) && !hide };
    let result = answer(&app, call, &inbound, entry, told).await;
    app.respond_in(format, id, result.map_err(|error| caller.may_see(error)))
}

/// The headers that may change the answer.
pub(super) fn affecting(headers: &HeaderMap) -> Vec<(String, String)> {
    AFFECTING_HEADERS
        .iter()
        .flat_map(|name| headers.get_all(*name).iter().map(move |value| (*name, value)))
        .filter_map(|(name, value)| Some((name.to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// What an answer tells of the caches.
#[derive(Debug, Clone, Copy)]
struct Told {
    /// Nothing.
    hide: bool,
    /// The reasons as well.
    explain: bool,
}

async fn answer(
    app: &App,
    call: Call,
    inbound: &Arc<Inbound>,
    entry: Entry,
    told: Told,
) -> Result<Response<Body>, ApiError> {
    let pipeline = app.pipeline();
    let id = call.id;
    let Told { hide: hide_cached, explain } = told;
    let route = call.origin.route.clone();
    let mut meter = Meter::begin(Arc::clone(&app.inner.metrics), Some(entry));
    let running = pipeline.start(call).await.inspect_err(|_| meter.failed())?;
    let card = pipeline.model_on(inbound.model.as_deref(), &route)?;
    // The name that was asked for, be it another name of the model.
    let model = inbound.model.clone().unwrap_or_else(|| card.id.clone());
    let head = Head {
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        fingerprint: Some(format!("fp_{}", card.fingerprint)),
        hide_cached,
        include_usage: inbound.include_usage(),
        explain,
        // Chunks of another call's answer, stored or shared, have that call's id.
        replayed: running.is_replay(),
        request: (inbound.format == Format::Responses).then(|| Arc::clone(inbound)),
        ..Head::new(inbound.format, id, model)
    };
    meter.admitted();
    let admission = running.admission();
    if let Some(reuse) = &admission.reuse {
        tracing::debug!(
            call = %id,
            prompt = reuse.prompt,
            cached = reuse.cached,
            restored = reuse.restored,
            joined = reuse.joined,
            stop = %reuse.stop,
            other_scope = reuse.other_scope,
            "admitted"
        );
    }
    let mut headers = HeaderMap::new();
    let status = (!hide_cached).then(|| running.cache_status());
    reply::call_headers(&mut headers, id, status.as_ref(), admission.template);
    reply::warnings(&mut headers, &admission.dropped);
    if let Some(age) = running.age().filter(|_| !hide_cached) {
        headers.insert(header::AGE, HeaderValue::from(age.as_secs()));
    }
    let mut response = if inbound.stream {
        let mut encoder = Encoder::stream(head);
        if let Some(usage) = running.prompt_usage() {
            encoder.prompt(usage);
        }
        stream(running, meter, encoder, explain)
    } else {
        whole(running, meter, Encoder::whole(head), explain).await?
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

async fn whole(
    mut running: Running,
    mut meter: Meter,
    mut encoder: Encoder,
    explain: bool,
) -> Result<Response<Body>, ApiError> {
    while let Some(event) = running.next().await {
        meter.see(&event);
        if let CallEvent::Failed(error) = event {
            return Err(error);
        }
        if explain && matches!(event, CallEvent::Finished(_)) {
            encoder.note(note(&running).await);
        }
        if let Some(body) = encoder.event(&event) {
            return Ok(reply::json(body));
        }
    }
    Err(ApiError::new(ErrorKind::Internal, "The call ended without a last event"))
}

fn stream(running: Running, meter: Meter, encoder: Encoder, explain: bool) -> Response<Body> {
    let state = Stream { running, meter, encoder, explain, ended: false };
    let frames = futures_util::stream::unfold(state, |mut state| async move {
        let frame = state.next().await?;
        Some((Ok::<_, std::convert::Infallible>(frame), state))
    });
    let mut response = reply::typed("text/event-stream", Body::from_stream(frames));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A streamed answer; dropped when the client leaves, which cancels the call.
struct Stream {
    running: Running,
    meter: Meter,
    encoder: Encoder,
    explain: bool,
    ended: bool,
}

impl Stream {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            let Ok(event) = tokio::time::timeout(KEEP_ALIVE, self.running.next()).await else {
                return Some(Bytes::from_static(self.encoder.heartbeat().as_bytes()));
            };
            let event = event?;
            self.meter.see(&event);
            if self.explain && matches!(event, CallEvent::Finished(_)) {
                self.encoder.note(note(&self.running).await);
            }
            if let CallEvent::Failed(error) = &event {
                // The stream ends without its last event: what came is not a whole answer.
                tracing::debug!(code = error.word(), "a stream failed: {}", error.message);
            }
            self.ended = matches!(event, CallEvent::Finished(_) | CallEvent::Failed(_));
            if let Some(frames) = self.encoder.event(&event) {
                return Some(Bytes::from(frames));
            }
        }
        None
    }
}

/// Whether the request asks why it reused less than it could.
fn wants_explanation(headers: &HeaderMap) -> bool {
    headers.get(EXPLAIN).is_some_and(|value| matches!(value.as_bytes(), b"1" | b"true"))
}

/// What Tapri has to say about a call: what was reused and, where it was less than it could be, why.
fn note(running: &Running) -> impl Future<Output = serde_json::Value> + Send + use<> {
    let reuse = running.admission().reuse;
    let explanation = running.explanation();
    let exact = running.exact().map(|exact| exact.outcome);
    let stored = running.is_kept();
    async move {
        let mut note = serde_json::json!({
            "prompt_tokens": reuse.map(|reuse| reuse.prompt),
            // As in the usage; of those, what was found, how much of that on disk, and what another call was computing.
            "cached_tokens": reuse.map(|reuse| reuse.reused()),
            "hit_tokens": reuse.map(|reuse| reuse.cached),
            "restored_tokens": reuse.map(|reuse| reuse.restored),
            "joined_tokens": reuse.map(|reuse| reuse.joined),
            "stop": reuse.map(|reuse| reuse.stop.as_str()),
            "explanation": explanation.await,
        });
        if let (Some(exact), Some(note)) = (exact, note.as_object_mut()) {
            note.insert("exact".to_owned(), serde_json::json!(exact));
            note.insert("stored".to_owned(), serde_json::json!(stored));
        }
        note
    }
}

/// The conversation or the document that a request names in a header.
fn named(headers: &HeaderMap, header: &str) -> Option<String> {
    let name = headers.get(header)?.to_str().ok()?.trim();
    (!name.is_empty()).then(|| name.chars().take(128).collect())
}

/// All `Cache-Control` lines of a request together.
pub(super) fn cache_directives(headers: &HeaderMap) -> CacheDirectives {
    headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(CacheDirectives::parse)
        .fold(CacheDirectives::default(), CacheDirectives::and)
}
