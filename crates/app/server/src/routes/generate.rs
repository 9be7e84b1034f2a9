//! `/v1/chat/completions` and `/v1/completions`.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use tapri_api::openai::{self, Chunks, Format, Head};
use tapri_api::{ApiError, CacheDirectives, CallEvent, CallId, ErrorKind, Origin, Outline};
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

/// `POST /v1/chat/completions`.
pub(super) async fn chat(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Chat, request).await
}

/// `POST /v1/completions`.
pub(super) async fn completion(State(app): State<App>, request: Request) -> Response<Body> {
    generate(app, Format::Text, request).await
}

async fn generate(app: App, format: Format, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let mut origin = Origin::of(match format {
        Format::Chat => "/v1/chat/completions",
        Format::Text => "/v1/completions",
    });
    let read = async {
        let caller = Caller::of(&parts.extensions)?;
        origin.tenant = caller.name().to_owned().into();
        let bytes = body::read_json(&parts.headers, body, app.inner.body_limit).await?;
        let mut request = match format {
            Format::Chat => openai::chat::parse(&bytes),
            Format::Text => openai::completion::parse(&bytes),
        }?;
        if let Some(route) = caller.route(&parts.headers, request.call.model.as_deref())? {
            origin.route = route.name.clone().into();
        }
        let answer = request.call.max_tokens.map(|tokens| tokens as u64);
        let entry = caller.enter(Size { body: bytes.len(), answer })?;
        caller.sign(&mut request.call);
        request.call.outline = Some(Outline::Body(bytes));
        Ok((request, caller, entry))
    };
    let (mut request, caller, entry) = match read.await {
        Ok(read) => read,
        Err(error) => {
            let id = CallId::random();
            app.pipeline().refused(id, &origin, "", &error);
            let mut response = app.respond(Err(error));
            reply::request_id(response.headers_mut(), id);
            return response;
        }
    };
    let conversation = conversation(&parts.headers).or(request.call.origin.conversation);
    request.call.origin = Origin { conversation, ..origin };
    request.call.cache = cache_directives(&parts.headers);
    let id = request.call.id;
    // What was reused tells what others asked; where that is hidden, so is the reason.
    let hide = app.inner.hide_cached || caller.hides_hits();
    let told = Told { hide, explain: wants_explanation(&parts.headers) && !hide };
    let result = answer(&app, format, request, entry, told).await;
    let mut response = app.respond(result.map_err(|error| caller.may_see(error)));
    reply::request_id(response.headers_mut(), id);
    response
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
    format: Format,
    request: openai::Request,
    entry: Entry,
    told: Told,
) -> Result<Response<Body>, ApiError> {
    let pipeline = app.pipeline();
    let id = request.call.id;
    let asked_for = request.call.model.clone();
    let Told { hide: hide_cached, explain } = told;
    let mut meter = Meter::begin(Arc::clone(&app.inner.metrics), Some(entry));
    let running = pipeline.start(request.call).await.inspect_err(|_| meter.failed())?;
    let card = pipeline.model(asked_for.as_deref())?;
    let head = Head {
        format,
        id: Head::answer_id(format, id),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        // The name that was asked for, be it another name of the model.
        model: asked_for.unwrap_or_else(|| card.id.clone()),
        fingerprint: format!("fp_{}", card.fingerprint),
        hide_cached,
    };
    meter.admitted();
    let admission = running.admission();
    if let Some(reuse) = &admission.reuse {
        tracing::debug!(
            call = %id,
            prompt = reuse.prompt,
            cached = reuse.cached,
            joined = reuse.joined,
            stop = %reuse.stop,
            other_scope = reuse.other_scope,
            "admitted"
        );
    }
    let mut headers = HeaderMap::new();
    let status = (!hide_cached).then(|| running.cache_status());
    reply::call_headers(&mut headers, id, status.as_ref(), admission.template);
    let mut response = if request.stream {
        stream(running, meter, Chunks::new(head, request.include_usage), explain)
    } else {
        whole(running, meter, openai::Body::new(head), explain).await?
    };
    response.headers_mut().extend(headers);
    Ok(response)
}

async fn whole(
    mut running: Running,
    mut meter: Meter,
    mut body: openai::Body,
    explain: bool,
) -> Result<Response<Body>, ApiError> {
    while let Some(event) = running.next().await {
        meter.see(&event);
        if let CallEvent::Failed(error) = event {
            return Err(error);
        }
        if explain && matches!(event, CallEvent::Finished(_)) {
            body.note(note(&running).await);
        }
        if let Some(body) = body.event(&event) {
            return Ok(reply::json(body));
        }
    }
    Err(ApiError::new(ErrorKind::Internal, "The call ended without a last event"))
}

fn stream(running: Running, meter: Meter, chunks: Chunks, explain: bool) -> Response<Body> {
    let first = chunks.first();
    let state = Stream { running, meter, chunks, first, explain, ended: false };
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
    chunks: Chunks,
    /// Sent together with the first text, so that a client that times its first chunk times the first token.
    first: Option<String>,
    explain: bool,
    ended: bool,
}

impl Stream {
    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        while !self.ended {
            let Ok(event) = tokio::time::timeout(KEEP_ALIVE, self.running.next()).await else {
                return Some(Bytes::from_static(b": still at it\n\n"));
            };
            let event = event?;
            self.meter.see(&event);
            if self.explain && matches!(event, CallEvent::Finished(_)) {
                self.chunks.note(note(&self.running).await);
            }
            let frame = self.frame(&event);
            if !frame.is_empty() {
                return Some(Bytes::from(frame));
            }
        }
        None
    }

    fn frame(&mut self, event: &CallEvent) -> String {
        let mut frame = String::new();
        let mut push = |data: &str| {
            frame.push_str("data: ");
            frame.push_str(data);
            frame.push_str("\n\n");
        };
        if let CallEvent::Failed(error) = event {
            // The stream ends without `[DONE]`: what came is not a whole answer.
            tracing::debug!(code = error.word(), "a stream failed: {}", error.message);
            push(&openai::error::render(error));
            self.ended = true;
            return frame;
        }
        let chunks = self.chunks.event(event);
        if !chunks.is_empty() {
            if let Some(first) = self.first.take() {
                push(&first);
            }
            chunks.iter().for_each(|chunk| push(chunk));
        }
        if matches!(event, CallEvent::Finished(_)) {
            push("[DONE]");
            self.ended = true;
        }
        frame
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
    async move {
        serde_json::json!({
            "prompt_tokens": reuse.map(|reuse| reuse.prompt),
            "cached_tokens": reuse.map(|reuse| reuse.cached),
            "joined_tokens": reuse.map(|reuse| reuse.joined),
            "stop": reuse.map(|reuse| reuse.stop.as_str()),
            "explanation": explanation.await,
        })
    }
}

/// The conversation that a request names in a header.
fn conversation(headers: &HeaderMap) -> Option<String> {
    let name = headers.get(CONVERSATION)?.to_str().ok()?.trim();
    (!name.is_empty()).then(|| name.chars().take(128).collect())
}

/// All `Cache-Control` lines of a request together.
fn cache_directives(headers: &HeaderMap) -> CacheDirectives {
    headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .map(CacheDirectives::parse)
        .fold(CacheDirectives::default(), CacheDirectives::and)
}
