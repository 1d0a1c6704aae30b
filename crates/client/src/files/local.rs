//! Files of this machine: what is below a directory, and how a file is described to the server.

use contract::checksum::Checksum;
use contract::{Error, Kind, Result};
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A file or an empty directory of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its names below the directory that was walked, joined by `/`.
    pub relative: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Its length.
    pub bytes: u64,
    /// Its permissions, where the system has any.
    pub mode: Option<u32>,
    /// When it was changed.
    pub modified_ms: Option<u64>,
}

/// Directories in directories.
const DEPTH_MAX: usize = 256;

/// Everything below a directory, in order. `skip` is told what is neither file nor directory, such
/// as links, and `fail` what cannot be read; both are left out.
pub fn walk(
    top: &Path,
    skip: &mut dyn FnMut(&Path),
    fail: &mut dyn FnMut(&Path, Error),
) -> Vec<LocalFile> {
    let mut walk = Walk { files: Vec::new(), skip, fail };
    walk.below(top, "", 0);
    walk.files
}

struct Walk<'a> {
    files: Vec<LocalFile>,
    skip: &'a mut dyn FnMut(&Path),
    fail: &'a mut dyn FnMut(&Path, Error),
}

impl Walk<'_> {
    fn below(&mut self, directory: &Path, prefix: &str, depth: usize) {
        if depth > DEPTH_MAX {
            let message = "there are too many directories in each other";
            return (self.fail)(directory, Error::invalid(message).with("most", DEPTH_MAX));
        }
        let entries = fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<_>>);
        let mut entries: Vec<fs::DirEntry> = match entries {
            Ok(entries) => entries,
            Err(source) => return (self.fail)(directory, Error::io("cannot read", source)),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            if let Err(error) = self.add(&entry, &path, prefix, depth) {
                (self.fail)(&path, error);
            }
        }
    }

    fn add(&mut self, entry: &fs::DirEntry, path: &Path, prefix: &str, depth: usize) -> Result<()> {
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
            return Err(Error::invalid("the name of a file is no UTF-8: rename it"));
        };
        let relative = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let unreadable = |source| Error::io("cannot read", source);
        let kind = entry.file_type().map_err(unreadable)?;
        if !kind.is_dir() && !kind.is_file() {
            (self.skip)(path);
            return Ok(());
        }
        let metadata = entry.metadata().map_err(unreadable)?;
        let file = describe(path, relative.clone(), &metadata);
        if kind.is_dir() {
            self.files.push(LocalFile { is_directory: true, bytes: 0, ..file });
            self.below(path, &relative, depth + 1);
        } else {
            self.files.push(file);
        }
        Ok(())
    }
}

/// A file as it is now.
pub(crate) fn describe(path: &Path, relative: String, metadata: &Metadata) -> LocalFile {
    LocalFile {
        path: path.to_owned(),
        relative,
        is_directory: metadata.is_dir(),
        bytes: metadata.len(),
        mode: mode(metadata),
        modified_ms: modified_ms(metadata),
    }
}

impl LocalFile {
    /// A file that somebody named. A link that they name is followed.
    pub fn named(path: &Path) -> Result<LocalFile> {
        let metadata = fs::metadata(path).map_err(unreadable(path))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if !metadata.is_file() && !metadata.is_dir() {
            let message = "this is neither a file nor a directory";
            return Err(Error::invalid(message).with("file", path.display()));
        }
        Ok(describe(path, name.unwrap_or_default(), &metadata))
    }
}

/// Names what is sent, so that it is known again after an interruption: another file, or one that
/// was changed, has another name.
pub(crate) fn source(path: &Path, metadata: &Metadata) -> String {
    let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let nanos = modified.map_or(0, |at| at.as_nanos());
    let facts = format!("{} {nanos} {} {}", metadata.len(), identity(metadata), absolute.display());
    Checksum::of(facts.as_bytes()).to_string()
}

/// When a file was changed.
pub(crate) fn modified_ms(metadata: &Metadata) -> Option<u64> {
    let at = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(at.as_millis()).ok()
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    Some(metadata.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode(_: &Metadata) -> Option<u32> {
    None
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    format!("{} {}", metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> String {
    String::new()
}

/// A file of this machine cannot be read.
pub(crate) fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::io("cannot read", source).with("file", path.display())
}

/// A file of this machine cannot be written.
pub(crate) fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |source| Error::io("cannot write", source).with("file", path.display())
}

/// Where a download goes that somebody sends to `path`: a link is followed, as the system's `cp`
/// does. Devices, pipes and sockets are refused: a file that appears whole would take their place.
pub(crate) fn target(path: &Path, must_be_absent: bool) -> Result<PathBuf> {
    let there = match fs::symlink_metadata(path) {
        Ok(there) => there,
        // Nothing is there, or what is wrong is told when the file is made.
        Err(_) => return Ok(path.to_owned()),
    };
    if must_be_absent {
        return Err(occupied(path));
    }
    let real = match there.is_symlink() {
        true => fs::canonicalize(path).map_err(|source| {
            Error::io("cannot follow the link to what it names", source)
                .with("file", path.display())
        })?,
        false => path.to_owned(),
    };
    match fs::metadata(&real) {
        Ok(found) if !found.is_file() && !found.is_dir() => {
            let message = "this is a device, a pipe or a socket, and cannot become a file: use \
                           `paddlecloud cat` to write a content to it";
            Err(Error::invalid(message).with("file", path.display()))
        }
        _ => Ok(real),
    }
}

/// Something is where nothing is to be replaced.
pub(crate) fn occupied(path: &Path) -> Error {
    Error::new(Kind::AlreadyExists, "there is something already").with("file", path.display())
}

/// Gives a directory the time and permissions it has in the cloud, where the system has that. A file
/// that is in its way has been told already.
pub(crate) fn dress_directory(path: &Path, mode: Option<u32>, ms: Option<u64>) -> Result<()> {
    #[cfg(unix)]
    {
        let found = fs::File::open(path).map_err(unwritable(path))?;
        if found.metadata().is_ok_and(|found| found.is_dir()) {
            dress(&found, mode, ms).map_err(unwritable(path))?;
        }
    }
    #[cfg(not(unix))]
    let _ = (path, mode, ms);
    Ok(())
}

/// Gives a finished file the time and permissions it has in the cloud.
pub(crate) fn dress(file: &fs::File, mode: Option<u32>, ms: Option<u64>) -> std::io::Result<()> {
    #[cfg(unix)]
    if let Some(mode) = mode.filter(|mode| *mode != 0) {
        use std::os::unix::fs::PermissionsExt;
        file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
    }
    #[cfg(not(unix))]
    let _ = mode;
    match ms {
        Some(ms) => file.set_modified(UNIX_EPOCH + std::time::Duration::from_millis(ms)),
        None => Ok(()),
    }
}
