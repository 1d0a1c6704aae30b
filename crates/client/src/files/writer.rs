//! Ranges of large files on systems where they cannot be written past the page cache: what
//! `disk::RangeWriter` does on Linux, the ordinary way.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Writes one range of a file that exists, from its beginning to its end.
pub(super) struct RangeWriter {
    file: File,
    buffer: Vec<u8>,
    filled: usize,
}

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

impl RangeWriter {
    pub(super) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::options().write(true).open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(RangeWriter { file, buffer: vec![0; BUFFER_BYTES], filled: 0 })
    }

    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    pub(super) fn advance(&mut self, count: usize) {
        self.filled += count;
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer[..self.filled])?;
        self.filled = 0;
        Ok(())
    }

    /// Whether the bytes are on the disk already.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        self.flush()?;
        Ok(false)
    }
}

/// Gives a file its full length.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}
