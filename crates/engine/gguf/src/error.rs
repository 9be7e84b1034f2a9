//! What can go wrong, one enum per operation. Messages are fragments that fit "failed to open FILE: {error}".

use crate::ValueType;

/// Why a file is not a GGUF file that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file could not be opened or mapped.
    #[error("the file could not be read")]
    Io(#[from] std::io::Error),
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: it begins with {0:02x?}, not with \"GGUF\"")]
    Magic([u8; 4]),
    /// The file is in big-endian byte order.
    #[error("the file is in big-endian byte order; only little-endian GGUF is supported")]
    BigEndian,
    /// A version this reader does not know.
    #[error("GGUF version {0} is not supported (versions 2 and 3 are)")]
    Version(u32),
    /// The file ends before something that its own lengths promise.
    #[error(
        "the file is truncated: {what} needs {needed} bytes at offset {offset}, but only {left} are left"
    )]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// How many bytes it needs.
        needed: u64,
        /// Where it begins.
        offset: u64,
        /// How many bytes there are from there.
        left: u64,
    },
    /// A count is larger than what could fit into the file.
    #[error("the file claims {count} {what}, more than its {file} bytes can hold")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The claimed count.
        count: u64,
        /// The size of the file.
        file: u64,
    },
    /// A key or a tensor's name is not UTF-8.
    #[error("{what} at offset {offset} is not valid UTF-8")]
    Utf8 {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        offset: u64,
    },
    /// A metadata value has a type that does not exist.
    #[error("metadata key `{key}` has the unknown value type {id}")]
    ValueType {
        /// The key.
        key: String,
        /// The type id found.
        id: u32,
    },
    /// A boolean is neither 0 nor 1.
    #[error("metadata key `{key}` is a bool with the value {value} (only 0 and 1 are allowed)")]
    Bool {
        /// The key.
        key: String,
        /// The byte found.
        value: u8,
    },
    /// Arrays are nested deeper than this reader follows.
    #[error("metadata key `{key}` nests arrays more than {limit} deep")]
    Nesting {
        /// The key.
        key: String,
        /// The limit.
        limit: usize,
    },
    /// A key occurs twice.
    #[error("metadata key `{0}` occurs twice")]
    DuplicateKey(String),
    /// A tensor's name occurs twice.
    #[error("tensor `{0}` occurs twice")]
    DuplicateTensor(String),
    /// `general.alignment` is not a power of two of type u32.
    #[error("`general.alignment` is {0}; it must be a u32 that is a power of two")]
    Alignment(String),
    /// A tensor's shape is impossible.
    #[error("tensor `{name}` has an impossible shape: {problem}")]
    Shape {
        /// The tensor.
        name: String,
        /// What is wrong with its shape.
        problem: String,
    },
    /// A tensor's data lies outside the file.
    #[error(
        "tensor `{name}` lies outside the file: {bytes} bytes at offset {offset} of a {file}-byte file"
    )]
    OutsideFile {
        /// The tensor.
        name: String,
        /// Where its data would begin, from the start of the data section.
        offset: u64,
        /// How many bytes it needs.
        bytes: u64,
        /// The size of the file.
        file: u64,
    },
    /// A tensor's offset is not a multiple of the alignment.
    #[error("tensor `{name}` is misaligned: offset {offset} is not a multiple of {alignment}")]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset in the data section.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// Two tensors share bytes.
    #[error("tensors `{first}` and `{second}` overlap")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The one that begins inside it.
        second: String,
    },
}

/// Why a metadata value could not be had as the type asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// The key is not in the file.
    #[error("`{key}` is missing (a {wanted} is needed)")]
    Missing {
        /// The key.
        key: String,
        /// The type asked for.
        wanted: &'static str,
    },
    /// The value has another type.
    #[error("`{key}` is {found}, but a {wanted} is needed")]
    Type {
        /// The key.
        key: String,
        /// The type asked for.
        wanted: &'static str,
        /// The type and value found.
        found: String,
    },
    /// The value is an integer that does not fit.
    #[error("`{key}` is {value}, which does not fit a {wanted}")]
    Range {
        /// The key.
        key: String,
        /// The type asked for.
        wanted: &'static str,
        /// The value found.
        value: String,
    },
    /// The value is a string that is not UTF-8.
    #[error("`{key}` is not valid UTF-8{}", match index { Some(index) => format!(" (entry {index})"), None => String::new() })]
    Utf8 {
        /// The key.
        key: String,
        /// Which entry of an array.
        index: Option<usize>,
    },
    /// The array holds entries of another type.
    #[error("`{key}` is an array of {found}, but an array of {wanted} is needed")]
    Entries {
        /// The key.
        key: String,
        /// The type asked for.
        wanted: &'static str,
        /// The entries' type.
        found: ValueType,
    },
}

/// Why a tensor could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// There is no tensor of that name.
    #[error("tensor `{0}` is missing")]
    Missing(String),
    /// The tensor's type is unknown to this build.
    #[error("tensor `{name}` has the unknown type id {id}")]
    UnknownType {
        /// The tensor.
        name: String,
        /// GGML's type id as found in the file.
        id: u32,
    },
}
