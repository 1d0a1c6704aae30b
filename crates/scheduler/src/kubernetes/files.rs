//! What pods print, where they write it to a volume that this machine has, too.
//!
//! Programs may put anything there: links to files of others, devices, pipes that block. Only the
//! volume itself is trusted; below it no link is followed and only plain files are read. A cursor is
//! a number of bytes.

use super::volumes::volume_of;
use crate::backend::{Cursor, LOG_BYTES_MAX, LogPiece};
use crate::jobs::segments::parse_cursor;
use crate::submission::KubernetesPlace;
use contract::{Error, Result};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where a file of the pods is on this machine: a directory that is trusted, and the way from there.
pub(super) fn here<'a>(place: &'a KubernetesPlace, path: &Path) -> Option<(&'a Path, PathBuf)> {
    let volume = volume_of(place, path)?;
    Some((volume.here.as_deref()?, path.strip_prefix(&volume.path).ok()?.to_owned()))
}

/// The next piece of a file; `None` if there is no such file.
pub(super) fn read(
    root: &Path,
    way: &Path,
    cursor: &Cursor,
    is_over: bool,
) -> Result<Option<LogPiece>> {
    let offset = parse_cursor(&cursor.0)?;
    let Some(bytes) = piece(root, way, offset, LOG_BYTES_MAX)? else { return Ok(None) };
    let is_last = is_over && bytes.len() < LOG_BYTES_MAX;
    let next = Cursor((offset + bytes.len() as u64).to_string());
    Ok(Some(LogPiece { bytes, next, skipped_bytes: 0, is_last }))
}

/// The length of a file; `None` if there is no such file.
pub(super) fn length(root: &Path, way: &Path) -> Result<Option<u64>> {
    let Some(file) = open(root, way)? else { return Ok(None) };
    Ok(Some(file.metadata().map_err(|source| refused(source, root, way))?.len()))
}

/// What is in a file from a place on, at most so many bytes; `None` if there is no such file.
pub(super) fn piece(
    root: &Path,
    way: &Path,
    from: u64,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>> {
    let Some(file) = open(root, way)? else { return Ok(None) };
    let mut bytes = vec![0; bytes_max];
    let mut count = 0;
    while count < bytes.len() {
        let read = file.read_at(&mut bytes[count..], from + count as u64);
        match read.map_err(|source| refused(source, root, way))? {
            0 => break,
            more => count += more,
        }
    }
    bytes.truncate(count);
    Ok(Some(bytes))
}

fn refused(source: std::io::Error, root: &Path, way: &Path) -> Error {
    let message = "cannot read what a pod wrote";
    Error::io(message, source).with("file", root.join(way).display())
}

/// Opens a plain file below a trusted directory.
fn open(root: &Path, way: &Path) -> Result<Option<File>> {
    let refused = |errno: Errno| refused(errno.into(), root, way);
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = openat(CWD, root, directory, Mode::empty()).map_err(refused)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let strict = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(&top, way, flags, Mode::empty(), strict) {
        Ok(file) => file,
        // Not there, or something else in its place.
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::XDEV | Errno::NXIO) => {
            return Ok(None);
        }
        Err(errno) => return Err(refused(errno)),
    };
    let kind = FileType::from_raw_mode(fstat(&file).map_err(refused)?.st_mode);
    Ok((kind == FileType::RegularFile).then(|| File::from(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::submission::{Volume, VolumeSource};
    use std::os::unix::fs::symlink;

    fn text(root: &Path, way: &str, cursor: &str) -> Option<(String, String, bool)> {
        let piece = read(root, Path::new(way), &Cursor(cursor.into()), true).unwrap()?;
        Some((String::from_utf8(piece.bytes).unwrap(), piece.next.0, piece.is_last))
    }

    #[test]
    fn a_log_is_read_from_where_it_was_left() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("trainer-0.log"), "one\ntwo\n").unwrap();
        let check = |cursor: &str, rest: &str| {
            let expected = Some((rest.to_owned(), "8".to_owned(), true));
            assert_eq!(text(folder.path(), "trainer-0.log", cursor), expected);
        };
        check("", "one\ntwo\n");
        check("4", "two\n");
        check("8", "");
    }

    #[test]
    fn only_plain_files_of_the_volume_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("home"), folder.path().join("secret"));
        std::fs::create_dir_all(root.join("log")).unwrap();
        std::fs::write(&outside, "not yours").unwrap();
        symlink(&outside, root.join("log/link.log")).unwrap();
        symlink(folder.path(), root.join("away")).unwrap();
        rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for way in ["log/link.log", "away/secret", "../secret", "pipe", "log", "none"] {
            assert_eq!(text(&root, way, ""), None, "{way}");
        }
    }

    #[test]
    fn a_path_of_a_pod_is_found_on_this_machine() {
        let volume = |path: &str, here: Option<&str>| Volume {
            source: VolumeSource::Claim { claim: "files".into() },
            path: path.into(),
            sub_path: String::new(),
            is_read_only: false,
            here: here.map(PathBuf::from),
        };
        let volumes = vec![
            volume("/data", None),
            volume("/pfs", Some("/srv")),
            volume("/pfs/dc/home/wu", Some("/srv/home/wu")),
        ];
        let place = KubernetesPlace { volumes, ..KubernetesPlace::default() };
        let found = here(&place, Path::new("/pfs/dc/home/wu/jobs/a/log"));
        assert_eq!(found, Some((Path::new("/srv/home/wu"), PathBuf::from("jobs/a/log"))));
        assert_eq!(here(&place, Path::new("/data/log")), None);
        let other = here(&place, Path::new("/pfs/dc/home/wumpus/log"));
        assert_eq!(other, Some((Path::new("/srv"), PathBuf::from("dc/home/wumpus/log"))));
    }
}
