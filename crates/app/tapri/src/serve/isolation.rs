//! `isolation = "process"`: an engine process for each tenant, behind one gateway.
//!
//! The process of a tenant is `tapri serve` on a loopback port of its own, with a key that nobody else knows. It is
//! started by the tenant's first call and started again when it dies, after a pause that doubles. It reads from a pipe
//! that the gateway holds: however the gateway ends, `kill -9` included, the pipe closes and the process stops. The KV
//! memory is split by the tenants' shares, so one tenant's prompts can't push out another's.
//!
//! Map: `child` a process's life, and how it is asked; `reach` erasing and pins; `shares` who gets how much memory.

mod child;
mod reach;
mod shares;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use bytes::Bytes;
use tapri_pipeline::api::{ApiError, Call, ErrorKind, Prompt};
use tapri_pipeline::{Backend, BackendStats, ModelCard};
use tapri_server::tenants::key::new_key;
use tapri_server::tenants::secret::ServerSecret;
use tapri_upstream::{Answer, CallStream, Erased, Pinned, Pins, Whose};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub(super) use child::{CHILD_KEY, CHILD_SECRET, Disk, end_with_stdin};
pub(super) use shares::Shares;

use child::{Starter, State};

/// The name of these processes in records.
const ISOLATED: &str = "isolated";

/// How long a call waits for its tenant's process: a large model takes a while to load.
const START_LIMIT: Duration = Duration::from_secs(120);

/// The engine processes of all tenants, as one backend.
pub(super) struct Isolated {
    card: Arc<ModelCard>,
    /// The sentence encoder's, where the processes have one.
    encoder: Option<Arc<ModelCard>>,
    adapters: Vec<Arc<ModelCard>>,
    starter: Starter,
    shares: Shares,
    children: Mutex<HashMap<String, Supervised>>,
    stop: watch::Sender<bool>,
    runtime: Handle,
}

struct Supervised {
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

impl Isolated {
    /// No process yet, but for tenants that have something pinned from the start on. Adapters come with the digests of their
    /// files, and pins with their tenants. To be made inside a runtime, on which the processes are watched.
    pub(super) fn new(
        model: String,
        encoder: Option<&ModelCard>,
        adapters: Vec<(String, String)>,
        arguments: Vec<String>,
        shares: Shares,
        secret: ServerSecret,
        disk: Option<Disk>,
        pins: Vec<(String, String)>,
    ) -> Result<Self> {
        let card = ModelCard {
            id: model.clone(),
            aliases: Vec::new(),
            upstream: ISOLATED.to_owned(),
            context: None,
            vocabulary: None,
            template: None,
            fingerprint: String::new(),
            since: SystemTime::now(),
        };
        let encoder =
            encoder.map(|card| ModelCard { upstream: ISOLATED.to_owned(), ..card.clone() });
        // An adapter's file tells its build; what the model's is, each process finds out.
        let adapters: Vec<_> = adapters
            .into_iter()
            .map(|(id, fingerprint)| Arc::new(ModelCard { id, fingerprint, ..card.clone() }))
            .collect();
        let beside = encoder.iter().map(|card| &card.id);
        let beside = beside.chain(adapters.iter().map(|card| &card.id)).cloned().collect();
        let mut warm: Vec<_> = pins.iter().map(|(tenant, _)| tenant.clone()).collect();
        warm.dedup();
        let starter = Starter::new(model, beside, arguments, secret, disk, pins)?;
        let isolated = Isolated {
            card: Arc::new(card),
            encoder: encoder.map(Arc::new),
            adapters,
            starter,
            shares,
            children: Mutex::default(),
            stop: watch::Sender::new(false),
            runtime: Handle::current(),
        };
        for tenant in warm {
            // Whether it starts is said in the log, and to who calls.
            let _ = isolated.of(&tenant);
        }
        Ok(isolated)
    }

    /// The state of a tenant's process, which is started if it isn't there.
    fn of(&self, tenant: &str) -> Result<watch::Receiver<State>, ApiError> {
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = children.get(tenant) {
            return Ok(child.state.clone());
        }
        if *self.stop.borrow() {
            return Err(unavailable("The server is shutting down", "shutting_down"));
        }
        let Some(memory) = self.shares.of(tenant) else {
            return Err(unavailable(
                "This tenant came after the server started, and has no process of its own yet",
                "tenant_not_started",
            ));
        };
        let key = new_key().map_err(|_| unavailable("No key could be made", "engine_failed"))?;
        let (sender, state) = watch::channel(State::Starting);
        let supervisor = self.starter.clone().supervise(
            tenant.to_owned(),
            memory,
            key,
            sender,
            self.stop.subscribe(),
        );
        let task = self.runtime.spawn(supervisor);
        children.insert(tenant.to_owned(), Supervised { state: state.clone(), task });
        Ok(state)
    }
}

/// A tenant's process, once it answers.
async fn ready(
    state: Result<watch::Receiver<State>, ApiError>,
) -> Result<Arc<child::Process>, ApiError> {
    match settled(state?).await? {
        State::Ready(process) => Ok(process),
        State::Down(pause) => {
            Err(unavailable("This tenant's engine has ended", "engine_lost").retry_after(pause))
        }
        State::Starting | State::Stopped => {
            Err(unavailable("The server is shutting down", "shutting_down"))
        }
    }
}

/// What a process does once it no longer starts.
async fn settled(mut state: watch::Receiver<State>) -> Result<State, ApiError> {
    let settled =
        tokio::time::timeout(START_LIMIT, state.wait_for(|s| !matches!(s, State::Starting)));
    match settled.await {
        Ok(Ok(now)) => Ok(now.clone()),
        _ => Err(unavailable("This tenant's engine does not start", "engine_starting")),
    }
}

impl Backend for Isolated {
    fn models(&self) -> Vec<Arc<ModelCard>> {
        std::iter::once(&self.card).chain(&self.adapters).chain(&self.encoder).cloned().collect()
    }

    fn model(&self, name: Option<&str>) -> Result<Arc<ModelCard>, ApiError> {
        match name {
            None => Ok(Arc::clone(&self.card)),
            Some(name) => {
                self.card(name).ok_or_else(|| tapri_upstream::unknown_model(name, &self.models()))
            }
        }
    }

    fn name(&self) -> &str {
        ISOLATED
    }

    fn start(&self, mut call: Call) -> Answer<CallStream> {
        let state = self.of(&call.origin.tenant);
        call.model.get_or_insert_with(|| self.card.id.clone());
        Box::pin(async move { ready(state).await?.backend.start(call).await })
    }

    fn pass_on(&self, tenant: &str, path: &'static str, body: Bytes) -> Answer<Option<String>> {
        let state = self.of(tenant);
        Box::pin(async move { ready(state).await?.ask(path, &body).await.map(Some) })
    }

    fn tokenize(&self, _: Prompt) -> Answer<Vec<u32>> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn tokenize_piece(&self, _: String) -> Answer<Vec<u32>> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn detokenize(&self, _: Vec<u32>) -> Answer<String> {
        Box::pin(async { Err(no_tokens()) })
    }

    fn erase(&self, whose: Option<Whose>) -> Answer<Option<Erased>> {
        self.erase_parts(whose)
    }

    fn pin(&self, call: Call) -> Answer<Pinned> {
        self.make_pin(&call)
    }

    fn pins(&self, whose: Whose) -> Answer<Option<Pins>> {
        self.list_pins(&whose)
    }

    fn unpin(&self, whose: Whose, id: u64) -> Answer<bool> {
        self.take_pin(&whose, id)
    }

    fn stats(&self) -> Option<BackendStats> {
        None
    }

    fn shutdown(&self, _: Duration) {
        self.stop.send_replace(true);
        let children: Vec<Supervised> = {
            let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
            children.drain().map(|(_, child)| child).collect()
        };
        for child in children {
            // A panic of a supervisor has been printed.
            let _ = self.runtime.block_on(child.task);
        }
    }
}

fn unavailable(message: &'static str, code: &'static str) -> ApiError {
    ApiError::new(ErrorKind::Unavailable, message)
        .code(code)
        .hint("Try again in a moment")
        .retry_after(Duration::from_secs(1))
}

/// These are asked for a tenant, by way of [`Backend::pass_on`].
fn no_tokens() -> ApiError {
    ApiError::new(ErrorKind::Internal, "Each tenant's engine reads text by itself")
}
