//! A Postgres server of the test's own, with pgvector, ended when dropped.
//!
//! The one that `pg_config` names, where it has pgvector; else the wheel `pgserver`, pinned by its digest, is downloaded
//! and unpacked under the target folder, which needs no rights. Where that fails the tests fail: they are never
//! skipped. Postgres refuses to run as root, so it runs as nobody there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::port::on_a_free_port;

/// Debian's `nobody` and `nogroup`.
#[cfg(unix)]
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let said = Command::new("id").arg("-u").output();
    said.is_ok_and(|said| said.stdout.trim_ascii() == b"0")
}

/// A command of the server's, as a user that it accepts.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    #[cfg(unix)]
    if is_root() {
        std::os::unix::process::CommandExt::uid(&mut command, NOBODY);
        std::os::unix::process::CommandExt::gid(&mut command, NOBODY);
    }
    // Nobody's home is nowhere.
    command.current_dir("/").env("LC_ALL", "C");
    command
}

/// A folder that the server's user may write into.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    #[cfg(unix)]
    if is_root() {
        std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

fn runs(bin: &Path) -> bool {
    command(&bin.join("postgres")).arg("--version").output().is_ok_and(|it| it.status.success())
}

/// Where the programs are.
fn programs() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        if let Some(bin) = installed().filter(|bin| runs(bin)) {
            return bin;
        }
        let folders = [Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR"))), roots_folder()];
        let found = folders.into_iter().flatten().map(|folder| unpacked(&folder));
        found.into_iter().find(|bin| runs(bin)).expect(
            "no Postgres with pgvector is installed, and the wheel pgserver could not be downloaded, unpacked and run\n\
             hint: apt-get install postgresql-server-dev-all postgresql-16-pgvector",
        )
    })
}

/// Where nobody may read, for a target folder under a home that nobody may enter. Only root can have made it.
fn roots_folder() -> Option<PathBuf> {
    #[cfg(unix)]
    if is_root() {
        use std::os::unix::fs::MetadataExt;
        let folder = std::env::temp_dir().join("tapri-tests-of-root");
        let _ = fs::create_dir(&folder);
        return fs::symlink_metadata(&folder)
            .is_ok_and(|it| it.is_dir() && it.uid() == 0)
            .then_some(folder);
    }
    None
}

fn installed() -> Option<PathBuf> {
    let ask = |what: &str| {
        let said = Command::new("pg_config").arg(what).output().ok()?;
        Some(PathBuf::from(String::from_utf8(said.stdout).ok()?.trim()))
    };
    let vector = ask("--sharedir")?.join("extension/vector.control");
    vector.exists().then(|| ask("--bindir"))?
}

/// Out of the wheel, in a folder.
fn unpacked(base: &Path) -> PathBuf {
    let folder = base.join("postgres");
    let bin = folder.join("pgserver/pginstall/bin");
    if runs(&bin) {
        return bin;
    }
    // Whole or not at all: another process may look meanwhile.
    let made = tempfile::tempdir_in(base).unwrap();
    let python = |args: &[&str]| {
        let done = Command::new("python3").args(args).current_dir(made.path()).output();
        done.is_ok_and(|it| it.status.success())
    };
    fs::write(made.path().join("requirements.txt"), include_str!("requirements.txt")).unwrap();
    // The one wheel that is pinned, whichever Python this is.
    let download = [
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--require-hashes",
        "--only-binary=:all:",
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
        "--platform=manylinux_2_17_x86_64",
        "--dest=.",
        "-r",
        "requirements.txt",
    ];
    if !python(&download) {
        return bin;
    }
    let files = fs::read_dir(made.path()).unwrap().flatten().map(|file| file.path());
    let wheel = files.into_iter().find(|path| path.extension().is_some_and(|it| it == "whl"));
    let Some(wheel) = wheel else { return bin };
    if !python(&["-m", "zipfile", "-e", wheel.to_str().unwrap(), "."]) {
        return bin;
    }
    fs::remove_file(&wheel).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        };
        open(made.path());
        for program in fs::read_dir(made.path().join("pgserver/pginstall/bin")).unwrap().flatten() {
            open(&program.path());
        }
    }
    // It loses where another process was quicker, and finds what that one made.
    let _ = fs::rename(made.path(), &folder);
    bin
}

/// A running server.
pub struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
}

impl Server {
    /// On a port of its own, with nothing in it.
    pub fn start() -> Self {
        on_a_free_port(Server::try_start)
    }

    pub fn start_at(port: u16) -> Self {
        Server::try_start(port).expect("the port was taken meanwhile")
    }

    fn try_start(port: u16) -> Option<Self> {
        let folder = folder();
        let made = command(&programs().join("initdb"))
            .args([
                "--username=tapri",
                "--auth=trust",
                "--encoding=UTF8",
                "--no-locale",
                "--no-sync",
            ])
            .arg("-D")
            .arg(folder.path().join("data"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let child = spawn(port, folder.path());
        let mut server = Server { child, port, folder };
        server.wait().then_some(server)
    }

    /// Until it answers; `false` where it ended instead.
    fn wait(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(120) {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            // Another's server on this port has another folder.
            let folder = self.folder.path().join("data").canonicalize().unwrap();
            if self
                .try_sql("SHOW data_directory")
                .is_ok_and(|said| said == folder.to_str().unwrap())
            {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the Postgres server did not answer within two minutes");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("postgres://tapri@127.0.0.1:{}/postgres", self.port)
    }

    /// SIGQUIT: every process of the server ends at once, and nothing is written any more.
    pub fn kill(&mut self) {
        signal(&self.child, "QUIT");
        self.child.wait().unwrap();
    }

    /// On the same port, with what it had.
    pub fn start_again(&mut self) {
        self.child = spawn(self.port, self.folder.path());
        assert!(self.wait(), "the port was taken meanwhile");
    }

    /// What it answers: rows with `|` between their columns, a line each.
    pub fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    fn try_sql(&self, statements: &str) -> Result<String, tokio_postgres::Error> {
        let (url, statements) = (self.url(), statements.to_owned());
        // On a thread of its own: the caller may be inside a runtime.
        let asked = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
                let connection = tokio::spawn(connection);
                let said = client.simple_query(&statements).await?;
                drop(client);
                connection.abort();
                let rows = said.iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => Some(
                        (0..row.len())
                            .map(|at| row.get(at).unwrap_or(""))
                            .collect::<Vec<_>>()
                            .join("|"),
                    ),
                    _ => None,
                });
                Ok(rows.collect::<Vec<_>>().join("\n"))
            })
        });
        asked.join().unwrap()
    }

    /// How many questions it holds.
    pub fn questions(&self) -> usize {
        self.sql("SELECT count(*) FROM tapri_semantic_questions").parse().unwrap()
    }

    /// All that it holds of questions and labels, as text.
    pub fn everything(&self) -> String {
        self.sql("SELECT * FROM tapri_semantic_questions")
            + &self.sql("SELECT * FROM tapri_semantic_labels")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already. Its processes end with it.
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            signal(&self.child, "QUIT");
            let start = Instant::now();
            while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                if start.elapsed() > Duration::from_secs(30) {
                    let _ = self.child.kill();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
}

fn spawn(port: u16, folder: &Path) -> Child {
    command(&programs().join("postgres"))
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-k")
        .arg(folder)
        .args(["-h", "127.0.0.1", "-p", &port.to_string(), "-F"])
        .args(["-c", "shared_buffers=16MB", "-c", "max_connections=20"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
