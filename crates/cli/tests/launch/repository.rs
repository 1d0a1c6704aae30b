//! Where the files of this clone are. Cargo runs tests in the folder of their crate; the path at
//! which they were compiled may be that of another clone, with which this one shares its build.

use std::path::PathBuf;

/// The absolute path of something that the repository has.
pub(crate) fn path(relative: &str) -> PathBuf {
    let folder = PathBuf::from("../..").canonicalize().unwrap();
    assert!(folder.join(".ci/required").is_file(), "run it in the folder of its crate");
    folder.join(relative)
}
