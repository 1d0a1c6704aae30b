//! A folder that appears complete or not at all.

use super::{PARTIAL_END, neighbour, unwritable};
use contract::Result;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Fills a folder that replaces whatever is at `path`, and creates the folders above it. `write`
/// gets the path under which to put files; it syncs their bytes, as [`super::publish`] does.
///
/// A folder cannot be renamed over another one, so there is a moment without either: a reader may
/// find nothing at `path`, but never half of it.
///
/// # Errors
/// What `write` returns, or whatever the disk says; what was there before is then untouched.
pub fn publish_folder(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let failed = unwritable(path);
    let (parent, prefix) = neighbour(path)?;
    fs::create_dir_all(&parent).map_err(&failed)?;
    let hidden = |suffix: &str| -> Result<TempDir> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(suffix);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        builder.tempdir_in(&parent).map_err(&failed)
    };
    let partial = hidden(PARTIAL_END)?;
    write(partial.path())?;
    sync_folder(partial.path())?;
    let replaced = hidden(".replaced")?;
    let old = replaced.path().join("old");
    let is_replaced = path.exists();
    if is_replaced {
        fs::rename(path, &old).map_err(&failed)?;
    }
    if let Err(source) = fs::rename(partial.path(), path) {
        if is_replaced {
            fs::rename(&old, path).map_err(&failed)?;
        }
        return Err(failed(source));
    }
    // It has another name now; nothing is left to be removed.
    let _ = partial.keep();
    sync_folder(&parent)
}

/// Makes the names in a folder durable.
///
/// # Errors
/// Whatever the disk says, with the path.
pub fn sync_folder(folder: &Path) -> Result<()> {
    // Elsewhere a folder cannot be opened as a file; its names are durable without.
    #[cfg(unix)]
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(unwritable(folder))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use contract::Error;

    #[test]
    fn a_folder_replaces_the_one_before_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/pass");
        for text in ["one", "two"] {
            publish_folder(&path, |inside| {
                fs::write(inside.join(text), text).unwrap();
                Ok(())
            })
            .unwrap();
            assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
            assert_eq!(fs::read_to_string(path.join(text)).unwrap(), text);
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_fails_halfway_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("old"), "old").unwrap();
        let failed = publish_folder(&path, |inside| {
            fs::write(inside.join("new"), "new").unwrap();
            Err(Error::invalid("no"))
        });
        assert_eq!(failed.unwrap_err().message(), "no");
        assert_eq!(fs::read_to_string(path.join("old")).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
