//! The servers of a measurement: started together, on loopback, ended with it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::plan::{Case, Plan, Server};
use crate::process::{self, Process, free_port};

/// A server may take this long to be up: Python's take half a minute on a busy machine.
const START: Duration = Duration::from_secs(120);

/// The name of the straight way.
const STRAIGHT: &str = "direct";

/// A server that is up. Dropping it ends the process.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    server: Server,
    process: Process,
}

impl Running {
    /// Starts the upstream: the straight way.
    pub(crate) fn upstream(plan: &Plan, folder: &Path) -> Result<Running> {
        let server = Server { name: STRAIGHT.to_owned(), ..plan.upstream.clone() };
        Running::start(&server, "", folder)
    }

    /// Starts a target and waits until it is up.
    pub(crate) fn start(server: &Server, upstream: &str, folder: &Path) -> Result<Running> {
        let port = free_port()?;
        let dir = folder.join(&server.name);
        std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        let host = upstream.strip_prefix("http://").unwrap_or(upstream);
        let fill = |text: &str| {
            text.replace("{port}", &port.to_string())
                .replace("{upstream}", upstream)
                .replace("{upstream_host}", host)
                .replace("{dir}", &dir.to_string_lossy())
        };
        for (name, content) in &server.files {
            let path = dir.join(name);
            std::fs::write(&path, fill(content))
                .with_context(|| format!("write {}", path.display()))?;
        }
        let log = std::fs::File::create(dir.join("log")).context("make a log file")?;
        let mut command = process::command(&fill(&server.command))?;
        command.stdout(log.try_clone().context("share a log file")?).stderr(log);
        command.env("TAPRI_DATA", &dir);
        command.envs(server.env.iter().map(|(name, value)| (name, fill(value))));
        let mut process = Process::start(&mut command)?;
        let url = format!("http://127.0.0.1:{port}");
        process.wait_until_up(&format!("{url}{}", server.health), START).with_context(|| {
            let said = std::fs::read_to_string(dir.join("log")).unwrap_or_default();
            let end: Vec<&str> = said.lines().rev().take(15).collect();
            let name = &server.name;
            format!("{name} is not up; the end of its log, last line first:\n{}", end.join("\n"))
        })?;
        Ok(Running {
            name: server.name.clone(),
            url,
            headers: server.headers.iter().map(|(n, v)| (n.clone(), fill(v))).collect(),
            server: server.clone(),
            process,
        })
    }

    /// Whether it is the upstream itself.
    pub(crate) fn is_straight(&self) -> bool {
        self.name == STRAIGHT
    }

    /// Whether it takes part in a case.
    pub(crate) fn takes(&self, case: &Case) -> bool {
        self.server.takes(case)
    }

    /// Bytes of memory that its process has in use, where the system tells.
    pub(crate) fn memory(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}
