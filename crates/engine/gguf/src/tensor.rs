//! Tensors: names, shapes and checked slices of the file.

use crate::{GgufError, TensorError, TensorType, cursor::Cursor};

/// GGML's limit on dimensions.
const MAX_DIMS: usize = 4;

/// One tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TensorInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dimensions in GGML's order, the fastest first: a matrix is `[columns, rows]`.
    pub dims: &'a [usize],
    /// How its values are stored.
    pub kind: TensorType,
    /// Exactly its bytes. They begin at a multiple of the file's alignment from the start of the map.
    pub data: &'a [u8],
}

impl TensorInfo<'_> {
    /// The length of one row: the first dimension.
    pub fn columns(&self) -> usize {
        self.dims.first().copied().unwrap_or(1)
    }

    /// The number of rows: the product of the other dimensions.
    pub fn rows(&self) -> usize {
        self.dims.iter().skip(1).product()
    }
}

/// A tensor's entry in the file's table.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: Box<str>,
    dims: Vec<usize>,
    type_id: u32,
    offset: u64,
    /// Where the data begins in the file and how long it is, set by [`Record::place`]; length 0 for an unknown type.
    start: usize,
    bytes: usize,
}

impl Record {
    /// The least that one entry takes: name length, number of dimensions, type, offset.
    pub(crate) const LEAST_BYTES: u64 = 24;

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Record, GgufError> {
        let name = cursor.name("a tensor's name")?;
        let shape = |problem: String| GgufError::Shape { name: name.to_owned(), problem };
        let count = cursor.u32("a tensor's number of dimensions")? as usize;
        if count > MAX_DIMS {
            return Err(shape(format!("{count} dimensions, at most {MAX_DIMS} are allowed")));
        }
        let mut dims = Vec::with_capacity(count);
        for _ in 0..count {
            let dim = cursor.u64("a tensor's dimensions")?;
            match usize::try_from(dim) {
                Ok(0) => return Err(shape("a dimension is zero".to_owned())),
                Ok(dim) => dims.push(dim),
                Err(_) => return Err(shape(format!("a dimension is {dim}"))),
            }
        }
        let type_id = cursor.u32("a tensor's type")?;
        let offset = cursor.u64("a tensor's offset")?;
        let record = Record { name: name.into(), dims, type_id, offset, start: 0, bytes: 0 };
        record.byte_len()?;
        Ok(record)
    }

    /// The bytes that shape and type ask for; 0 for a type whose size is unknown.
    fn byte_len(&self) -> Result<usize, GgufError> {
        let shape = |problem: &str| GgufError::Shape {
            name: self.name.to_string(),
            problem: problem.to_owned(),
        };
        let values = self.dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
        if values.is_none() {
            return Err(shape("its number of values overflows"));
        }
        let Some(kind) = TensorType::from_id(self.type_id) else { return Ok(0) };
        let columns = self.dims.first().copied().unwrap_or(1);
        let block = kind.block_len();
        if !columns.is_multiple_of(block) {
            return Err(shape(&format!(
                "rows of {columns} values are not whole {kind} blocks of {block}"
            )));
        }
        let rows: usize = self.dims.iter().skip(1).product();
        let row = kind.row_bytes(columns);
        row.and_then(|row| row.checked_mul(rows))
            .ok_or_else(|| shape("its number of bytes overflows"))
    }

    /// Checks where the data lies and remembers it. `data_start` is where the data section begins.
    pub(crate) fn place(
        &mut self,
        data_start: u64,
        alignment: u64,
        file: u64,
    ) -> Result<(), GgufError> {
        if !self.offset.is_multiple_of(alignment) {
            let name = self.name.to_string();
            return Err(GgufError::Misaligned { name, offset: self.offset, alignment });
        }
        let bytes = self.byte_len()?;
        let start = data_start.checked_add(self.offset);
        let end = start.and_then(|start| start.checked_add(bytes as u64));
        match (start.map(usize::try_from), end) {
            (Some(Ok(start)), Some(end)) if end <= file => {
                self.start = start;
                self.bytes = bytes;
                Ok(())
            }
            _ => Err(GgufError::OutsideFile {
                name: self.name.to_string(),
                offset: self.offset,
                bytes: bytes as u64,
                file,
            }),
        }
    }

    /// Refuses tensors that share bytes.
    pub(crate) fn check_overlaps(records: &[Record]) -> Result<(), GgufError> {
        let mut order: Vec<&Record> = records.iter().filter(|record| record.bytes > 0).collect();
        order.sort_by_key(|record| record.start);
        for pair in order.windows(2) {
            // `place` saw that start + bytes is inside the file.
            if pair[0].start + pair[0].bytes > pair[1].start {
                let (first, second) = (pair[0].name.to_string(), pair[1].name.to_string());
                return Err(GgufError::Overlap { first, second });
            }
        }
        Ok(())
    }

    /// The tensor with its slice of the file.
    pub(crate) fn info<'a>(&'a self, file: &'a [u8]) -> Result<TensorInfo<'a>, TensorError> {
        let kind = TensorType::from_id(self.type_id).ok_or_else(|| TensorError::UnknownType {
            name: self.name.to_string(),
            id: self.type_id,
        })?;
        // `place` saw that the range is inside the file.
        let data = &file[self.start..self.start + self.bytes];
        Ok(TensorInfo { name: &self.name, dims: &self.dims, kind, data })
    }
}
