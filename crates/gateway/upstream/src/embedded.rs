//! The engine in this process, as a [`Backend`].

mod answers;
mod constrain;
mod convert;
mod lower;
mod prompt;
mod told;
mod tools;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tapri_api::{ApiError, Call, ErrorKind, Prompt, TemplateUse, TenantScope};
use tapri_engine::{Constraint, Engine, GenerateEvent, GenerateRequest, TokenId};

use crate::{
    Answer, Backend, BackendStats, CallStream, Erased, Holdings, ModelCard, Pin, Pinned, Pins,
    PrefixMap, Whose,
};
use answers::{Answers, Shape};
use constrain::Names;
use told::Told;
use tools::{Dialect, Parser};

/// How long someone who wants to see the KV memory waits for a step to end: a chunk of a large model takes seconds.
const PICTURE_LIMIT: Duration = Duration::from_secs(5);

/// The embedded engine; each of its adapters is a model of its own. Templates and tokenizers run on tokio's threads for blocking work, the model on the
/// engine's own.
#[derive(Debug, Clone)]
pub struct Embedded {
    engine: Engine,
    card: Arc<ModelCard>,
    adapters: Vec<Arc<ModelCard>>,
    dialect: Arc<Dialect>,
}

impl Embedded {
    /// An engine that runs, served under a name (and others besides). Its adapters are served under theirs, which must not be
    /// among the model's: that name would mean the model.
    pub fn new(engine: Engine, id: impl Into<String>, aliases: Vec<String>) -> Self {
        let model = engine.model();
        let card = ModelCard {
            id: id.into(),
            aliases,
            upstream: crate::backend::EMBEDDED.to_owned(),
            context: Some(model.context_length),
            vocabulary: Some(model.vocabulary),
            template: Some(template_use(&engine)),
            fingerprint: digits(&model.fingerprint),
            since: SystemTime::now(),
        };
        let adapters = model.adapters.iter().map(|adapter| {
            Arc::new(ModelCard {
                id: adapter.name.clone(),
                aliases: Vec::new(),
                fingerprint: digits(&adapter.fingerprint),
                ..card.clone()
            })
        });
        let adapters = adapters.collect();
        let dialect = Arc::new(Dialect::of(&engine));
        Embedded { engine, card: Arc::new(card), adapters, dialect }
    }

    /// The engine itself.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs work that takes milliseconds off the threads that serve sockets.
    fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Engine, &Dialect) -> Result<T, ApiError> + Send + 'static,
    ) -> impl Future<Output = Result<T, ApiError>> + Send + 'static {
        let engine = self.engine.clone();
        let dialect = Arc::clone(&self.dialect);
        async move {
            // A panic in there is a defect; the caller of one call is told, and the others go on.
            tokio::task::spawn_blocking(move || work(&engine, &dialect)).await.unwrap_or_else(
                |_| {
                    Err(ApiError::new(ErrorKind::Internal, "The prompt could not be prepared")
                        .code("prompt_failed"))
                },
            )
        }
    }
}

/// Ten digits tell builds apart; the whole digest is the prefix cache's business.
fn digits(fingerprint: &[u8; 32]) -> String {
    fingerprint.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

fn template_use(engine: &Engine) -> TemplateUse {
    if engine.template().is_fallback() { TemplateUse::ChatMlFallback } else { TemplateUse::Own }
}

impl Backend for Embedded {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        std::iter::once(&self.card).chain(&self.adapters).cloned().collect()
    }

    /// Without a name the model itself, whatever adapters there are.
    fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        match name {
            None => Ok(Arc::clone(&self.card)),
            Some(name) => self.card(name).ok_or_else(|| crate::unknown_model(name, &self.models())),
        }
    }

    fn name(&self) -> &str {
        crate::backend::EMBEDDED
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        let engine = self.engine.clone();
        let dialect = Arc::clone(&self.dialect);
        let prepared = self.off_thread(|engine, dialect| Prepared::new(engine, dialect, call));
        Box::pin(async move {
            let Prepared { request, choices, shape } = prepared.await?;
            let field = shape.field;
            // Submitted only now: a client that left meanwhile has dropped this future.
            let handles = engine
                .submit_choices(request, choices)
                .map_err(|error| convert::refusal(error, field))?;
            Ok(CallStream::new(Answers::new(handles, shape, dialect)))
        })
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        Box::pin(self.off_thread(|engine, dialect| {
            let tokens = prompt::tokens_alone(engine, dialect, prompt)?;
            Ok(tokens.into_iter().map(|id| id.0).collect())
        }))
    }

    fn tokenize_call(&self, call: Call) -> Answer<Vec<u32>> {
        Box::pin(self.off_thread(move |engine, dialect| {
            let tokens = prompt::tokens(engine, dialect, &call)?;
            Ok(tokens.into_iter().map(|id| id.0).collect())
        }))
    }

    fn tokenize_piece(&self, text: String) -> Answer<Vec<u32>> {
        Box::pin(self.off_thread(move |engine, _| {
            Ok(prompt::piece(engine, &text).into_iter().map(|id| id.0).collect())
        }))
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        Box::pin(self.off_thread(move |engine, _| prompt::text(engine, &ids)))
    }

    fn erase(&self, whose: Option<Whose>) -> Answer<Option<Erased>> {
        Box::pin(self.off_thread(move |engine, _| {
            let report = match whose {
                Some(whose) => engine.forget(&tapri_engine::Scope(whose.scope.0)),
                None => engine.reset_prefix_cache(),
            };
            let report = report.map_err(|error| convert::refusal(error, "prompt"))?;
            Ok(Some(Erased {
                dropped: report.dropped as u64,
                in_use: report.in_use as u64,
                pins: report.pins as u64,
            }))
        }))
    }

    fn pin(&self, call: Call) -> Answer<Pinned> {
        let engine = self.engine.clone();
        let prepared = self.off_thread(|engine, dialect| Prepared::new(engine, dialect, call));
        Box::pin(async move {
            let Prepared { request, shape, .. } = prepared.await?;
            let field = shape.field;
            let request = GenerateRequest {
                max_tokens: 0,
                pin: true,
                prompt_logprobs: None,
                constraint: None,
                ..request
            };
            let mut handle =
                engine.submit(request).map_err(|error| convert::refusal(error, field))?;
            let (mut prompt, mut cached) = (0, 0);
            while let Some(event) = handle.next_async().await {
                match event {
                    GenerateEvent::Admitted(it) => {
                        (prompt, cached) = (it.prompt_tokens, it.cached_tokens + it.joined_tokens);
                    }
                    GenerateEvent::Done(outcome) => {
                        let pin = outcome.pinned.map(shown).ok_or_else(lost)?;
                        return Ok(Pinned { pin, prompt, cached });
                    }
                    GenerateEvent::Failed(error) => return Err(convert::failure(&error, field)),
                    _ => {}
                }
            }
            Err(lost())
        })
    }

    fn pins(&self, whose: Whose) -> Answer<Option<Pins>> {
        Box::pin(self.off_thread(move |engine, _| {
            let scope = tapri_engine::Scope(whose.scope.0);
            let pins = engine.pins(&scope).map_err(|error| convert::refusal(error, "prompt"))?;
            Ok(Some(Pins {
                pins: pins.pins.into_iter().map(shown).collect(),
                limit_bytes: pins.limit_bytes,
            }))
        }))
    }

    fn unpin(&self, whose: Whose, id: u64) -> Answer<bool> {
        Box::pin(self.off_thread(move |engine, _| {
            let gone = engine.unpin(&tapri_engine::Scope(whose.scope.0), id);
            gone.map_err(|error| convert::refusal(error, "prompt"))
        }))
    }

    fn prefix_map(&self, scopes: Vec<TenantScope>, limit: usize) -> Answer<Option<PrefixMap>> {
        let scopes = scopes.into_iter().map(|scope| tapri_engine::Scope(scope.0)).collect();
        Box::pin(self.off_thread(move |engine, _| {
            let shown = engine.picture(scopes, limit, PICTURE_LIMIT).map_err(not_shown)?;
            Ok(Some(PrefixMap::of(shown)))
        }))
    }

    fn holdings(&self, scopes: Vec<TenantScope>) -> Answer<Option<Holdings>> {
        let scopes = scopes.into_iter().map(|scope| tapri_engine::Scope(scope.0)).collect();
        Box::pin(self.off_thread(move |engine, _| {
            let shown = engine.holdings(scopes, PICTURE_LIMIT).map_err(not_shown)?;
            Ok(Some(Holdings::of(&shown)))
        }))
    }

    fn stats(&self) -> Option<BackendStats> {
        Some(convert::stats(&self.engine.stats()))
    }

    fn shutdown(&self, limit: Duration) {
        self.engine.shutdown(limit);
    }
}

fn not_shown(error: tapri_engine::PictureError) -> ApiError {
    ApiError::new(ErrorKind::Unavailable, format!("The KV memory can't be shown: {error}"))
        .code("engine_busy")
        .hint("Ask again in a moment")
}

fn shown(pin: tapri_engine::Pin) -> Pin {
    let tapri_engine::Pin { id, tokens, blocks, bytes } = pin;
    Pin { id, tokens, blocks, bytes }
}

/// A call that is to pin ends with a pin or an error.
fn lost() -> ApiError {
    ApiError::new(ErrorKind::Internal, "The start could not be pinned").code("pin_failed")
}

/// A call, ready for the engine.
struct Prepared {
    request: GenerateRequest,
    choices: usize,
    shape: Shape,
}

impl Prepared {
    fn new(engine: &Engine, dialect: &Dialect, call: Call) -> Result<Self, ApiError> {
        let names = Names::of(&call);
        let call = lower::read(call)?;
        let field = prompt::field(&call.prompt);
        let choices = call.choices;
        let constraint = constraint(engine, dialect, &call, names)?;
        let parser = Parser::new(dialect.form, &call);
        let prompt = prompt::tokens(engine, dialect, &call)?;
        let is_chat = matches!(call.prompt, Prompt::Chat(_));
        let shape = Shape {
            template: is_chat.then(|| template_use(engine)),
            field,
            prompt_ids: prompt.iter().map(|id| id.0).collect(),
            parser,
            told: Told::of(engine, &call, &prompt),
        };
        Ok(Prepared { request: request(engine, call, prompt, constraint), choices, shape })
    }
}

/// What the answer is held to: a shape of its text, calls of tools, or both.
fn constraint(
    engine: &Engine,
    dialect: &Dialect,
    call: &Call,
    names: Names,
) -> Result<Option<Constraint>, ApiError> {
    let Some(grammar) = tools::answer(dialect, call, names)? else { return Ok(None) };
    if call.tools.is_empty() {
        return constrain::compile(engine, &grammar, names.output).map(Some);
    }
    engine
        .constrain(&grammar)
        .or_else(|error| match tools::fallback(dialect, call, names) {
            Ok(Some(loose)) if call.tools.iter().any(|tool| !tool.strict) => {
                engine.constrain(&loose)
            }
            _ => Err(error),
        })
        .map(Some)
        .map_err(|error| constrain::refusal(&error, "tools"))
}

fn request(
    engine: &Engine,
    call: Call,
    prompt: Vec<TokenId>,
    constraint: Option<Constraint>,
) -> GenerateRequest {
    let prompt_logprobs = told::rows(&call);
    // A name that isn't an adapter's is one of the model's own.
    let adapters = &engine.model().adapters;
    let adapter = call.model.filter(|name| adapters.iter().any(|it| it.name == *name));
    GenerateRequest {
        adapter,
        prompt,
        scope: tapri_engine::Scope(call.scope.0),
        kv_share: call.kv_share,
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
            repetition_penalty: call.sampling.repetition_penalty,
            logit_bias: bias(call.sampling.logit_bias),
        },
        stop: tapri_engine::StopRules {
            strings: call.stop.strings,
            tokens: call.stop.token_ids.into_iter().map(TokenId).collect(),
            ignore_eos: call.stop.ignore_eos,
        },
        logprobs: call.logprobs,
        prompt_logprobs,
        pin: false,
        cache: tapri_engine::CacheUse {
            read: call.cache.may_read(),
            store: call.cache.may_store(),
        },
        constraint,
    }
}

fn bias(biases: Vec<(u32, f32)>) -> Vec<(TokenId, f32)> {
    biases.into_iter().map(|(token, bias)| (TokenId(token), bias)).collect()
}
