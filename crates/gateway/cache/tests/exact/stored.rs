//! Answers in a file behind memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tapri_api::FinishReason;
use tapri_cache::exact::store::sqlite::{OpenError, Sqlite, SqliteConfig};
use tapri_cache::exact::store::{GuardConfig, Guarded, Put, Store};
use tapri_cache::exact::{ExactCache, ExactConfig, ExactPolicy, Filter, Key, Policies, Tags};

use crate::play::*;

/// Names what is to be erased.
type Erase = fn(&mut Filter);

/// Waits as long as a busy machine needs, and asks the store each time.
pub fn patient() -> GuardConfig {
    GuardConfig {
        timeout: Duration::from_secs(60),
        lease: Duration::ZERO,
        ..GuardConfig::default()
    }
}

pub fn on(store: Arc<dyn Store>) -> ExactCache {
    let store = Some(Guarded::new(store, patient()));
    ExactCache::new(ExactConfig { store, ..ExactConfig::default() })
}

fn open(path: &Path) -> ExactCache {
    on(Arc::new(Sqlite::open(SqliteConfig::new(path)).unwrap()))
}

/// Whether any file of the folder has these bytes in it.
fn folder_has(folder: &Path, needle: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|file| {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
    })
}

#[tokio::test]
async fn answers_outlive_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let before = open(&path);
    answered(&before, &ask("Why?"), answer("because")).await;
    before.shutdown(Duration::from_secs(60));
    drop(before);
    let after = open(&path);
    assert_eq!(stored(&after, &ask("Why?")).await.as_deref(), Some("because"));
    assert_eq!(after.stats().memory.entries, 1, "in memory from now on");
    assert_eq!(after.store_stats().await.unwrap().unwrap().entries, 1);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

/// Most calls ask for what isn't there; the file isn't asked for them.
#[tokio::test]
async fn the_file_is_asked_only_for_what_it_may_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let file = Arc::new(Sqlite::open(SqliteConfig::new(&path)).unwrap());
    let (key, other) = (Key::from_bytes([7; 32]), Key::from_bytes([8; 32]));
    assert!(file.lacks(&key) && file.lacks(&other));
    let put = Put {
        key,
        slot: 0,
        bytes: Arc::from(&b"an entry"[..]),
        tags: Tags::default(),
        created: 1,
        expires: None,
        epoch: 0,
    };
    assert!(file.put(put).await.unwrap());
    assert!(!file.lacks(&key) && file.lacks(&other));
    // What another process stores is known once the file was looked at.
    answered(&open(&path), &ask("Why?"), answer("because")).await;
    let ours = on(Arc::clone(&file) as Arc<dyn Store>);
    assert_eq!(stored(&ours, &ask("Why?")).await.as_deref(), Some("because"));
    drop((ours, file));
    let again = Sqlite::open(SqliteConfig::new(&path)).unwrap();
    assert!(!again.lacks(&key) && again.lacks(&other), "known from the start");
}

/// Not a row less and not a byte left: what the answer said is looked for in the files themselves.
#[tokio::test]
async fn what_is_erased_is_in_no_file_any_more() {
    let erasures: [(&str, Erase); 6] = [
        ("tenant", |filter| filter.tenant = Some("acme".into())),
        ("route", |filter| filter.route = Some("legal".into())),
        ("model", |filter| filter.model = Some("m".into())),
        ("document", |filter| filter.document = Some("lease.pdf".into())),
        ("session", |filter| filter.session = Some("s1".into())),
        ("a session that hit", |filter| filter.session = Some("s2".into())),
    ];
    for (what, erase) in erasures {
        let folder = tempfile::tempdir().unwrap();
        let cache = open(&folder.path().join("exact.sqlite"));
        let mut call = in_session("Why?", "s1");
        call.origin.tenant = "acme".into();
        call.origin.route = "legal".into();
        call.origin.document = Some("lease.pdf".into());
        answered(&cache, &call, answer("the rent is 41,250")).await;
        call.origin.conversation = Some("s2".into());
        assert!(stored(&cache, &call).await.is_some());
        assert!(folder_has(folder.path(), "41,250"), "it is there to be erased");

        let mut filter = Filter::default();
        erase(&mut filter);
        assert_eq!(cache.purge(&filter).await.unwrap(), 1, "{what}");
        for trace in ["41,250", "lease.pdf", "acme", "s1\u{0}", "s2\u{0}"] {
            assert!(!folder_has(folder.path(), trace), "{what}: {trace} is still in a file");
        }
        assert_eq!(stored(&cache, &call).await, None, "{what}");
    }
}

#[tokio::test]
async fn what_is_not_matched_stays() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("exact.sqlite"));
    for tenant in ["a", "b"] {
        let mut call = ask("Why?");
        call.origin.tenant = tenant.into();
        answered(&cache, &call, answer(tenant)).await;
    }
    let filter = Filter { tenant: Some("a".into()), ..Filter::default() };
    assert_eq!(cache.purge(&filter).await.unwrap(), 1);
    let mut call = ask("Why?");
    call.origin.tenant = "b".into();
    assert_eq!(stored(&cache, &call).await.as_deref(), Some("b"));
    let older_than = Some(Duration::from_secs(3600));
    assert_eq!(cache.purge(&Filter { older_than, ..Filter::default() }).await.unwrap(), 0);
}

/// `tapri cache purge` on the file of a server that runs: another process erases.
#[tokio::test]
async fn an_erasure_by_another_process_reaches_memory_and_calls_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let (serving, other) = (open(&path), open(&path));
    answered(&serving, &ask("Why?"), answer("because")).await;
    assert!(stored(&serving, &ask("Why?")).await.is_some());
    let (reader, model) = start(&serving, &ask("When?")).await;
    assert_eq!(other.purge(&Filter::default()).await.unwrap(), 1);
    assert_eq!(stored(&serving, &ask("Why?")).await, None, "memory forgot it as well");
    model.says(answer("now"));
    assert_eq!(text(&read(reader).await), "now");
    settled(&serving).await;
    assert_eq!(stored(&serving, &ask("When?")).await, None, "asked before the erasure");
    assert!(!folder_has(folder.path(), "\"now\""));
}

/// Memory answers without asking the file for as long as the lease says.
#[tokio::test]
async fn an_erasure_by_another_process_is_seen_within_the_lease() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let guard = GuardConfig { lease: Duration::from_secs(3600), ..patient() };
    let store = Sqlite::open(SqliteConfig::new(&path)).unwrap();
    let store = Some(Guarded::new(Arc::new(store), guard));
    let cache = ExactCache::new(ExactConfig { store, ..ExactConfig::default() });
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(open(&path).purge(&Filter::default()).await.unwrap(), 1);
    assert!(stored(&cache, &ask("Why?")).await.is_some(), "not asked yet");
    assert_eq!(cache.purge(&Filter::default()).await.unwrap(), 0, "its own is seen at once");
    assert_eq!(stored(&cache, &ask("Why?")).await, None);
}

#[tokio::test]
async fn a_corrupt_file_is_set_aside_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    fs::write(&path, "SQLite format 3\0 and then nothing that makes sense".repeat(200)).unwrap();
    let store = Sqlite::open(SqliteConfig::new(&path)).unwrap();
    let aside = store.aside().unwrap().to_owned();
    assert!(fs::read(aside).unwrap().starts_with(b"SQLite format 3\0 and"), "kept for people");
    let cache = on(Arc::new(store));
    answered(&cache, &ask("Why?"), answer("because")).await;
    assert_eq!(cache.store_stats().await.unwrap().unwrap().entries, 1);
}

/// Pages are overwritten while the file is open: misses and a counted warning, then a new file.
#[tokio::test]
async fn a_file_that_breaks_while_it_is_used_costs_misses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let store = Some(Guarded::new(
        Arc::new(Sqlite::open(SqliteConfig::new(&path)).unwrap()),
        GuardConfig { rest: Duration::ZERO, ..patient() },
    ));
    // No room in memory: each lookup goes to the file.
    let cache = ExactCache::new(ExactConfig { store, memory_bytes: 0, ..ExactConfig::default() });
    // More than SQLite itself holds in memory.
    let right = "x".repeat(100_000);
    for n in 0..50 {
        answered(&cache, &ask(&n.to_string()), answer(&right)).await;
    }
    // Folded into the file, so that the file is what is read.
    cache.purge(&Filter { tenant: Some("nobody".into()), ..Filter::default() }).await.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    for n in 0..50 {
        let call = ask(&n.to_string());
        let text = match look(&cache, &call).await {
            tapri_cache::exact::Look::Hit(hit) => text(&hit.events()),
            _ => right.clone(),
        };
        assert!(text == right, "the right answer or none");
    }
    assert!(cache.stats().store_errors > 0);
    answered(&cache, &ask("after"), answer("anew")).await;
    assert_eq!(stored(&cache, &ask("after")).await.as_deref(), Some("anew"));
    let aside = |name: &str| name.contains(".corrupt-");
    let names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().any(|name| aside(name)), "{names:?}");
}

#[tokio::test]
async fn another_programs_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("theirs.sqlite");
    let theirs = rusqlite::Connection::open(&path).unwrap();
    theirs.execute_batch("CREATE TABLE t (x)").unwrap();
    drop(theirs);
    let before = fs::read(&path).unwrap();
    let error = Sqlite::open(SqliteConfig::new(&path)).unwrap_err();
    assert!(matches!(error, OpenError::NoCache { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// What another version wrote, what was changed, and what stands under another name is never served.
#[tokio::test]
async fn entries_that_are_not_what_they_seem_are_misses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let cache = open(&path);
    for question in ["a", "b", "c", "d"] {
        answered(&cache, &ask(question), answer(question)).await;
    }
    cache.shutdown(Duration::from_secs(60));
    drop(cache);
    let file = rusqlite::Connection::open(&path).unwrap();
    let body = |id: i64| -> Vec<u8> {
        file.query_row("SELECT body FROM bodies WHERE id = ?1", [id], |row| row.get(0)).unwrap()
    };
    let set = |id: i64, body: &[u8]| {
        file.execute("UPDATE bodies SET body = ?2 WHERE id = ?1", (id, body)).unwrap();
    };
    let (first, mut second, third) = (body(1), body(2), body(3));
    let mut newer = first.clone();
    newer[4] += 1;
    set(1, &newer);
    let last = second.len() - 1;
    second[last] ^= 1;
    set(2, &second);
    set(3, &body(4));
    drop(file);
    let cache = open(&path);
    assert_eq!(stored(&cache, &ask("a")).await, None);
    assert_eq!(cache.stats().store_errors, 0, "another version's entry is a miss as any other");
    assert_eq!(stored(&cache, &ask("b")).await, None);
    assert_eq!(stored(&cache, &ask("c")).await, None, "the answer to d");
    assert_eq!(cache.stats().store_errors, 2);
    assert_eq!(stored(&cache, &ask("d")).await.as_deref(), Some("d"));
    drop(third);
}

#[tokio::test]
async fn the_file_keeps_to_its_bound_and_the_oldest_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let config = SqliteConfig { max_bytes: 40_000, ..SqliteConfig::new(&path) };
    let cache = on(Arc::new(Sqlite::open(config).unwrap()));
    for n in 0..100 {
        answered(&cache, &ask(&n.to_string()), answer(&"x".repeat(1000))).await;
        assert!(cache.store_stats().await.unwrap().unwrap().bytes <= 40_000);
    }
    drop(cache);
    let cache = open(&path);
    assert_eq!(stored(&cache, &ask("0")).await, None);
    assert!(stored(&cache, &ask("99")).await.is_some());
}

#[tokio::test]
async fn variants_are_kept_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("exact.sqlite");
    let policy = ExactPolicy { variants: 2, ..ExactPolicy::default() };
    let with = || {
        let cache = open(&path);
        cache.set_policies(Policies::all(policy.clone()));
        cache
    };
    let cache = with();
    for text in ["a", "b"] {
        answered(&cache, &ask("Why?"), answer(text)).await;
    }
    drop(cache);
    let cache = with();
    let seen = [stored(&cache, &ask("Why?")).await, stored(&cache, &ask("Why?")).await];
    assert_eq!(seen, [Some("a".into()), Some("b".into())]);
}

#[tokio::test]
async fn an_upstream_that_dies_mid_stream_leaves_nothing_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let cache = open(&folder.path().join("exact.sqlite"));
    answered(&cache, &ask("Why?"), vec![admitted(), token("half an answer"), failed()]).await;
    answered(
        &cache,
        &ask("How?"),
        vec![admitted(), token("half an answer"), finished(FinishReason::Length)],
    )
    .await;
    assert_eq!(cache.store_stats().await.unwrap().unwrap().entries, 0);
    assert!(!folder_has(folder.path(), "half an answer"));
}
