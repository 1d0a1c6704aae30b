//! A stream of bytes on disk that is written by one process and read by many, and keeps only its
//! newest part: files in a directory, each named after the place in the stream where it begins.
//!
//! A place in the stream is a number of bytes from its beginning, so it stays valid when a replica
//! or the writer is started again, and when old files are removed.

use contract::{Error, Kind, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The writing end.
#[derive(Debug)]
pub struct Segments {
    directory: PathBuf,
    limits: Limits,
    file: File,
    /// Where the newest file begins, and how long it is.
    begin: u64,
    bytes: u64,
}

/// How much is kept.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A file that has reached this length is followed by another.
    pub segment_bytes: u64,
    /// The most files.
    pub segments_max: usize,
}

/// Of what a replica prints, about this much is kept: 256 MiB.
pub const LOG_LIMITS: Limits = Limits { segment_bytes: 16 << 20, segments_max: 16 };
/// Of the figures of all replicas together: 32 MiB.
pub const METRICS_LIMITS: Limits = Limits { segment_bytes: 8 << 20, segments_max: 4 };

/// A piece of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// What was written; empty at the end of the stream.
    pub bytes: Vec<u8>,
    /// The place behind it.
    pub next: u64,
    /// How many bytes in front of it are no longer kept.
    pub skipped_bytes: u64,
}

impl Segments {
    /// Continues the stream of a directory, or begins one.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self> {
        let refused = |source| broken(directory, source);
        fs::create_dir_all(directory).map_err(refused)?;
        let begin = list(directory)?.last().copied().unwrap_or(0);
        let file = append_to(directory, begin).map_err(refused)?;
        let bytes = file.metadata().map_err(refused)?.len();
        Ok(Segments { directory: directory.to_owned(), limits, file, begin, bytes })
    }

    /// The place behind the last byte.
    pub fn end(&self) -> u64 {
        self.begin + self.bytes
    }

    /// Writes at the end of the stream.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let refused = |source| broken(&self.directory, source);
        if self.bytes >= self.limits.segment_bytes {
            let begin = self.begin + self.bytes;
            self.file = append_to(&self.directory, begin).map_err(refused)?;
            (self.begin, self.bytes) = (begin, 0);
            let begins = list(&self.directory)?;
            let surplus = begins.len().saturating_sub(self.limits.segments_max);
            for begin in &begins[..surplus] {
                fs::remove_file(path(&self.directory, *begin)).map_err(refused)?;
            }
        }
        if let Err(source) = self.file.write_all(bytes) {
            // On a full disk a part may have been written, and counts.
            self.bytes = self.file.metadata().map_err(refused)?.len();
            return Err(refused(source));
        }
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads at most `bytes_max` from a place on. A stream that was never begun is empty.
pub fn read(directory: &Path, from: u64, bytes_max: usize) -> Result<Piece> {
    let begins = list(directory)?;
    let Some(oldest) = begins.first().copied() else {
        return Ok(Piece { bytes: Vec::new(), next: from, skipped_bytes: 0 });
    };
    let at = from.max(oldest);
    let index = begins.partition_point(|begin| *begin <= at).saturating_sub(1);
    let mut piece = Piece { bytes: Vec::new(), next: at, skipped_bytes: at - from };
    for begin in &begins[index..] {
        let refused = |source| broken(directory, source);
        let mut file = match File::open(path(directory, *begin)) {
            Ok(file) => file,
            // Removed a moment ago: what it had is passed over by the next call.
            Err(source) if source.kind() == ErrorKind::NotFound => break,
            Err(source) => return Err(refused(source)),
        };
        file.seek(SeekFrom::Start(piece.next.saturating_sub(*begin))).map_err(refused)?;
        let room = bytes_max - piece.bytes.len();
        let count = file.take(room as u64).read_to_end(&mut piece.bytes).map_err(refused)?;
        piece.next += count as u64;
        if piece.bytes.len() >= bytes_max {
            break;
        }
    }
    Ok(piece)
}

/// Where the files of a stream begin, oldest first.
fn list(directory: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(broken(directory, source)),
    };
    let begin =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok();
    let mut begins: Vec<u64> = entries.flatten().filter_map(begin).collect();
    begins.sort_unstable();
    Ok(begins)
}

fn path(directory: &Path, begin: u64) -> PathBuf {
    directory.join(format!("{begin:020}.log"))
}

fn append_to(directory: &Path, begin: u64) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path(directory, begin))
}

fn broken(directory: &Path, source: std::io::Error) -> Error {
    Error::io("cannot use the job's logs", source).with("directory", directory.display())
}

/// A place in a stream as a cursor's text; empty for the beginning.
pub fn parse_cursor(text: &str) -> Result<u64> {
    match text {
        "" => Ok(0),
        // No file is longer than a signed number says.
        _ => text.parse().ok().filter(|cursor| i64::try_from(*cursor).is_ok()).ok_or_else(|| {
            Error::new(Kind::Invalid, "not a cursor of this backend: use one that it gave you")
                .with("cursor", text.escape_debug())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Limits = Limits { segment_bytes: 10, segments_max: 3 };

    #[test]
    fn a_stream_reads_back_from_any_place_also_after_its_writer_changed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), 0, 100).unwrap().bytes, b"");
        Segments::open(folder.path(), SMALL).unwrap().append(b"0123456").unwrap();
        let mut stream = Segments::open(folder.path(), SMALL).unwrap();
        for piece in [&b"789abc"[..], b"def", b"ghi"] {
            stream.append(piece).unwrap();
        }
        let whole = b"0123456789abcdefghi";
        for from in 0..=whole.len() {
            let piece = read(folder.path(), from as u64, 100).unwrap();
            assert_eq!((piece.bytes.as_slice(), piece.skipped_bytes), (&whole[from..], 0));
            assert_eq!(piece.next, whole.len() as u64);
        }
        let piece = read(folder.path(), 5, 9).unwrap();
        assert_eq!((piece.bytes.as_slice(), piece.next), (&whole[5..14], 14));
    }

    #[test]
    fn only_the_newest_part_is_kept_and_what_is_missing_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = Segments::open(folder.path(), SMALL).unwrap();
        for number in 0..10 {
            stream.append(format!("line {number:04}\n").as_bytes()).unwrap();
        }
        let piece = read(folder.path(), 15, 1000).unwrap();
        assert_eq!(piece.bytes, b"line 0007\nline 0008\nline 0009\n");
        assert_eq!((piece.skipped_bytes, piece.next), (55, 100));
        assert_eq!(read(folder.path(), 100, 10).unwrap().bytes, b"");
        // A place that was never reached is not an error, and reads nothing.
        assert_eq!(read(folder.path(), 5000, 10).unwrap().bytes, b"");
    }

    #[test]
    fn a_cursor_of_somebody_else_is_refused() {
        assert_eq!(parse_cursor("").unwrap(), 0);
        assert_eq!(parse_cursor("17").unwrap(), 17);
        for foreign in ["../x", "-1", "18446744073709551615"] {
            assert!(parse_cursor(foreign).is_err(), "{foreign}");
        }
    }
}
