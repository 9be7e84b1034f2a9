//! A server started for one session, on loopback, and ended with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A child process that ends with this.
pub(crate) struct Process(Child);

impl Process {
    /// Starts it.
    pub(crate) fn start(command: &mut Command) -> Result<Process> {
        let child = command.spawn();
        let child =
            child.with_context(|| format!("start {}", command.get_program().to_string_lossy()))?;
        Ok(Process(child))
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until an address answers well.
    pub(crate) fn wait_until_up(&mut self, url: &str, limit: Duration) -> Result<()> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .into();
        let begun = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                bail!("the server ended at once with {status}; run its command by hand to see why");
            }
            if agent.get(url).call().is_ok() {
                return Ok(());
            }
            if begun.elapsed() > limit {
                bail!("the server did not answer {url} within {} s", limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It holds nothing worth keeping; a kill can't be ignored.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command from its words, split as a shell splits them.
pub(crate) fn command(text: &str) -> Result<Command> {
    let words = shell_words::split(text).with_context(|| format!("split the command {text}"))?;
    let (program, arguments) = words.split_first().context("the command is empty")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Ok(command)
}

/// A running server; dropping it ends the process.
pub(crate) struct Server {
    _process: Process,
    pub(crate) url: String,
    /// Where Tapri's own server records its calls: measured calls are no one's calls.
    _data: tempfile::TempDir,
}

impl Server {
    /// Runs `command` (split as a shell splits words, `{port}` and `{dir}` filled in) and waits until `/health` answers 200.
    pub(crate) fn start(command: &str, limit: Duration) -> Result<Server> {
        let port = free_port()?;
        let data = tempfile::tempdir().context("make a folder for the server's data")?;
        let filled = command
            .replace("{port}", &port.to_string())
            .replace("{dir}", &data.path().to_string_lossy());
        let mut command = self::command(&filled)?;
        command
            .env("TAPRI_LEDGER", data.path().join("ledger.sqlite"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = Process::start(&mut command)?;
        let url = format!("http://127.0.0.1:{port}");
        process.wait_until_up(&format!("{url}/health"), limit)?;
        Ok(Server { _process: process, url, _data: data })
    }
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0)).context("find a free port")?.local_addr()?.port())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_ends_is_an_error_that_says_so() {
        let error = Server::start("false", Duration::from_secs(5)).err().unwrap();
        assert!(error.to_string().contains("ended at once"), "{error}");
        let error =
            Server::start("tapri-bench-no-such-program", Duration::from_secs(5)).err().unwrap();
        assert!(error.to_string().contains("start tapri-bench-no-such-program"), "{error}");
    }
}
