//! `isolation = "process"`: an engine process for each tenant, behind one gateway.
//!
//! The process of a tenant is `tapri serve` on a loopback port of its own, with a key that nobody else knows. It is
//! started by the tenant's first call and started again when it dies, after a pause that doubles. It reads from a pipe
//! that the gateway holds: however the gateway ends, `kill -9` included, the pipe closes and the process stops. The KV
//! memory is split by the tenants' shares, so one tenant's prompts can't push out another's.

mod child;
mod shares;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use bytes::Bytes;
use tapri_pipeline::api::{ApiError, Call, ErrorKind, Prompt, TenantScope};
use tapri_pipeline::{Backend, BackendStats, ModelCard};
use tapri_server::tenants::key::new_key;
use tapri_server::tenants::secret::ServerSecret;
use tapri_upstream::{Answer, CallStream, Erased};
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
    /// No process yet. Adapters come with the digests of their files. To be made inside a runtime, on which the processes are watched.
    pub(super) fn new(
        model: String,
        encoder: Option<&ModelCard>,
        adapters: Vec<(String, String)>,
        arguments: Vec<String>,
        shares: Shares,
        secret: ServerSecret,
        disk: Option<Disk>,
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
        let starter = Starter::new(model, beside, arguments, secret, disk)?;
        Ok(Isolated {
            card: Arc::new(card),
            encoder: encoder.map(Arc::new),
            adapters,
            starter,
            shares,
            children: Mutex::default(),
            stop: watch::Sender::new(false),
            runtime: Handle::current(),
        })
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
    let mut state = state?;
    let ready =
        tokio::time::timeout(START_LIMIT, state.wait_for(|s| !matches!(s, State::Starting)));
    let now = match ready.await {
        Ok(Ok(now)) => now.clone(),
        _ => {
            return Err(unavailable("This tenant's engine does not start", "engine_starting"));
        }
    };
    match now {
        State::Ready(process) => Ok(process),
        State::Down(pause) => {
            Err(unavailable("This tenant's engine has ended", "engine_lost").retry_after(pause))
        }
        State::Starting | State::Stopped => {
            Err(unavailable("The server is shutting down", "shutting_down"))
        }
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

    /// The tenants' processes have no door for it, and saying that there was nothing would be an untruth.
    fn erase(&self, _: Option<TenantScope>) -> Answer<Option<Erased>> {
        let on_disk = self.starter.has_disk();
        Box::pin(async move {
            Err(ApiError::new(
                ErrorKind::Unavailable,
                "The engine of each tenant is a process of its own, which lets its blocks go only when it ends",
            )
            .code("unsupported")
            .hint(match on_disk {
                true => "Stop the server, delete the tenant's folder in kv_disk, and start it again",
                false => "Start the server again to have them gone",
            }))
        })
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
