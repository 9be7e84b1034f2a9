//! Sockets, and the endpoints that control what is played.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::asked::{Api, Asked};
use crate::play::Play;
use crate::prefix::{CacheConfig, Found, PrefixCache, Prompt, TOKEN};
use crate::reply::{Reply, json_body};
use crate::script::Script;
use crate::seen::{Log, Mark, Running, Seen};

/// The largest body that is taken.
const BODY_LIMIT: usize = 64 << 20;

/// What can be set.
#[derive(Debug, Clone)]
pub struct FakeConfig {
    /// Where to listen; port 0 takes a free one.
    pub address: SocketAddr,
    /// What is played where nothing else was asked for.
    pub script: Script,
    /// The played prefix cache; `None` says that nothing is ever cached.
    pub cache: Option<CacheConfig>,
    /// The models that `/v1/models` lists.
    pub models: Vec<String>,
    /// The credential that requests must have.
    pub key: Option<String>,
    /// How many requests are kept, and how many bytes of them.
    pub keep: (usize, usize),
}

impl Default for FakeConfig {
    fn default() -> Self {
        FakeConfig {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            script: Script::default(),
            cache: None,
            models: vec!["fake".to_owned()],
            key: None,
            keep: (10_000, 256 << 20),
        }
    }
}

/// A server that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    config: FakeConfig,
    log: Arc<Log>,
    control: Mutex<Control>,
    cache: Option<Mutex<PrefixCache>>,
    running: Arc<Running>,
}

#[derive(Debug)]
struct Control {
    default: Script,
    queue: VecDeque<Script>,
    /// How many requests of a model there were, for scripts that fail the first few.
    counts: HashMap<String, usize>,
}

/// The body of `PUT /__script`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Orders {
    #[serde(default)]
    default: Option<Script>,
    #[serde(default)]
    queue: Option<VecDeque<Script>>,
}

impl Fake {
    /// Takes the port and serves on tasks of this runtime.
    pub async fn start(config: FakeConfig) -> io::Result<Fake> {
        let listener = TcpListener::bind(config.address).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            log: Arc::new(Log::new(config.keep.0, config.keep.1)),
            control: Mutex::new(Control {
                default: config.script.clone(),
                queue: VecDeque::new(),
                counts: HashMap::new(),
            }),
            cache: config.cache.map(|cache| Mutex::new(PrefixCache::new(cache))),
            running: Arc::default(),
            config,
        });
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(accept(listener, Arc::clone(&shared), stopped));
        Ok(Fake { address, shared, stop, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base of its paths, without `/v1`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What the next request is answered with, behind those pushed before.
    pub fn push(&self, script: Script) {
        self.shared.control().queue.push_back(script);
    }

    /// What requests are answered with where nothing is in the queue and nothing in their model's name.
    pub fn always(&self, script: Script) {
        self.shared.control().default = script;
    }

    /// The latest requests, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.log.all()
    }

    /// The latest request.
    pub fn last(&self) -> Option<Seen> {
        self.seen().pop()
    }

    /// Requests in all.
    pub fn came(&self) -> u64 {
        self.shared.log.came()
    }

    /// Forgets what came.
    pub fn clear(&self) {
        self.shared.log.clear();
    }

    /// Requests that are being answered, and the most there were at once.
    pub fn running(&self) -> (usize, usize) {
        self.shared.running.counts()
    }

    /// Ends it, connections included.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        // A panic of its own is a defect that its tests show.
        let _ = self.task.await;
    }

    /// Serves until the process ends.
    pub async fn serve(self) {
        let _ = self.task.await;
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stopped: watch::Receiver<bool>) {
    let mut connections = tokio::task::JoinSet::new();
    let mut stop = stopped.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        // Too many open files, say: others may close theirs.
        let Ok((stream, _)) = accepted else { continue };
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        let mut stop = stopped.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&shared), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new());
            let connection = http.serve_connection(TokioIo::new(stream), service);
            // A connection that broke is what some scripts are for.
            tokio::select! {
                _ = connection => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
    connections.shutdown().await;
}

impl Shared {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, api: Api, body: &Bytes, credential: &str, asked: &Asked<'_>) -> Found {
        let plain = Found { prompt: (body.len() / TOKEN) as u64, ..Found::default() };
        let Some(cache) = &self.cache else { return plain };
        let Ok(Value::Object(body)) = serde_json::from_slice(body) else { return plain };
        let prompt = Prompt::read(api, &body);
        let salt = asked.cache_salt.as_ref().and_then(Value::as_str).unwrap_or("");
        cache.lock().unwrap_or_else(PoisonError::into_inner).look(&prompt, credential, salt)
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Play>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(io::Error::other)?;
    let bytes = body.to_bytes();
    if path.starts_with("/__") {
        return Ok(control(&shared, &parts.method, path, &bytes));
    }
    match path {
        "/health" => return Ok(json_body(StatusCode::OK, json!({"status": "ok"}).to_string())),
        "/v1/models" => return Ok(models(&shared)),
        _ => {}
    }
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let number = shared.log.add(path, headers, bytes.clone());
    let mark = Mark::new(Arc::clone(&shared.log), number, Running::begin(&shared.running));
    let request_id = format!("req_fake_{number:08}");
    let credential = parts
        .headers
        .get("authorization")
        .or_else(|| parts.headers.get("x-api-key"))
        .and_then(|value| value.to_str().ok())
        .map(|value| value.trim_start_matches("Bearer "))
        .unwrap_or("")
        .to_owned();
    let reply = Reply::new(request_id, mark, Api::of_path(path));
    let Some(api) = reply.api() else {
        return Ok(reply.error(404, &Script::error(404, "There is no such path")));
    };
    if shared.config.key.as_ref().is_some_and(|key| *key != credential) {
        return Ok(reply.error(401, &Script::error(401, "The credential is not known")));
    }
    let asked: Asked<'_> = match serde_json::from_slice(&bytes) {
        Ok(asked) => asked,
        Err(error) => return Ok(reply.error(400, &Script::error(400, &error.to_string()))),
    };
    let model = asked.model.as_deref().unwrap_or("fake");
    let script = match pick(&shared, model) {
        Ok(script) => script,
        Err(error) => return Ok(reply.error(400, &Script::error(400, &error))),
    };
    if let Some(Value::String(salt)) = &asked.cache_salt
        && (salt.is_empty() || salt.len() > 128 || salt.contains(['@', '/', '\\', '\0']))
    {
        let message = "Parameter 'cache_salt' must be a non-empty string if provided.";
        return Ok(reply.error(400, &Script::error(400, message)));
    }
    let streaming = asked.stream == Some(true);
    if script.delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(script.delay_ms)).await;
    }
    if script.hang_up {
        reply.hang_up();
        return Err(io::Error::other("hung up by the script"));
    }
    if let Some(status) = script.status.filter(|status| *status >= 400) {
        return Ok(reply.error(status, &script));
    }
    let found = shared.look(api, &bytes, &credential, &asked);
    shared.log.change(number, |seen| seen.cached = found.cached);
    let answer = Answer {
        api,
        number,
        model,
        script: &script,
        found,
        wants_usage: asked.wants_usage(),
        choices: asked.n.unwrap_or(1).clamp(1, 16),
        inputs: if api == Api::Embeddings { inputs(&bytes) } else { vec![String::new()] },
    };
    Ok(if streaming && !matches!(api, Api::Embeddings | Api::CountTokens) {
        reply.stream(&answer)
    } else {
        reply.body(&answer)
    })
}

/// The texts that are to be embedded; of token ids, an empty one.
fn inputs(body: &Bytes) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or(Value::Null);
    let text = |input: &Value| input.as_str().unwrap_or("").to_owned();
    match body.get("input") {
        // A list of numbers is one text.
        Some(Value::Array(list)) if list.first().is_some_and(|first| !first.is_number()) => {
            list.iter().map(text).collect()
        }
        Some(input) => vec![text(input)],
        None => vec![String::new()],
    }
}

/// The script of a request.
fn pick(shared: &Shared, model: &str) -> Result<Script, String> {
    let mut control = shared.control();
    if let Some(script) = control.queue.pop_front() {
        return Ok(script);
    }
    let mut script = match Script::of_model(model) {
        Some(script) => script?,
        None => control.default.clone(),
    };
    if let Some(first) = script.first {
        let count = control.counts.entry(model.to_owned()).or_default();
        *count += 1;
        if *count > first {
            script = Script { status: None, hang_up: false, cut_after: None, ..script };
        }
    }
    Ok(script)
}

fn models(shared: &Shared) -> Response<Play> {
    let data: Vec<Value> = shared
        .config
        .models
        .iter()
        .map(|id| json!({"id": id, "object": "model", "created": 0, "owned_by": "fake"}))
        .collect();
    json_body(StatusCode::OK, json!({"object": "list", "data": data}).to_string())
}

fn control(shared: &Shared, method: &Method, path: &str, body: &Bytes) -> Response<Play> {
    let ok = |value: Value| json_body(StatusCode::OK, value.to_string());
    match (method, path) {
        (&Method::GET, "/__requests") => {
            ok(shared.log.all().iter().map(Seen::show).collect::<Vec<_>>().into())
        }
        (&Method::DELETE, "/__requests") => {
            shared.log.clear();
            ok(json!({}))
        }
        (&Method::GET, "/__state") => ok(json!({
            "requests": shared.log.came(),
            "running": shared.running.counts().0,
            "most_running": shared.running.counts().1,
            "queue": shared.control().queue,
        })),
        (&Method::PUT, "/__script") => match serde_json::from_slice::<Orders>(body) {
            Ok(orders) => {
                let mut control = shared.control();
                if let Some(default) = orders.default {
                    control.default = default;
                }
                if let Some(queue) = orders.queue {
                    control.queue = queue;
                }
                drop(control);
                ok(json!({}))
            }
            Err(error) => {
                json_body(StatusCode::BAD_REQUEST, json!({"error": error.to_string()}).to_string())
            }
        },
        _ => json_body(
            StatusCode::NOT_FOUND,
            json!({"error": "GET or DELETE /__requests, GET /__state, PUT /__script"}).to_string(),
        ),
    }
}
