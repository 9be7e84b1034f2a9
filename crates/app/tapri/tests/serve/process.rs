//! The binary as a child process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use tempfile::TempDir;

/// The binary with arguments.
pub fn tapri(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tapri"));
    command.args(arguments);
    command
}

/// A running `tapri serve`, ended when dropped.
pub struct Server {
    child: Child,
    folder: TempDir,
    address: String,
}

impl Server {
    /// Starts it with the smollm2 model on a free port, and waits until it says where it listens.
    pub fn start(more: &[&str]) -> Server {
        Server::start_after("", more)
    }

    /// The same after a shell's commands, which say what the process inherits.
    pub fn start_after(shell: &str, more: &[&str]) -> Server {
        // Pulled here if it is missing, so that the server's own start is quick.
        let model = tapri_registry::test_model("smollm2");
        let model = model.to_str().expect("a path in UTF-8");
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("sh")
            .args(["-c", &format!("{shell} exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_tapri")])
            .args(["serve", "--model", model, "--port", "0"])
            .args(more)
            .env("TAPRI_DATA", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address = loop {
            let line = lines.next().expect("the server ended before it listened").unwrap();
            if let Some((_, rest)) = line.split_once(" on http://") {
                break rest.trim().to_owned();
            }
        };
        // What it says later has to go somewhere.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, folder, address }
    }

    /// Its ledger.
    pub fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger.sqlite")
    }

    /// Where it listens, as `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as the system does when memory is short: nothing in it runs any more.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop.
    #[cfg(unix)]
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal.
    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        let status =
            Command::new("kill").args([&signal, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
