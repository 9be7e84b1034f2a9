//! The direction of the arrows between crates: downwards only, as ARCHITECTURE.md draws them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// A crate, its floor, and the crates of ours that it may depend on.
type Table = BTreeMap<&'static str, (&'static str, Vec<&'static str>)>;

fn table() -> Table {
    let all = [
        "kernels",
        "gguf",
        "text",
        "kv",
        "model",
        "engine",
        "registry",
        "api",
        "embed",
        "cache",
        "upstream",
        "ledger",
        "insight",
        "pipeline",
        "casefile",
        "server",
        "telemetry",
    ];
    BTreeMap::from([
        ("kernels", ("engine", vec![])),
        ("gguf", ("engine", vec![])),
        ("kv", ("engine", vec![])),
        ("registry", ("engine", vec![])),
        ("text", ("engine", vec!["gguf"])),
        ("model", ("engine", vec!["gguf", "kernels"])),
        // Through model and text it reaches their crates as well.
        ("engine", ("engine", vec!["kv", "model", "text", "gguf", "kernels"])),
        ("api", ("gateway", vec![])),
        ("embed", ("gateway", vec![])),
        ("cache", ("gateway", vec!["api", "embed", "kernels"])),
        ("upstream", ("gateway", vec!["api", "embed", "engine", "text"])),
        ("ledger", ("insight", vec!["api"])),
        ("insight", ("insight", vec!["ledger", "kv", "text", "api"])),
        (
            "pipeline",
            (
                "app",
                vec!["cache", "embed", "upstream", "ledger", "insight", "api", "engine", "text"],
            ),
        ),
        ("casefile", ("app", vec!["pipeline", "api", "upstream"])),
        (
            "server",
            (
                "app",
                vec![
                    "casefile", "pipeline", "cache", "embed", "ledger", "insight", "api",
                    "upstream",
                ],
            ),
        ),
        ("telemetry", ("app", vec!["pipeline", "ledger", "api"])),
        ("tapri", ("app", all.to_vec())),
        ("bench", ("app", vec!["fake-upstream"])),
        ("fake-upstream", ("app", vec![])),
    ])
}

/// What is wrong with a crate at `folder` that depends on `arrows`.
fn faults(table: &Table, name: &str, folder: &str, arrows: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    if ["common", "utils", "helpers", "misc"].contains(&name) {
        found.push(format!("{name} is no name for a crate"));
    }
    let Some((floor, allowed)) = table.get(name) else {
        found.push(format!("{name} is not in the table"));
        return found;
    };
    if folder != format!("crates/{floor}/{name}") {
        found.push(format!("{name} lies in {folder}, not on the floor {floor}"));
    }
    for arrow in arrows {
        if !allowed.contains(&arrow.as_str()) {
            found.push(format!("{name} must not depend on {arrow}"));
        }
    }
    found
}

fn short(package: &str) -> &str {
    package.strip_prefix("tapri-").unwrap_or(package)
}

#[test]
fn arrows_run_downwards_only() {
    let metadata = MetadataCommand::new().no_deps().other_options(["--offline".to_owned()]).exec();
    let metadata = metadata.expect("cargo metadata runs");
    let root = metadata.workspace_root.clone();
    let mut found = Vec::new();
    for package in &metadata.packages {
        let folder = package.manifest_path.parent().unwrap().strip_prefix(&root).unwrap();
        let arrows: Vec<String> = package
            .dependencies
            .iter()
            .filter(|d| d.kind == DependencyKind::Normal && d.path.is_some())
            .map(|d| short(&d.name).to_owned())
            .collect();
        found.extend(faults(&table(), short(&package.name), folder.as_str(), &arrows));
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_bad_arrow_a_wrong_folder_and_a_bad_name_are_found() {
    let table = table();
    let check = |name: &str, folder: &str, arrows: &[&str]| {
        let arrows: Vec<String> = arrows.iter().map(|a| (*a).to_owned()).collect();
        faults(&table, name, folder, &arrows)
    };
    assert!(check("model", "crates/engine/model", &["gguf", "kernels"]).is_empty());
    assert_eq!(check("model", "crates/engine/model", &["kv"]), ["model must not depend on kv"]);
    assert_eq!(check("kv", "crates/app/kv", &[]).len(), 1);
    assert_eq!(check("utils", "crates/app/utils", &[]).len(), 2);
}
