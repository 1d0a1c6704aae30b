//! Pieces → blocks of records, on the thread of whoever asks.

use crate::task::{Format, Piece, RecordRange};
use contract::{Error, Kind, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Take};

/// A block of lines has about so many bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// A line that is longer is refused, whatever a record may have: a few kilobytes of gzip can be one
/// line of gigabytes.
const LINE_BYTES_MAX: u64 = 256 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// Records in memory.
#[derive(Default)]
pub(super) enum Block {
    #[default]
    Empty,
    Chunk(Box<recordio::Reader>),
    Lines(Lines),
}

/// Lines, one after the other, with their ends.
#[derive(Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where each line ends, its line end included.
    ends: Vec<usize>,
    read: usize,
    begin: usize,
}

impl Block {
    pub(super) fn has_more(&self) -> bool {
        match self {
            Block::Empty => false,
            Block::Chunk(chunk) => chunk.is_ready(),
            Block::Lines(lines) => lines.read < lines.ends.len(),
        }
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Block::Empty => 0,
            Block::Chunk(chunk) => chunk.memory_bytes(),
            Block::Lines(lines) => (lines.bytes.capacity() + 8 * lines.ends.capacity()) as u64,
        }
    }

    pub(super) fn read(&mut self) -> Result<Option<&[u8]>> {
        match self {
            Block::Empty => Ok(None),
            Block::Chunk(chunk) => chunk.read(),
            Block::Lines(lines) => Ok(lines.next()),
        }
    }
}

impl Lines {
    fn next(&mut self) -> Option<&[u8]> {
        let end = *self.ends.get(self.read)?;
        let line = &self.bytes[self.begin..end];
        self.read += 1;
        self.begin = end;
        Some(line.strip_suffix(b"\n").unwrap_or(line))
    }
}

/// The blocks of some pieces, in order. Ends after the first error.
pub(super) struct Blocks {
    pieces: std::vec::IntoIter<Piece>,
    text: Option<Text>,
    record_bytes_max: u64,
}

impl Blocks {
    pub(super) fn new(pieces: Vec<Piece>, record_bytes_max: u64) -> Self {
        Blocks { pieces: pieces.into_iter(), text: None, record_bytes_max }
    }

    fn advance(&mut self) -> Result<Option<Block>> {
        loop {
            if let Some(text) = &mut self.text {
                match text
                    .next_block(self.record_bytes_max.min(LINE_BYTES_MAX))
                    .map_err(|error| text.placed(error))?
                {
                    Some(lines) => return Ok(Some(Block::Lines(lines))),
                    None => self.text = None,
                }
            }
            let Some(piece) = self.pieces.next() else { return Ok(None) };
            let file = open(&piece)?;
            if piece.format == Format::RecordIo {
                let Piece { path, number, offset, records, .. } = &piece;
                let limit = self.record_bytes_max;
                let mut chunk =
                    recordio::Reader::open_chunk(path.as_ref(), *number, *offset, limit)?;
                if let Some(RecordRange { first, count, of }) = records {
                    if chunk.ready() != *of {
                        let error = changed().with("records", chunk.ready());
                        return Err(placed(&piece, error.with("expected_records", of)));
                    }
                    chunk.keep(*first, *count)?;
                }
                return Ok(Some(Block::Chunk(Box::new(chunk))));
            }
            self.text = Some(Text::open(piece, file)?);
        }
    }
}

impl Iterator for Blocks {
    type Item = Result<Block>;

    fn next(&mut self) -> Option<Result<Block>> {
        self.advance().transpose()
    }
}

/// A piece of lines that is being read.
struct Text {
    piece: Piece,
    source: Source,
    /// Uncompressed bytes so far.
    read: u64,
}

enum Source {
    Plain(BufReader<Take<File>>),
    Gzip(Box<BufReader<MultiGzDecoder<BufReader<File>>>>),
}

impl Text {
    fn open(piece: Piece, mut file: File) -> Result<Text> {
        let source = match piece.format {
            Format::Gzip => {
                let decoder = MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, file));
                Source::Gzip(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)))
            }
            Format::Text | Format::RecordIo => {
                file.seek(SeekFrom::Start(piece.offset)).map_err(|source| {
                    Error::io("cannot read data file", source).with("file", &piece.path)
                })?;
                Source::Plain(BufReader::with_capacity(BUFFER_BYTES, file.take(piece.bytes)))
            }
        };
        Ok(Text { piece, source, read: 0 })
    }

    fn next_block(&mut self, line_bytes_max: u64) -> Result<Option<Lines>> {
        let mut lines = Lines::default();
        while lines.bytes.len() < BLOCK_BYTES {
            let line = match &mut self.source {
                Source::Plain(source) => read_line(source, line_bytes_max, &mut lines.bytes),
                Source::Gzip(source) => read_line(source, line_bytes_max, &mut lines.bytes),
            };
            let line = line.map_err(unreadable)?;
            if line == 0 {
                break;
            }
            self.read += line;
            if line > line_bytes_max {
                return Err(Error::new(Kind::LimitExceeded, "line is too long")
                    .with("bytes_max", line_bytes_max));
            }
            lines.ends.push(lines.bytes.len());
        }
        if !lines.ends.is_empty() {
            return Ok(Some(lines));
        }
        match self.piece.format {
            Format::Text if self.read != self.piece.bytes => {
                Err(Error::new(Kind::Damaged, "file became shorter while it was read"))
            }
            _ => Ok(None),
        }
    }

    fn placed(&self, error: Error) -> Error {
        let key = match self.piece.format {
            Format::Gzip => "uncompressed_offset",
            Format::Text | Format::RecordIo => "offset",
        };
        error.with("file", &self.piece.path).with(key, self.piece.offset + self.read)
    }
}

/// Reads a line with its end, but at most one byte more than a line may have; how many bytes came.
fn read_line(
    source: &mut impl BufRead,
    bytes_max: u64,
    lines: &mut Vec<u8>,
) -> std::io::Result<u64> {
    let mut line = 0;
    loop {
        if lines.len() == lines.capacity() {
            // Not doubled: a long line must not cost much more than its bytes.
            lines.reserve_exact(BLOCK_BYTES.max(lines.len() / 4));
        }
        let left = bytes_max.saturating_add(1) - line;
        let step = left.min((lines.capacity() - lines.len()) as u64);
        let bytes = source.take(step).read_until(b'\n', lines)? as u64;
        line += bytes;
        if bytes < step || lines.last() == Some(&b'\n') || line > bytes_max {
            return Ok(line);
        }
    }
}

/// Opens the file of a piece; one that is not what the tasks were made of is refused.
fn open(piece: &Piece) -> Result<File> {
    let unreadable = |source| placed(piece, Error::io("cannot read data file", source));
    let file = File::open(&piece.path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes != piece.file_bytes {
        let error = changed().with("bytes", bytes).with("expected_bytes", piece.file_bytes);
        return Err(placed(piece, error));
    }
    Ok(file)
}

fn changed() -> Error {
    Error::new(Kind::Damaged, "file has changed since its tasks were made")
}

fn placed(piece: &Piece, error: Error) -> Error {
    error.with("file", &piece.path).with("offset", piece.offset)
}

fn unreadable(source: std::io::Error) -> Error {
    match source.kind() {
        // What the decompressor says of bytes that are not gzip, or not all of it.
        ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            Error::new(Kind::Damaged, "gzip file is damaged").because(source)
        }
        _ => Error::io("cannot read data file", source),
    }
}
