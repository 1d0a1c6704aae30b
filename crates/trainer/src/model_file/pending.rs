//! A file or folder that appears under its name only when it is complete: it is written as a
//! hidden neighbour, which then takes the name.

use contract::{Error, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempDir};

/// Writes a file that replaces whatever is at `path`.
pub(super) fn write_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<()> {
    let failed = |source| Error::io("cannot write", source);
    let written = neighbour(path).and_then(|(folder, prefix)| {
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".partial");
        // What an ordinary program would create; the umask takes its share.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file: NamedTempFile = builder.tempfile_in(folder).map_err(failed)?;
        let mut writer = BufWriter::new(file.as_file());
        write(&mut writer)?;
        writer.into_inner().map_err(|failure| failed(failure.into_error()))?;
        // Without this a power failure could leave the name on an incomplete file.
        file.as_file().sync_all().map_err(failed)?;
        file.persist(path).map_err(|failure| failed(failure.error))?;
        Ok(())
    });
    written.map_err(|error| error.with("file", path.display()))
}

/// Fills a folder that replaces whatever is at `path`.
pub(super) fn write_folder(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let failed = |source| Error::io("cannot write the folder", source);
    let (folder, prefix) = neighbour(path)?;
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let hidden = |suffix: &str| -> Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(suffix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        builder.tempdir_in(&folder).map_err(failed)
    };
    let partial = hidden(".partial")?;
    write(partial.path())?;
    // A folder with files cannot be renamed over: what was there goes out of the way first.
    let replaced = hidden(".replaced")?;
    if path.exists() {
        std::fs::rename(path, replaced.path().join("old")).map_err(failed)?;
    }
    std::fs::rename(partial.path(), path).map_err(failed)?;
    // It has another name now; nothing is left to be removed.
    let _ = partial.keep();
    Ok(())
}

/// The folder of a path, and how a hidden neighbour there begins.
fn neighbour(path: &Path) -> Result<(PathBuf, OsString)> {
    let name = path
        .file_name()
        .ok_or_else(|| Error::invalid("the path names no file").with("path", path.display()))?;
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut prefix = OsString::from(".");
    prefix.push(name);
    Ok((folder.to_path_buf(), prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_fails_halfway_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model");
        write_file(&path, |writer| {
            writer.write_all(b"old").unwrap();
            Ok(())
        })
        .unwrap();
        let failed = write_file(&path, |writer| {
            writer.write_all(b"new").unwrap();
            Err(Error::invalid("no"))
        });
        assert!(failed.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_replaces_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/pass");
        for text in ["one", "two"] {
            write_folder(&path, |inside| {
                std::fs::write(inside.join(text), text).unwrap();
                Ok(())
            })
            .unwrap();
            let names: Vec<_> = std::fs::read_dir(&path).unwrap().collect();
            assert_eq!(names.len(), 1);
            assert_eq!(std::fs::read_to_string(path.join(text)).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
