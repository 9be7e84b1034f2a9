//! Cases in their file: what is kept, whose it is, and what is gone when it is deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;

use jiff::Timestamp;
use tapri_casefile::{
    Document, Figures, NewFile, OpenError, Sections, SignIn, Store, StoreError, TurnState,
};

fn now(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn document(name: &str, text: &str) -> Document {
    Document::from_bytes(name, text.as_bytes()).unwrap()
}

#[test]
fn a_case_is_there_after_a_restart_and_an_open_answer_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/cases.sqlite");
    let store = Store::open(&path).unwrap();
    let case = store.create("red", "lease.txt", now(0)).unwrap();
    let tokens = [3, 4];
    let lease = document("lease.txt", "The lease.");
    let new = NewFile { document: &lease, tokens: Some(&tokens) };
    let first = store.add_file(&case, new, now(1)).unwrap();
    let second = document("b.md", "More.");
    store.add_file(&case, NewFile { document: &second, tokens: None }, now(2)).unwrap();
    assert_eq!(store.ask(&case, "Who?", now(3)).unwrap(), 0);
    assert!(matches!(store.ask(&case, "When?", now(4)), Err(StoreError::Busy)));
    let figures = Figures { prompt: Some(9), cached: Some(8), ..Figures::default() };
    store.end_turn(&case, 0, "She.", TurnState::Answered, &figures).unwrap();
    assert_eq!(store.ask(&case, "When?", now(5)).unwrap(), 1);
    store.keep_partial(&case, 1, "At fi").unwrap();
    store.choose(&case, &first, Some(&"2".parse().unwrap())).unwrap();
    store.instruct(&case, Some("Be brief."), false, now(6)).unwrap();
    drop(store);

    let store = Store::open(&path).unwrap();
    let kept = store.case("red", &case).unwrap();
    assert_eq!((kept.instructions.as_deref(), kept.tools), (Some("Be brief."), false));
    assert_eq!((kept.created, kept.updated), (now(0), now(6)));
    let files = store.files(&case).unwrap();
    assert_eq!(files.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["lease.txt", "b.md"]);
    assert_eq!((files[0].tokens, files[1].tokens), (Some(7), None));
    assert_eq!(files[0].chosen, Some("2".parse::<Sections>().unwrap()));
    assert_eq!(store.section_tokens(&case, &first).unwrap(), Some(vec![3, 4]));
    let turns = store.turns(&case).unwrap();
    assert_eq!(turns[0].figures, Some(figures));
    assert_eq!((turns[1].state, turns[1].answer.as_str()), (TurnState::Interrupted, "At fi"));
    assert_eq!(store.ask(&case, "When?", now(7)).unwrap(), 2);
    // Another's case is not there.
    assert!(matches!(store.case("blue", &case), Err(StoreError::NoCase)));
    assert!(store.list("blue").unwrap().is_empty() && store.list("red").unwrap().len() == 1);
}

#[test]
fn a_question_asked_again_takes_its_old_turns_place_or_leaves_it() {
    let store = Store::open(&tempfile::tempdir().unwrap().path().join("cases.sqlite")).unwrap();
    let case = store.create("red", "lease.txt", now(0)).unwrap();
    let figures = Figures::default();
    store.ask(&case, "Who?", now(1)).unwrap();
    store.end_turn(&case, 0, "", TurnState::Failed, &figures).unwrap();
    store.ask(&case, "When?", now(2)).unwrap();
    for n in [0, 1] {
        assert!(matches!(store.ask_again(&case, n, now(3)), Err(StoreError::Busy)), "{n}");
        assert_eq!(store.turns(&case).unwrap().len(), 2, "nothing is lost");
    }
    store.end_turn(&case, 1, "Now.", TurnState::Answered, &figures).unwrap();
    assert_eq!(store.ask_again(&case, 7, now(4)).unwrap(), None);
    assert_eq!(store.ask_again(&case, 0, now(5)).unwrap(), Some((2, "Who?".to_owned())));
    let turns = store.turns(&case).unwrap();
    assert_eq!(turns.iter().map(|turn| turn.n).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(turns[1].state, TurnState::Running);
}

#[test]
fn what_is_deleted_is_in_no_file_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.sqlite");
    let store = Store::open(&path).unwrap();
    let found = |text: &str| {
        fs::read_dir(folder.path()).unwrap().any(|entry| {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            bytes.windows(text.len()).any(|at| at == text.as_bytes())
        })
    };
    let case = store.create("red", "secret.txt", now(0)).unwrap();
    let text = format!("The {} of the matter. ", "heart").repeat(2000);
    let file = document("secret.txt", &text);
    let id = store.add_file(&case, NewFile { document: &file, tokens: None }, now(1)).unwrap();
    let other = document("other.txt", "It stays.");
    store.add_file(&case, NewFile { document: &other, tokens: None }, now(1)).unwrap();
    store.ask(&case, "What is the kernel?", now(2)).unwrap();
    store.end_turn(&case, 0, "A pip.", TurnState::Answered, &Figures::default()).unwrap();
    assert!(found("heart of the matter") && found("A pip."));
    assert!(matches!(store.delete_file(&case, "0", now(3)), Err(StoreError::NoFile)));
    store.delete_file(&case, &id, now(3)).unwrap();
    for gone in ["heart of the matter", "A pip.", "the kernel", "secret.txt"] {
        assert!(!found(gone), "{gone}");
    }
    assert_eq!(store.case("red", &case).unwrap().title, "other.txt");
    assert!(found("It stays."));
    store.delete(&case).unwrap();
    assert!(!found("It stays.") && store.list("red").unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.sqlite");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let store = Store::open(&path).unwrap();
    store.create("red", "x", now(0)).unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.sqlite");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE x (y)").unwrap();
    drop(other);
    assert!(matches!(Store::open(&path), Err(OpenError::Foreign { .. })));
    let path = folder.path().join("newer.sqlite");
    drop(Store::open(&path).unwrap());
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    assert!(matches!(Store::open(&path), Err(OpenError::Newer { found: 99, .. })));
}

/// A file as the first version made it.
#[test]
fn an_older_file_is_brought_up_and_keeps_its_cases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cases.sqlite");
    let id = Store::open(&path).unwrap().create("a", "Lease", Timestamp::UNIX_EPOCH).unwrap();
    let older = rusqlite::Connection::open(&path).unwrap();
    let back =
        "DROP TABLE sign_ins; ALTER TABLE cases DROP COLUMN search_first; PRAGMA user_version = 1;";
    older.execute_batch(back).unwrap();
    drop(older);
    for searches in [false, true] {
        let store = Store::open(&path).unwrap();
        let case = store.case("a", &id).unwrap();
        assert_eq!((case.title.as_str(), case.search_first), ("Lease", searches));
        assert_eq!(store.sign_ins().unwrap().len(), usize::from(searches));
        store.set_search_first(&id, true).unwrap();
        let (begun, used) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        store.keep_sign_ins(&[SignIn { name: [1; 32], key: [2; 32], begun, used }], &[]).unwrap();
    }
}

#[test]
fn sign_ins_are_kept_used_again_and_taken_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("cases.sqlite")).unwrap();
    let at = |second| Timestamp::from_second(second).unwrap();
    let one = SignIn { name: [1; 32], key: [2; 32], begun: at(10), used: at(10) };
    let other = SignIn { name: [3; 32], ..one };
    store.keep_sign_ins(&[one, other], &[]).unwrap();
    let used = SignIn { used: at(50), ..one };
    store.keep_sign_ins(&[used], &[other.name]).unwrap();
    assert_eq!(store.sign_ins().unwrap(), [used]);
    let shown = format!("{used:?}");
    assert!(shown.contains("0101***") && !shown.contains("key"), "{shown}");
}
