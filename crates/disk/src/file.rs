//! A file that appears complete or not at all.

use super::{PARTIAL_END, folder_of, neighbour, sync_folder, unwritable};
use contract::{Error, Result};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Who may read a published file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Whoever may read what an ordinary program creates: mode 666 without the umask's bits.
    Ordinary,
    /// Only the user that wrote it: mode 600.
    Private,
}

/// Writes a file that replaces whatever is at `path`; it is there for good when this returns.
///
/// # Errors
/// Whatever the disk says, with the path; what was there before is then untouched.
pub fn publish(path: &Path, access: Access, bytes: &[u8]) -> Result<()> {
    let mut file = PendingFile::create(path, access)?;
    file.write_all(bytes).map_err(unwritable(path))?;
    file.publish()
}

/// Bytes on their way to become the file at a path, through a buffer.
#[derive(Debug)]
pub struct PendingFile {
    writer: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl PendingFile {
    /// Starts a file that will replace whatever is at `path`.
    ///
    /// # Errors
    /// [`contract::Kind::Invalid`] if the path is a folder or names nothing; whatever the disk says.
    pub fn create(path: &Path, access: Access) -> Result<PendingFile> {
        if path.is_dir() {
            let error = Error::invalid("cannot write: it is a directory");
            return Err(error.with("file", path.display()));
        }
        let (folder, prefix) = neighbour(path)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(PARTIAL_END);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(match access {
            Access::Ordinary => 0o666,
            Access::Private => 0o600,
        }));
        let temporary = builder.tempfile_in(folder).map_err(unwritable(path))?;
        Ok(PendingFile { writer: BufWriter::new(temporary), path: path.to_path_buf() })
    }

    /// The name the file will take.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the bytes durable and gives them their name, durably too.
    ///
    /// # Errors
    /// Whatever the disk says, with the path.
    pub fn publish(self) -> Result<()> {
        let PendingFile { writer, path } = self;
        let temporary =
            writer.into_inner().map_err(|failed| unwritable(&path)(failed.into_error()))?;
        // Before the rename: a power failure must not leave the name on half a file.
        temporary.as_file().sync_all().map_err(unwritable(&path))?;
        temporary.persist(&path).map_err(|failed| unwritable(&path)(failed.error))?;
        sync_folder(&folder_of(&path))
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use contract::Kind;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_published() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        publish(&path, Access::Ordinary, b"old").unwrap();
        let mut file = PendingFile::create(&path, Access::Ordinary).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let hidden = names(folder.path()).into_iter().find(|name| name != "model").unwrap();
        assert!(hidden.starts_with(".model.") && hidden.ends_with(PARTIAL_END), "{hidden}");
        file.publish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn a_file_that_is_dropped_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        publish(&path, Access::Ordinary, b"old").unwrap();
        let mut file = PendingFile::create(&path, Access::Ordinary).unwrap();
        file.write_all(b"new").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["model"]);
    }

    #[test]
    fn a_path_that_cannot_be_a_file_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/model");
        for (path, kind) in [
            (folder.path(), Kind::Invalid),
            (Path::new("/"), Kind::Invalid),
            (&missing, Kind::NotFound),
        ] {
            let error = publish(path, Access::Ordinary, b"").unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_is_readable_by_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |access| {
            let path = folder.path().join("state");
            publish(&path, access, b"").unwrap();
            fs::metadata(&path).unwrap().permissions().mode() & 0o777
        };
        // What this process creates by ordinary means, whatever its umask.
        let ordinary = folder.path().join("ordinary");
        fs::write(&ordinary, b"").unwrap();
        let expected = fs::metadata(&ordinary).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(Access::Ordinary), expected);
        assert_eq!(mode(Access::Private), 0o600);
    }
}
