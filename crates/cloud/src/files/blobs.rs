//! Contents of files by their SHA-256, each user's own: that somebody has a content says nothing to
//! others, and nobody gets one by knowing its sum.

use super::{make_private, unusable};
use crate::blocking::blocking;
use axum::body::BodyDataStream;
use contract::api::package::PackageFile;
use contract::{Error, Kind, Result};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::Metadata;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

/// The contents of all users.
#[derive(Debug, Clone)]
pub(crate) struct Blobs {
    root: PathBuf,
    /// What each user may have, in bytes.
    bytes_max: u64,
    users: Arc<Mutex<HashMap<String, Known>>>,
}

/// How much of a user's there is.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// In whole contents.
    kept: u64,
    /// When they were counted; `None` if that is to be done again.
    counted: Option<Instant>,
    /// In those that are being sent.
    arriving: u64,
}

const COPY_BYTES: usize = 256 << 10;
/// How long a count is good for: other servers take contents in, too.
const FRESH: Duration = Duration::from_secs(10);

impl Blobs {
    /// Contents below a directory, at most so many bytes of each user.
    pub(crate) fn open(root: &Path, bytes_max: u64) -> Result<Self> {
        make_private(root)?;
        Ok(Blobs { root: root.to_owned(), bytes_max, users: Arc::default() })
    }

    fn known<T>(&self, username: &str, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        change(users.entry(username.to_owned()).or_default())
    }

    /// Whether a user may send so many bytes more.
    pub(crate) async fn has_room(&self, username: &str, bytes: u64) -> Result<bool> {
        self.count(username).await?;
        let Known { kept, arriving, .. } = self.known(username, |known| *known);
        Ok(kept.saturating_add(arriving).saturating_add(bytes) <= self.bytes_max)
    }

    /// Counts what is there of a user's, if that was not done a short while ago.
    async fn count(&self, username: &str) -> Result<()> {
        if self.known(username, |known| known.counted.is_some_and(|at| at.elapsed() < FRESH)) {
            return Ok(());
        }
        let (top, at) = (self.root.join(username), Instant::now());
        // One that is being sent has another name so far, and is counted as such.
        let is_whole = |path: &Path| path.file_name().is_some_and(|name| name.len() == 62);
        let kept: u64 = blocking(move || {
            let whole = contents(&top).filter(|(path, _)| is_whole(path));
            Ok(whole.map(|(_, metadata)| metadata.len()).sum())
        })
        .await?;
        self.known(username, |known| (known.kept, known.counted) = (kept, Some(at)));
        Ok(())
    }

    /// Where a content is, or would be.
    pub(crate) fn path(&self, username: &str, sha256: &str) -> PathBuf {
        self.root.join(username).join(&sha256[..2]).join(&sha256[2..])
    }

    /// Whether a user has sent a content of this length.
    pub(crate) fn has(&self, username: &str, sha256: &str, bytes: u64) -> bool {
        let metadata = std::fs::metadata(self.path(username, sha256));
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes)
    }

    /// Takes in a content, which appears when it is whole, checked and on the disk.
    pub(crate) async fn put(
        &self,
        username: &str,
        sha256: &str,
        content: &mut BodyDataStream,
        bytes_max: u64,
    ) -> Result<()> {
        let path = self.path(username, sha256);
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        self.count(username).await?;
        let mut arriving = Arriving { blobs: self, username, bytes: 0 };
        let made = folder.clone();
        let temporary = blocking(move || {
            make_private(&made)?;
            tempfile::NamedTempFile::new_in(&made).map_err(unusable(&made))
        })
        .await?;
        let file = temporary.reopen().map_err(unusable(&path))?;
        let mut file = tokio::fs::File::from_std(file);
        let (mut sum, mut bytes) = (Sha256::new(), 0_u64);
        while let Some(piece) = content.next().await {
            let piece = piece.map_err(|source| {
                Error::new(Kind::Invalid, "the content did not arrive whole: send it again")
                    .because(source)
            })?;
            bytes = bytes.saturating_add(piece.len() as u64);
            if bytes > bytes_max {
                let message = "the file is too large for a package: put data into the file store";
                return Err(Error::new(Kind::LimitExceeded, message).with("bytes_max", bytes_max));
            }
            arriving.add(piece.len() as u64)?;
            sum.update(&piece);
            file.write_all(&piece).await.map_err(unusable(&path))?;
        }
        // What is told here is not told by the sync: that the last piece did not fit on the disk.
        file.flush().await.map_err(unusable(&path))?;
        file.sync_all().await.map_err(unusable(&path))?;
        let found = hexadecimal(sum);
        if found != sha256 {
            let message = "the content is not what its sum says: send it again";
            return Err(Error::new(Kind::Damaged, message)
                .with("sha256", sha256)
                .with("found", found));
        }
        let is_new = blocking(move || {
            let is_new = !path.exists();
            temporary.persist(&path).map_err(|failed| unusable(&path)(failed.error))?;
            disk::sync_folder(&folder)?;
            Ok(is_new)
        })
        .await?;
        arriving.arrived(is_new);
        Ok(())
    }

    /// Copies a content, and checks that it still is what was sent. One that the disk has damaged is
    /// removed, so that the next submission sends it again.
    pub(crate) fn copy(
        &self,
        username: &str,
        file: &PackageFile,
        target: &mut impl Write,
    ) -> Result<()> {
        let path = self.path(username, &file.sha256);
        let damaged = || {
            let message = "the server's copy of a file of the package is damaged: submit the \
                           package again, which sends it again";
            Error::new(Kind::Damaged, message)
        };
        let mut source = match std::fs::File::open(&path) {
            Ok(source) => source,
            Err(source) if source.kind() == ErrorKind::NotFound => return Err(damaged()),
            Err(source) => return Err(unusable(&path)(source)),
        };
        let (mut sum, mut piece) = (Sha256::new(), vec![0; COPY_BYTES]);
        loop {
            let count = source.read(&mut piece).map_err(unusable(&path))?;
            if count == 0 {
                break;
            }
            sum.update(&piece[..count]);
            target.write_all(&piece[..count]).map_err(unusable(&path))?;
        }
        if hexadecimal(sum) == file.sha256 {
            return Ok(());
        }
        std::fs::remove_file(&path).map_err(unusable(&path))?;
        Err(damaged())
    }

    /// Removes the contents of a user that are older than `age` and not `needed`.
    pub(crate) fn sweep(
        &self,
        username: &str,
        needed: &std::collections::BTreeSet<String>,
        age: std::time::Duration,
    ) -> Result<u64> {
        let top = self.root.join(username);
        let mut removed = 0;
        for (path, metadata) in contents(&top) {
            let name = |path: Option<&Path>| {
                let name = path.and_then(Path::file_name).unwrap_or_default();
                name.to_string_lossy().into_owned()
            };
            let sha256 = name(path.parent()) + &name(Some(&path));
            let modified = metadata.modified();
            let is_old = modified.is_ok_and(|at| at.elapsed().is_ok_and(|old| old > age));
            if is_old && !needed.contains(&sha256) {
                std::fs::remove_file(&path).map_err(unusable(&top))?;
                removed += 1;
            }
        }
        self.known(username, |known| known.counted = None);
        Ok(removed)
    }
}

/// All files of a user's directory.
fn contents(top: &Path) -> impl Iterator<Item = (PathBuf, Metadata)> {
    let folders = std::fs::read_dir(top).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).into_iter().flatten());
    files.flatten().filter_map(|file| Some((file.path(), file.metadata().ok()?)))
}

/// A content that is being sent. What has come of it is counted while it lives.
struct Arriving<'a> {
    blobs: &'a Blobs,
    username: &'a str,
    bytes: u64,
}

impl Arriving<'_> {
    /// Counts a piece.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] with what there is and what there may be.
    fn add(&mut self, bytes: u64) -> Result<()> {
        let most = self.blobs.bytes_max;
        let used = self.blobs.known(self.username, |known| {
            let used = known.kept.saturating_add(known.arriving);
            let is_room = used.saturating_add(bytes) <= most;
            if is_room {
                known.arriving += bytes;
            }
            (!is_room).then_some(used - self.bytes)
        });
        let Some(used) = used else {
            self.bytes += bytes;
            return Ok(());
        };
        let message = format!(
            "the packages of one user take at most {most} bytes together, and yours take {used}: \
             delete jobs whose programs you do not need, and try again in an hour"
        );
        Err(Error::new(Kind::LimitExceeded, message).with("field", "limits.package_bytes"))
    }

    /// It is whole.
    fn arrived(self, is_new: bool) {
        let bytes = if is_new { self.bytes } else { 0 };
        self.blobs.known(self.username, |known| known.kept = known.kept.saturating_add(bytes));
    }
}

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        self.blobs.known(self.username, |known| known.arriving -= self.bytes);
    }
}

fn hexadecimal(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Refuses what is not a SHA-256 in lower-case hexadecimal.
pub(crate) fn check_sha256(text: &str) -> Result<()> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == 64 && text.bytes().all(is_digit) {
        return Ok(());
    }
    let message = "not a SHA-256: use 64 lower-case hexadecimal digits";
    Err(Error::invalid(message).with("sha256", text.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_that_the_disk_damaged_is_not_copied_and_is_sent_again() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path(), 1 << 20).unwrap();
        let sha256 = hexadecimal(Sha256::new_with_prefix("print(1)"));
        let file = PackageFile { sha256, bytes: 8, is_executable: false };
        let path = blobs.path("wu", &file.sha256);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "print(1)").unwrap();
        let mut copy = Vec::new();
        blobs.copy("wu", &file, &mut copy).unwrap();
        assert_eq!(copy, b"print(1)");
        std::fs::write(&path, "print(2)").unwrap();
        assert!(blobs.has("wu", &file.sha256, file.bytes));
        let error = blobs.copy("wu", &file, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), Kind::Damaged);
        assert!(!blobs.has("wu", &file.sha256, file.bytes));
        assert_eq!(blobs.copy("wu", &file, &mut Vec::new()).unwrap_err().kind(), Kind::Damaged);
    }
}
