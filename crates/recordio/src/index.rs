//! Where the chunks of a file are and how many records they hold, from the headers alone: payloads
//! are skipped, not verified.

use crate::header::{Compressor, HEADER_BYTES, Layout};
use crate::stream::ChunkFile;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The chunks of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    layout: Option<Layout>,
    file_bytes: u64,
    chunks: Vec<ChunkEntry>,
}

/// One chunk of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkEntry {
    /// Where its header begins.
    pub offset: u64,
    /// Header and stored payload.
    pub bytes: u64,
    /// Number, within the file, of its first record.
    pub first_record: u64,
    /// Records it holds.
    pub records: u32,
    /// How its payload is stored.
    pub compressor: Compressor,
}

impl Index {
    /// Walks the headers of a file. Fails on damage, a cut last chunk included.
    pub fn open(path: &Path) -> Result<Index> {
        match Index::salvage(path)? {
            (index, None) => Ok(index),
            (_, Some(damage)) => Err(damage),
        }
    }

    /// The chunks in front of the first damaged header, and that damage.
    pub fn salvage(path: &Path) -> Result<(Index, Option<Error>)> {
        let mut file = ChunkFile::open(path.to_path_buf())?;
        let mut chunks = Vec::new();
        let mut first_record = 0;
        let damage = loop {
            let header = match file.next_header() {
                Ok(Some(header)) => header,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            chunks.push(ChunkEntry {
                offset: file.chunk_offset(),
                bytes: HEADER_BYTES as u64 + u64::from(header.stored_bytes),
                first_record,
                records: header.records,
                compressor: header.compressor,
            });
            first_record += u64::from(header.records);
            file.skip_payload()?;
        };
        let index = Index { layout: file.layout(), file_bytes: file.file_bytes(), chunks };
        Ok((index, damage))
    }

    /// The layout; an empty file has none.
    pub fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The chunks, in file order.
    pub fn chunks(&self) -> &[ChunkEntry] {
        &self.chunks
    }

    /// Records of the whole file.
    pub fn records(&self) -> u64 {
        self.chunks.last().map_or(0, |last| last.first_record + u64::from(last.records))
    }

    /// Which chunk holds a record, and its place in there; `None` behind the end.
    pub fn locate(&self, record: u64) -> Option<(usize, u32)> {
        let behind = self.chunks.partition_point(|chunk| chunk.first_record <= record);
        let chunk = behind.checked_sub(1)?;
        let place = record - self.chunks[chunk].first_record;
        (place < u64::from(self.chunks[chunk].records)).then_some((chunk, place as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(records_per_chunk: &[u32]) -> Index {
        let mut first_record = 0;
        let chunks = records_per_chunk.iter().map(|&records| {
            let entry = ChunkEntry {
                offset: first_record * 100,
                bytes: 100,
                first_record,
                records,
                compressor: Compressor::None,
            };
            first_record += u64::from(records);
            entry
        });
        Index { layout: Some(Layout::Go), file_bytes: 0, chunks: chunks.collect() }
    }

    #[test]
    fn locate_finds_the_chunk_and_the_place_in_it() {
        let index = index(&[2, 0, 3]);
        let found: Vec<_> = (0..6).map(|record| index.locate(record)).collect();
        let expected = [Some((0, 0)), Some((0, 1)), Some((2, 0)), Some((2, 1)), Some((2, 2)), None];
        assert_eq!(found, expected);
        assert_eq!(index.records(), 5);
    }

    #[test]
    fn an_empty_file_has_no_records() {
        assert_eq!(index(&[]).locate(0), None);
        assert_eq!(index(&[]).records(), 0);
    }
}
