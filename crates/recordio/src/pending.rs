//! A file that appears under its name only when it is complete.
//!
//! RecordIO has no end mark: half a file cut at a chunk boundary would pass for a whole one. So
//! bytes go to a hidden neighbour, which takes the name when it is published and is removed
//! when it is not.

use contract::{Error, Result};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Bytes on their way to become the file at a path.
#[derive(Debug)]
pub struct PendingFile {
    temporary: NamedTempFile,
    path: PathBuf,
}

impl PendingFile {
    /// Starts a file that will replace whatever is at `path`.
    pub fn create(path: &Path) -> Result<PendingFile> {
        let place = |error: Error| error.with("file", path.display());
        if path.is_dir() {
            return Err(place(Error::invalid("cannot write RecordIO file: it is a directory")));
        }
        let name = path.file_name().ok_or_else(|| {
            place(Error::invalid("cannot write RecordIO file: the path names no file"))
        })?;
        let folder = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".partial");
        // What an ordinary program would create; the umask takes its share.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder
            .tempfile_in(folder)
            .map_err(|source| place(Error::io("cannot create RecordIO file", source)))?;
        Ok(PendingFile { temporary, path: path.to_path_buf() })
    }

    /// The name the file will take.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the bytes durable and gives them their name.
    pub fn publish(self) -> Result<()> {
        let place = |error: Error| error.with("file", self.path.display());
        // Without this a power failure could leave the name on an empty file, which is valid.
        self.temporary
            .as_file()
            .sync_all()
            .map_err(|source| place(Error::io("cannot write RecordIO file", source)))?;
        self.temporary
            .persist(&self.path)
            .map_err(|failed| place(Error::io("cannot name RecordIO file", failed.error)))?;
        Ok(())
    }
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}
