//! Files and folders that appear under their name only when they are complete, and survive a power
//! failure from then on.
//!
//! Bytes go to a hidden neighbour of the target, `.name.XXXXXX.partial`. Publishing syncs them,
//! renames the neighbour over the target, and syncs the folder that holds the name. A neighbour
//! that is not published is removed when it is dropped; after `kill -9` it stays, and
//! [`PARTIAL_END`] tells a sweeper what it is.
//!
//! Large files may be written directly to the disk ([`RangeWriter`], on Linux).
//!
//! Folders that others filled are removed by [`remove_tree`], however deep they are.
//!
//! This crate knows no format and no job.

#[cfg(target_os = "linux")]
mod direct;
mod file;
mod folder;
mod rename;
mod tree;

#[cfg(target_os = "linux")]
pub use direct::{RangeWriter, reserve};
pub use file::{Access, PendingFile, publish};
pub use folder::{publish_folder, sync_folder};
pub use rename::rename_new;
pub use tree::remove_tree;

use contract::{Error, Result};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The end of the name of everything that is not complete.
pub const PARTIAL_END: &str = ".partial";

/// The folder of a path, and how the names of its hidden neighbours begin.
fn neighbour(path: &Path) -> Result<(PathBuf, OsString)> {
    let name = path.file_name().ok_or_else(|| {
        Error::invalid("cannot write: the path has no file name").with("file", path.display())
    })?;
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    Ok((folder_of(path), prefix))
}

/// The folder that a path lies in; that of a bare name is the current one.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

fn unwritable(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::io("cannot write", source).with("file", path.display())
}
