//! One tenant's process: started, watched, started again, ended.

use std::io::Read;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use reqwest::Method;
use tapri_pipeline::api::{ApiError, ErrorKind, Format, decode};
use tapri_server::tenants::secret::ServerSecret;
use tapri_upstream::{
    Api, Credential, Fleet, FleetConfig, Kind, Retry, Secret, ServedModel, UpstreamConfig,
};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::watch;

use super::Shares;

/// The variable that gives a process its key. Only the user's own processes can read it.
pub(in crate::serve) const CHILD_KEY: &str = "TAPRI_CHILD_KEY";

/// The variable that gives a process the secret of its scope: what is on its disk is found by it after a restart.
pub(in crate::serve) const CHILD_SECRET: &str = "TAPRI_CHILD_SECRET";

/// What a process's secret is made under, with its tenant's name.
const SCOPES: &str = "tapri child scope v1";

/// The pause after a first death; each further one in a row doubles it.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A process that lived as long as this was well: what follows is a first death again.
const WELL: Duration = Duration::from_secs(60);

/// How long a model may take to load.
const LOAD_LIMIT: Duration = Duration::from_secs(600);

/// How long a process has to end by itself.
const END_LIMIT: Duration = Duration::from_secs(10);

/// What a tenant's process is doing.
#[derive(Clone)]
pub(crate) enum State {
    /// It loads its model.
    Starting,
    /// It answers.
    Ready(Arc<Process>),
    /// It died, and is started again after this.
    Down(Duration),
    /// The gateway ends.
    Stopped,
}

/// A process that answers.
pub(crate) struct Process {
    /// For calls.
    pub(crate) backend: Fleet,
    client: reqwest::Client,
    base: String,
    key: String,
}

impl Process {
    /// How long it may take for what computes no prompt: it is done between others' prompts.
    pub(super) const ASK_LIMIT: Duration = Duration::from_secs(60);

    /// Asks a path of its own that is no call: a request as it came, but for the name that the model has here.
    pub(crate) async fn ask(&self, path: &str, body: &[u8]) -> Result<String, ApiError> {
        let mut body: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(body)
            .map_err(|_| ApiError::new(ErrorKind::Internal, "The request could not be read"))?;
        body.shift_remove("model");
        let body = serde_json::Value::Object(body).to_string();
        self.send(Method::POST, path, Some(body), Some(Self::ASK_LIMIT)).await
    }

    /// Reads a path of its own.
    pub(super) async fn get(&self, path: &str) -> Result<String, ApiError> {
        self.send(Method::GET, path, None, Some(Self::ASK_LIMIT)).await
    }

    /// Sends a request, and gives the answer's body. Its errors are its own words, which are this server's.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<String>,
        limit: Option<Duration>,
    ) -> Result<String, ApiError> {
        let lost = |error: reqwest::Error| {
            tracing::debug!("an engine process didn't answer {path}: {}", error.without_url());
            ApiError::new(ErrorKind::Unavailable, "This tenant's engine does not answer")
                .code("engine_lost")
                .hint("Try again in a moment")
        };
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method, url).bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        if let Some(limit) = limit {
            request = request.timeout(limit);
        }
        let response = request.send().await.map_err(lost)?;
        let status = response.status();
        let text = response.text().await.map_err(lost)?;
        if status.is_success() {
            return Ok(text);
        }
        let mut error = decode::error(Format::Chat, status.as_u16(), &text, None);
        error.upstream = None;
        Err(error)
    }
}

/// How a process is started.
#[derive(Clone)]
pub(crate) struct Starter {
    program: PathBuf,
    model: String,
    /// The name of the sentence encoder that it has as well.
    beside: Vec<String>,
    /// Flags of the engine that every process gets.
    arguments: Vec<String>,
    secret: ServerSecret,
    disk: Option<Disk>,
    /// Files of starts to pin, with their tenants.
    pins: Vec<(String, String)>,
}

/// Where the processes keep KV blocks: each in a folder of its own, with its share of the size.
#[derive(Clone)]
pub(in crate::serve) struct Disk {
    pub(in crate::serve) folder: PathBuf,
    pub(in crate::serve) shares: Shares,
}

impl Disk {
    /// A tenant's part: its folder and its bytes.
    fn of(&self, tenant: &str) -> Option<(PathBuf, u64)> {
        Some((self.folder.join(folder_name(tenant)), self.shares.of(tenant)?))
    }
}

/// What the folders' names begin with.
const TENANT: &str = "tenant-";

/// A tenant's name as a folder's: what might mean something else to a file system is written in hexadecimal digits.
fn folder_name(tenant: &str) -> String {
    let mut name = TENANT.to_owned();
    for byte in tenant.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    name
}

impl Starter {
    pub(crate) fn new(
        model: String,
        beside: Vec<String>,
        arguments: Vec<String>,
        secret: ServerSecret,
        disk: Option<Disk>,
        pins: Vec<(String, String)>,
    ) -> Result<Self> {
        let program = std::env::current_exe().context("the path of this program is not known")?;
        Ok(Starter { program, model, beside, arguments, secret, disk, pins })
    }

    /// Where a tenant's process keeps blocks that outlive it, be it one that is no more.
    pub(super) fn folder(&self, tenant: &str) -> Option<PathBuf> {
        self.disk.as_ref().map(|disk| disk.folder.join(folder_name(tenant)))
    }

    /// All such folders that are there.
    pub(super) fn folders(&self) -> Vec<PathBuf> {
        let Some(disk) = &self.disk else { return Vec::new() };
        // What can't be read has nothing that could be erased.
        let entries = std::fs::read_dir(&disk.folder).into_iter().flatten().flatten();
        let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(TENANT));
        ours.map(|entry| entry.path()).collect()
    }

    /// Keeps a tenant's process alive until the end.
    pub(crate) async fn supervise(
        self,
        tenant: String,
        memory: u64,
        key: String,
        state: watch::Sender<State>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut pause = PAUSE;
        loop {
            state.send_replace(State::Starting);
            let begun = tokio::time::Instant::now();
            let started = tokio::select! {
                started = tokio::time::timeout(LOAD_LIMIT, self.start(&tenant, memory, &key)) => started,
                () = stopped(&mut stop) => break,
            };
            let started = started.unwrap_or_else(|_| Err(anyhow!("it did not start in time")));
            match started {
                Ok((mut child, pipe, process)) => {
                    tracing::info!(tenant, pid = child.id(), "an engine process is ready");
                    state.send_replace(State::Ready(Arc::new(process)));
                    tokio::select! {
                        status = child.wait() => {
                            let status = status.map_or_else(|error| error.to_string(), |s| s.to_string());
                            tracing::error!(tenant, "an engine process ended: {status}");
                        }
                        () = stopped(&mut stop) => {
                            end(child, pipe).await;
                            break;
                        }
                    }
                }
                Err(error) => tracing::error!(tenant, "an engine process did not start: {error:#}"),
            }
            if begun.elapsed() > WELL {
                pause = PAUSE;
            }
            state.send_replace(State::Down(pause));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stopped(&mut stop) => break,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        state.send_replace(State::Stopped);
    }

    /// Starts a process and waits until it says where it listens.
    async fn start(
        &self,
        tenant: &str,
        memory: u64,
        key: &str,
    ) -> Result<(Child, ChildStdin, Process)> {
        let mut command = Command::new(&self.program);
        // Ctrl-C at the terminal is for the gateway, which ends this when its calls have ended.
        #[cfg(unix)]
        command.process_group(0);
        command.args(["serve", "--child-of-tapri", tenant, "--host", "127.0.0.1", "--port", "0"]);
        if let Some((folder, bytes)) = self.disk.as_ref().and_then(|disk| disk.of(tenant)) {
            command.arg("--kv-disk").arg(folder).args(["--kv-disk-size", &bytes.to_string()]);
        }
        for (_, file) in self.pins.iter().filter(|(whose, _)| whose == tenant) {
            command.args(["--pin", file]);
        }
        let mut child = command
            .args(["--no-ledger", "--no-alerts", "--kv-memory", &memory.to_string()])
            .args(["--model", &self.model])
            .args(&self.arguments)
            .env(CHILD_KEY, key)
            .env(CHILD_SECRET, self.secret.derive(&format!("{SCOPES} {tenant}")))
            .env_remove("TAPRI_KV_DISK")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .context("it can't be started")?;
        let pipe = child.stdin.take().context("it has no stdin")?;
        let mut lines = BufReader::new(child.stdout.take().context("it has no stdout")?).lines();
        let (served, address) = loop {
            let line = lines.next_line().await?.context("it ended before it listened")?;
            if let Some((said, address)) = line.split_once(" on http://") {
                let served = said.strip_prefix("serving ").unwrap_or(said);
                break (served.to_owned(), address.trim().to_owned());
            }
        };
        // What it says later has to go somewhere; the end of its output ends the task.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let base = format!("http://{address}");
        let every = [
            Format::Chat,
            Format::Completion,
            Format::Responses,
            Format::Embeddings,
            Format::Messages,
        ];
        let model = ServedModel {
            upstream_name: Some(served.clone()),
            aliases: vec![served],
            ..ServedModel::named(&self.model)
        };
        let upstream = UpstreamConfig {
            formats: every.to_vec(),
            models: [model].into_iter().chain(self.beside.iter().map(ServedModel::named)).collect(),
            kind: Kind::Tapri,
            credential: Credential::Shared(Secret::new(key)),
            // What the engine refuses, it refuses for a reason.
            retry: Retry { most: 0, ..Retry::default() },
            ..UpstreamConfig::new("isolated", &base, Api::OpenAi)
        };
        let backend =
            Fleet::new(FleetConfig { upstreams: vec![upstream], ..FleetConfig::default() })?;
        // On loopback, past any proxy.
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok((child, pipe, Process { backend, client, base, key: key.to_owned() }))
    }
}

/// Waits for the gateway's end.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// Ends a process: its pipe closes, and it has a while to go by itself.
async fn end(mut child: Child, pipe: ChildStdin) {
    drop(pipe);
    if tokio::time::timeout(END_LIMIT, child.wait()).await.is_err() {
        // Failing means that it is gone.
        let _ = child.kill().await;
    }
}

/// In a tenant's process: asks it to stop, as SIGTERM does, when the gateway's end of the pipe closes.
pub(in crate::serve) fn end_with_stdin() {
    // A thread of its own that nobody waits for: a read that never ends would hold up the end of a runtime.
    std::thread::spawn(|| {
        let mut bytes = [0; 64];
        while std::io::stdin().read(&mut bytes).is_ok_and(|read| read > 0) {}
        #[cfg(unix)]
        {
            use rustix::process::{Signal, getpid, kill_process};
            if kill_process(getpid(), Signal::TERM).is_ok() {
                return;
            }
        }
        std::process::exit(0);
    });
}

#[cfg(test)]
mod tests {
    use super::folder_name;

    #[test]
    fn a_tenants_folder_is_one_folder_whatever_its_name() {
        assert_eq!(folder_name("red-team_7"), "tenant-red-team_7");
        assert_eq!(folder_name("../Red"), "tenant-%2e%2e%2f%52ed");
    }
}
