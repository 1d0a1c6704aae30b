//! Files → chunks: walks the headers, checks every claim against the file before believing it,
//! reads, verifies and decodes payloads. Single-threaded; `prefetch` runs it on another thread.

use crate::chunk::{Chunk, ChunkLocation};
use crate::codec;
use crate::header::{Compressor, HEADER_BYTES, Header, Layout};
use contract::{Error, Kind, Result};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

// Reading and checksumming alternate in pieces that stay in the second-level cache.
const PIECE_BYTES: usize = 256 * 1024;

/// The chunks of several files, in order, cut to a range of records.
pub(crate) struct Stream {
    waiting: VecDeque<PathBuf>,
    current: Option<ChunkFile>,
    skip_records: u64,
    keep_records: u64,
    chunk_bytes_max: u64,
}

impl Stream {
    /// Records `start .. start + count` of the files taken as one.
    pub(crate) fn new(
        paths: Vec<PathBuf>,
        start: u64,
        count: Option<u64>,
        chunk_bytes_max: u64,
    ) -> Self {
        Stream {
            waiting: paths.into(),
            current: None,
            skip_records: start,
            keep_records: count.unwrap_or(u64::MAX),
            chunk_bytes_max,
        }
    }

    /// Fills `chunk` with the next chunk that has wanted records; false at the end.
    pub(crate) fn next(&mut self, chunk: &mut Chunk) -> Result<bool> {
        while self.keep_records > 0 {
            let Some(file) = &mut self.current else {
                let Some(path) = self.waiting.pop_front() else { return Ok(false) };
                self.current = Some(ChunkFile::open(path)?);
                continue;
            };
            let Some(header) = file.next_header()? else {
                self.current = None;
                continue;
            };
            if u64::from(header.records) <= self.skip_records && self.skip_records > 0 {
                self.skip_records -= u64::from(header.records);
                file.skip_payload()?;
                continue;
            }
            file.read_payload(&header, chunk, self.chunk_bytes_max)?;
            chunk.skip(self.skip_records as u32)?;
            self.skip_records = 0;
            chunk.keep(self.keep_records);
            self.keep_records -= u64::from(chunk.unread());
            return Ok(true);
        }
        Ok(false)
    }
}

/// One open file, positioned at a chunk boundary or, after `next_header`, at a payload.
pub(crate) struct ChunkFile {
    file: File,
    file_bytes: u64,
    /// Found out from the first chunk, the same for all.
    layout: Option<Layout>,
    /// The chunk whose header was read last.
    location: ChunkLocation,
    next_chunk: u64,
    next_offset: u64,
}

impl ChunkFile {
    pub(crate) fn open(path: PathBuf) -> Result<Self> {
        let place = |error: Error| error.with("file", path.display());
        let file = File::open(&path)
            .map_err(|source| place(Error::io("cannot open RecordIO file", source)))?;
        let metadata = file
            .metadata()
            .map_err(|source| place(Error::io("cannot inspect RecordIO file", source)))?;
        if metadata.is_dir() {
            return Err(place(Error::invalid(
                "is a directory, not a RecordIO file; name its files",
            )));
        }
        if !metadata.is_file() {
            return Err(place(Error::invalid("is not a regular file, so its end cannot be known")));
        }
        Ok(ChunkFile {
            file,
            file_bytes: metadata.len(),
            layout: None,
            location: ChunkLocation { file: path.into(), chunk: 0, offset: 0 },
            next_chunk: 0,
            next_offset: 0,
        })
    }

    /// Continues at the chunk with this number, known to start at `offset`.
    pub(crate) fn seek(&mut self, chunk: u64, offset: u64) -> Result<()> {
        (self.next_chunk, self.next_offset) = (chunk, offset);
        (self.location.chunk, self.location.offset) = (chunk, offset);
        if offset > self.file_bytes {
            return Err(self.damaged("chunk offset lies behind the end of the file"));
        }
        self.seek_file(offset)
    }

    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Where the chunk whose header was read last begins.
    pub(crate) fn chunk_offset(&self) -> u64 {
        self.location.offset
    }

    /// The next chunk's header, its payload known to lie within the file; `None` at the end.
    pub(crate) fn next_header(&mut self) -> Result<Option<Header>> {
        if self.next_offset == self.file_bytes {
            return Ok(None);
        }
        (self.location.chunk, self.location.offset) = (self.next_chunk, self.next_offset);
        let left = self.file_bytes - self.next_offset;
        if left < HEADER_BYTES as u64 {
            return Err(self.damaged("file ends inside a chunk header").with("bytes_left", left));
        }
        let mut bytes = [0; HEADER_BYTES];
        self.file.read_exact(&mut bytes).map_err(|source| self.unreadable(source))?;
        let (layout, header) = match self.layout {
            Some(layout) => {
                (layout, Header::decode(layout, &bytes).map_err(|error| self.location.mark(error))?)
            }
            None => self.detect(&bytes)?,
        };
        self.check_extent(&header)?;
        self.layout = Some(layout);
        self.next_chunk += 1;
        self.next_offset += HEADER_BYTES as u64 + u64::from(header.stored_bytes);
        Ok(Some(header))
    }

    pub(crate) fn skip_payload(&mut self) -> Result<()> {
        self.seek_file(self.next_offset)
    }

    /// Reads, verifies and decodes the payload behind the header read last.
    pub(crate) fn read_payload(
        &mut self,
        header: &Header,
        chunk: &mut Chunk,
        limit: u64,
    ) -> Result<()> {
        if u64::from(header.stored_bytes) > limit {
            return Err(self.location.mark(codec::too_large(limit)));
        }
        let is_stored_plain = header.compressor == Compressor::None;
        let target = if is_stored_plain { &mut chunk.payload } else { &mut chunk.stored };
        let offset = self.location.offset + HEADER_BYTES as u64;
        target.clear_for(header.stored_bytes as usize, offset);
        let mut checksum = crc32fast::Hasher::new();
        let mut left = header.stored_bytes as usize;
        while left > 0 {
            let piece = target.spare(left.min(PIECE_BYTES));
            self.file.read_exact(piece).map_err(|source| self.unreadable(source))?;
            checksum.update(piece);
            let bytes = piece.len();
            target.commit(bytes);
            left -= bytes;
        }
        let found = checksum.finalize();
        if found != header.checksum {
            return Err(self
                .damaged("chunk checksum does not match")
                .with("expected", format_args!("{:08x}", header.checksum))
                .with("found", format_args!("{found:08x}")));
        }
        if !is_stored_plain {
            chunk.payload.clear();
            let layout = self.layout.unwrap_or(Layout::Go);
            let stored = chunk.stored.as_slice();
            codec::decode(layout, header.compressor, stored, &mut chunk.payload, limit)
                .map_err(|error| self.location.mark(error))?;
        }
        chunk.start(header, &self.location)
    }

    // Both layouts share the magic: take the one that reads as a header, let the checksum decide
    // where both do, and report the Go reading where neither does.
    fn detect(&mut self, bytes: &[u8; HEADER_BYTES]) -> Result<(Layout, Header)> {
        let readings = Layout::ALL.map(|layout| Header::decode(layout, bytes));
        match readings {
            [Ok(go), Ok(fluid)] => {
                let is_fluid = !self.has_payload_of(&go)? && self.has_payload_of(&fluid)?;
                Ok(if is_fluid { (Layout::Fluid, fluid) } else { (Layout::Go, go) })
            }
            [Ok(go), Err(_)] => Ok((Layout::Go, go)),
            [Err(_), Ok(fluid)] => Ok((Layout::Fluid, fluid)),
            [Err(error), Err(_)] => Err(self.location.mark(error)),
        }
    }

    fn has_payload_of(&mut self, header: &Header) -> Result<bool> {
        if self.check_extent(header).is_err() {
            return Ok(false);
        }
        let mut checksum = crc32fast::Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = header.stored_bytes as usize;
        while left > 0 {
            let piece = &mut piece[..left.min(PIECE_BYTES)];
            self.file.read_exact(piece).map_err(|source| self.unreadable(source))?;
            checksum.update(piece);
            left -= piece.len();
        }
        self.seek_file(self.location.offset + HEADER_BYTES as u64)?;
        Ok(checksum.finalize() == header.checksum)
    }

    fn check_extent(&self, header: &Header) -> Result<()> {
        let left = self.file_bytes - self.location.offset - HEADER_BYTES as u64;
        if u64::from(header.stored_bytes) > left {
            return Err(self
                .damaged("file ends inside a chunk")
                .with("claimed_bytes", header.stored_bytes)
                .with("bytes_left", left));
        }
        Ok(())
    }

    fn seek_file(&mut self, offset: u64) -> Result<()> {
        match self.file.seek(SeekFrom::Start(offset)) {
            Ok(_) => Ok(()),
            Err(source) => {
                Err(self.location.mark(Error::io("cannot seek in RecordIO file", source)))
            }
        }
    }

    fn damaged(&self, message: &str) -> Error {
        self.location.mark(Error::new(Kind::Damaged, message))
    }

    fn unreadable(&self, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.damaged("file became shorter while it was read");
        }
        self.location.mark(Error::io("cannot read RecordIO file", source))
    }
}
