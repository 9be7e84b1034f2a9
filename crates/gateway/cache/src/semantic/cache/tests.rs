#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tapri_embed::letters::Letters;

use super::*;
use crate::exact::SystemClock;
use crate::semantic::store::Known;
use crate::semantic::{SemanticMode, SemanticStore};

fn cache(store: impl Keeper, mode: SemanticMode) -> SemanticCache {
    let policy = SemanticPolicy { mode, recheck: 1.0, entries: 3, ..SemanticPolicy::default() };
    let policies = HashMap::from([("/r".to_owned(), policy)]);
    let embedder = Embedder::checked(Letters::sound()).unwrap();
    SemanticCache::open(embedder, store, policies, Arc::new(SystemClock), 1).unwrap()
}

#[derive(Debug)]
struct Fixed(Mutex<SystemTime>);

impl Clock for Fixed {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

fn asked(question: &str, scope: u8) -> Asked {
    Asked { question: question.to_owned(), scope: Key::from_bytes([scope; 32]) }
}

fn owner(tenant: &str) -> Owner {
    Owner { tenant: tenant.to_owned(), route: "/r".to_owned(), ..Owner::default() }
}

fn keep(cache: &SemanticCache, question: &str, scope: u8, answer: u8, tenant: &str) {
    let asked = asked(question, scope);
    let look = cache.look(&asked, "/r").unwrap();
    assert!(cache.keep(&asked, &look, Key::from_bytes([answer; 32]), owner(tenant)));
}

fn label(cache: &SemanticCache, candidate: &Candidate, verdict: Verdict, epoch: Epoch) {
    let label = Label {
        entry: candidate.id,
        owner: owner("t"),
        // As near as the highest threshold asks, which is the first to be shown.
        similarity: 0.99,
        verdict,
        by: "text",
        served: false,
        at: 0,
        stored: [String::new(), "one answer".to_owned()],
        asked: [String::new(), "another".to_owned()],
    };
    cache.learn(label, epoch);
}

#[test]
fn it_shadows_until_the_labels_allow_it_and_a_wrong_answer_goes() {
    let cache = cache(SemanticStore::in_memory().unwrap(), SemanticMode::Serve);
    keep(&cache, "How do I cancel my plan?", 1, 1, "t");
    let near = asked("Hi, how can I cancel my plan?", 1);
    for n in 0..crate::semantic::evidence::labels_needed(0.01) {
        let look = cache.look(&near, "/r").unwrap();
        let Decision::Shadow(candidate) = &look.decision else { panic!("served after {n}") };
        label(&cache, candidate, Verdict::Same, look.epoch);
    }
    let look = cache.look(&near, "/r").unwrap();
    let Decision::Serve { candidate, check: true } = &look.decision else { panic!("{look:?}") };
    // Other scopes, other questions, other routes.
    assert_eq!(cache.look(&asked(&near.question, 2), "/r").unwrap().nearest, None);
    let guarded = cache.look(&asked("How do I renew my plan?", 1), "/r").unwrap();
    assert_eq!(guarded.decision, Decision::Nothing);
    assert!(!guarded.nearest.unwrap().objections.is_empty());
    // A wrong one: it is gone, and the route serves no more.
    label(&cache, candidate, Verdict::Wrong, look.epoch);
    assert!(cache.is_empty());
    keep(&cache, "How do I cancel my plan?", 1, 1, "t");
    let look = cache.look(&near, "/r").unwrap();
    assert!(matches!(look.decision, Decision::Shadow(_)), "{look:?}");
    assert_eq!(cache.status()[0].threshold, None);
    assert_eq!(cache.counts().wrong, 1);
}

#[test]
fn it_is_found_again_after_a_restart_and_gone_after_an_erasure() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("semantic.sqlite");
    let near = asked("How can I cancel my plan?", 1);
    {
        let cache = cache(SemanticStore::open(&file).unwrap(), SemanticMode::Shadow);
        keep(&cache, "How do I cancel my plan?", 1, 1, "a");
        keep(&cache, "Where is my parcel?", 1, 2, "b");
        let look = cache.look(&near, "/r").unwrap();
        let Decision::Shadow(candidate) = &look.decision else { panic!("{look:?}") };
        label(&cache, candidate, Verdict::Unsettled, look.epoch);
    }
    let cache = cache(SemanticStore::open(&file).unwrap(), SemanticMode::Shadow);
    assert_eq!(cache.len(), 2);
    let waiting = cache.unsettled(10).unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(cache.status()[0].bands[0].tally.wrong, 1);
    // A person settles it, elsewhere.
    let mut elsewhere = SemanticStore::open(&file).unwrap();
    assert!(elsewhere.settle(waiting[0].id, Verdict::Same).unwrap().is_some());
    assert!(elsewhere.settle(waiting[0].id, Verdict::Wrong).unwrap().is_none());
    cache.refresh().unwrap();
    assert_eq!(cache.status()[0].bands[0].tally.wrong, 0);

    let before = cache.look(&near, "/r").unwrap();
    let filter = Filter { tenant: Some("a".to_owned()), ..Filter::default() };
    assert_eq!(cache.purge(&filter).unwrap(), 1);
    assert_eq!(cache.len(), 1);
    assert_eq!(cache.look(&near, "/r").unwrap().decision, Decision::Nothing);
    // What was begun before the erasure is not kept after it.
    assert!(!cache.keep(&near, &before, Key::from_bytes([3; 32]), owner("a")));
    drop(cache);
    for file in std::fs::read_dir(dir.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("cancel my plan"), "the question is still in the file");
    }
}

#[test]
fn the_oldest_of_a_scope_make_room_and_time_runs_out() {
    let clock = Arc::new(Fixed(Mutex::new(UNIX_EPOCH + Duration::from_secs(1_000_000))));
    let policy = SemanticPolicy {
        mode: SemanticMode::Shadow,
        entries: 2,
        ttl: Some(Duration::from_secs(60)),
        ..SemanticPolicy::default()
    };
    let policies = HashMap::from([("/r".to_owned(), policy)]);
    let store = SemanticStore::in_memory().unwrap();
    let embedder = Embedder::checked(Letters::sound()).unwrap();
    let cache = SemanticCache::open(embedder, store, policies, clock.clone(), 1).unwrap();
    for (number, question) in
        ["What is tea?", "Who sells soap?", "Why is it late?"].iter().enumerate()
    {
        keep(&cache, question, 1, number as u8, "t");
    }
    assert_eq!(cache.len(), 2);
    let found = |question: &str| cache.look(&asked(question, 1), "/r").unwrap().decision;
    assert_eq!(found("What is tea?"), Decision::Nothing);
    assert!(matches!(found("Who sells soap?"), Decision::Shadow(_)));
    *clock.0.lock().unwrap() += Duration::from_secs(61);
    assert_eq!(found("Who sells soap?"), Decision::Nothing);
}

/// A file behind a gate: while it is closed, whatever is written waits.
struct Gated {
    file: SemanticStore,
    gate: mpsc::Receiver<()>,
    open: bool,
}

impl Gated {
    fn pass(&mut self) -> &mut SemanticStore {
        if !self.open {
            // A sender that is gone is an open gate.
            self.open = self.gate.recv().is_err();
        }
        &mut self.file
    }
}

impl Keeper for Gated {
    fn name(&self) -> &'static str {
        "gated"
    }

    fn questions(
        &mut self,
        encoder: &str,
    ) -> Result<Vec<(RowId, StoredQuestion)>, SemanticStoreError> {
        self.file.questions(encoder)
    }

    fn keep(
        &mut self,
        id: RowId,
        question: &StoredQuestion,
        encoder: &str,
        erasures: u64,
    ) -> Result<(), SemanticStoreError> {
        self.pass().keep(id, question, encoder, erasures)
    }

    fn remove(&mut self, id: RowId) -> Result<(), SemanticStoreError> {
        self.pass().remove(id)
    }

    fn label(&mut self, label: &Label, erasures: u64) -> Result<(), SemanticStoreError> {
        self.pass().label(label, erasures)
    }

    fn known(&mut self) -> Result<Known, SemanticStoreError> {
        self.file.known()
    }

    fn unsettled(&mut self, limit: usize) -> Result<Vec<Shown>, SemanticStoreError> {
        self.pass().unsettled(limit)
    }

    fn settle(
        &mut self,
        id: i64,
        verdict: Verdict,
    ) -> Result<Option<(String, f32)>, SemanticStoreError> {
        self.pass().settle(id, verdict)
    }

    fn purge(&mut self, filter: &Filter, now: u64) -> Result<usize, SemanticStoreError> {
        self.pass().purge(filter, now)
    }
}

/// Does it on a thread of its own, and fails where it doesn't come back.
fn soon<T: Send + 'static>(what: &str, it: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, came) = mpsc::channel();
    thread::spawn(move || done.send(it()));
    came.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("it hangs: {what}"))
}

#[test]
fn a_store_that_hangs_holds_nobody_up_and_what_it_cannot_take_is_counted() {
    let (gate, closed) = mpsc::channel();
    let file = SemanticStore::in_memory().unwrap();
    let cache = cache(Gated { file, gate: closed, open: false }, SemanticMode::Serve);
    let near = asked("How can I cancel my plan?", 1);
    let wrong = {
        let (cache, near) = (cache.clone(), near.clone());
        soon("a question is kept and found", move || {
            keep(&cache, "How do I cancel my plan?", 1, 1, "t");
            let look = cache.look(&near, "/r").unwrap();
            let Decision::Shadow(candidate) = look.decision else { panic!("{look:?}") };
            (candidate, look.epoch)
        })
    };
    // More than it has room for.
    let kept = {
        let cache = cache.clone();
        soon("many are kept", move || {
            for n in 0..400_usize {
                let scope = 2 + (n % 200) as u8;
                let asked = asked("Where is my parcel?", scope);
                let look = cache.look(&asked, "/r").unwrap();
                let mut answer = [scope; 32];
                answer[1] = (n / 200) as u8;
                assert!(cache.keep(&asked, &look, Key::from_bytes(answer), owner("t")));
            }
            cache.len()
        })
    };
    assert_eq!(kept, 401, "in memory all of them are there");
    let dropped = cache.counts().dropped;
    assert!((100..400).contains(&dropped), "{dropped}");
    // A label against the route counts, and its question is gone, though the store takes neither now.
    {
        let (cache, near) = (cache.clone(), near.clone());
        soon("a wrong one is learnt", move || {
            label(&cache, &wrong.0, Verdict::Wrong, wrong.1);
            label(&cache, &wrong.0, Verdict::Same, wrong.1);
            assert_eq!(cache.look(&near, "/r").unwrap().decision, Decision::Nothing);
        });
    }
    let first = |cache: &SemanticCache| cache.status()[0].bands[0].tally;
    assert_eq!((first(&cache).labels, first(&cache).wrong), (1, 1), "no record, no trust");
    // The store comes back: what was removed isn't there, and what spoke against the route still does.
    drop(gate);
    cache.refresh().unwrap();
    assert_eq!((first(&cache).labels, first(&cache).wrong), (1, 1));
    let id = Key::from_bytes([1; 32]);
    let id = crate::semantic::store::id_of(id);
    let gone = || {
        let rows = cache.inner.writer.ask(|store| store.questions("letters")).unwrap();
        rows.len() > 200 && rows.iter().all(|(row, _)| *row != id)
    };
    // A removal that came late is made when the queue is empty.
    assert!((0..1000).any(|_| gone()));
}

#[test]
fn a_persons_word_in_another_process_counts_within_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("semantic.sqlite");
    let clock = Arc::new(Fixed(Mutex::new(UNIX_EPOCH + Duration::from_secs(1_000_000))));
    let policies = HashMap::from([(
        "/r".to_owned(),
        SemanticPolicy { mode: SemanticMode::Shadow, ..SemanticPolicy::default() },
    )]);
    let embedder = Embedder::checked(Letters::sound()).unwrap();
    let store = SemanticStore::open(&file).unwrap();
    let cache = SemanticCache::open(embedder, store, policies, clock.clone(), 1).unwrap();
    keep(&cache, "How do I cancel my plan?", 1, 1, "t");
    let near = asked("How can I cancel my plan?", 1);
    let look = cache.look(&near, "/r").unwrap();
    let Decision::Shadow(candidate) = &look.decision else { panic!("{look:?}") };
    label(&cache, candidate, Verdict::Unsettled, look.epoch);
    let waiting = cache.unsettled(1).unwrap().remove(0).id;
    SemanticStore::open(&file).unwrap().settle(waiting, Verdict::Same).unwrap();
    let wrong = || {
        cache.look(&near, "/r").unwrap();
        cache.status()[0].bands[0].tally.wrong
    };
    assert_eq!(wrong(), 1);
    *clock.0.lock().unwrap() += Duration::from_secs(61);
    // The first look has it read, and a later one knows.
    assert!((0..10_000).any(|_| wrong() == 0));
}
