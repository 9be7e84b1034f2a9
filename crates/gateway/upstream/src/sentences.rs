//! A sentence encoder in this process, as a [`Backend`] that answers `/v1/embeddings`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tapri_api::openai::embeddings;
use tapri_api::usage::Parts;
use tapri_api::{
    Admission, ApiError, Call, CallEvent, ErrorKind, Finish, FinishReason, Format, Inbound, Piece,
    Prompt, Raw, Timings, Usage,
};
use tapri_embed::Embedder;

use crate::{Answer, Backend, BackendStats, CallStream, EventSource, ModelCard};

/// Opens the encoder; the error is for the operator.
type Open = dyn Fn() -> Result<Embedder, String> + Send + Sync;

/// A sentence encoder. It is opened by the first call: what nobody asks for takes no memory.
#[derive(Clone)]
pub struct Sentences {
    card: Arc<ModelCard>,
    open: Arc<Open>,
    opened: Arc<Mutex<Option<Embedder>>>,
}

impl std::fmt::Debug for Sentences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sentences").field("id", &self.card.id).finish_non_exhaustive()
    }
}

/// What an encoder is called.
#[derive(Debug, Clone)]
pub struct SentencesCard {
    /// The name it is served under.
    pub id: String,
    /// Tokens of a text that it reads.
    pub context: usize,
    /// Changes when the weights do.
    pub fingerprint: String,
}

impl Sentences {
    /// An encoder that `open` opens, on a thread that may wait, when it is needed.
    pub fn new(
        card: SentencesCard,
        open: impl Fn() -> Result<Embedder, String> + Send + Sync + 'static,
    ) -> Self {
        let SentencesCard { id, context, fingerprint } = card;
        let card = ModelCard {
            id,
            aliases: Vec::new(),
            context: Some(context),
            vocabulary: None,
            template: None,
            fingerprint,
            since: SystemTime::now(),
            upstream: crate::backend::EMBEDDED.to_owned(),
        };
        Sentences { card: Arc::new(card), open: Arc::new(open), opened: Arc::default() }
    }

    /// The encoder. Who comes while it is being opened waits, so that it is opened once.
    fn embedder(&self) -> Result<Embedder, ApiError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(embedder) = &*opened {
            return Ok(embedder.clone());
        }
        let embedder = (self.open)().map_err(|error| {
            tracing::error!(
                model = self.card.id,
                "the sentence encoder could not be opened: {error}"
            );
            failed("The model could not be opened")
        })?;
        Ok(opened.insert(embedder).clone())
    }

    /// Blocks while it computes.
    fn answer(&self, inbound: &Inbound) -> Result<(String, usize), ApiError> {
        let request = embeddings::parse(inbound)?;
        let embedder = self.embedder()?;
        if let (Some(asked), Some(has)) = (request.dimensions, embedder.dimensions())
            && asked != has
        {
            let message =
                format!("`dimensions` is {asked}, and this model's vectors have {has} numbers");
            return Err(ApiError::invalid("dimensions", message)
                .code("unsupported_field")
                .hint("Leave it out; it was not trained to be shortened"));
        }
        let texts: Vec<&str> = request.inputs.iter().map(String::as_str).collect();
        let found = embedder.embed(&texts).map_err(|error| {
            tracing::error!(model = self.card.id, "{error}");
            failed("The model failed on this call")
        })?;
        if let Some(at) = found.iter().position(|one| one.truncated) {
            let field = if found.len() == 1 { "input".to_owned() } else { format!("input[{at}]") };
            let message = format!(
                "`{field}` is longer than the {} tokens that this model reads",
                self.card.context.unwrap_or_default()
            );
            return Err(ApiError::invalid(field, message)
                .code("context_length_exceeded")
                .hint("Shorten it, or cut it into parts"));
        }
        let tokens = found.iter().map(|one| one.tokens).sum();
        let model = inbound.model.as_deref().unwrap_or(&self.card.id);
        let vectors = found.iter().map(|one| &*one.vector);
        Ok((embeddings::body(model, vectors, request.encoding, tokens), tokens))
    }

    fn refuse<T>(&self, what: &str) -> Answer<T> {
        let error = ApiError::new(
            ErrorKind::Invalid,
            format!("The model '{}' gives vectors for texts, and does not {what}", self.card.id),
        )
        .at("model")
        .code("unsupported_format")
        .hint("Send the texts to /v1/embeddings, or name another model");
        Box::pin(async move { Err(error) })
    }
}

fn failed(message: &str) -> ApiError {
    ApiError::new(ErrorKind::Internal, message).code("engine_failed").hint("See the server's log")
}

impl Backend for Sentences {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        vec![Arc::clone(&self.card)]
    }

    fn name(&self) -> &str {
        crate::backend::EMBEDDED
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        let Prompt::Request(inbound) = call.prompt else { return self.refuse("generate") };
        if inbound.format != Format::Embeddings {
            return self.refuse("generate");
        }
        let this = self.clone();
        Box::pin(async move {
            let started = std::time::Instant::now();
            let work = tokio::task::spawn_blocking(move || this.answer(&inbound));
            // A panic in there is a defect; the caller of one call is told, and the others go on.
            let (body, tokens) =
                work.await.unwrap_or_else(|_| Err(failed("The model failed on this call")))?;
            let raw =
                Raw { format: Format::Embeddings, event: None, data: body.into(), whole: true };
            let finish = Finish {
                reason: FinishReason::Stop,
                matched_stop: None,
                tail: String::new(),
                usage: Usage::of(Parts {
                    prompt: Some(tokens),
                    answer: Some(0),
                    ..Parts::default()
                }),
                raw: None,
                timings: Timings { total: started.elapsed(), ..Timings::default() },
            };
            let admission = Admission {
                reuse: None,
                queued: Duration::ZERO,
                template: None,
                prompt_ids: None,
                dropped: Vec::new(),
            };
            let events = [
                CallEvent::Admitted(admission),
                CallEvent::Piece(Piece { raw: Some(raw), deltas: Vec::new() }),
                CallEvent::Finished(finish),
            ];
            Ok(CallStream::new(Ready(events.into_iter())))
        })
    }

    fn tokenize(&self, _: Prompt) -> Answer<Vec<u32>> {
        self.refuse("show its tokens")
    }

    fn tokenize_piece(&self, _: String) -> Answer<Vec<u32>> {
        self.refuse("show its tokens")
    }

    fn detokenize(&self, _: Vec<u32>) -> Answer<String> {
        self.refuse("show its tokens")
    }

    fn stats(&self) -> Option<BackendStats> {
        None
    }

    fn shutdown(&self, _: Duration) {}
}

/// Events that are there already.
struct Ready(std::array::IntoIter<CallEvent, 3>);

impl EventSource for Ready {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(std::future::ready(self.0.next()))
    }
}
