//! Bounds-checked reading of little-endian values.

use crate::GgufError;

/// A position in the file. Every read checks what is left first and says what it was for.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], GgufError> {
        let rest = &self.bytes[self.position..];
        let taken = usize::try_from(len).ok().and_then(|len| rest.get(..len)).ok_or(
            GgufError::Truncated {
                what,
                needed: len,
                offset: self.position as u64,
                left: rest.len() as u64,
            },
        )?;
        self.position += taken.len();
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, GgufError> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length-prefixed string, as bytes.
    pub(crate) fn string(&mut self, what: &'static str) -> Result<&'a [u8], GgufError> {
        let len = self.u64(what)?;
        self.take(len, what)
    }

    /// A length-prefixed string that must be UTF-8: a key or a name.
    pub(crate) fn name(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let offset = self.position as u64;
        std::str::from_utf8(self.string(what)?).map_err(|_| GgufError::Utf8 { what, offset })
    }

    /// A count of things that take at least `least` bytes each, refused when the rest of the file cannot hold them.
    pub(crate) fn count(&mut self, least: u64, what: &'static str) -> Result<usize, GgufError> {
        let count = self.u64(what)?;
        let fits = count.checked_mul(least).is_some_and(|bytes| bytes <= self.left() as u64);
        match usize::try_from(count) {
            Ok(count) if fits => Ok(count),
            _ => Err(GgufError::Count { what, count, file: self.bytes.len() as u64 }),
        }
    }
}
