//! Removing a folder with all that is in it, however deep it is.
//!
//! The standard library goes down into every folder by a call within a call. Whoever may write to
//! a folder can nest others in it until that overflows the stack, which ends the process. So
//! nothing goes down here: folders within folders are moved up to the top, one level at a time,
//! and removed there. No link is followed, and nothing outside of the folder is touched.

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// How often the top is gone through. One level goes each time; somebody who keeps adding some does
/// not keep us for ever.
const ROUNDS_MAX: u32 = 10_000_000;

/// Removes a folder and everything in it. One that is not there is no error.
///
/// # Errors
/// It is no folder, or something in it cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let top = match open(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let mut moved = 0;
    for _ in 0..ROUNDS_MAX {
        if !remove_level(&top, &mut moved)? {
            break;
        }
    }
    match std::fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn open(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Removes the files of a folder and of the folders in it, and moves what is deeper up. Whether
/// there was anything.
fn remove_level(top: &OwnedFd, moved: &mut u64) -> io::Result<bool> {
    let mut has_any = false;
    for entry in Dir::read_from(top)? {
        let entry = entry?;
        let name = entry.file_name();
        if is_dots(name) {
            continue;
        }
        has_any = true;
        if !unlink(top, name)? {
            continue;
        }
        let folder = match open(top, name) {
            Err(Errno::NOENT) => continue,
            opened => opened?,
        };
        for inner in Dir::read_from(&folder)? {
            let inner = inner?;
            let name = inner.file_name();
            if !is_dots(name) && unlink(&folder, name)? {
                lift(&folder, name, top, moved)?;
            }
        }
        match unlinkat(top, name, AtFlags::REMOVEDIR) {
            // Somebody was faster, or is not done adding to it: the next round sees.
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(has_any)
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Removes a file. Whether it is a folder instead.
fn unlink(folder: &OwnedFd, name: &CStr) -> io::Result<bool> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(false),
        // Linux says the first; POSIX the second.
        Err(Errno::ISDIR | Errno::PERM) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

/// Moves a folder to the top, under a name that is free there.
fn lift(folder: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let free = format!(".removed-{moved}");
        match crate::rename_new(folder, name, top, free.as_str()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_tree_goes_however_deep_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        fs::write(&outside, "stays").unwrap();
        let top = folder.path().join("top");
        fs::create_dir(&top).unwrap();
        // Deeper than a path can say, so folder by folder.
        let mut at = open(CWD, &top).unwrap();
        for level in 0..20_000 {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            if level % 1000 == 0 {
                rustix::fs::symlinkat(&outside, &at, "link").unwrap();
                rustix::fs::mkdirat(&at, ".removed-1", Mode::RWXU).unwrap();
            }
            at = open(&at, "d").unwrap();
        }
        drop(at);
        remove_tree(&top).unwrap();
        assert!(!top.exists());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "stays");
        remove_tree(&top).unwrap();
    }

    #[test]
    fn a_link_or_a_file_is_not_taken_for_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("file"), "stays").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(remove_tree(&link).is_err());
        assert!(remove_tree(&real.join("file")).is_err());
        assert!(real.join("file").exists());
    }
}
