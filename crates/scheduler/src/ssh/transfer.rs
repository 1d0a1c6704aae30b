//! The bytes of files, one after another through a stream, each checked when it has arrived.
//!
//! Both sides have the same [`Manifest`], so the stream needs no frames: the lengths say where a
//! file ends. A file that changed since it was summed up is noticed by the sender if it became
//! shorter, and by the receiver's checksum in any case.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use contract::{Error, Kind, Result};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::package::{Entry, Manifest, hexadecimal};

const PIECE_BYTES: usize = 256 << 10;

/// Sends `paths` of `root`, in this order. `sent` hears of every piece.
pub async fn send(
    root: &Path,
    manifest: &Manifest,
    paths: &[String],
    stream: &mut (impl AsyncWrite + Unpin),
    sent: &(impl Fn(u64) + ?Sized),
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    for path in paths {
        let refused =
            |source| Error::io("cannot read a file to send it", source).with("path", path);
        let mut left = manifest.bytes_of([path]);
        let mut file = fs::File::open(root.join(path)).map_err(refused)?;
        while left > 0 {
            let wanted = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = file.read(&mut piece[..wanted]).map_err(refused)?;
            if count == 0 {
                let message = "a file became shorter while it was sent: try again";
                return Err(Error::new(Kind::Conflict, message).with("path", path));
            }
            stream.write_all(&piece[..count]).await.map_err(lost)?;
            left -= count as u64;
            sent(count as u64);
        }
    }
    stream.flush().await.map_err(lost)
}

/// Receives `paths` into `root`, of which [`shape`] has made room for them.
pub async fn receive(
    root: &Path,
    manifest: &Manifest,
    paths: &[String],
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    for path in paths {
        let Some(Entry::File { bytes, sha256, is_executable }) = manifest.0.get(path) else {
            let message = "asked for something that is no file of the package";
            return Err(Error::new(Kind::Damaged, message).with("path", path.escape_debug()));
        };
        let refused = |source| Error::io("cannot write a file", source).with("path", path);
        let target = root.join(path);
        // Not written through: the old file may have another name elsewhere. It is replaced by a whole
        // one, and stays if that does not come.
        let folder = target.parent().unwrap_or(root);
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(refused)?;
        let (mut left, mut hash) = (*bytes, Sha256::new());
        while left > 0 {
            let wanted = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = stream.read(&mut piece[..wanted]).await.map_err(lost)?;
            if count == 0 {
                return Err(Error::new(Kind::Unavailable, "the connection ended within a file")
                    .with("path", path));
            }
            hash.update(&piece[..count]);
            file.write_all(&piece[..count]).map_err(refused)?;
            left -= count as u64;
        }
        if hexadecimal(hash) != *sha256 {
            let message = "a file changed while it was sent: try again";
            return Err(Error::new(Kind::Conflict, message).with("path", path));
        }
        set_executable(file.path(), *is_executable)?;
        file.persist(&target).map_err(|error| refused(error.error))?;
    }
    Ok(())
}

/// Makes everything but the content of files: directories and links as in the manifest, and room
/// for each file.
pub fn shape(root: &Path, manifest: &Manifest) -> Result<()> {
    fs::create_dir_all(root).map_err(|source| {
        Error::io("cannot make a directory", source).with("path", root.display())
    })?;
    for (path, entry) in &manifest.0 {
        let target = root.join(path);
        let refused = |source| Error::io("cannot copy the package", source).with("path", path);
        let found = target.symlink_metadata().map(|metadata| metadata.file_type()).ok();
        match entry {
            Entry::Directory if found.is_some_and(|found| found.is_dir()) => {}
            Entry::Directory => {
                remove(&target)?;
                fs::create_dir(&target).map_err(refused)?;
            }
            Entry::Link { target: to } => {
                remove(&target)?;
                symlink(to, &target).map_err(refused)?;
            }
            Entry::File { is_executable, .. } if found.is_some_and(|found| found.is_file()) => {
                set_executable(&target, *is_executable)?;
            }
            Entry::File { .. } => remove(&target)?,
        }
    }
    Ok(())
}

/// Makes a copy of a directory on the same machine, of what the manifest names.
pub fn copy(from: &Path, to: &Path, manifest: &Manifest) -> Result<()> {
    shape(to, manifest)?;
    for (path, entry) in &manifest.0 {
        if let Entry::File { .. } = entry {
            fs::copy(from.join(path), to.join(path))
                .map_err(|source| Error::io("cannot copy a file", source).with("path", path))?;
        }
    }
    Ok(())
}

/// Removes what is in the directory and not in the manifest.
pub fn prune(root: &Path, manifest: &Manifest) -> Result<()> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let here = root.join(&folder);
        let refused =
            |source| Error::io("cannot read a directory", source).with("path", here.display());
        for item in fs::read_dir(&here).map_err(refused)? {
            let item = item.map_err(refused)?;
            let name = folder.join(item.file_name());
            match name.to_str().and_then(|name| manifest.0.get(name)) {
                None => remove(&item.path())?,
                Some(Entry::Directory) if item.file_type().is_ok_and(|kind| kind.is_dir()) => {
                    folders.push(name);
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// Removes whatever is there; nothing there is fine.
pub(super) fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => disk::remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(_) => return Ok(()),
    };
    removed.map_err(|source| Error::io("cannot remove", source).with("path", path.display()))
}

fn set_executable(path: &Path, is_executable: bool) -> Result<()> {
    let mode = if is_executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|source| Error::io("cannot set permissions", source).with("path", path.display()))
}

fn lost(source: std::io::Error) -> Error {
    Error::io("the connection broke while files were copied", source)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn copy(from: &Path, to: &Path, tamper: impl FnOnce()) -> Result<Vec<String>> {
        let manifest = Manifest::scan(from, &[])?;
        tamper();
        shape(to, &manifest)?;
        prune(to, &manifest)?;
        let missing = manifest.files_missing_in(&Manifest::scan(to, &[])?);
        let (mut near, mut far) = tokio::io::duplex(1000);
        let sending = async {
            let result = send(from, &manifest, &missing, &mut near, &|_| ()).await;
            drop(near);
            result
        };
        let (sent, received) = tokio::join!(sending, receive(to, &manifest, &missing, &mut far));
        sent.and(received)?;
        assert_eq!(Manifest::scan(to, &[])?, manifest);
        Ok(missing)
    }

    fn folders() -> (tempfile::TempDir, tempfile::TempDir) {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(from.path().join("d")).unwrap();
        fs::write(from.path().join("d/large"), vec![7; 3 * PIECE_BYTES + 1]).unwrap();
        fs::write(from.path().join("empty"), "").unwrap();
        fs::write(from.path().join("run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(from.path().join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("d/large", from.path().join("link")).unwrap();
        (from, to)
    }

    #[tokio::test]
    async fn a_copy_has_the_same_manifest_and_a_second_copies_nothing() {
        let (from, to) = folders();
        assert_eq!(copy(from.path(), to.path(), || ()).await.unwrap(), ["d/large", "empty", "run"]);
        assert!(copy(from.path(), to.path(), || ()).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn whatever_stands_in_the_way_is_replaced_and_strangers_are_removed() {
        let (from, to) = folders();
        let victim = tempfile::NamedTempFile::new().unwrap();
        fs::write(victim.path(), "untouched").unwrap();
        fs::create_dir_all(to.path().join("run/inside")).unwrap();
        fs::create_dir_all(to.path().join("link")).unwrap();
        fs::create_dir_all(to.path().join("strange/x")).unwrap();
        fs::write(to.path().join("d"), "a file").unwrap();
        symlink(victim.path(), to.path().join("empty")).unwrap();
        copy(from.path(), to.path(), || ()).await.unwrap();
        assert_eq!(fs::read_to_string(victim.path()).unwrap(), "untouched");
    }

    #[tokio::test]
    async fn a_file_that_changes_while_it_is_sent_is_noticed() {
        for content in [vec![8; 3 * PIECE_BYTES + 1], vec![7; 5]] {
            let (from, to) = folders();
            fs::create_dir(to.path().join("d")).unwrap();
            fs::write(to.path().join("d/large"), "old").unwrap();
            let changed = from.path().join("d/large");
            let result = copy(from.path(), to.path(), || fs::write(changed, content).unwrap());
            assert_eq!(result.await.unwrap_err().kind(), Kind::Conflict);
            assert_eq!(fs::read(to.path().join("d/large")).unwrap(), b"old");
        }
    }
}
