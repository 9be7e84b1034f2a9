//! The engine in this process, as a [`Backend`].

mod constrain;
mod convert;
mod lower;
mod prompt;

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tapri_api::{ApiError, Call, CallEvent, ErrorKind, Prompt, TemplateUse};
use tapri_engine::{CallHandle, Engine, GenerateEvent, GenerateRequest, TokenId};

use crate::{Answer, Backend, BackendStats, CallStream, EventSource, ModelCard};

/// The embedded engine. Templates and tokenizers run on tokio's threads for blocking work, the model on the
/// engine's own.
#[derive(Debug, Clone)]
pub struct Embedded {
    engine: Engine,
    card: Arc<ModelCard>,
}

impl Embedded {
    /// An engine that runs, served under a name (and others besides).
    pub fn new(engine: Engine, id: impl Into<String>, aliases: Vec<String>) -> Self {
        let model = engine.model();
        let card = ModelCard {
            id: id.into(),
            aliases,
            upstream: "embedded".to_owned(),
            context: Some(model.context_length),
            vocabulary: Some(model.vocabulary),
            template: Some(template_use(&engine)),
            // Ten digits tell builds apart; the whole digest is the cache's business.
            fingerprint: model
                .fingerprint
                .iter()
                .take(5)
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            since: SystemTime::now(),
        };
        Embedded { engine, card: Arc::new(card) }
    }

    /// The engine itself.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs work that takes milliseconds off the threads that serve sockets.
    fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine) -> Result<T, ApiError> + Send + 'static,
    ) -> impl Future<Output = Result<T, ApiError>> + Send + 'static {
        let engine = self.engine.clone();
        async move {
            // A panic in there is a defect; the caller of one call is told, and the others go on.
            tokio::task::spawn_blocking(move || work(&engine)).await.unwrap_or_else(|_| {
                Err(ApiError::new(ErrorKind::Internal, "The prompt could not be prepared")
                    .code("prompt_failed"))
            })
        }
    }
}

fn template_use(engine: &Engine) -> TemplateUse {
    if engine.template().is_fallback() { TemplateUse::ChatMlFallback } else { TemplateUse::Own }
}

impl Backend for Embedded {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        vec![Arc::clone(&self.card)]
    }

    fn name(&self) -> &str {
        "embedded"
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        let engine = self.engine.clone();
        let request = self.off_thread(move |engine| {
            let call = lower::read(call)?;
            let chat = matches!(call.prompt, Prompt::Chat(_));
            let field = prompt::field(&call.prompt);
            let request = request(engine, call)?;
            let prompt_ids: Arc<[u32]> = request.prompt.iter().map(|id| id.0).collect();
            Ok((request, prompt_ids, chat, field))
        });
        Box::pin(async move {
            let (request, prompt_ids, chat, field) = request.await?;
            // Submitted only now: a client that left meanwhile has dropped this future.
            let handle = engine.submit(request).map_err(|error| convert::refusal(error, field))?;
            let template = chat.then(|| template_use(&engine));
            Ok(CallStream::new(Events { handle, template, field, prompt_ids: Some(prompt_ids) }))
        })
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        Box::pin(self.off_thread(|engine| {
            let tokens = prompt::tokens(engine, prompt)?;
            Ok(tokens.into_iter().map(|id| id.0).collect())
        }))
    }

    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>> {
        Box::pin(self.off_thread(move |engine| {
            Ok(prompt::piece(engine, &text).into_iter().map(|id| id.0).collect())
        }))
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        Box::pin(self.off_thread(move |engine| prompt::text(engine, &ids)))
    }

    fn stats(&self) -> Option<BackendStats> {
        Some(convert::stats(&self.engine.stats()))
    }

    fn shutdown(&self, limit: Duration) {
        self.engine.shutdown(limit);
    }
}

fn request(engine: &Engine, call: Call) -> Result<GenerateRequest, ApiError> {
    let grammar = constrain::output(&call.output);
    let constraint = grammar
        .map(|grammar| constrain::compile(engine, &grammar, constrain::output_field(&call.origin)))
        .transpose()?;
    let prompt = prompt::tokens(engine, call.prompt)?;
    Ok(GenerateRequest {
        prompt,
        scope: tapri_engine::Scope(call.scope.0),
        salt: call.salt.map(|salt| salt.as_str().to_owned()),
        // The engine ends an answer where the context does.
        max_tokens: call.max_tokens.unwrap_or(engine.model().context_length),
        sampling: tapri_engine::Sampling {
            temperature: call.sampling.temperature,
            top_k: call.sampling.top_k,
            top_p: call.sampling.top_p,
            min_p: call.sampling.min_p,
            seed: call.sampling.seed,
            presence_penalty: call.sampling.presence_penalty,
            frequency_penalty: call.sampling.frequency_penalty,
            logit_bias: bias(call.sampling.logit_bias),
        },
        stop: tapri_engine::StopRules {
            strings: call.stop.strings,
            tokens: call.stop.token_ids.into_iter().map(TokenId).collect(),
            ignore_eos: call.stop.ignore_eos,
        },
        logprobs: call.logprobs,
        cache: tapri_engine::CacheUse {
            read: call.cache.may_read(),
            store: call.cache.may_store(),
        },
        constraint,
    })
}

fn bias(biases: Vec<(u32, f32)>) -> Vec<(TokenId, f32)> {
    biases.into_iter().map(|(token, bias)| (TokenId(token), bias)).collect()
}

/// A call's events; dropping them drops the handle, which cancels the call.
struct Events {
    handle: CallHandle,
    template: Option<TemplateUse>,
    field: &'static str,
    /// For the admission, which takes them.
    prompt_ids: Option<Arc<[u32]>>,
}

impl EventSource for Events {
    fn next(&mut self) -> Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(async {
            let event = self.handle.next_async().await?;
            Some(match event {
                GenerateEvent::Admitted(admitted) => {
                    let prompt_ids = self.prompt_ids.take();
                    CallEvent::Admitted(convert::admission(&admitted, self.template, prompt_ids))
                }
                GenerateEvent::Prefill { ready, total } => CallEvent::Prefill { ready, total },
                GenerateEvent::Token(token) => CallEvent::Token(convert::token(token)),
                GenerateEvent::Done(outcome) => convert::outcome(outcome),
                GenerateEvent::Failed(error) => {
                    CallEvent::Failed(convert::failure(&error, self.field))
                }
            })
        })
    }
}
