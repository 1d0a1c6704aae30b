//! What a replica printed, archived: a directory of files, each named after the place in the
//! stream where it begins, of which the oldest are removed when there is too much.
//!
//! A place is a number of bytes from the beginning of the stream, so it stays valid whatever is
//! removed or started again. One server writes, everybody reads.

use super::{make_private, unusable};
use contract::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A piece of a log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// What was printed; empty at the end of what there is.
    pub(crate) bytes: Vec<u8>,
    /// The place behind it.
    pub(crate) next: u64,
    /// Bytes before it that are no longer kept.
    pub(crate) skipped_bytes: u64,
}

/// A log is cut into this many files, of which the newest are kept.
const SEGMENTS: u64 = 16;
/// The most that is kept longer for those who follow and are behind.
const UNREAD_BYTES_MAX: u64 = 4 << 30;
/// How much is read at once to find the beginning of a line.
const BLOCK: u64 = 64 << 10;

/// Where the log ends.
pub(crate) fn end(directory: &Path) -> Result<u64> {
    let Some(begin) = begins(directory)?.pop() else { return Ok(0) };
    let path = segment(directory, begin);
    Ok(begin + fs::metadata(&path).map_err(unusable(&path))?.len())
}

/// Adds to the end, and removes the oldest part beyond `bytes_max`, but for the last `unread_bytes`.
pub(crate) fn append(
    directory: &Path,
    mut bytes: &[u8],
    bytes_max: u64,
    unread_bytes: u64,
) -> Result<()> {
    make_private(directory)?;
    let segment_bytes = (bytes_max / SEGMENTS).max(1);
    let unread = unread_bytes.min(UNREAD_BYTES_MAX).div_ceil(segment_bytes);
    // One more, of which only a part is unread.
    let kept = usize::try_from(SEGMENTS.max(unread + 1)).unwrap_or(usize::MAX);
    let mut begins = begins(directory)?;
    let mut begin = begins.last().copied().unwrap_or(0);
    loop {
        let mut path = segment(directory, begin);
        let mut there = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        if there >= segment_bytes {
            begin += there;
            (path, there) = (segment(directory, begin), 0);
            begins.push(begin);
            remove_oldest(directory, &mut begins, kept)?;
        }
        let room = usize::try_from(segment_bytes - there).unwrap_or(usize::MAX);
        let (piece, rest) = bytes.split_at(room.min(bytes.len()));
        let mut file =
            OpenOptions::new().create(true).append(true).open(&path).map_err(unusable(&path))?;
        file.write_all(piece).map_err(unusable(&path))?;
        if rest.is_empty() {
            return Ok(());
        }
        bytes = rest;
    }
}

/// Returns when everything is on the disk.
pub(crate) fn sync(directory: &Path) -> Result<()> {
    for begin in begins(directory)? {
        let path = segment(directory, begin);
        File::open(&path).and_then(|file| file.sync_data()).map_err(unusable(&path))?;
    }
    disk::sync_folder(directory)
}

/// Removes what was kept longer for somebody.
pub(crate) fn shrink(directory: &Path) -> Result<()> {
    remove_oldest(directory, &mut begins(directory)?, SEGMENTS as usize)
}

fn remove_oldest(directory: &Path, begins: &mut Vec<u64>, kept: usize) -> Result<()> {
    for begin in begins.drain(..begins.len().saturating_sub(kept)) {
        let old = segment(directory, begin);
        fs::remove_file(&old).map_err(unusable(&old))?;
    }
    Ok(())
}

/// Reads at most `bytes_max` from a place on.
pub(crate) fn read(directory: &Path, from: u64, bytes_max: usize) -> Result<Piece> {
    let begins = begins(directory)?;
    let Some(oldest) = begins.first().copied() else {
        return Ok(Piece { bytes: Vec::new(), next: from, skipped_bytes: 0 });
    };
    let at = from.max(oldest);
    let index = begins.partition_point(|begin| *begin <= at).saturating_sub(1);
    let mut piece = Piece { bytes: Vec::new(), next: at, skipped_bytes: at - from };
    for begin in &begins[index..] {
        let path = segment(directory, *begin);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            // Removed a moment ago: the next call passes it over.
            Err(source) if source.kind() == ErrorKind::NotFound => break,
            Err(source) => return Err(unusable(&path)(source)),
        };
        file.seek(SeekFrom::Start(piece.next.saturating_sub(*begin))).map_err(unusable(&path))?;
        let room = bytes_max - piece.bytes.len();
        let count =
            file.take(room as u64).read_to_end(&mut piece.bytes).map_err(unusable(&path))?;
        piece.next += count as u64;
        if piece.bytes.len() >= bytes_max {
            break;
        }
    }
    Ok(piece)
}

/// Where the last `lines` lines begin.
pub(crate) fn tail(directory: &Path, lines: u32) -> Result<u64> {
    let end = end(directory)?;
    let oldest = begins(directory)?.first().copied().unwrap_or(0);
    let mut at = end;
    let mut missing = u64::from(lines);
    if missing == 0 {
        return Ok(end);
    }
    while at > oldest {
        let from = at.saturating_sub(BLOCK).max(oldest);
        let block = read(directory, from, usize::try_from(at - from).unwrap_or(0))?.bytes;
        for (index, byte) in block.iter().enumerate().rev() {
            // The end of the last line is no beginning of another.
            if *byte != b'\n' || from + index as u64 + 1 == end {
                continue;
            }
            missing -= 1;
            if missing == 0 {
                return Ok(from + index as u64 + 1);
            }
        }
        if block.is_empty() {
            break;
        }
        at = from;
    }
    Ok(oldest)
}

/// The logs that a job has, by the names of their directories.
pub(crate) fn names(logs: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(logs) {
        Ok(entries) => entries,
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(unusable(logs)(source)),
    };
    let directories = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<String> =
        directories.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    Ok(names)
}

/// A place as a cursor's text; empty for the beginning.
pub(crate) fn parse_cursor(text: &str) -> Result<u64> {
    match text {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            Error::invalid("not a cursor: use one that came with a piece of this log")
                .with("cursor", text.escape_debug())
        }),
    }
}

fn begins(directory: &Path) -> Result<Vec<u64>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(unusable(directory)(source)),
    };
    let begin =
        |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".log")?.parse().ok();
    let mut begins: Vec<u64> = entries.flatten().filter_map(begin).collect();
    begins.sort_unstable();
    Ok(begins)
}

fn segment(directory: &Path, begin: u64) -> PathBuf {
    directory.join(format!("{begin:020}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = SEGMENTS * 10;

    #[test]
    fn a_log_reads_back_from_any_place() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!((end(folder.path()).unwrap(), tail(folder.path(), 3).unwrap()), (0, 0));
        for piece in [&b"0123456"[..], b"789abc", b"def", b"ghi"] {
            append(folder.path(), piece, LIMIT, 0).unwrap();
        }
        let whole = b"0123456789abcdefghi";
        for from in 0..=whole.len() {
            let piece = read(folder.path(), from as u64, 100).unwrap();
            assert_eq!((piece.bytes.as_slice(), piece.skipped_bytes), (&whole[from..], 0));
        }
        let piece = read(folder.path(), 5, 9).unwrap();
        assert_eq!((piece.bytes.as_slice(), piece.next), (&whole[5..14], 14));
        assert_eq!(end(folder.path()).unwrap(), whole.len() as u64);
    }

    #[test]
    fn only_the_newest_part_is_kept_and_what_is_missing_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            append(folder.path(), format!("line {number:04}\n").as_bytes(), LIMIT, 0).unwrap();
        }
        let piece = read(folder.path(), 15, 10_000).unwrap();
        assert!(piece.bytes.starts_with(b"line 0084\n") && piece.bytes.ends_with(b"line 0099\n"));
        assert_eq!((piece.skipped_bytes, piece.next), (825, 1000));
        append(folder.path(), &[b'x'; 10_000], LIMIT, 0).unwrap();
        let piece = read(folder.path(), 0, 10_000).unwrap();
        assert_eq!((piece.bytes.len() as u64, piece.next), (LIMIT, 11_000));
    }

    #[test]
    fn what_somebody_has_not_read_is_kept_until_they_have() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100_u64 {
            // They have read as far as 95.
            let unread = (number * 10).saturating_sub(95) + 10;
            append(folder.path(), format!("line {number:04}\n").as_bytes(), LIMIT, unread).unwrap();
        }
        let piece = read(folder.path(), 95, 10_000).unwrap();
        assert_eq!((piece.bytes.len(), piece.skipped_bytes), (905, 0));
        shrink(folder.path()).unwrap();
        let piece = read(folder.path(), 95, 10_000).unwrap();
        assert_eq!((piece.bytes.len() as u64, piece.next), (LIMIT, 1000));
    }

    #[test]
    fn the_last_lines_are_found_across_files_with_or_without_a_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..12 {
            append(folder.path(), format!("line {number}\n").as_bytes(), LIMIT, 0).unwrap();
        }
        let last = |lines| {
            let from = tail(folder.path(), lines).unwrap();
            String::from_utf8(read(folder.path(), from, 1000).unwrap().bytes).unwrap()
        };
        assert_eq!(last(0), "");
        assert_eq!(last(1), "line 11\n");
        assert_eq!(last(3), "line 9\nline 10\nline 11\n");
        assert!(last(12).starts_with("line 0\n") && last(100).starts_with("line 0\n"));
        append(folder.path(), b"half", LIMIT, 0).unwrap();
        assert_eq!(last(2), "line 11\nhalf");
    }
}
