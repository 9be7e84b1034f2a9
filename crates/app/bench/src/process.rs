//! A server started for one session, on loopback, and ended with it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// A running server; dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// Where Tapri's own server records its calls: measured calls are no one's calls.
    _data: tempfile::TempDir,
}

impl Server {
    /// Runs `command` (split as a shell splits words, `{port}` filled in) and waits until `/health` answers 200.
    pub(crate) fn start(command: &str, limit: Duration) -> Result<Server> {
        let port = free_port()?;
        let words =
            shell_words::split(command).with_context(|| format!("split the command {command}"))?;
        let words: Vec<String> =
            words.iter().map(|w| w.replace("{port}", &port.to_string())).collect();
        let (program, arguments) = words.split_first().context("the command is empty")?;
        let data = tempfile::tempdir().context("make a folder for the server's data")?;
        let child = Command::new(program)
            .args(arguments)
            .env("TAPRI_LEDGER", data.path().join("ledger.sqlite"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let mut server = Server { child, url: format!("http://127.0.0.1:{port}"), _data: data };
        server.wait_until_healthy(limit)?;
        Ok(server)
    }

    fn wait_until_healthy(&mut self, limit: Duration) -> Result<()> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .build()
            .into();
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at once with {status}; run its command by hand to see why");
            }
            if agent.get(format!("{}/health", self.url)).call().is_ok() {
                return Ok(());
            }
            if begun.elapsed() > limit {
                bail!("the server did not answer {}/health within {} s", self.url, limit.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It holds nothing worth keeping; a kill can't be ignored.
        let _ = self.child.kill();
        let _ = self.child.wait();
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
