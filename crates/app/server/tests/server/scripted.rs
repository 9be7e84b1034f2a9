//! A backend that plays what it is told: for troubles that the real engine gives only rarely.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use tapri_api::{
    Admission, ApiError, Call, CallEvent, Finish, FinishReason, Prompt, Reuse, ReuseStop,
    TemplateUse, Timings, Token, Usage,
};
use tapri_pipeline::{Backend, BackendStats, ModelCard, Pipeline};
use tapri_server::{App, ServerConfig, router};
use tapri_upstream::{Answer, CallStream, EventSource};

/// What a call does.
#[derive(Clone)]
pub enum Step {
    /// Sends an event.
    Event(CallEvent),
    /// Says nothing until the call is dropped or the backend is shut down, which fails it.
    Hang,
    /// Ends without a last event, as an engine that died.
    Die,
}

/// The backend.
pub struct Scripted {
    card: Arc<ModelCard>,
    refusal: Option<ApiError>,
    /// Calls wait for it before their second event.
    gate: Option<Arc<tokio::sync::Semaphore>>,
    script: Vec<Step>,
    pub calls: Mutex<Vec<Call>>,
    /// Calls whose stream was dropped.
    pub dropped: Arc<AtomicUsize>,
    stopped: Arc<tokio::sync::Notify>,
    is_stopped: Arc<AtomicBool>,
}

impl Scripted {
    pub fn plays(script: Vec<Step>) -> Arc<Self> {
        Arc::new(Scripted {
            card: Arc::new(ModelCard {
                id: "tiny".into(),
                aliases: vec!["gpt-4o".into()],
                upstream: "scripted".into(),
                context: Some(1000),
                vocabulary: Some(100),
                template: Some(TemplateUse::Own),
                fingerprint: "0123456789".into(),
                since: SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            }),
            refusal: None,
            gate: None,
            script,
            calls: Mutex::default(),
            dropped: Arc::default(),
            stopped: Arc::default(),
            is_stopped: Arc::default(),
        })
    }

    /// Every call says its first event, and the rest after [`Scripted::go_on`].
    pub fn plays_slowly(script: Vec<Step>) -> Arc<Self> {
        let mut scripted = Scripted::plays(script);
        Arc::get_mut(&mut scripted).unwrap().gate = Some(Arc::new(tokio::sync::Semaphore::new(0)));
        scripted
    }

    /// Lets calls go on.
    pub fn go_on(&self) {
        self.gate.as_ref().unwrap().close();
    }

    pub fn refuses(error: ApiError) -> Arc<Self> {
        let mut scripted = Scripted::plays(Vec::new());
        Arc::get_mut(&mut scripted).unwrap().refusal = Some(error);
        scripted
    }
}

struct Play {
    gate: Option<Arc<tokio::sync::Semaphore>>,
    said: usize,
    steps: VecDeque<Step>,
    dropped: Arc<AtomicUsize>,
    stopped: Arc<tokio::sync::Notify>,
}

impl Drop for Play {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl EventSource for Play {
    fn next(&mut self) -> std::pin::Pin<Box<dyn Future<Output = Option<CallEvent>> + Send + '_>> {
        Box::pin(async {
            match self.steps.front().cloned() {
                None | Some(Step::Die) => None,
                Some(Step::Event(event)) => {
                    if self.said == 1
                        && let Some(gate) = &self.gate
                    {
                        // Closed is open here: nobody takes a permit.
                        let _ = gate.acquire().await;
                    }
                    self.said += 1;
                    self.steps.pop_front();
                    Some(event)
                }
                Some(Step::Hang) => {
                    self.stopped.notified().await;
                    self.stopped.notify_one();
                    let error = ApiError::new(
                        tapri_api::ErrorKind::Unavailable,
                        "The server is shutting down",
                    );
                    Some(CallEvent::Failed(error.code("shutting_down")))
                }
            }
        })
    }
}

impl Backend for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn models(&self) -> Vec<Arc<ModelCard>> {
        vec![Arc::clone(&self.card)]
    }

    fn start(&self, call: Call) -> Answer<CallStream> {
        self.calls.lock().unwrap().push(call);
        let result = match &self.refusal {
            Some(error) => Err(error.clone()),
            None => Ok(CallStream::new(Play {
                gate: self.gate.clone(),
                said: 0,
                steps: self.script.clone().into(),
                dropped: Arc::clone(&self.dropped),
                stopped: Arc::clone(&self.stopped),
            })),
        };
        Box::pin(async { result })
    }

    fn tokenize(&self, prompt: Prompt) -> Answer<Vec<u32>> {
        Box::pin(async move {
            Ok(if matches!(prompt, Prompt::Chat(_)) { vec![1, 2, 3] } else { vec![1, 2] })
        })
    }

    fn tokenize_piece(&self, _: String) -> Answer<Vec<u32>> {
        Box::pin(async { Ok(vec![2]) })
    }

    fn detokenize(&self, ids: Vec<u32>) -> Answer<String> {
        Box::pin(async move { Ok(format!("{ids:?}")) })
    }

    fn stats(&self) -> Option<BackendStats> {
        Some(BackendStats {
            prefix_queries: 1000,
            prefix_hits: 940,
            prefix_joined: 3,
            recomputed_tokens: 40,
            evicted_blocks: 4,
            evicted_window_blocks: 41,
            expired_blocks: 5,
            reset_blocks: 6,
            running: 1,
            blocks_used: 1,
            blocks_total: 4,
            block_bytes: 100,
            ..Default::default()
        })
    }

    fn shutdown(&self, _: Duration) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.stopped.notify_one();
    }
}

pub fn admitted(cached: usize, stop: ReuseStop) -> Step {
    Step::Event(CallEvent::Admitted(Admission {
        reuse: Some(Reuse { prompt: 100, cached, restored: 0, joined: 0, stop, other_scope: true }),
        queued: Duration::ZERO,
        template: Some(TemplateUse::ChatMlFallback),
        prompt_ids: None,
        dropped: Vec::new(),
    }))
}

pub fn token(text: &str) -> Step {
    Step::Event(CallEvent::Token(Token { id: 5, text: text.into(), logprobs: None }))
}

pub fn finished() -> Step {
    Step::Event(CallEvent::Finished(Finish {
        reason: FinishReason::Stop,
        matched_stop: None,
        tail: String::new(),
        usage: Usage::from_prompt(100, 96, 0, 2),
        raw: None,
        timings: Timings { first_token: Some(Duration::from_millis(3)), ..Timings::default() },
    }))
}

pub fn whole_call() -> Vec<Step> {
    vec![admitted(96, ReuseStop::Complete), token("Hello"), token(" there"), finished()]
}

pub fn app(backend: &Arc<Scripted>, config: ServerConfig) -> axum::Router {
    router(App::new(&config, Pipeline::new(Arc::clone(backend) as Arc<dyn Backend>)))
}
