//! Opening a file.

use std::{collections::HashMap, fs::File, path::Path};

use memmap2::Mmap;

use crate::{
    GgufError, Metadata, TensorError, TensorInfo, Value, ValueType, cursor::Cursor,
    metadata::Index, tensor::Record,
};

/// The alignment of a file that names none.
const DEFAULT_ALIGNMENT: u64 = 32;

/// The least that a metadata entry takes: key length, value type, one byte of value.
const LEAST_ENTRY: u64 = 13;

/// An open GGUF file: its bytes, and where everything in them is.
#[derive(Debug)]
pub struct Gguf {
    bytes: Bytes,
    version: u32,
    metadata: Index,
    tensors: Vec<Record>,
    by_name: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
enum Bytes {
    Map(Mmap),
    Owned(Vec<u8>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Map(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }
}

impl Gguf {
    /// Maps and checks the file at `path`.
    ///
    /// The file must not be changed while it is open: as for every memory map, a program that truncates it takes the
    /// pages away from under the reader.
    pub fn open(path: impl AsRef<Path>) -> Result<Gguf, GgufError> {
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(GgufError::Io(std::io::ErrorKind::IsADirectory.into()));
        }
        if file.metadata()?.len() == 0 {
            return Self::from_bytes(Vec::new());
        }
        // SAFETY: the map is private to this value and only ever read as bytes; that nobody changes the file
        // meanwhile is asked of the caller in the documentation, as no reader of a map can enforce it.
        let map = unsafe { Mmap::map(&file)? };
        Self::read(Bytes::Map(map))
    }

    /// Checks a file that is already in memory.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Gguf, GgufError> {
        Self::read(Bytes::Owned(bytes))
    }

    fn read(bytes: Bytes) -> Result<Gguf, GgufError> {
        let mut cursor = Cursor::new(&bytes);
        let mut magic = [0; 4];
        magic.copy_from_slice(cursor.take(4, "the magic number")?);
        if &magic != b"GGUF" {
            return Err(GgufError::Magic(magic));
        }
        let version = cursor.u32("the version")?;
        if version != 0 && version & 0xffff == 0 {
            // A small number in the other byte order.
            return Err(GgufError::BigEndian);
        }
        if !(2..=3).contains(&version) {
            return Err(GgufError::Version(version));
        }
        let tensor_count = cursor.count(Record::LEAST_BYTES, "tensors")?;
        let entry_count = cursor.count(LEAST_ENTRY, "metadata entries")?;

        let metadata = Index::read(&mut cursor, entry_count)?;
        let mut tensors = Vec::with_capacity(tensor_count);
        let mut by_name = HashMap::with_capacity(tensor_count);
        for index in 0..tensor_count {
            let record = Record::read(&mut cursor)?;
            if by_name.insert(record.name.clone(), index).is_some() {
                return Err(GgufError::DuplicateTensor(record.name.into()));
            }
            tensors.push(record);
        }

        let alignment = alignment(Metadata::new(&metadata, &bytes))?;
        // A position in memory and an alignment below 2^32: the sum does not overflow a u64.
        let data_start = (cursor.position() as u64).next_multiple_of(alignment);
        for tensor in &mut tensors {
            tensor.place(data_start, alignment, bytes.len() as u64)?;
        }
        Record::check_overlaps(&tensors)?;
        Ok(Gguf { version, metadata, tensors, by_name, bytes })
    }

    /// The file's GGUF version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The settings.
    pub fn metadata(&self) -> Metadata<'_> {
        Metadata::new(&self.metadata, &self.bytes)
    }

    /// The tensor called `name`; that it is not there is an error.
    pub fn tensor(&self, name: &str) -> Result<TensorInfo<'_>, TensorError> {
        self.find_tensor(name)?.ok_or_else(|| TensorError::Missing(name.to_owned()))
    }

    /// The tensor called `name`, if there is one. An unknown type is an error.
    pub fn find_tensor(&self, name: &str) -> Result<Option<TensorInfo<'_>>, TensorError> {
        self.by_name.get(name).map(|index| self.tensors[*index].info(&self.bytes)).transpose()
    }

    /// Every tensor in the file's order. One of an unknown type is an error in its place.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Result<TensorInfo<'_>, TensorError>> {
        self.tensors.iter().map(|tensor| tensor.info(&self.bytes))
    }

    /// The names of all tensors, those of an unknown type too, in the file's order.
    pub fn tensor_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tensors.iter().map(|tensor| &*tensor.name)
    }

    /// The whole file, for fingerprints.
    pub fn file_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Says that `part`, some of this file's bytes, will not be looked at soon: the memory behind it goes back to the system. It
    /// keeps its contents, and whoever looks again has it read again (from the system's own cache of the file, as a rule).
    ///
    /// Whoever copies a file's tensors calls this for each, so that the process does not hold two copies of the file.
    pub fn release(&self, part: &[u8]) {
        #[cfg(target_os = "linux")]
        if let Bytes::Map(map) = &self.bytes {
            let Some(offset) = part.as_ptr().addr().checked_sub(map.as_ptr().addr()) else {
                return;
            };
            if offset > map.len() || part.len() > map.len() - offset {
                return;
            }
            // SAFETY: the map is a shared one of a file (`Mmap::map`), which nobody writes through: pages that are dropped come back
            // with the file's bytes, so no reader, now or later, sees a change. (A private map would lose what was written to it, which
            // is why this advice counts as unchecked.)
            let advised = unsafe {
                map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, offset, part.len())
            };
            // Only advice: without it the memory stays until the file is closed.
            let _ = advised;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = part;
    }
}

fn alignment(metadata: Metadata<'_>) -> Result<u64, GgufError> {
    match metadata.value("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::Unsigned(alignment, ValueType::U32)) if alignment.is_power_of_two() => {
            Ok(alignment)
        }
        Some(Value::Unsigned(alignment, ValueType::U32)) => {
            Err(GgufError::Alignment(alignment.to_string()))
        }
        Some(other) => Err(GgufError::Alignment(other.describe())),
    }
}
