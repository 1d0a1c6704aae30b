//! The numbers of a parameter on their way to or from a file, whatever the format: in pieces, from
//! or to wherever the parameter lives.

use crate::description::Description;
use crate::parameters::Parameters;
use crate::values::{DescriptionIndex, PIECE_ELEMENTS, View};
use contract::{Error, Kind, Result};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// A parameter to be written.
pub(super) struct Content<'a> {
    /// Of keys without a bound: the keys of the rows that exist, 8 bytes each, and their number.
    pub(super) keys: Option<(File, u64)>,
    /// The values, 4 bytes each.
    pub(super) values: Box<dyn Read + 'a>,
    /// Their number.
    pub(super) count: u64,
}

impl<'a> Content<'a> {
    /// Opens a parameter for writing it somewhere.
    pub(super) fn open(
        parameters: &'a Parameters,
        index: DescriptionIndex,
        view: View,
    ) -> Result<Content<'a>> {
        let description = parameters.description(index);
        let Some(count) = description.elements() else {
            return Content::spool(parameters, index, view);
        };
        let dense = match description.is_sparse {
            true => None,
            false => Some(parameters.fetch_dense(index, view)?),
        };
        let piece = Vec::new();
        let values = ValueBytes { parameters, index, view, dense, next: 0, count, piece, read: 0 };
        Ok(Content { keys: None, values: Box::new(values), count })
    }

    /// The rows that exist, through files without a name: formats need sizes up front, keys and
    /// rows lie apart in them, and a second scan could see other rows than the first.
    fn spool(parameters: &Parameters, index: DescriptionIndex, view: View) -> Result<Content<'a>> {
        let failed = |source| Error::io("cannot write a temporary file for the rows", source);
        let mut keys_file = tempfile::tempfile().map_err(failed)?;
        let mut rows_file = tempfile::tempfile().map_err(failed)?;
        let (mut rows, mut count) = (0, 0);
        parameters.scan(&parameters.description(index).name, view, &mut |keys, values| {
            rows += keys.len() as u64;
            count += values.len() as u64;
            keys_file.write_all(bytemuck::cast_slice(keys)).map_err(failed)?;
            rows_file.write_all(bytemuck::cast_slice(values)).map_err(failed)
        })?;
        for file in [&mut keys_file, &mut rows_file] {
            file.seek(SeekFrom::Start(0)).map_err(failed)?;
        }
        Ok(Content { keys: Some((keys_file, rows)), values: Box::new(rows_file), count })
    }
}

/// The bytes of a parameter of known size.
struct ValueBytes<'a> {
    parameters: &'a Parameters,
    index: DescriptionIndex,
    view: View,
    /// A dense one is lent as a whole.
    dense: Option<Arc<Vec<f32>>>,
    /// The first element that is not in `piece`.
    next: u64,
    count: u64,
    piece: Vec<f32>,
    /// Bytes of `piece` that were read.
    read: usize,
}

impl ValueBytes<'_> {
    fn fill(&mut self) -> Result<()> {
        let rest = self.count - self.next;
        let length = rest.min(self.parameters.piece_elements(self.index) as u64) as usize;
        self.piece.resize(length, 0.0);
        if let Some(dense) = &self.dense {
            self.piece.copy_from_slice(&dense[self.next as usize..][..length]);
        } else {
            self.parameters.fetch_range(self.index, self.next, &mut self.piece, self.view)?;
        }
        (self.next, self.read) = (self.next + length as u64, 0);
        Ok(())
    }
}

impl Read for ValueBytes<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() * 4 && self.next < self.count {
            self.fill().map_err(io::Error::other)?;
        }
        let bytes = &bytemuck::cast_slice(&self.piece)[self.read..];
        let length = bytes.len().min(out.len());
        out[..length].copy_from_slice(&bytes[..length]);
        self.read += length;
        Ok(length)
    }
}

/// An I/O error, or the error of ours that went through a reader.
pub(super) fn io_error(message: &str, source: io::Error) -> Error {
    match source.downcast::<Error>() {
        Ok(error) => error,
        Err(source) => Error::io(message, source),
    }
}

/// Sets a parameter of known size from `count` values.
pub(super) fn load(
    parameters: &Parameters,
    index: DescriptionIndex,
    count: u64,
    reader: &mut dyn Read,
) -> Result<()> {
    let description = parameters.description(index);
    let elements = check_size(parameters, index, count)?;
    let named = |error: Error| error.with("parameter", &description.name);
    if !description.is_sparse {
        // It is in this process as a whole in any case.
        let mut values = vec![0.0; elements as usize];
        read_numbers(reader, &mut values).map_err(named)?;
        return parameters.store(&description.name, &values);
    }
    let mut piece = vec![0.0; parameters.piece_elements(index)];
    let mut next = 0;
    while next < elements {
        let length = (elements - next).min(piece.len() as u64) as usize;
        read_numbers(reader, &mut piece[..length]).map_err(named)?;
        parameters.store_range(index, next, &piece[..length])?;
        next += length as u64;
    }
    Ok(())
}

/// Checks that a file's `count` values are as many as the parameter has, and returns the number.
pub(super) fn check_size(
    parameters: &Parameters,
    index: DescriptionIndex,
    count: u64,
) -> Result<u64> {
    let elements = parameters.elements(index)?;
    if count != elements {
        let Description { name, dims: [rows, columns], .. } = parameters.description(index);
        return Err(Error::invalid("the parameter has another size in the file than in the model")
            .with("parameter", name)
            .with("file", count)
            .with("model", format!("{elements} ({rows} x {columns})")));
    }
    Ok(elements)
}

/// Sets the rows of `rows` keys of a sparse parameter from as many rows of values.
pub(super) fn load_rows(
    parameters: &Parameters,
    index: DescriptionIndex,
    rows: u64,
    (keys, values): (&mut dyn Read, &mut dyn Read),
) -> Result<()> {
    let description = parameters.description(index);
    let width = description.width();
    let named = |error: Error| error.with("parameter", &description.name);
    let rows_at_once = (PIECE_ELEMENTS / width).max(1) as u64;
    let mut rest = rows;
    while rest > 0 {
        let length = rest.min(rows_at_once) as usize;
        let mut some_keys = vec![0_u64; length];
        let mut some_values = vec![0_f32; length * width];
        read_numbers(keys, &mut some_keys).map_err(named)?;
        read_numbers(values, &mut some_values).map_err(named)?;
        parameters.store_rows(&description.name, &some_keys, &some_values)?;
        rest -= length as u64;
    }
    Ok(())
}

/// Rows that `keys` keys and `values` values make.
pub(super) fn check_counts(
    parameters: &Parameters,
    index: DescriptionIndex,
    keys: u64,
    values: u64,
) -> Result<()> {
    let description = parameters.description(index);
    let width = description.width() as u64;
    if keys.checked_mul(width) == Some(values) {
        return Ok(());
    }
    Err(Error::new(Kind::Damaged, "the rows in the file are not as many as their keys")
        .with("parameter", &description.name)
        .with("keys", keys)
        .with("values", values)
        .with("columns", width))
}

fn read_numbers<T: bytemuck::Pod>(reader: &mut dyn Read, out: &mut [T]) -> Result<()> {
    reader.read_exact(bytemuck::cast_slice_mut(out)).map_err(|source| {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            Error::new(Kind::Damaged, "the values end too early").because(source)
        } else {
            io_error("cannot read values", source)
        }
    })
}

#[cfg(target_endian = "big")]
compile_error!("numbers are written as they lie in memory, which must be little-endian");
