//! The disk tier: a hit that was read back changes nothing, and nothing that happens to the disk does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use support::{Answer, ask, config, finish, prompt, request, start, threads};
use tapri_engine::{
    CacheUse, DiskConfig, DiskError, DiskStats, Engine, EngineConfig, GenerateRequest, PrefixHash,
    Scope, StartError, TokenId,
};
use tapri_model::tiny::TinyModel;

const SIZE: u64 = 64 << 20;

fn with_disk(folder: &Path, size: u64) -> EngineConfig {
    EngineConfig { disk: Some(DiskConfig::new(folder.to_owned(), size)), ..config() }
}

fn disk(engine: &Engine) -> DiskStats {
    engine.stats().disk.expect("there is a disk")
}

fn models() -> [TinyModel; 2] {
    [TinyModel::llama(), TinyModel::gemma3()]
}

/// What an engine without any cache says.
fn reference(model: &TinyModel, request: &GenerateRequest) -> support::Seen {
    let engine =
        start(model, EngineConfig { threads: threads(1), prefix_cache: false, ..config() });
    ask(&engine, request.clone()).seen()
}

fn files(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// Bytes of both files behind their heads.
fn content(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for name in ["tapri-kv.records", "tapri-kv.pages"] {
        all.extend_from_slice(&fs::read(folder.join(name)).unwrap()[4096..]);
    }
    all
}

fn question(shared: usize, own: u32) -> Vec<TokenId> {
    [prompt(shared, 1), prompt(20, own)].concat()
}

/// Waits for the engine's thread to say so.
fn wait_until(engine: &Engine, mut is: impl FnMut(&DiskStats) -> bool) {
    for _ in 0..30_000 {
        if is(&disk(engine)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not come to it: {:?}", disk(engine));
}

#[test]
fn after_a_restart_a_prompt_is_warm_and_the_bits_are_the_same() {
    for model in models() {
        let dir = tempfile::tempdir().unwrap();
        let engine = start(&model, with_disk(dir.path(), SIZE));
        let first = ask(&engine, request(prompt(300, 1), 12));
        assert_eq!(first.admitted.cached_tokens, 0);
        drop(engine);

        let engine = start(&model, with_disk(dir.path(), SIZE));
        assert!(disk(&engine).pages > 0);
        let again = ask(&engine, request(prompt(300, 1), 12));
        assert_eq!(again.seen(), first.seen());
        assert_eq!((again.admitted.cached_tokens, again.admitted.restored_tokens), (288, 288));
        let other = request(question(288, 7), 12);
        let warm = ask(&engine, other.clone());
        assert_eq!((warm.admitted.cached_tokens, warm.admitted.restored_tokens), (288, 0));
        assert_eq!(warm.seen(), reference(&model, &other));
        let stats = engine.stats();
        assert_eq!(stats.prefix_hits, 2 * 288);
        assert_eq!(stats.disk.unwrap().restored_tokens, 288);
        assert_eq!(stats.disk.unwrap().rejected, 0);
    }
}

#[test]
fn what_made_room_is_read_back() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    // Room for 30 blocks: one of these prompts.
    let kv_memory = 31 * (16 << 10);
    let engine = start(&model, EngineConfig { kv_memory, ..with_disk(dir.path(), SIZE) });
    let answers: Vec<Answer> =
        (1..4).map(|seed| ask(&engine, request(prompt(300, seed), 4))).collect();
    assert!(engine.stats().evicted_blocks > 0);
    // What is faster is measured, and this model computes fast; each time that it does, the disk looks a little better.
    for _ in 0..60 {
        for (seed, answer) in (1..4).zip(&answers) {
            let again = ask(&engine, request(prompt(300, seed), 4));
            assert_eq!(again.seen(), answer.seen());
        }
        if disk(&engine).restored_tokens > 0 {
            break;
        }
    }
    assert!(disk(&engine).restored_tokens > 0, "{:?}", disk(&engine));
}

#[test]
fn an_engine_at_rest_writes_so_that_a_kill_loses_little() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    let engine = start(&model, with_disk(dir.path(), SIZE));
    let first = ask(&engine, request(prompt(300, 1), 12));
    wait_until(&engine, |disk| disk.written >= 18);
    // As a kill leaves it: copied while the process is still there.
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let after = start(&model, with_disk(copy.path(), SIZE));
    let again = ask(&after, request(prompt(300, 1), 12));
    assert_eq!(again.admitted.restored_tokens, 288);
    assert_eq!(again.seen(), first.seen());
}

#[test]
fn many_who_ask_at_once_read_it_once() {
    for model in models() {
        let dir = tempfile::tempdir().unwrap();
        drop_after(&model, dir.path(), prompt(300, 1));
        let engine = start(&model, with_disk(dir.path(), SIZE));
        let calls: Vec<_> =
            (0..6).map(|own| engine.submit(request(question(288, 50 + own), 6)).unwrap()).collect();
        for (own, call) in (0..6).zip(calls) {
            let answer = finish(call).unwrap();
            let expected = reference(&model, &request(question(288, 50 + own), 6));
            assert_eq!(answer.seen(), expected, "question {own}");
            let reused = answer.admitted.cached_tokens + answer.admitted.joined_tokens;
            assert_eq!(reused, 288);
        }
        assert_eq!(disk(&engine).restored_tokens, 288);
        wait_until(&engine, |_| engine.stats().blocks_used == 0);
    }
}

/// An engine that answers once and ends.
fn drop_after(model: &TinyModel, folder: &Path, prompt: Vec<TokenId>) -> Answer {
    let engine = start(model, with_disk(folder, SIZE));
    ask(&engine, request(prompt, 12))
}

#[test]
fn damage_costs_a_miss_and_no_more() {
    for model in models() {
        let dir = tempfile::tempdir().unwrap();
        let first = drop_after(&model, dir.path(), prompt(300, 1));
        let pages = dir.path().join("tapri-kv.pages");
        let mut raw = fs::read(&pages).unwrap();
        // One byte in the middle of some page.
        let middle = usize::midpoint(4096, raw.len());
        raw[middle] ^= 1;
        fs::write(&pages, &raw).unwrap();
        let engine = start(&model, with_disk(dir.path(), SIZE));
        let again = ask(&engine, request(prompt(300, 1), 12));
        assert_eq!(again.seen(), first.seen());
        let stats = disk(&engine);
        // It may have been a page that nobody asked for.
        assert!(
            stats.rejected <= 1 && (stats.rejected == 1 || again.admitted.cached_tokens == 288)
        );
        drop(engine);

        // All of it.
        let length = fs::metadata(&pages).unwrap().len();
        let mut raw = fs::read(&pages).unwrap();
        raw[4096..].iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(&pages, &raw).unwrap();
        let engine = start(&model, with_disk(dir.path(), SIZE));
        let again = ask(&engine, request(prompt(300, 1), 12));
        assert_eq!(again.seen(), first.seen());
        assert_eq!(again.admitted.restored_tokens, 0);
        assert!(disk(&engine).rejected > 0);
        drop(engine);

        // It was written anew. Now the file is cut short.
        fs::OpenOptions::new().write(true).open(&pages).unwrap().set_len(length / 2).unwrap();
        let engine = start(&model, with_disk(dir.path(), SIZE));
        let again = ask(&engine, request(prompt(300, 1), 12));
        assert_eq!(again.seen(), first.seen());
        wait_until(&engine, |_| engine.stats().blocks_used == 0);
    }
}

#[test]
fn a_page_in_anothers_place_is_not_taken_for_it() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    let first = drop_after(&model, dir.path(), prompt(300, 1));
    // Two neighbours change places, records and pages: each is whole, and found where its record says.
    let swap = |name: &str, slots: usize| {
        let path = dir.path().join(name);
        let mut raw = fs::read(&path).unwrap();
        let size = (raw.len() - 4096) / slots;
        let (a, b) = raw[4096 + 2 * size..4096 + 4 * size].split_at_mut(size);
        a.swap_with_slice(b);
        fs::write(&path, raw).unwrap();
    };
    let slots = (fs::metadata(dir.path().join("tapri-kv.pages")).unwrap().len() as usize - 4096)
        / (16 << 10);
    swap("tapri-kv.pages", slots);
    let engine = start(&model, with_disk(dir.path(), SIZE));
    let again = ask(&engine, request(prompt(300, 1), 12));
    assert_eq!(again.seen(), first.seen());
    assert!(disk(&engine).rejected > 0);
    drop(engine);

    let dir = tempfile::tempdir().unwrap();
    drop_after(&model, dir.path(), prompt(300, 1));
    for name in ["tapri-kv.pages", "tapri-kv.records"] {
        let path = dir.path().join(name);
        let mut raw = fs::read(&path).unwrap();
        let size = (raw.len() - 4096) / slots;
        let (a, b) = raw[4096 + 2 * size..4096 + 4 * size].split_at_mut(size);
        a.swap_with_slice(b);
        fs::write(&path, raw).unwrap();
    }
    let engine = start(&model, with_disk(dir.path(), SIZE));
    let again = ask(&engine, request(prompt(300, 1), 12));
    assert_eq!(again.seen(), first.seen());
    assert_eq!((again.admitted.restored_tokens, disk(&engine).rejected), (288, 0));
}

/// A tenant's request, of six blocks.
fn of(tenant: &[u8], seed: u32) -> GenerateRequest {
    GenerateRequest { scope: Scope(tenant.to_vec()), ..request(prompt(100, seed), 2) }
}

#[test]
fn what_is_erased_is_gone_from_disk_too_and_others_stay() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    let engine = start(&model, with_disk(dir.path(), SIZE));
    ask(&engine, of(b"a", 1));
    ask(&engine, GenerateRequest { salt: Some("salt".to_owned()), ..of(b"a", 2) });
    ask(&engine, of(b"b", 3));
    wait_until(&engine, |disk| disk.written >= 18);
    let everything = content(dir.path());
    assert_eq!(engine.forget(&Scope(b"a".to_vec())).unwrap().dropped, 12);
    assert_eq!(disk(&engine).pages, 6);
    // Each page of the one is zeros now, and each of the other's is as it was.
    let after = content(dir.path());
    assert_eq!(after.len(), everything.len());
    let page = 16 << 10;
    let pages = |all: &[u8]| all[all.len() - 18 * page..].to_vec();
    let (before, now) = (pages(&everything), pages(&after));
    let zeros = now.chunks(page).filter(|page| page.iter().all(|&byte| byte == 0)).count();
    let same = now.chunks(page).zip(before.chunks(page)).filter(|(a, b)| a == b).count();
    assert_eq!((zeros, same), (12, 6));
    drop(engine);

    let engine = start(&model, with_disk(dir.path(), SIZE));
    // First, since pages are read for certain until computing was measured.
    assert_eq!(ask(&engine, of(b"b", 3)).admitted.cached_tokens, 96);
    assert_eq!(ask(&engine, of(b"a", 1)).admitted.cached_tokens, 0);
    engine.reset_prefix_cache().unwrap();
    assert_eq!(disk(&engine).pages, 0);
    assert!(content(dir.path()).is_empty());
    drop(engine);
    assert!(content(dir.path()).is_empty());
}

#[test]
fn what_may_not_be_stored_or_has_expired_is_not_on_disk() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    // One prompt's room, so that it is evicted as well.
    let kv_memory = 31 * (16 << 10);
    let engine = start(&model, EngineConfig { kv_memory, ..with_disk(dir.path(), SIZE) });
    for seed in 1..4 {
        let mut secret = request(prompt(300, seed), 4);
        secret.cache = CacheUse { read: true, store: false };
        ask(&engine, secret);
    }
    drop(engine);
    assert!(content(dir.path()).is_empty());

    drop_after(&model, dir.path(), prompt(300, 1));
    assert!(!content(dir.path()).is_empty());
    let ttl = Some(Duration::from_nanos(1));
    let engine = start(&model, EngineConfig { prefix_ttl: ttl, ..with_disk(dir.path(), SIZE) });
    assert_eq!(ask(&engine, request(prompt(300, 1), 4)).admitted.cached_tokens, 0);
    drop(engine);
    assert!(content(dir.path()).iter().all(|&byte| byte == 0));
}

#[test]
fn the_size_is_never_exceeded_and_the_last_used_stay() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    // Room for 20 pages: one prompt and a bit.
    let size = 2 * 4096 + 20 * ((16 << 10) + 256);
    let engine = start(&model, with_disk(dir.path(), size));
    assert_eq!(disk(&engine).capacity, 20);
    for seed in 1..5 {
        ask(&engine, request(prompt(300, seed), 4));
        wait_until(&engine, |disk| disk.written >= 18 * u64::from(seed) - 8);
        assert!(files(dir.path()) <= size);
    }
    drop(engine);
    assert!(files(dir.path()) <= size);
    let engine = start(&model, with_disk(dir.path(), size));
    assert_eq!(ask(&engine, request(prompt(300, 4), 4)).admitted.restored_tokens, 288);
    assert_eq!(ask(&engine, request(prompt(300, 1), 4)).admitted.cached_tokens, 0);
}

#[test]
fn who_has_a_share_fills_no_more_of_the_disk_and_costs_no_other_a_page() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    // Room for 40 pages; a prompt of 300 tokens has 18.
    let size = 2 * 4096 + 40 * ((16 << 10) + 256);
    let of = |tenant: &[u8], seed, kv_share| GenerateRequest {
        scope: Scope(tenant.to_vec()),
        kv_share,
        ..request(prompt(300, seed), 2)
    };
    let engine = start(&model, with_disk(dir.path(), size));
    assert_eq!(disk(&engine).capacity, 40);
    ask(&engine, of(b"b", 1, None));
    wait_until(&engine, |disk| disk.written == 18);
    // A quarter is ten pages, however much it sends.
    for seed in 2..7 {
        let written = disk(&engine).written;
        ask(&engine, of(b"a", seed, Some(0.25)));
        wait_until(&engine, |disk| disk.written >= written + 10);
        assert!(disk(&engine).pages <= 28, "{:?}", disk(&engine));
    }
    drop(engine);

    let engine = start(&model, with_disk(dir.path(), size));
    assert_eq!(disk(&engine).pages, 28);
    assert_eq!(ask(&engine, of(b"b", 1, None)).admitted.restored_tokens, 288);
    drop(engine);
    // A share that became smaller holds from its next call on.
    let engine = start(&model, with_disk(dir.path(), size));
    let cache = CacheUse { read: true, store: false };
    ask(&engine, GenerateRequest { cache, ..of(b"a", 9, Some(0.1)) });
    assert_eq!(disk(&engine).pages, 22);
}

#[test]
fn what_no_call_can_find_any_more_is_erased() {
    let model = TinyModel::llama();
    let dir = tempfile::tempdir().unwrap();
    let engine = start(&model, with_disk(dir.path(), SIZE));
    for tenant in [b"old", b"new"] {
        ask(&engine, of(tenant, 1));
    }
    ask(&engine, GenerateRequest { pin: true, max_tokens: 0, logprobs: None, ..of(b"old", 2) });
    drop(engine);
    // Which scopes another model's pages are of, nobody here knows.
    let other = TinyModel::llama3();
    let engine = start(&other, with_disk(dir.path(), SIZE));
    assert_eq!(disk(&engine).pages, 18);
    ask(&engine, of(b"old", 3));
    ask(&engine, of(b"new", 3));
    drop(engine);

    let known = || vec![Scope(b"new".to_vec()), Scope::default()];
    let engine = start(&model, with_disk(dir.path(), SIZE));
    assert_eq!(disk(&engine).pages, 30);
    engine.retain(known()).unwrap();
    assert_eq!(disk(&engine).pages, 18, "twelve of the old scope are gone");
    let zeros = |folder: &Path| {
        let raw = fs::read(folder.join("tapri-kv.pages")).unwrap();
        raw[4096..].chunks(16 << 10).filter(|page| page.iter().all(|&byte| byte == 0)).count()
    };
    assert_eq!(zeros(dir.path()), 12);
    assert_eq!(ask(&engine, of(b"new", 1)).admitted.cached_tokens, 96);
    // A call that began before and ended since: memory and disk keep nothing of it once that is said again.
    assert_eq!(ask(&engine, of(b"old", 1)).admitted.cached_tokens, 0);
    assert!(engine.retain(known()).unwrap().dropped >= 6);
    assert_eq!(ask(&engine, of(b"old", 1)).admitted.cached_tokens, 0);
    drop(engine);
    let engine = start(&other, with_disk(dir.path(), SIZE));
    assert_eq!(disk(&engine).pages, 18, "nor does the end write it");
    engine.retain(known()).unwrap();
    assert_eq!(disk(&engine).pages, 12);
    assert_eq!(ask(&engine, of(b"new", 3)).admitted.cached_tokens, 96);
}

#[test]
fn a_pin_of_a_scope_that_is_gone_holds_no_memory() {
    let model = TinyModel::llama();
    let engine = start(&model, config());
    let pin = GenerateRequest {
        scope: Scope(b"old".to_vec()),
        pin: true,
        logprobs: None,
        ..request(prompt(100, 1), 0)
    };
    ask(&engine, pin);
    assert_eq!(engine.stats().pins, 1);
    let report = engine.retain(vec![Scope::default()]).unwrap();
    assert_eq!((report.pins, engine.stats().pins, engine.stats().blocks_pinned), (1, 0, 0));
}

#[test]
fn a_folder_that_cannot_be_used_is_an_error_or_done_without() {
    let model = TinyModel::llama();
    let fails = |config: EngineConfig| {
        Engine::start_from(&model.gguf(), "tiny".into(), config).unwrap_err()
    };
    let dir = tempfile::tempdir().unwrap();
    let engine = start(&model, with_disk(dir.path(), SIZE));
    let error = fails(with_disk(dir.path(), SIZE));
    assert!(matches!(error, StartError::Disk(DiskError::InUse { .. })), "{error}");
    drop(engine);
    let error = fails(with_disk(dir.path(), 1000));
    assert!(matches!(error, StartError::Disk(DiskError::TooSmall { .. })), "{error}");
    let forgeable = EngineConfig { prefix_hash: PrefixHash::Xxh3, ..with_disk(dir.path(), SIZE) };
    assert!(matches!(fails(forgeable), StartError::Disk(DiskError::Hash("xxh3"))));

    // Someone else's file, and a folder that is a file.
    let foreign = tempfile::tempdir().unwrap();
    fs::write(foreign.path().join("tapri-kv.pages"), "a letter").unwrap();
    let file = foreign.path().join("file");
    fs::write(&file, "another").unwrap();
    for folder in [foreign.path(), &file] {
        let engine = start(&model, with_disk(folder, SIZE));
        assert_eq!(engine.stats().disk, None);
        assert!(engine.model().disk_refused.is_some());
        ask(&engine, request(prompt(100, 1), 4));
        assert_eq!(ask(&engine, request(prompt(100, 1), 4)).admitted.cached_tokens, 96);
    }
    assert_eq!(fs::read(foreign.path().join("tapri-kv.pages")).unwrap(), b"a letter");
}

#[derive(Debug, Clone)]
enum Op {
    /// Questions asked at once, each after so much of one of a few texts.
    Ask(Vec<(u32, usize)>),
    Leave(u32),
    Restart,
    /// A byte of a file is changed while the engine is away.
    Damage(usize),
    Forget,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let asked = prop::collection::vec((1u32..4, 0usize..200), 1..4);
    let op = prop_oneof![
        8 => asked.prop_map(Op::Ask),
        1 => (1u32..4).prop_map(Op::Leave),
        2 => Just(Op::Restart),
        1 => any::<usize>().prop_map(Op::Damage),
        1 => Just(Op::Forget),
    ];
    prop::collection::vec(op, 3..9)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is evicted, written, read back, damaged, erased and joined: text and scores are those of an engine that never
    /// reuses anything.
    #[test]
    fn any_history_says_what_an_engine_without_cache_says(
        ops in ops(), windows in any::<bool>(), blocks in 40u64..90, slots in 5u64..300,
    ) {
        let model = if windows { TinyModel::gemma3() } else { TinyModel::llama() };
        // The one with windows needs a block of each of its six groups for most positions.
        let (page, blocks) = if windows { (8 << 10, 2 * blocks + 20) } else { (16 << 10, blocks) };
        let dir = tempfile::tempdir().unwrap();
        let size = 2 * 4096 + slots * (page + 256);
        let config = || EngineConfig { kv_memory: blocks * page, ..with_disk(dir.path(), size) };
        let never =
            start(&model, EngineConfig { threads: threads(1), prefix_cache: false, ..support::config() });
        let mut engine = start(&model, config());
        let mut own = 100;
        for op in ops {
            match op {
                Op::Ask(asked) => {
                    let requests: Vec<_> = asked.iter().map(|&(text, shared)| {
                        own += 1;
                        request([prompt(shared, text), prompt(17, own)].concat(), 5)
                    }).collect();
                    let calls: Vec<_> =
                        requests.iter().map(|it| engine.submit(it.clone()).unwrap()).collect();
                    for (call, it) in calls.into_iter().zip(requests) {
                        prop_assert_eq!(finish(call).unwrap().seen(), ask(&never, it).seen());
                    }
                }
                Op::Leave(text) => drop(engine.submit(request(prompt(200, text), 5)).unwrap()),
                Op::Restart => {
                    drop(engine);
                    engine = start(&model, config());
                }
                Op::Damage(at) => {
                    drop(engine);
                    for name in ["tapri-kv.records", "tapri-kv.pages"] {
                        let path = dir.path().join(name);
                        let mut raw = fs::read(&path).unwrap();
                        if raw.len() > 4096 {
                            let at = 4096 + at % (raw.len() - 4096);
                            raw[at] ^= 0x41;
                            fs::write(&path, raw).unwrap();
                        }
                    }
                    engine = start(&model, config());
                }
                Op::Forget => {
                    engine.forget(&Scope::default()).unwrap();
                    prop_assert_eq!(disk(&engine).pages, 0);
                    prop_assert!(content(dir.path()).iter().all(|&byte| byte == 0));
                }
            }
            prop_assert!(files(dir.path()) <= size);
        }
    }
}
