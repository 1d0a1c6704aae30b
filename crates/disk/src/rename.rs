//! Another name that replaces nothing, also where the file system cannot refuse by itself.

use rustix::fs::{
    AtFlags, FileType, RenameFlags, linkat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use std::os::fd::{AsFd, BorrowedFd};

/// Gives a file or folder another name, unless something has that name.
///
/// NFS and CephFS do not know renaming without replacing. There a file is linked and the old name
/// removed, so that of two who want the same name one is refused all the same; for a folder, and
/// where there are no links, it is looked first, and somebody else may be quicker.
///
/// # Errors
/// [`Errno::EXIST`] if something is there; whatever the disk says.
pub fn rename_new<P, Q>(from: impl AsFd, old: P, to: impl AsFd, new: Q) -> Result<()>
where
    P: Arg + Copy,
    Q: Arg + Copy,
{
    let (from, to) = (from.as_fd(), to.as_fd());
    match renameat_with(from, old, to, new, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => rename_plainly(from, old, to, new),
        renamed => renamed,
    }
}

/// The same without flags.
fn rename_plainly<P, Q>(from: BorrowedFd<'_>, old: P, to: BorrowedFd<'_>, new: Q) -> Result<()>
where
    P: Arg + Copy,
    Q: Arg + Copy,
{
    let found = statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
        match linkat(from, old, to, new, AtFlags::empty()) {
            Ok(()) => return unlinkat(from, old, AtFlags::empty()),
            // The file system has no links, or the system permits none to files of others.
            Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {}
            Err(errno) => return Err(errno),
        }
    }
    match statat(to, new, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => renameat(from, old, to, new),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;
    use std::fs;
    use std::path::Path;

    type Rename = fn(&Path, &Path) -> Result<()>;

    #[test]
    fn nothing_is_replaced_whatever_the_file_system_can_do() {
        let ways: [Rename; 2] = [
            |old, new| rename_new(CWD, old, CWD, new),
            |old, new| rename_plainly(CWD, old, CWD, new),
        ];
        for rename in ways {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| folder.path().join(name);
            fs::write(at("file"), "one").unwrap();
            fs::write(at("other"), "two").unwrap();
            fs::create_dir_all(at("folder/inner")).unwrap();
            std::os::unix::fs::symlink("file", at("link")).unwrap();
            for taken in ["other", "folder", "link"] {
                assert_eq!(rename(&at("file"), &at(taken)), Err(Errno::EXIST));
                assert_eq!(rename(&at("folder/inner"), &at(taken)), Err(Errno::EXIST));
            }
            assert_eq!(rename(&at("none"), &at("free")), Err(Errno::NOENT));
            assert_eq!(rename(&at("folder"), &at("folder/inner/deeper")), Err(Errno::INVAL));
            rename(&at("link"), &at("moved link")).unwrap();
            assert!(at("moved link").is_symlink() && !at("link").is_symlink());
            rename(&at("file"), &at("moved")).unwrap();
            rename(&at("folder"), &at("moved folder")).unwrap();
            assert_eq!(fs::read_to_string(at("moved")).unwrap(), "one");
            assert_eq!(fs::read_to_string(at("other")).unwrap(), "two");
            assert!(at("moved folder/inner").is_dir());
            assert!(!at("file").exists() && !at("folder").exists());
        }
    }
}
