//! Files on disk: when they appear, and what is said of those that are not RecordIO.

use super::{encode, read_all, words};
use contract::Kind;
use recordio::{ReadOptions, Reader, WriteOptions, Writer};
use std::io::{self, Write};
use std::path::Path;

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_file_appears_under_its_name_only_when_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let mut writer = Writer::create(&path, WriteOptions::default()).unwrap();
    writer.write(b"hello").unwrap();
    assert!(!path.exists());
    let written = writer.close().unwrap();
    assert_eq!((written.records, written.chunks), (1, 1));
    assert_eq!(written.bytes, path.metadata().unwrap().len());
    assert_eq!(read_all(&[path], ReadOptions::default()).unwrap(), words(&["hello"]));
    assert_eq!(names_in(folder.path()), ["out"]);
}

#[test]
fn a_writer_that_is_dropped_leaves_the_old_file_and_no_litter() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, encode(&words(&["old"]), WriteOptions::default())).unwrap();
    let mut writer = Writer::create(&path, WriteOptions::default()).unwrap();
    writer.write(b"new").unwrap();
    drop(writer);
    assert_eq!(names_in(folder.path()), ["out"]);
    assert_eq!(read_all(&[path], ReadOptions::default()).unwrap(), words(&["old"]));
}

#[test]
fn a_directory_or_a_missing_file_is_refused_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let check = |path: &Path, kind: Kind, message: &str| {
        let error = Reader::open(&[path.to_path_buf()], ReadOptions::default()).map(|_| ());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.message(), message);
        assert!(error.context().any(|(key, value)| key == "file" && Path::new(value) == path));
    };
    check(folder.path(), Kind::Invalid, "is a directory, not a RecordIO file; name its files");
    check(&folder.path().join("missing"), Kind::NotFound, "cannot open RecordIO file");
    check(
        Path::new("/dev/null"),
        Kind::Invalid,
        "is not a regular file, so its end cannot be known",
    );
}

#[test]
fn a_record_above_the_limit_is_refused_and_the_writer_goes_on() {
    let options = WriteOptions { record_bytes_max: 3, ..WriteOptions::default() };
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    assert_eq!(writer.write(b"long").unwrap_err().kind(), Kind::LimitExceeded);
    writer.write(b"abc").unwrap();
    assert_eq!(writer.finish().unwrap().1.records, 1);
}

/// Takes a few bytes, then has no room.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_failed_stays_failed() {
    for threads in [0, 2] {
        let options = WriteOptions { chunk_bytes: 1, threads, ..WriteOptions::default() };
        let mut writer = Writer::new(FullDisk(30), options).unwrap();
        let failure = (0..100).find_map(|_| writer.write(b"record").err()).unwrap();
        assert_eq!(failure.kind(), Kind::LimitExceeded);
        assert_eq!(writer.write(b"record").unwrap_err().kind(), Kind::Conflict);
        assert!(writer.finish().is_err());
    }
}
