//! What a training in this process is beyond its values, as a file: how far it is, and what the
//! optimizer keeps beside each parameter. With it a training that was stopped goes on as if it had
//! never been.
//!
//! The length of a header (u64), the header (JSON), then the numbers of the parameters in the order
//! of the header, little-endian. Of a dense parameter: its values (only where the optimizer
//! averages, because then the parameter's own file has the averages), its state, its counters. Of a
//! sparse one pages of rows: keys, values, state, counters of each page.

use crate::values::{DescriptionIndex, Kept, Values};
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use table::optimizer::Optimizer;

const FORMAT: &str = "paddle trainer state";
const VERSION: u32 = 1;
/// The longest header that is read.
const HEADER_BYTES_MAX: u64 = 100_000_000;

/// How far a training is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Where the training is, as what layers leave to chance follows from it. Earlier releases have
    /// the number of batches there.
    #[serde(rename = "steps")]
    pub position: u64,
    /// Updates that were applied.
    pub updates: u64,
    /// Samples in those updates.
    pub samples: u64,
    /// Passes that were finished.
    pub passes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    version: u32,
    counts: Counts,
    optimizer: Optimizer,
    parameters: Vec<Entry>,
}

/// One parameter: how many numbers of each kind are in the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    /// Of a sparse parameter: its rows. The numbers below are then those of one row.
    rows: Option<u64>,
    values: u64,
    state: u64,
    counters: u64,
}

/// The parameters that are trained, and how.
pub(super) struct Trained<'a> {
    pub(super) values: &'a Values,
    pub(super) indices: Vec<DescriptionIndex>,
    pub(super) optimizer: &'a Optimizer,
}

impl Trained<'_> {
    /// Writes the state.
    pub(super) fn write(&self, counts: Counts, writer: &mut dyn Write) -> Result<()> {
        let entries = self.indices.iter().map(|&index| self.entry(index));
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            counts,
            optimizer: self.optimizer.clone(),
            parameters: entries.collect::<Result<_>>()?,
        };
        let failed = |source| Error::io("cannot write the state of the training", source);
        let text = serde_json::to_vec(&header).map_err(|source| {
            Error::invalid("the state of the training cannot be described as JSON").because(source)
        })?;
        writer.write_all(&(text.len() as u64).to_le_bytes()).map_err(failed)?;
        writer.write_all(&text).map_err(failed)?;
        for (&index, entry) in self.indices.iter().zip(&header.parameters) {
            for (from, count) in self.pages(index, entry) {
                let kept = self.values.kept(index, from, count)?;
                let mut write = |bytes: &[u8]| writer.write_all(bytes).map_err(failed);
                if let Some(keys) = &kept.keys {
                    write(bytemuck::cast_slice(keys))?;
                }
                if entry.values > 0 {
                    write(bytemuck::cast_slice(&kept.values))?;
                }
                write(bytemuck::cast_slice(&kept.state))?;
                write(bytemuck::cast_slice(&kept.counters))?;
            }
        }
        Ok(())
    }

    /// Reads a state of `bytes` bytes and takes it over; the parameters have their values already.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if it is of another optimizer or network: nothing was changed then.
    pub(super) fn read(&self, reader: &mut dyn Read, bytes: u64) -> Result<Counts> {
        let header = read_header(reader, bytes)?;
        if header.optimizer != *self.optimizer {
            return Err(Error::new(Kind::Conflict, "the state is of another optimizer"));
        }
        let fits = header.parameters.len() == self.indices.len()
            && header.parameters.iter().zip(&self.indices).all(|(entry, &index)| {
                self.entry(index).is_ok_and(|own| Entry { rows: entry.rows, ..own } == *entry)
            });
        if !fits {
            return Err(Error::new(Kind::Conflict, "the state is of another network"));
        }
        for (&index, entry) in self.indices.iter().zip(&header.parameters) {
            self.values.forget_rows(index)?;
            for (_, count) in self.pages(index, entry) {
                let keys = entry.rows.map(|_| numbers(reader, count)).transpose()?;
                let kept = Kept {
                    keys,
                    values: numbers(reader, count * entry.values as usize)?,
                    state: numbers(reader, count * entry.state as usize)?,
                    counters: numbers(reader, count * entry.counters as usize)?,
                };
                self.values.restore(index, kept)?;
            }
        }
        Ok(header.counts)
    }

    fn entry(&self, index: DescriptionIndex) -> Result<Entry> {
        let (rows, state, counters) = self.values.kept_sizes(index)?;
        let description = self.values.description(index);
        let values = match rows {
            Some(_) => description.width() as u64,
            None if self.optimizer.average.is_some() => self.values.elements(index)?,
            None => 0,
        };
        let (state, counters) = (state as u64, counters as u64);
        Ok(Entry { name: description.name.clone(), rows, values, state, counters })
    }

    /// First row and rows of each page; a dense parameter is one.
    fn pages(&self, index: DescriptionIndex, entry: &Entry) -> Vec<(usize, usize)> {
        let Some(rows) = entry.rows else { return vec![(0, 1)] };
        let width = self.values.description(index).width();
        let at_once = self.values.piece_elements(index) / width;
        let rows = rows as usize;
        (0..rows).step_by(at_once).map(|from| (from, at_once.min(rows - from))).collect()
    }
}

fn read_header(reader: &mut dyn Read, bytes: u64) -> Result<Header> {
    let damaged = |message: &str| Error::new(Kind::Damaged, message).with("bytes", bytes);
    let mut length = [0; 8];
    reader.read_exact(&mut length).map_err(|_| damaged("the state ends in its header"))?;
    let length = u64::from_le_bytes(length);
    if length > HEADER_BYTES_MAX || length.saturating_add(8) > bytes {
        return Err(damaged("the header of the state is longer than the file or than is allowed"));
    }
    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text).map_err(|_| damaged("the state ends in its header"))?;
    let header: Header = serde_json::from_slice(&text)
        .map_err(|source| damaged("the header of the state is not understood").because(source))?;
    if header.format != FORMAT || header.version != VERSION {
        return Err(Error::new(Kind::Unsupported, "the state is of another version")
            .with("version", header.version)
            .with("supported", VERSION));
    }
    let said = header.parameters.iter().try_fold(length + 8, |sum, entry| {
        let words = entry.values.checked_add(entry.state)?.checked_add(entry.counters)?;
        let keys = if entry.rows.is_some() { 8 } else { 0 };
        let row = words.checked_mul(4)?.checked_add(keys)?;
        row.checked_mul(entry.rows.unwrap_or(1))?.checked_add(sum)
    });
    if said != Some(bytes) {
        return Err(damaged("the state is shorter or longer than its header says"));
    }
    Ok(header)
}

fn numbers<T: bytemuck::Pod>(reader: &mut dyn Read, count: usize) -> Result<Vec<T>> {
    let mut numbers = vec![T::zeroed(); count];
    reader
        .read_exact(bytemuck::cast_slice_mut(&mut numbers))
        .map_err(|source| Error::io("cannot read the state of the training", source))?;
    Ok(numbers)
}
