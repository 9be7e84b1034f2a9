//! Reads GGUF, the file format that carries a model's weights, its tokenizer and its settings.
//!
//! A file is memory-mapped and stays where it is: strings, arrays and tensor data are slices of the map. Opening a
//! file checks everything that a later access relies on (lengths, offsets, alignment, overlaps, duplicate names), so
//! a hostile or truncated file is an error from [`Gguf::open`] and never a panic, and memory use is bounded by the
//! file's own size.
//!
//! Versions 2 and 3 in little-endian order are read. A tensor of an unknown type does not stop a file from opening: it
//! is an error that names the type when that tensor is asked for.
//!
//! Modules: `file` (opening), `cursor` (bounds-checked reading), `metadata` and `value` (typed settings), `tensor` and
//! `tensor_type`, `token` (the id newtype that every crate shares), `writer` (small files, for tests).
//!
//! ```
//! use tapri_gguf::{Gguf, TensorType, Writer};
//!
//! let mut writer = Writer::new();
//! writer.set("general.architecture", "llama").set("llama.block_count", 2u32);
//! writer.tensor("output_norm.weight", &[4], TensorType::F32, &[0; 16])?;
//!
//! let gguf = Gguf::from_bytes(writer.to_bytes())?;
//! assert_eq!(gguf.metadata().str("general.architecture")?, "llama");
//! assert_eq!(gguf.tensor("output_norm.weight")?.dims, [4]);
//! let message = gguf.metadata().bool("llama.block_count").unwrap_err().to_string();
//! assert_eq!(message, "`llama.block_count` is a u32 (2), but a bool is needed");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cursor;
mod error;
mod file;
mod metadata;
mod tensor;
mod tensor_type;
mod token;
mod value;
mod writer;

pub use error::{GgufError, MetadataError, TensorError};
pub use file::Gguf;
pub use metadata::{FromValue, Metadata};
pub use tensor::TensorInfo;
pub use tensor_type::TensorType;
pub use token::TokenId;
pub use value::{Array, StrArray, Value, ValueType};
pub use writer::{MetaValue, WriteError, Writer};
