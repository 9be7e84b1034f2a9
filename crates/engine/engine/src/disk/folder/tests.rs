use super::*;

const GEOMETRY: Geometry = Geometry { page_bytes: 1000, block_tokens: 16 };

/// A size with room for so many slots.
fn size(slots: u64) -> u64 {
    2 * HEAD + slots * GEOMETRY.slot_bytes()
}

fn open(folder: &Path, slots: u64) -> (Folder, Vec<(u32, Record)>) {
    Folder::open(folder, size(slots), GEOMETRY).unwrap()
}

fn record(name: u8) -> Record {
    Record {
        root: [name; 32],
        family: 7,
        hash: [name; 32],
        parent: [name; 32],
        group: 0,
        number: name.into(),
        used: 5,
        tokens: vec![u32::from(name) + 0x00AB_CDEF; 16],
    }
}

fn page(name: u8) -> Vec<u8> {
    vec![name; GEOMETRY.page_bytes]
}

fn bytes(folder: &Path) -> u64 {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn what_was_written_is_there_the_next_time() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (folder, found) = open(dir.path(), 4);
        assert_eq!((folder.capacity(), found.len()), (4, 0));
        for name in [1, 2, 3] {
            folder.write(name.into(), &record(name), &page(name)).unwrap();
        }
        folder.touch(2, 9).unwrap();
        folder.erase(1).unwrap();
        assert!(bytes(dir.path()) <= size(4));
    }
    let (folder, found) = open(dir.path(), 4);
    let named: Vec<(u32, u64)> = found.iter().map(|(slot, record)| (*slot, record.used)).collect();
    assert_eq!(named, [(2, 9), (3, 5)]);
    assert_eq!(folder.read(3, &record(3)).unwrap(), page(3));
    assert!(matches!(folder.read(3, &record(2)), Err(PageError::Another)));
    assert!(matches!(folder.read(1, &record(1)), Err(PageError::Damaged)));
}

#[test]
fn a_folder_that_nobody_uses_is_emptied_whole() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(clear_folder(&dir.path().join("nowhere")).unwrap(), 0);
    let (folder, _) = open(dir.path(), 4);
    for name in [1, 2, 3] {
        folder.write(name.into(), &record(name), &page(name)).unwrap();
    }
    folder.erase(1).unwrap();
    assert!(matches!(clear_folder(dir.path()), Err(DiskError::InUse { .. })));
    folder.close().unwrap();
    drop(folder);
    assert_eq!(clear_folder(dir.path()).unwrap(), 2);
    assert_eq!((bytes(dir.path()), clear_folder(dir.path()).unwrap()), (0, 0));
    assert!(open(dir.path(), 4).1.is_empty(), "it can be used again");
    // Files of others are left as they are.
    let foreign = dir.path().join(RECORDS);
    fs::write(&foreign, "a letter").unwrap();
    assert!(
        matches!(clear_folder(dir.path()), Err(DiskError::Foreign { file }) if file == foreign)
    );
    assert_eq!(fs::read(&foreign).unwrap(), b"a letter");
}

#[test]
fn a_flipped_byte_anywhere_in_a_page_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, _) = open(dir.path(), 2);
    folder.write(1, &record(1), &page(1)).unwrap();
    let path = dir.path().join(PAGES);
    for at in [0, 17, GEOMETRY.page_bytes - 1] {
        let mut raw = fs::read(&path).unwrap();
        let at = HEAD as usize + GEOMETRY.page_bytes + at;
        raw[at] ^= 0x10;
        fs::write(&path, &raw).unwrap();
        assert!(matches!(folder.read(1, &record(1)), Err(PageError::Damaged)));
        raw[at] ^= 0x10;
        fs::write(&path, &raw).unwrap();
        assert_eq!(folder.read(1, &record(1)).unwrap(), page(1));
    }
}

#[test]
fn a_page_that_a_crash_tore_is_not_found_or_not_read() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (folder, _) = open(dir.path(), 3);
        for name in [0, 1, 2] {
            folder.write(name.into(), &record(name), &page(name)).unwrap();
        }
    }
    // The last page ends in its middle, and of the one before a part came from elsewhere.
    let path = dir.path().join(PAGES);
    let mut raw = fs::read(&path).unwrap();
    let start = HEAD as usize + GEOMETRY.page_bytes;
    raw[start + 500..start + 900].fill(0);
    raw.truncate(raw.len() - 400);
    fs::write(&path, raw).unwrap();
    let (folder, found) = open(dir.path(), 3);
    assert_eq!(found.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), [0, 1]);
    assert!(folder.read(0, &record(0)).is_ok());
    assert!(matches!(folder.read(1, &record(1)), Err(PageError::Damaged)));
    // A record that was torn is none.
    let path = dir.path().join(RECORDS);
    let mut raw = fs::read(&path).unwrap();
    raw.truncate(HEAD as usize + GEOMETRY.record_bytes() + 70);
    fs::write(&path, raw).unwrap();
    drop(folder);
    let (_, found) = open(dir.path(), 3);
    assert_eq!(found.len(), 1);
}

#[test]
fn erased_bytes_are_gone_from_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, _) = open(dir.path(), 3);
    folder.write(0, &record(7), &page(7)).unwrap();
    folder.write(2, &record(9), &page(9)).unwrap();
    let holds = |byte: u8, run: usize| {
        let in_file = |name: &str| {
            let raw = fs::read(dir.path().join(name)).unwrap();
            raw[HEAD as usize..].windows(run).any(|bytes| bytes.iter().all(|it| *it == byte))
        };
        in_file(RECORDS) || in_file(PAGES)
    };
    assert!(holds(7, 8) && holds(9, 8));
    folder.erase(0).unwrap();
    assert!(!holds(7, 8) && holds(9, 8));
    folder.clear().unwrap();
    assert_eq!(bytes(dir.path()), 2 * HEAD);
}

#[test]
fn what_a_kill_left_without_a_record_is_erased_and_a_closed_folder_is_taken_at_its_word() {
    let dir = tempfile::tempdir().unwrap();
    let pages = || fs::read(dir.path().join(PAGES)).unwrap()[HEAD as usize..].to_vec();
    // A page whose record was never written, between two that are whole.
    let leave = |close: bool| {
        let (folder, _) = open(dir.path(), 3);
        for name in [1, 3] {
            folder.write(u32::from(name) - 1, &record(name), &page(name)).unwrap();
        }
        write_at(&folder.pages, folder.page_at(1), &page(2)).unwrap();
        if close {
            folder.close().unwrap();
        }
    };
    let holds = |byte: u8| pages().chunks(GEOMETRY.page_bytes).any(|it| it == page(byte));
    leave(false);
    assert!(holds(2));
    let (folder, found) = open(dir.path(), 3);
    assert_eq!(found.len(), 2);
    assert!(!holds(2) && holds(1) && holds(3));
    drop(folder);
    // Said to be closed, which no engine says that leaves such a page: it isn't looked for.
    leave(true);
    drop(open(dir.path(), 3));
    assert!(holds(2));
    // That start was not closed.
    let (folder, found) = open(dir.path(), 3);
    assert!(found.len() == 2 && !holds(2));
    // A damaged record is seen either way, and takes its page with it.
    folder.close().unwrap();
    drop(folder);
    let path = dir.path().join(RECORDS);
    let mut raw = fs::read(&path).unwrap();
    raw[HEAD as usize + 40] ^= 1;
    fs::write(&path, raw).unwrap();
    let (_, found) = open(dir.path(), 3);
    assert!(found.len() == 1 && !holds(1) && holds(3));
}

#[test]
fn a_smaller_size_is_kept_to_at_once() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (folder, _) = open(dir.path(), 5);
        for name in 0..5 {
            folder.write(name.into(), &record(name), &page(name)).unwrap();
        }
    }
    let (_, found) = open(dir.path(), 2);
    assert_eq!(found.len(), 2);
    assert!(bytes(dir.path()) <= size(2));
    let error = Folder::open(&dir.path().join("other"), size(1) - 1, GEOMETRY).unwrap_err();
    assert!(matches!(error, DiskError::TooSmall { .. }), "{error}");
}

#[test]
fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path(), 2);
    let error = Folder::open(dir.path(), size(2), GEOMETRY).unwrap_err();
    assert!(matches!(error, DiskError::InUse { .. }) && error.is_a_mistake(), "{error}");
    drop(first);
    open(dir.path(), 2);
}

#[test]
fn another_model_starts_anew_and_what_is_not_ours_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (folder, _) = open(dir.path(), 2);
        folder.write(0, &record(1), &page(1)).unwrap();
    }
    let other = Geometry { page_bytes: 2000, block_tokens: 16 };
    let (folder, found) = Folder::open(dir.path(), size(9), other).unwrap();
    assert!(found.is_empty());
    assert_eq!(bytes(dir.path()), 2 * HEAD);
    drop(folder);
    for name in [RECORDS, PAGES] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), "a letter to a friend").unwrap();
        let error = Folder::open(dir.path(), size(2), GEOMETRY).unwrap_err();
        assert!(matches!(error, DiskError::Foreign { .. }) && !error.is_a_mistake(), "{error}");
        assert_eq!(fs::read(dir.path().join(name)).unwrap(), b"a letter to a friend");
    }
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("kv");
    open(&folder, 2);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    for file in [LOCK, RECORDS, PAGES] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
}
