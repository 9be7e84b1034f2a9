//! Writes small GGUF files, for the tests of every crate that reads them.

use std::path::Path;

use crate::{TensorType, ValueType};

/// A metadata value to be written. Made with `into()` from Rust values.
#[derive(Debug, Clone, PartialEq)]
pub struct MetaValue {
    kind: ValueType,
    bytes: Vec<u8>,
}

impl MetaValue {
    /// A string of any bytes, valid UTF-8 or not.
    pub fn string(bytes: &[u8]) -> MetaValue {
        let mut string = (bytes.len() as u64).to_le_bytes().to_vec();
        string.extend(bytes);
        MetaValue { kind: ValueType::Str, bytes: string }
    }

    /// An array; all entries must have the type `entries`.
    pub fn array(entries: ValueType, values: impl IntoIterator<Item = MetaValue>) -> MetaValue {
        let values: Vec<MetaValue> = values.into_iter().collect();
        let mut bytes = entries.id().to_le_bytes().to_vec();
        bytes.extend((values.len() as u64).to_le_bytes());
        values.iter().for_each(|value| bytes.extend(&value.bytes));
        MetaValue { kind: ValueType::Array, bytes }
    }
}

macro_rules! from_numbers {
    ($($number:ident $kind:ident),*) => {$(
        impl From<$number> for MetaValue {
            fn from(value: $number) -> Self {
                MetaValue { kind: ValueType::$kind, bytes: value.to_le_bytes().to_vec() }
            }
        }

        impl From<&[$number]> for MetaValue {
            fn from(values: &[$number]) -> Self {
                MetaValue::array(ValueType::$kind, values.iter().map(|value| (*value).into()))
            }
        }
    )*};
}

from_numbers!(u8 U8, i8 I8, u16 U16, i16 I16, u32 U32, i32 I32, u64 U64, i64 I64, f32 F32, f64 F64);

impl From<bool> for MetaValue {
    fn from(value: bool) -> Self {
        MetaValue { kind: ValueType::Bool, bytes: vec![value.into()] }
    }
}

impl From<&[bool]> for MetaValue {
    fn from(values: &[bool]) -> Self {
        MetaValue::array(ValueType::Bool, values.iter().map(|value| (*value).into()))
    }
}

impl From<&str> for MetaValue {
    fn from(value: &str) -> Self {
        MetaValue::string(value.as_bytes())
    }
}

impl From<&[&str]> for MetaValue {
    fn from(values: &[&str]) -> Self {
        MetaValue::array(ValueType::Str, values.iter().map(|value| (*value).into()))
    }
}

impl From<&[String]> for MetaValue {
    fn from(values: &[String]) -> Self {
        MetaValue::array(ValueType::Str, values.iter().map(|value| value.as_str().into()))
    }
}

/// A tensor whose data does not fit its shape and type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{name}` has {found} bytes of data, but {dims:?} of {kind} take {needed}")]
pub struct WriteError {
    name: String,
    dims: Vec<usize>,
    kind: TensorType,
    found: usize,
    needed: String,
}

/// Collects metadata and tensors and writes them as one file.
///
/// It checks only that a tensor's data has the right length. Keys and names are written as given, twice if given
/// twice, and with [`Writer::raw_tensor`] anything can be claimed: the tests of hostile files need that.
#[derive(Debug, Clone)]
pub struct Writer {
    version: u32,
    alignment: usize,
    metadata: Vec<(Vec<u8>, MetaValue)>,
    tensors: Vec<Tensor>,
    data: Vec<u8>,
}

#[derive(Debug, Clone)]
struct Tensor {
    name: Vec<u8>,
    dims: Vec<u64>,
    type_id: u32,
    offset: u64,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            version: 3,
            alignment: 32,
            metadata: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }
}

impl Writer {
    /// An empty file of version 3, aligned to 32 bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes this version number instead of 3.
    pub fn version(&mut self, version: u32) -> &mut Self {
        self.version = version;
        self
    }

    /// Aligns the data to `alignment` bytes (which must not be 0) and says so in `general.alignment`. Call it before
    /// adding tensors.
    pub fn alignment(&mut self, alignment: u32) -> &mut Self {
        self.alignment = alignment.max(1) as usize;
        self.set("general.alignment", alignment)
    }

    /// Adds a metadata entry.
    pub fn set(&mut self, key: &str, value: impl Into<MetaValue>) -> &mut Self {
        self.metadata.push((key.as_bytes().to_vec(), value.into()));
        self
    }

    /// Adds a tensor; `dims` are in GGML's order, the fastest first.
    pub fn tensor(
        &mut self,
        name: &str,
        dims: &[usize],
        kind: TensorType,
        data: &[u8],
    ) -> Result<&mut Self, WriteError> {
        let row = dims.first().and_then(|columns| kind.row_bytes(*columns));
        let needed = dims
            .iter()
            .skip(1)
            .try_fold(row, |bytes, dim| Some(bytes?.checked_mul(*dim)))
            .flatten();
        if needed != Some(data.len()) {
            let needed =
                needed.map_or("a whole number of blocks".to_owned(), |needed| needed.to_string());
            let (name, dims) = (name.to_owned(), dims.to_vec());
            return Err(WriteError { name, dims, kind, found: data.len(), needed });
        }
        let dims: Vec<u64> = dims.iter().map(|dim| *dim as u64).collect();
        let offset = self.data.len().next_multiple_of(self.alignment);
        self.data.resize(offset, 0);
        self.data.extend(data);
        Ok(self.raw_tensor(name.as_bytes(), &dims, kind.id(), offset as u64))
    }

    /// Adds an entry to the table of tensors without any check and without data.
    pub fn raw_tensor(
        &mut self,
        name: &[u8],
        dims: &[u64],
        type_id: u32,
        offset: u64,
    ) -> &mut Self {
        self.tensors.push(Tensor { name: name.to_vec(), dims: dims.to_vec(), type_id, offset });
        self
    }

    /// The file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(self.version.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.metadata.len() as u64).to_le_bytes());
        let string = |file: &mut Vec<u8>, bytes: &[u8]| {
            file.extend((bytes.len() as u64).to_le_bytes());
            file.extend(bytes);
        };
        for (key, value) in &self.metadata {
            string(&mut file, key);
            file.extend(value.kind.id().to_le_bytes());
            file.extend(&value.bytes);
        }
        for tensor in &self.tensors {
            string(&mut file, &tensor.name);
            file.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| file.extend(dim.to_le_bytes()));
            file.extend(tensor.type_id.to_le_bytes());
            file.extend(tensor.offset.to_le_bytes());
        }
        file.resize(file.len().next_multiple_of(self.alignment), 0);
        file.extend(&self.data);
        file
    }

    /// Writes the file to `path`.
    pub fn write(&self, path: impl AsRef<Path>) -> std::io::Result<()> {
        std::fs::write(path, self.to_bytes())
    }
}
