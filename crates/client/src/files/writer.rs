//! Ranges of large files on systems where they cannot be written past the page cache: what
//! `disk::RangeWriter` does on Linux, the ordinary way.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

/// Writes one range of a file that exists, from its beginning to its end.
pub(super) struct RangeWriter(File);

impl RangeWriter {
    pub(super) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        let mut file = File::options().write(true).open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(RangeWriter(file))
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// Whether the bytes are on the disk already.
    pub(super) fn finish(self) -> io::Result<bool> {
        Ok(false)
    }
}

/// Gives a file its full length.
pub(super) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}
