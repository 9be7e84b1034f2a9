//! What a process takes: its weights, its KV budget, and little besides. A test binary of its own, since it asks the system about
//! the whole process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{ask, prompt, request, threads};
use tapri_engine::{Engine, EngineConfig, EngineStats};

/// What a process may take besides weights and keys and values: the vocabulary, the tables, the memory that steps work in, code.
const BESIDES: usize = 150 << 20;

/// A figure of `/proc/self/status`, in bytes.
fn status(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[allow(clippy::print_stdout, reason = "the measured figures are worth reading")]
fn say(when: &str) {
    let mib = |name| status(name) >> 20;
    println!(
        "{when}: resident {} MiB (own {}, of files {}), at most {} so far",
        mib("VmRSS:"),
        mib("RssAnon:"),
        mib("RssFile:"),
        mib("VmHWM:")
    );
}

/// Whether all blocks have been used, but for some that a prompt's end gave back.
fn full(stats: &EngineStats) -> bool {
    (stats.blocks_used + stats.blocks_cached) * 20 >= stats.blocks_total * 19
}

/// Starts an engine, uses all of its KV memory, and holds the process against what it should be; from its start on, so while the
/// weights were packed as well.
fn check(name: &str) {
    // The highest mark starts anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let path = tapri_registry::test_model(name);
    let config =
        EngineConfig { threads: threads(2), kv_memory: 64 << 20, ..EngineConfig::default() };
    let engine = Engine::start(&path, config).unwrap();
    let model = engine.model();
    let budget = model.weight_bytes + model.kv_bytes;
    say(&format!("{name}, weights {} MiB, loaded", model.weight_bytes >> 20));
    for seed in 0..20 {
        ask(&engine, request(prompt(1000, seed), 2));
        let stats = engine.stats();
        if full(&stats) {
            break;
        }
    }
    assert!(full(&engine.stats()), "{:?}", engine.stats());
    say(&format!("{name}, {} MiB of KV memory full", model.kv_bytes >> 20));
    let most = status("VmHWM:");
    assert!(
        most <= budget + BESIDES,
        "{name}: {} MiB at most, of which weights and KV memory are {}",
        most >> 20,
        budget >> 20
    );
}

#[test]
fn a_process_takes_its_weights_its_budget_and_little_besides() {
    for name in ["smollm2", "gemma-3-270m"] {
        check(name);
    }
}
