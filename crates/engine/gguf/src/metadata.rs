//! Metadata by key, typed.

use std::collections::HashMap;

use crate::{Array, GgufError, MetadataError, StrArray, Value, ValueType, cursor::Cursor};

/// Where a value lies in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    kind: ValueType,
    start: usize,
}

/// The keys of a file in order and where their values are. Holds no values: those stay in the file.
#[derive(Debug, Default)]
pub(crate) struct Index {
    keys: Vec<(Box<str>, Entry)>,
    by_key: HashMap<Box<str>, usize>,
}

impl Index {
    pub(crate) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Index, GgufError> {
        let mut index = Index::default();
        for _ in 0..count {
            let key = cursor.name("a metadata key")?;
            let id = cursor.u32("a metadata value's type")?;
            let kind = ValueType::from_id(id)
                .ok_or_else(|| GgufError::ValueType { key: key.to_owned(), id })?;
            let start = cursor.position();
            Value::read(cursor, kind, key, 0)?;
            if index.by_key.insert(key.into(), index.keys.len()).is_some() {
                return Err(GgufError::DuplicateKey(key.to_owned()));
            }
            index.keys.push((key.into(), Entry { kind, start }));
        }
        Ok(index)
    }
}

/// The settings of a model file.
///
/// Integer getters take any integer type whose value fits (writers differ in the widths they use); nothing else is
/// converted. Errors name the key, the type that is needed and the type and value found.
#[derive(Debug, Clone, Copy)]
pub struct Metadata<'a> {
    index: &'a Index,
    bytes: &'a [u8],
}

impl<'a> Metadata<'a> {
    pub(crate) fn new(index: &'a Index, bytes: &'a [u8]) -> Self {
        Self { index, bytes }
    }

    /// The untyped value of `key`.
    pub fn value(&self, key: &str) -> Option<Value<'a>> {
        let (key, entry) = &self.index.keys[*self.index.by_key.get(key)?];
        let mut cursor = Cursor::new(self.bytes.get(entry.start..)?);
        // Reading it succeeded when the file was opened.
        Value::read(&mut cursor, entry.kind, key, 0).ok()
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &str) -> bool {
        self.index.by_key.contains_key(key)
    }

    /// Every key in the file's order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        self.index.keys.iter().map(|(key, _)| &**key)
    }

    /// The value of `key` as a `T`, or nothing if the key is not there. A value of another type is an error.
    pub fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, MetadataError> {
        self.value(key).map(|value| T::from_value(key, value)).transpose()
    }

    /// The value of `key` as a `T`.
    pub fn get<T: FromValue<'a>>(&self, key: &str) -> Result<T, MetadataError> {
        self.find(key)?
            .ok_or_else(|| MetadataError::Missing { key: key.to_owned(), wanted: T::WANTED })
    }

    /// The string at `key`.
    pub fn str(&self, key: &str) -> Result<&'a str, MetadataError> {
        self.get(key)
    }

    /// The integer at `key`, which must fit a `u32`.
    pub fn u32(&self, key: &str) -> Result<u32, MetadataError> {
        self.get(key)
    }

    /// The integer at `key`, which must fit a `u64`.
    pub fn u64(&self, key: &str) -> Result<u64, MetadataError> {
        self.get(key)
    }

    /// The 32-bit float at `key`.
    pub fn f32(&self, key: &str) -> Result<f32, MetadataError> {
        self.get(key)
    }

    /// The boolean at `key`.
    pub fn bool(&self, key: &str) -> Result<bool, MetadataError> {
        self.get(key)
    }

    /// The array of any type at `key`.
    pub fn array(&self, key: &str) -> Result<Array<'a>, MetadataError> {
        self.get(key)
    }

    /// The array of strings at `key`, not copied.
    pub fn strs(&self, key: &str) -> Result<StrArray<'a>, MetadataError> {
        self.get(key)
    }

    /// The array of 32-bit floats at `key`.
    pub fn f32s(&self, key: &str) -> Result<Vec<f32>, MetadataError> {
        self.get(key)
    }

    /// The array of integers at `key`, each of which must fit a `u32`.
    pub fn u32s(&self, key: &str) -> Result<Vec<u32>, MetadataError> {
        self.get(key)
    }

    /// The array of integers at `key`, each of which must fit an `i32`.
    pub fn i32s(&self, key: &str) -> Result<Vec<i32>, MetadataError> {
        self.get(key)
    }

    /// The array of booleans at `key`.
    pub fn bools(&self, key: &str) -> Result<Vec<bool>, MetadataError> {
        self.get(key)
    }
}

/// A type that a metadata value can be had as.
pub trait FromValue<'a>: Sized {
    /// The type's name in errors.
    const WANTED: &'static str;

    /// Converts the value of `key`.
    fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError>;
}

fn wrong_type<T>(key: &str, wanted: &'static str, value: Value<'_>) -> Result<T, MetadataError> {
    Err(MetadataError::Type { key: key.to_owned(), wanted, found: value.describe() })
}

/// What the entry types of an array may be for each Rust type.
trait Entries<'a>: FromValue<'a> {
    fn accepts(kind: ValueType) -> bool;
}

macro_rules! integers {
    ($($int:ident $array:literal),*) => {$(
        impl<'a> FromValue<'a> for $int {
            const WANTED: &'static str = stringify!($int);

            fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
                let range = |value: String| MetadataError::Range { key: key.to_owned(), wanted: Self::WANTED, value };
                match value {
                    Value::Unsigned(value, _) => Self::try_from(value).map_err(|_| range(value.to_string())),
                    Value::Signed(value, _) => Self::try_from(value).map_err(|_| range(value.to_string())),
                    other => wrong_type(key, Self::WANTED, other),
                }
            }
        }

        impl<'a> Entries<'a> for $int {
            fn accepts(kind: ValueType) -> bool {
                !matches!(kind, ValueType::F32 | ValueType::F64 | ValueType::Bool | ValueType::Str | ValueType::Array)
            }
        }

        vector!($int, $array);
    )*};
}

macro_rules! vector {
    ($entry:ident, $array:literal) => {
        impl<'a> FromValue<'a> for Vec<$entry> {
            const WANTED: &'static str = $array;

            fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
                let Value::Array(array) = value else {
                    return wrong_type(key, Self::WANTED, value);
                };
                if !$entry::accepts(array.entry_type()) {
                    let (key, wanted, found) = (key.to_owned(), $entry::WANTED, array.entry_type());
                    return Err(MetadataError::Entries { key, wanted, found });
                }
                array.iter().map(|entry| $entry::from_value(key, entry)).collect()
            }
        }
    };
}

macro_rules! scalars {
    ($($scalar:ident $variant:ident $array:literal),*) => {$(
        impl<'a> FromValue<'a> for $scalar {
            const WANTED: &'static str = stringify!($scalar);

            fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => wrong_type(key, Self::WANTED, other),
                }
            }
        }

        impl<'a> Entries<'a> for $scalar {
            fn accepts(kind: ValueType) -> bool {
                kind == ValueType::$variant
            }
        }

        vector!($scalar, $array);
    )*};
}

integers!(u32 "array of u32", u64 "array of u64", i32 "array of i32");
scalars!(f32 F32 "array of f32", bool Bool "array of bool");

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "string";

    fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
        match value {
            Value::Str(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| MetadataError::Utf8 { key: key.to_owned(), index: None }),
            other => wrong_type(key, Self::WANTED, other),
        }
    }
}

impl<'a> FromValue<'a> for Array<'a> {
    const WANTED: &'static str = "array";

    fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
        match value {
            Value::Array(array) => Ok(array),
            other => wrong_type(key, Self::WANTED, other),
        }
    }
}

impl<'a> FromValue<'a> for StrArray<'a> {
    const WANTED: &'static str = "array of strings";

    fn from_value(key: &str, value: Value<'a>) -> Result<Self, MetadataError> {
        let array = match value {
            Value::Array(array) => array,
            other => return wrong_type(key, Self::WANTED, other),
        };
        if array.entry_type() != ValueType::Str {
            let (key, wanted, found) = (key.to_owned(), "string", array.entry_type());
            return Err(MetadataError::Entries { key, wanted, found });
        }
        StrArray::new(array)
            .map_err(|index| MetadataError::Utf8 { key: key.to_owned(), index: Some(index) })
    }
}
