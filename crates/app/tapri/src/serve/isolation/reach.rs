//! What reaches the tenants' processes beside their calls: erasing what they hold, in memory and on disk, and pins.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use reqwest::Method;
use serde::Deserialize;
use tapri_engine::{DiskError, clear_folder};
use tapri_pipeline::api::{ApiError, Call, ErrorKind, Prompt};
use tapri_pipeline::{Pin, Pinned, no_pins};
use tapri_upstream::{Answer, Erased, Pins, Whose};
use tokio::sync::watch;

use super::child::{Process, State};
use super::{Isolated, ready, settled, unavailable};

const PINS: &str = "/cache/pins";

/// What one tenant has: a process, where one was started, and a folder, where blocks are kept on disk.
struct Part {
    state: Option<watch::Receiver<State>>,
    folder: Option<PathBuf>,
}

/// What a process says of an erasure.
#[derive(Deserialize)]
struct Purged {
    kv_blocks: Option<u64>,
    kv_blocks_in_use: Option<u64>,
    pins: Option<u64>,
}

/// A pin, as a process shows it.
#[derive(Deserialize)]
struct ShownPin {
    id: String,
    tokens: usize,
    blocks: usize,
    bytes: u64,
}

#[derive(Deserialize)]
struct MadePin {
    #[serde(flatten)]
    pin: ShownPin,
    prompt_tokens: usize,
    cached_tokens: usize,
}

#[derive(Deserialize)]
struct ShownPins {
    data: Vec<ShownPin>,
    limit_bytes: u64,
}

impl Isolated {
    /// Erases what the process of a tenant holds; without a name what all hold, and what tenants that are no more left on
    /// disk. Where no process runs there is nothing in memory, and the folder is emptied from here. What can be erased is,
    /// and the first error is told then.
    pub(super) fn erase_parts(&self, whose: Option<Whose>) -> Answer<Option<Erased>> {
        let parts = match whose {
            Some(whose) => vec![self.part(&whose.tenant)],
            None => self.parts(),
        };
        Box::pin(async move {
            let (mut sum, mut failed) = (Erased::default(), None);
            for part in parts {
                match part.erase().await {
                    Ok(erased) => sum += erased,
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
            failed.map_or(Ok(Some(sum)), Err)
        })
    }

    fn part(&self, tenant: &str) -> Part {
        Part { state: self.known(tenant), folder: self.starter.folder(tenant) }
    }

    fn parts(&self) -> Vec<Part> {
        let mut tenants: Vec<String> = self.shares.tenants().map(str::to_owned).collect();
        {
            let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
            let others = children.keys().filter(|tenant| self.shares.of(tenant).is_none());
            tenants.extend(others.cloned());
        }
        let mut parts: Vec<Part> = tenants.iter().map(|tenant| self.part(tenant)).collect();
        let left = self.starter.folders().into_iter();
        let left: Vec<_> = left
            .filter(|folder| !parts.iter().any(|part| part.folder.as_ref() == Some(folder)))
            .collect();
        parts.extend(left.into_iter().map(|folder| Part { state: None, folder: Some(folder) }));
        parts
    }

    /// The state of a tenant's process, where one was started.
    fn known(&self, tenant: &str) -> Option<watch::Receiver<State>> {
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.get(tenant).map(|child| child.state.clone())
    }

    pub(super) fn make_pin(&self, call: &Call) -> Answer<Pinned> {
        let Prompt::Request(inbound) = &call.prompt else {
            return Box::pin(std::future::ready(Err(no_pins())));
        };
        let mut body = inbound.body.clone();
        // An adapter has one name everywhere; the model's is another there.
        let adapter =
            call.model.as_ref().is_some_and(|name| self.adapters.iter().any(|it| it.id == *name));
        if !adapter {
            body.shift_remove("model");
        }
        let state = self.of(&call.origin.tenant);
        Box::pin(async move {
            let process = ready(state).await?;
            let body = serde_json::Value::Object(body).to_string();
            // Computing a long start takes as long as it takes; whoever waits may leave.
            let made = process.send(Method::POST, PINS, Some(body), None).await?;
            let MadePin { pin, prompt_tokens, cached_tokens } = read(&made)?;
            Ok(Pinned { pin: pin.read()?, prompt: prompt_tokens, cached: cached_tokens })
        })
    }

    pub(super) fn list_pins(&self, whose: &Whose) -> Answer<Option<Pins>> {
        let state = self.of(&whose.tenant);
        Box::pin(async move {
            let shown = ready(state).await?.get(PINS).await?;
            let ShownPins { data, limit_bytes } = read(&shown)?;
            let pins = data.into_iter().map(ShownPin::read).collect::<Result<_, _>>()?;
            Ok(Some(Pins { pins, limit_bytes }))
        })
    }

    /// Without a process there is no pin.
    pub(super) fn take_pin(&self, whose: &Whose, id: u64) -> Answer<bool> {
        let state = self.known(&whose.tenant);
        Box::pin(async move {
            let Some(state) = state else { return Ok(false) };
            let path = format!("{PINS}/{}{id}", tapri_server::PIN_PREFIX);
            let process = ready(Ok(state)).await?;
            match process.send(Method::DELETE, &path, None, Some(Process::ASK_LIMIT)).await {
                Ok(_) => Ok(true),
                Err(error) if error.kind == ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            }
        })
    }
}

impl Part {
    async fn erase(self) -> Result<Erased, ApiError> {
        if let Some(state) = self.state {
            // One that still loads its model has its folder open already, and is asked as soon as it can hear.
            if let State::Ready(process) = settled(state).await? {
                return erase(&process).await;
            }
        }
        let Some(folder) = self.folder else { return Ok(Erased::default()) };
        let cleared = tokio::task::spawn_blocking(move || clear_folder(&folder)).await;
        match cleared {
            Ok(Ok(dropped)) => Ok(Erased { dropped, ..Erased::default() }),
            Ok(Err(DiskError::InUse { .. })) => {
                Err(unavailable("This tenant's engine is just starting", "engine_starting"))
            }
            Ok(Err(error)) => {
                tracing::error!("KV pages on disk were not erased: {error}");
                Err(not_erased())
            }
            Err(_) => Err(not_erased()),
        }
    }
}

/// All that a process holds is its tenant's.
async fn erase(process: &Arc<Process>) -> Result<Erased, ApiError> {
    let body = serde_json::json!({ "all": true }).to_string();
    let limit = Some(Process::ASK_LIMIT);
    let said = process.send(Method::POST, "/admin/cache/purge", Some(body), limit).await?;
    let Purged { kv_blocks, kv_blocks_in_use, pins } = read(&said)?;
    Ok(Erased {
        dropped: kv_blocks.unwrap_or(0),
        in_use: kv_blocks_in_use.unwrap_or(0),
        pins: pins.unwrap_or(0),
    })
}

impl ShownPin {
    fn read(self) -> Result<Pin, ApiError> {
        let ShownPin { id, tokens, blocks, bytes } = self;
        let id = id.strip_prefix(tapri_server::PIN_PREFIX).and_then(|id| id.parse().ok());
        Ok(Pin { id: id.ok_or_else(unread)?, tokens, blocks, bytes })
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, ApiError> {
    serde_json::from_str(text).map_err(|_| unread())
}

fn unread() -> ApiError {
    ApiError::new(ErrorKind::Internal, "This tenant's engine gave an answer that can't be read")
}

fn not_erased() -> ApiError {
    ApiError::new(ErrorKind::Internal, "What is kept on disk could not be erased")
        .code("not_erased")
}
