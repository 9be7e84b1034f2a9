//! A Redis server of the test's own, ended when dropped.
//!
//! The one on the path; where there is none, Debian's packages are downloaded and unpacked under the target folder,
//! which needs no rights. Where that fails the tests fail: they are never skipped.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::port::{free_port, on_a_free_port};

/// What the server is, and what it is linked with, in Debian and Ubuntu.
const PACKAGES: [&str; 9] = [
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "liblzf1",
    "liblua5.1-0",
    "lua-cjson",
    "lua-bitop",
    "libatomic1",
    "libhiredis0.14",
];

/// The program, and where its libraries are.
struct Program {
    path: PathBuf,
    libraries: Option<String>,
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        if let Some(libraries) = &self.libraries {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command
    }

    fn runs(&self) -> bool {
        self.command().arg("--version").output().is_ok_and(|output| output.status.success())
    }
}

fn program() -> &'static Program {
    static FOUND: OnceLock<Program> = OnceLock::new();
    FOUND.get_or_init(|| {
        for name in ["redis-server", "valkey-server"] {
            let found = Program { path: name.into(), libraries: None };
            if found.runs() {
                return found;
            }
        }
        let found = unpacked();
        assert!(
            found.runs(),
            "no Redis server is on the path, and Debian's could not be downloaded and unpacked\n\
             hint: apt-get install redis-server"
        );
        found
    })
}

/// The server out of Debian's packages, under `target`.
fn unpacked() -> Program {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("redis");
    let usr = folder.join("usr");
    let found = || {
        let libraries = fs::read_dir(usr.join("lib"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().display().to_string())
            .chain([usr.join("lib").display().to_string()]);
        Program {
            // In Debian's package `redis-server` is a link to this one, which serves under any name but its own.
            path: folder.join("redis-server"),
            libraries: Some(libraries.collect::<Vec<_>>().join(":")),
        }
    };
    if found().runs() {
        return found();
    }
    fs::create_dir_all(&folder).unwrap();
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(&folder).output();
        done.is_ok_and(|output| output.status.success())
    };
    let download =
        || PACKAGES.iter().filter(|package| run("apt-get", &["download", package])).count();
    // Without lists of packages there is nothing to take; only root can fetch them.
    if download() == 0 {
        run("apt-get", &["update", "-qq"]);
        download();
    }
    for entry in fs::read_dir(&folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|it| it == "deb") {
            run("dpkg-deb", &["-x", path.to_str().unwrap(), "."]);
        }
    }
    for name in ["usr/bin/redis-server", "usr/bin/redis-check-rdb"] {
        let file = folder.join(name);
        if fs::metadata(&file).is_ok_and(|file| file.len() > 100_000) {
            fs::copy(file, folder.join("redis-server")).unwrap();
            break;
        }
    }
    found()
}

/// A running server.
pub struct Server {
    child: Child,
    port: u16,
    folder: tempfile::TempDir,
    more: Vec<String>,
}

impl Server {
    /// On a port of its own, with nothing in it.
    pub fn start() -> Self {
        on_a_free_port(Server::try_start)
    }

    /// With a second port that speaks TLS under a certificate of this test's own, for `localhost`; the URL of that one,
    /// with the authority that signed.
    pub fn start_with_tls() -> (Self, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        on_a_free_port(|port| {
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str, text: String| {
                let path = folder.path().join(name);
                fs::write(&path, text).unwrap();
                path.to_str().unwrap().to_owned()
            };
            let certificate = file("server.pem", made.cert.pem());
            let key = file("server.key", made.signing_key.serialize_pem());
            let tls = free_port();
            let url = format!("rediss://localhost:{tls}/0?ca={certificate}");
            let number = tls.to_string();
            let more = [
                ["--tls-port", &number],
                ["--tls-cert-file", &certificate],
                ["--tls-key-file", &key],
                ["--tls-ca-cert-file", &certificate],
                ["--tls-auth-clients", "no"],
            ];
            let more = more.concat().into_iter().map(str::to_owned).collect();
            Some((Server::in_folder(port, folder, more)?, url))
        })
    }

    pub fn start_at(port: u16) -> Self {
        Server::try_start(port).expect("the port was taken meanwhile")
    }

    fn try_start(port: u16) -> Option<Self> {
        Server::in_folder(port, tempfile::tempdir().unwrap(), Vec::new())
    }

    fn in_folder(port: u16, folder: tempfile::TempDir, more: Vec<String>) -> Option<Self> {
        let child = spawn(port, folder.path(), &more);
        let mut server = Server { child, port, folder, more };
        server.wait().then_some(server)
    }

    /// Until it answers; `false` where it ended instead.
    fn wait(&mut self) -> bool {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                // Another's server on this port has another folder.
                let folder = self.folder.path().canonicalize().unwrap();
                let said = talk(stream, &["CONFIG", "GET", "dir"]);
                if said.contains(folder.to_str().unwrap()) {
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the Redis server did not answer within a minute");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// SIGKILL: what it held is gone.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// On the same port, empty.
    pub fn start_again(&mut self) {
        self.child = spawn(self.port, self.folder.path(), &self.more);
        assert!(self.wait(), "the port was taken meanwhile");
    }

    #[cfg(unix)]
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// What it answers, without the protocol's marks.
    pub fn say(&self, words: &[&str]) -> String {
        let said = talk(TcpStream::connect(("127.0.0.1", self.port)).unwrap(), words);
        assert!(!said.starts_with('-'), "{words:?}: {said}");
        said.trim_start_matches([':', '+', '$']).trim().to_owned()
    }

    /// The names of stored answers.
    pub fn keys(&self) -> Vec<String> {
        let said = self.say(&["KEYS", "tapri:exact:1:*"]);
        said.lines().filter(|line| line.starts_with("tapri:")).map(str::to_owned).collect()
    }

    /// All that it holds, as text.
    pub fn everything(&self) -> String {
        self.keys().iter().map(|key| self.say(&["HGETALL", key])).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, folder: &Path, more: &[String]) -> Child {
    program()
        .command()
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ])
        .arg("--dir")
        .arg(folder)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// One command on a connection of its own, and all that comes back.
fn talk(mut stream: TcpStream, words: &[&str]) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = format!("*{}\r\n", words.len());
    for word in words {
        command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    command.push_str("*1\r\n$4\r\nQUIT\r\n");
    // A server that is on its way up or down may refuse; whoever asks comes again.
    if stream.write_all(command.as_bytes()).is_err() {
        return String::new();
    }
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    said.strip_suffix("+OK\r\n").map_or(said.clone(), str::to_owned)
}
