//! Metadata values: scalars by value, strings and arrays as slices of the file.

use crate::{GgufError, cursor::Cursor};

/// How deep arrays of arrays are followed. Real files use one level.
pub(crate) const MAX_NESTING: usize = 4;

/// The type of a metadata value. The numbers are GGUF's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum ValueType {
    /// 8-bit unsigned integer.
    U8 = 0,
    /// 8-bit integer.
    I8 = 1,
    /// 16-bit unsigned integer.
    U16 = 2,
    /// 16-bit integer.
    I16 = 3,
    /// 32-bit unsigned integer.
    U32 = 4,
    /// 32-bit integer.
    I32 = 5,
    /// 32-bit float.
    F32 = 6,
    /// Boolean.
    Bool = 7,
    /// String.
    Str = 8,
    /// Array.
    Array = 9,
    /// 64-bit unsigned integer.
    U64 = 10,
    /// 64-bit integer.
    I64 = 11,
    /// 64-bit float.
    F64 = 12,
}

impl ValueType {
    const ALL: [(ValueType, &'static str, u64); 13] = [
        (ValueType::U8, "u8", 1),
        (ValueType::I8, "i8", 1),
        (ValueType::U16, "u16", 2),
        (ValueType::I16, "i16", 2),
        (ValueType::U32, "u32", 4),
        (ValueType::I32, "i32", 4),
        (ValueType::F32, "f32", 4),
        (ValueType::Bool, "bool", 1),
        (ValueType::Str, "string", 8),
        (ValueType::Array, "array", 12),
        (ValueType::U64, "u64", 8),
        (ValueType::I64, "i64", 8),
        (ValueType::F64, "f64", 8),
    ];

    pub(crate) fn from_id(id: u32) -> Option<ValueType> {
        Self::ALL.get(id as usize).map(|row| row.0)
    }

    /// GGUF's id of the type.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The type's name, as errors print it.
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// The bytes that one value takes, at least (a string is its length and its bytes).
    fn least_bytes(self) -> u64 {
        Self::ALL[self as usize].2
    }

    fn is_fixed(self) -> bool {
        !matches!(self, ValueType::Str | ValueType::Array)
    }
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One metadata value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// An unsigned integer of any width, with its type.
    Unsigned(u64, ValueType),
    /// A signed integer of any width, with its type.
    Signed(i64, ValueType),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A boolean.
    Bool(bool),
    /// A string's bytes. Whether they are UTF-8 is checked when it is read as a string.
    Str(&'a [u8]),
    /// An array.
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// The value's type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::Unsigned(_, kind) | Value::Signed(_, kind) => *kind,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::Str(_) => ValueType::Str,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// Type and value, short, for errors.
    pub(crate) fn describe(&self) -> String {
        match self {
            Value::Unsigned(value, kind) => format!("a {kind} ({value})"),
            Value::Signed(value, kind) => format!("a {kind} ({value})"),
            Value::F32(value) => format!("a f32 ({value})"),
            Value::F64(value) => format!("a f64 ({value})"),
            Value::Bool(value) => format!("a bool ({value})"),
            Value::Str(bytes) => {
                let text = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
                format!("a string ({:?})", text.chars().take(40).collect::<String>())
            }
            Value::Array(array) => format!("an array of {} {}", array.len, array.entries),
        }
    }

    /// Reads one value of `kind`; arrays are walked to their end, so what is kept can be read again without checks.
    pub(crate) fn read(
        cursor: &mut Cursor<'a>,
        kind: ValueType,
        key: &str,
        depth: usize,
    ) -> Result<Value<'a>, GgufError> {
        const WHAT: &str = "a metadata value";
        Ok(match kind {
            ValueType::U8 => Value::Unsigned(cursor.u8(WHAT)?.into(), kind),
            ValueType::I8 => Value::Signed((cursor.u8(WHAT)? as i8).into(), kind),
            ValueType::U16 => Value::Unsigned(u16_of(cursor.take(2, WHAT)?).into(), kind),
            ValueType::I16 => Value::Signed((u16_of(cursor.take(2, WHAT)?) as i16).into(), kind),
            ValueType::U32 => Value::Unsigned(cursor.u32(WHAT)?.into(), kind),
            ValueType::I32 => Value::Signed((cursor.u32(WHAT)? as i32).into(), kind),
            ValueType::U64 => Value::Unsigned(cursor.u64(WHAT)?, kind),
            ValueType::I64 => Value::Signed(cursor.u64(WHAT)? as i64, kind),
            ValueType::F32 => Value::F32(f32::from_bits(cursor.u32(WHAT)?)),
            ValueType::F64 => Value::F64(f64::from_bits(cursor.u64(WHAT)?)),
            ValueType::Bool => match cursor.u8(WHAT)? {
                0 => Value::Bool(false),
                1 => Value::Bool(true),
                value => return Err(GgufError::Bool { key: key.to_owned(), value }),
            },
            ValueType::Str => Value::Str(cursor.string(WHAT)?),
            ValueType::Array => Value::Array(Array::read(cursor, key, depth)?),
        })
    }
}

fn u16_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[0], bytes[1]])
}

/// An array in the file. Its entries are read as they are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    entries: ValueType,
    len: usize,
    /// Exactly the entries, walked once when the file was opened.
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, key: &str, depth: usize) -> Result<Array<'a>, GgufError> {
        if depth >= MAX_NESTING {
            return Err(GgufError::Nesting { key: key.to_owned(), limit: MAX_NESTING });
        }
        let id = cursor.u32("the type of an array")?;
        let entries = ValueType::from_id(id)
            .ok_or_else(|| GgufError::ValueType { key: key.to_owned(), id })?;
        let len = cursor.count(entries.least_bytes(), "array entries")?;
        let mut walk = cursor.clone();
        if entries.is_fixed() && entries != ValueType::Bool {
            walk.take(len as u64 * entries.least_bytes(), "an array")?;
        } else {
            for _ in 0..len {
                Value::read(&mut walk, entries, key, depth + 1)?;
            }
        }
        let bytes = cursor.take((walk.position() - cursor.position()) as u64, "an array")?;
        Ok(Array { entries, len, bytes })
    }

    /// The type of every entry.
    pub fn entry_type(&self) -> ValueType {
        self.entries
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes);
        let entries = self.entries;
        // `read` walked exactly these entries without an error, so the fallback is never taken.
        (0..self.len)
            .map(move |_| Value::read(&mut cursor, entries, "", 0).unwrap_or(Value::Bool(false)))
    }
}

/// An array of strings, all of which are UTF-8.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrArray<'a>(Array<'a>);

impl<'a> StrArray<'a> {
    /// Checks every entry; the error is the index of the first that is not UTF-8.
    pub(crate) fn new(array: Array<'a>) -> Result<StrArray<'a>, usize> {
        match array.iter().position(|entry| match entry {
            Value::Str(bytes) => std::str::from_utf8(bytes).is_err(),
            _ => true,
        }) {
            Some(index) => Err(index),
            None => Ok(StrArray(array)),
        }
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// The strings in order, as slices of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a str> + use<'a> {
        // `new` saw that every entry is a string of valid UTF-8, so the fallbacks are never taken.
        self.0.iter().map(|entry| match entry {
            Value::Str(bytes) => std::str::from_utf8(bytes).unwrap_or_default(),
            _ => "",
        })
    }
}
