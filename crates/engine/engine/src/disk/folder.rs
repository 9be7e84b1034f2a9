//! The folder: a lock, a file of records and a file of pages.
//!
//! `tapri-kv.records` is a head of 4,096 bytes and then one record for each slot; `tapri-kv.pages` the same head and then one
//! page for each slot. Slots are of equal size, since blocks of all groups are. Records stand apart so that a start reads
//! some hundred bytes a page and not the pages. A page is written before its record, and each has a checksum: what a crash
//! tore is not taken for a page. Nothing is forced to the disk: after a power failure pages may be missing, not wrong.
//!
//! A byte in the head of the records says that the folder was closed with every slot either a page with its record or zeros.
//! Where it doesn't, after a kill, slots without a record are read whole at the next start, since a page may stand in one.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::record::{self, Record};

const LOCK: &str = "tapri-kv.lock";
const RECORDS: &str = "tapri-kv.records";
const PAGES: &str = "tapri-kv.pages";

const MAGIC: [u8; 8] = *b"TAPRI-KV";
const VERSION: u32 = 2;

/// Bytes of a file's head.
const HEAD: u64 = 4096;

/// Where the head of the records says that the folder was closed.
const CLOSED_AT: u64 = 64;

/// Why a folder can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiskError {
    /// Another engine uses it.
    #[error("the KV folder {} is in use by another process", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The size has no room for a page.
    #[error("a KV disk of {size} bytes is too little: this model needs at least {least} bytes")]
    TooSmall {
        /// What was set.
        size: u64,
        /// The least that works.
        least: u64,
    },
    /// Pages are known by their hash, which nobody may be able to forge.
    #[error("pages on disk need the block hash sha256, not {0}")]
    Hash(&'static str),
    /// A file of that name is someone else's.
    #[error("{} is not a file of Tapri's; move it, or choose another folder", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The folder or a file can't be made or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The operating system gave no thread.
    #[error("start the disk's thread: {0}")]
    Thread(#[source] io::Error),
}

impl DiskError {
    /// Whether whoever set it up should hear of it at once. What else can go wrong with a disk costs no more than its pages.
    pub(super) fn is_a_mistake(&self) -> bool {
        matches!(self, Self::InUse { .. } | Self::TooSmall { .. } | Self::Hash(_))
    }
}

/// The sizes that all slots of a folder have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) page_bytes: usize,
    pub(super) block_tokens: usize,
}

impl Geometry {
    fn record_bytes(self) -> usize {
        record::record_bytes(self.block_tokens)
    }

    /// What a file's head says, where it is one of this version.
    fn of(head: &[u8]) -> Option<Self> {
        let block_tokens = u32::from_le_bytes(head.get(12..16)?.try_into().ok()?);
        let page_bytes = u64::from_le_bytes(head.get(16..24)?.try_into().ok()?);
        let geometry = Geometry {
            page_bytes: page_bytes.try_into().ok()?,
            block_tokens: block_tokens.try_into().ok()?,
        };
        (head == geometry.head()).then_some(geometry)
    }

    /// What one page takes in both files.
    pub(super) fn slot_bytes(self) -> u64 {
        (self.record_bytes() + self.page_bytes) as u64
    }

    fn head(self) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&(self.block_tokens as u32).to_le_bytes());
        head.extend_from_slice(&(self.page_bytes as u64).to_le_bytes());
        let sum = xxh3_64(&head);
        head.extend_from_slice(&sum.to_le_bytes());
        head.resize(HEAD as usize, 0);
        head
    }
}

/// Why a page can't be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum PageError {
    #[error("a KV page on disk is damaged")]
    Damaged,
    #[error("a KV page on disk is not the one that was kept there")]
    Another,
    #[error("a KV page can't be read from disk: {0}")]
    Io(#[from] io::Error),
}

/// The open folder.
#[derive(Debug)]
pub(super) struct Folder {
    geometry: Geometry,
    capacity: u32,
    records: File,
    pages: File,
    /// Whether bytes may be left in a slot that has no record.
    leaves: Cell<bool>,
    /// Held until the end.
    _lock: File,
}

/// What the records of a folder say.
struct Found {
    pages: Vec<(u32, Record)>,
    /// Slots whose record is damaged, or whose page ends beyond the file.
    torn: Vec<u32>,
}

impl Folder {
    /// Opens or makes it, and reads what is there.
    pub(super) fn open(
        folder: &Path,
        size: u64,
        geometry: Geometry,
    ) -> Result<(Folder, Vec<(u32, Record)>), DiskError> {
        let least = 2 * HEAD + geometry.slot_bytes();
        if size < least {
            return Err(DiskError::TooSmall { size, least });
        }
        make_folder(folder).map_err(at(folder))?;
        let lock = locked(folder)?;
        let (records_path, pages_path) = (folder.join(RECORDS), folder.join(PAGES));
        let records = open_file(&records_path).map_err(at(&records_path))?;
        let pages = open_file(&pages_path).map_err(at(&pages_path))?;
        let heads = [
            (
                Head::of(&head_of(&records).map_err(at(&records_path))?, Some(geometry)),
                &records_path,
            ),
            (Head::of(&head_of(&pages).map_err(at(&pages_path))?, Some(geometry)), &pages_path),
        ];
        if let Some((_, file)) = heads.iter().find(|(head, _)| *head == Head::Foreign) {
            return Err(DiskError::Foreign { file: (*file).clone() });
        }
        let slots = (size - 2 * HEAD) / geometry.slot_bytes();
        let capacity = u32::try_from(slots).unwrap_or(u32::MAX);
        let folder =
            Folder { geometry, capacity, records, pages, leaves: Cell::new(false), _lock: lock };
        if heads.iter().all(|(head, _)| *head == Head::Ours) {
            let was_closed = folder.reopen().map_err(at(&records_path))?;
            folder.cut().map_err(at(&pages_path))?;
            let Found { pages, torn } = folder.read_records().map_err(at(&records_path))?;
            for slot in torn {
                folder.erase(slot).map_err(at(&pages_path))?;
            }
            if !was_closed {
                folder.erase_unknown(&pages).map_err(at(&pages_path))?;
            }
            return Ok((folder, pages));
        }
        if heads.iter().any(|(head, _)| *head == Head::Other) {
            tracing::info!(
                "the KV pages on disk are of another kind of model or version, and were dropped"
            );
        }
        folder.clear().map_err(at(&pages_path))?;
        Ok((folder, Vec::new()))
    }

    /// Slots that the size has room for.
    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Notes that it is in use from here on. Returns whether it was closed the last time.
    fn reopen(&self) -> io::Result<bool> {
        let mut closed = [0];
        read_at(&self.records, CLOSED_AT, &mut closed)?;
        write_at(&self.records, CLOSED_AT, &[0])?;
        Ok(closed == [1])
    }

    /// Notes that nothing is left to do, unless something could not be erased.
    pub(super) fn close(&self) -> io::Result<()> {
        if self.leaves.get() { Ok(()) } else { write_at(&self.records, CLOSED_AT, &[1]) }
    }

    /// Cuts off the slots that the size has no room for: it may have been larger the last time.
    fn cut(&self) -> io::Result<()> {
        let slots = u64::from(self.capacity);
        let limits = [
            (&self.records, slots * self.geometry.record_bytes() as u64),
            (&self.pages, slots * self.geometry.page_bytes as u64),
        ];
        for (file, bytes) in limits {
            if file.metadata()?.len() > HEAD + bytes {
                file.set_len(HEAD + bytes)?;
            }
        }
        Ok(())
    }

    fn read_records(&self) -> io::Result<Found> {
        let Geometry { page_bytes, block_tokens } = self.geometry;
        let pages = self.pages.metadata()?.len();
        (&self.records).seek(SeekFrom::Start(HEAD))?;
        let mut reader = BufReader::with_capacity(1 << 20, &self.records);
        let mut bytes = vec![0; self.geometry.record_bytes()];
        let mut found = Found { pages: Vec::new(), torn: Vec::new() };
        for slot in 0..self.capacity {
            if !next_record(&mut reader, &mut bytes)? {
                // It may end within a record.
                found.torn.push(slot);
                break;
            }
            // A record whose page was never written whole ends beyond the file.
            let is_whole = self.page_at(slot) + page_bytes as u64 <= pages;
            match Record::decode(&bytes, block_tokens, page_bytes) {
                Some((record, _)) if is_whole => found.pages.push((slot, record)),
                _ if bytes.iter().any(|&byte| byte != 0) => found.torn.push(slot),
                _ => {}
            }
        }
        Ok(found)
    }

    /// Erases what stands in slots that no record tells of: a page whose record was never written before a crash. Nobody
    /// would find it, but no erasure of its tenant would either.
    fn erase_unknown(&self, found: &[(u32, Record)]) -> io::Result<()> {
        let slots_of = |file: &File, bytes: usize| {
            Ok::<_, io::Error>((file.metadata()?.len().saturating_sub(HEAD)).div_ceil(bytes as u64))
        };
        let records = slots_of(&self.records, self.geometry.record_bytes())?;
        let slots = records.max(slots_of(&self.pages, self.geometry.page_bytes)?);
        let slots = u32::try_from(slots).unwrap_or(u32::MAX).min(self.capacity);
        let mut known = found.iter().map(|(slot, _)| *slot).peekable();
        for slot in 0..slots {
            if known.next_if_eq(&slot).is_none() && !self.is_empty(slot)? {
                self.erase(slot)?;
            }
        }
        Ok(())
    }

    /// Whether a slot holds nothing but zeros.
    fn is_empty(&self, slot: u32) -> io::Result<bool> {
        let parts = [
            (&self.records, self.record_at(slot), self.geometry.record_bytes()),
            (&self.pages, self.page_at(slot), self.geometry.page_bytes),
        ];
        for (mut file, at, bytes) in parts {
            let mut raw = Vec::with_capacity(bytes);
            file.seek(SeekFrom::Start(at))?;
            // It may end within the slot.
            file.take(bytes as u64).read_to_end(&mut raw)?;
            if raw.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn record_at(&self, slot: u32) -> u64 {
        HEAD + u64::from(slot) * self.geometry.record_bytes() as u64
    }

    fn page_at(&self, slot: u32) -> u64 {
        HEAD + u64::from(slot) * self.geometry.page_bytes as u64
    }

    /// Writes a page, then its record.
    pub(super) fn write(&self, slot: u32, record: &Record, page: &[u8]) -> io::Result<()> {
        write_at(&self.pages, self.page_at(slot), page)?;
        let record = record.encode(page.len(), record::sum(page));
        write_at(&self.records, self.record_at(slot), &record)
    }

    /// Notes a later use.
    pub(super) fn touch(&self, slot: u32, used: u64) -> io::Result<()> {
        let Some((mut record, sum)) = self.read_record(slot)? else { return Ok(()) };
        record.used = record.used.max(used);
        let record = record.encode(self.geometry.page_bytes, sum);
        write_at(&self.records, self.record_at(slot), &record)
    }

    fn read_record(&self, slot: u32) -> io::Result<Option<(Record, u128)>> {
        let mut bytes = vec![0; self.geometry.record_bytes()];
        read_at(&self.records, self.record_at(slot), &mut bytes)?;
        Ok(Record::decode(&bytes, self.geometry.block_tokens, self.geometry.page_bytes))
    }

    /// Reads the page that `wanted` describes.
    pub(super) fn read(&self, slot: u32, wanted: &Record) -> Result<Vec<u8>, PageError> {
        let (record, sum) = self.read_record(slot)?.ok_or(PageError::Damaged)?;
        if !record.is_same_page(wanted) {
            return Err(PageError::Another);
        }
        let mut page = vec![0; self.geometry.page_bytes];
        read_at(&self.pages, self.page_at(slot), &mut page)?;
        if record::sum(&page) != sum {
            return Err(PageError::Damaged);
        }
        Ok(page)
    }

    /// Overwrites a slot with zeros: its record, so that nobody finds it, then its page.
    pub(super) fn erase(&self, slot: u32) -> io::Result<()> {
        let (records, pages) = (self.records.metadata()?.len(), self.pages.metadata()?.len());
        let (record_at, page_at) = (self.record_at(slot), self.page_at(slot));
        let zeros = vec![0; self.geometry.page_bytes.max(self.geometry.record_bytes())];
        // Until it is done.
        let left_before = self.leaves.replace(true);
        // No further than the file goes: what lies beyond was never written.
        let part = |at: u64, bytes: usize, end: u64| bytes.min(end.saturating_sub(at) as usize);
        let record = part(record_at, self.geometry.record_bytes(), records);
        write_at(&self.records, record_at, &zeros[..record])?;
        let page = part(page_at, self.geometry.page_bytes, pages);
        write_at(&self.pages, page_at, &zeros[..page])?;
        self.leaves.set(left_before);
        Ok(())
    }

    /// Empties both files, and writes their heads.
    pub(super) fn clear(&self) -> io::Result<()> {
        let head = self.geometry.head();
        for file in [&self.records, &self.pages] {
            file.set_len(0)?;
            write_at(file, 0, &head)?;
        }
        self.leaves.set(false);
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// With nothing in it yet, or torn before anything was.
    Empty,
    Ours,
    /// A file of Tapri's, for blocks of another size or by another version.
    Other,
    Foreign,
}

/// A file's head, without the byte that says whether it was closed.
fn head_of(mut file: &File) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(HEAD).read_to_end(&mut head)?;
    if let Some(closed) = head.get_mut(CLOSED_AT as usize) {
        *closed = 0;
    }
    Ok(head)
}

impl Head {
    /// What a head is, where blocks of some size would be ours.
    fn of(head: &[u8], ours: Option<Geometry>) -> Head {
        if head.iter().all(|&byte| byte == 0) {
            Head::Empty
        } else if ours.is_some_and(|ours| head == ours.head()) {
            Head::Ours
        } else if head.starts_with(&MAGIC) {
            Head::Other
        } else {
            Head::Foreign
        }
    }
}

/// Empties a folder that no engine uses, of whatever kind its pages are. Gives how many there were.
///
/// # Errors
/// Where an engine uses it, a file in it is someone else's, or it can't be written.
pub fn clear_folder(folder: &Path) -> Result<u64, DiskError> {
    if !folder.exists() {
        return Ok(0);
    }
    let _lock = locked(folder)?;
    let mut held = 0;
    // Records first: what is found by none of them is never read.
    for path in [folder.join(RECORDS), folder.join(PAGES)] {
        let file = match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&path)(error)),
        };
        let head = head_of(&file).map_err(at(&path))?;
        if Head::of(&head, None) == Head::Foreign {
            return Err(DiskError::Foreign { file: path });
        }
        if let Some(geometry) = Geometry::of(&head).filter(|_| path.ends_with(RECORDS)) {
            held = count_records(&file, geometry).map_err(at(&path))?;
        }
        file.set_len(0).map_err(at(&path))?;
    }
    Ok(held)
}

/// How many records of a file are whole.
fn count_records(file: &File, geometry: Geometry) -> io::Result<u64> {
    let Geometry { page_bytes, block_tokens } = geometry;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut bytes = vec![0; geometry.record_bytes()];
    let mut found = 0;
    while next_record(&mut reader, &mut bytes)? {
        found += u64::from(Record::decode(&bytes, block_tokens, page_bytes).is_some());
    }
    Ok(found)
}

/// Reads the next record of a file; `false` where it ends before the record does.
fn next_record(reader: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The folder's lock, which is held as long as the file is open.
fn locked(folder: &Path) -> Result<File, DiskError> {
    let path = folder.join(LOCK);
    let lock = open_file(&path).map_err(at(&path))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DiskError::InUse { folder: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(at(&path)(source)),
    }
}

/// What an error of a file is.
fn at(path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError::Io { path, source }
}

/// What is kept is as secret as the prompts: nobody but the user may read it.
fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

fn open_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path)
}

fn write_at(mut file: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

fn read_at(mut file: &File, at: u64, bytes: &mut [u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
