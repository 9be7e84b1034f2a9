//! The servers of a measurement: started together, on loopback, ended with it.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::plan::{Case, Plan, Server};
use crate::process::free_port;

/// A server may take this long to be up: Python's take half a minute on a busy machine.
const START: Duration = Duration::from_secs(120);

/// A server that is up. Dropping it ends the process.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    child: Child,
}

impl Running {
    /// Starts the upstream: the straight way.
    pub(crate) fn upstream(plan: &Plan, folder: &Path) -> Result<Running> {
        let server = Server { name: "direct".to_owned(), ..plan.upstream.clone() };
        Running::start(&server, "", folder)
    }

    /// Starts a target and waits until it is up.
    pub(crate) fn start(server: &Server, upstream: &str, folder: &Path) -> Result<Running> {
        let port = free_port()?;
        let dir = folder.join(&server.name);
        std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        let fill = |text: &str| {
            text.replace("{port}", &port.to_string())
                .replace("{upstream}", upstream)
                .replace("{dir}", &dir.to_string_lossy())
        };
        for (name, content) in &server.files {
            let path = dir.join(name);
            std::fs::write(&path, fill(content))
                .with_context(|| format!("write {}", path.display()))?;
        }
        let words = shell_words::split(&fill(&server.command))
            .with_context(|| format!("split the command {}", server.command))?;
        let (program, arguments) = words.split_first().context("a command is empty")?;
        let log = std::fs::File::create(dir.join("log")).context("make a log file")?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(log.try_clone().context("share a log file")?).stderr(log);
        command.env("TAPRI_DATA", &dir);
        command.envs(server.env.iter().map(|(name, value)| (name, fill(value))));
        let child = command.spawn().with_context(|| format!("start {program}"))?;
        let mut running = Running {
            name: server.name.clone(),
            url: format!("http://127.0.0.1:{port}"),
            headers: server.headers.iter().map(|(n, v)| (n.clone(), fill(v))).collect(),
            child,
        };
        running.wait(&server.health, &dir.join("log"))?;
        Ok(running)
    }

    fn wait(&mut self, health: &str, log: &Path) -> Result<()> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .into();
        let begun = Instant::now();
        loop {
            let ended = self.child.try_wait()?;
            if ended.is_some() || begun.elapsed() > START {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                let end: String = said.lines().rev().take(15).collect::<Vec<_>>().join("\n");
                bail!(
                    "{} is not up ({ended:?}); the end of its log, last line first:\n{end}",
                    self.name
                );
            }
            if agent.get(format!("{}{health}", self.url)).call().is_ok() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether it takes part in a case.
    pub(crate) fn takes(&self, case: &Case) -> bool {
        case.only.as_ref().is_none_or(|names| names.contains(&self.name))
    }

    /// Bytes of memory that its process has in use, where the system tells.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It holds nothing worth keeping; a kill can't be ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
