//! A file of the server's disk becomes an object: in one request, or in parts that are sent at the
//! same time and become an object together.

use super::super::{Condition, Publication, file_on_the_way, is_a_directory, parent_of, relative};
use super::{
    BLOCK_BYTES, BLOCKS, Facts, MODE, MODIFIED, Objects, above, check_name, file, refused,
};
use crate::blocking::blocking;
use crate::files::unusable;
use bytes::BytesMut;
use contract::api::file::Entry;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use opendal::{ErrorKind, Writer};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A store takes so many parts of one file.
const PARTS_MAX: u64 = 9000;
/// Parts of one file that are sent at the same time.
const PARTS_AT_ONCE: usize = 4;

impl Objects {
    /// Makes an object of a file. `files` are those of the paths above where files are, if they
    /// were looked for.
    pub(super) async fn publish_now(
        &self,
        publication: &Publication,
        files: Option<&BTreeSet<PfsPath>>,
    ) -> Result<Entry> {
        let Publication { path, staged, condition, .. } = publication;
        parent_of(path)?;
        check_name(path)?;
        let failed = |error| refused(error, path);
        match files {
            Some(files) if above(path).any(|above| files.contains(&above)) => {
                return Err(file_on_the_way(path));
            }
            Some(_) => {}
            None => self.check_above(path).await?,
        }
        let is_directory = self.has_directory(path).await?;
        if is_directory || *condition != Condition::default() {
            let there = self.object(path).await?;
            if there.is_none() && is_directory {
                return Err(is_a_directory(path));
            }
            condition.check(there.as_ref())?;
        }
        let (source, bytes) = {
            let staged = staged.clone();
            blocking(move || {
                let file = File::open(&staged).map_err(unusable(&staged))?;
                let bytes = file.metadata().map_err(unusable(&staged))?.len();
                Ok((Arc::new(file), bytes))
            })
            .await?
        };
        let part_bytes = part_bytes(bytes);
        let blocks = bytes.div_ceil(BLOCK_BYTES).max(1).min(part_bytes.div_ceil(BLOCK_BYTES) * 5);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX).min(BLOCKS as u32);
        let _room = self.room.acquire_many(blocks).await;
        let facts = Facts {
            mode: publication.mode & 0o777,
            modified_ms: publication.modified_ms.unwrap_or_else(crate::clock::now_ms),
        };
        let mut writer = self.writer(publication, facts, part_bytes).await.map_err(failed)?;
        let sent = send(&mut writer, &source, bytes, part_bytes, path).await;
        if let Err(error) = sent {
            // Else the parts stay until they are swept.
            let _ = writer.abort().await;
            return Err(error);
        }
        let metadata = writer.close().await.map_err(|error| match error.kind() {
            ErrorKind::ConditionNotMatch => unmet(condition, path),
            _ => refused(error, path),
        })?;
        let key = relative(path);
        let entry = match metadata.etag() {
            Some(_) => Entry { bytes, ..file(path.to_string(), &metadata, facts) },
            None => self.object(path).await?.ok_or_else(|| super::missing(path))?,
        };
        self.remember(&key, entry.etag.clone(), facts);
        // It is in the store: what is left here is swept.
        let staged = staged.clone();
        let _ = blocking(move || std::fs::remove_file(&staged).map_err(unusable(&staged))).await;
        Ok(entry)
    }

    async fn writer(
        &self,
        publication: &Publication,
        facts: Facts,
        part_bytes: u64,
    ) -> opendal::Result<Writer> {
        let given = [
            (MODE.to_owned(), facts.mode.to_string()),
            (MODIFIED.to_owned(), facts.modified_ms.to_string()),
        ];
        let key = relative(&publication.path);
        let at_once = match part_bytes > BLOCK_BYTES {
            true => 1,
            false => PARTS_AT_ONCE,
        };
        let writing = self
            .operator
            .writer_with(&key)
            .user_metadata(given)
            .chunk(usize::try_from(part_bytes).unwrap_or(usize::MAX))
            .concurrent(at_once);
        let Condition { if_absent, if_match } = &publication.condition;
        let can_match = self.operator.info().capability().write_with_if_match;
        match (if_absent, if_match) {
            (true, _) => writing.if_not_exists(true).await,
            (false, Some(etag)) if can_match => writing.if_match(&super::quoted(etag)).await,
            _ => writing.await,
        }
    }
}

/// Parts are blocks, or larger where a file would have too many.
fn part_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(PARTS_MAX).div_ceil(BLOCK_BYTES).max(1) * BLOCK_BYTES
}

async fn send(
    writer: &mut Writer,
    source: &Arc<File>,
    bytes: u64,
    part_bytes: u64,
    path: &PfsPath,
) -> Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let length = usize::try_from(part_bytes.min(bytes - offset)).unwrap_or(usize::MAX);
        let file = Arc::clone(source);
        let part = blocking(move || {
            let mut part = BytesMut::zeroed(length);
            let read = file.read_exact_at(&mut part, offset);
            read.map_err(|source| Error::io("the server cannot read an upload", source))?;
            Ok(part.freeze())
        })
        .await?;
        writer.write(part).await.map_err(|error| refused(error, path))?;
        offset += length as u64;
    }
    Ok(())
}

/// Somebody was quicker than the look before.
fn unmet(condition: &Condition, path: &PfsPath) -> Error {
    match condition.if_absent {
        true => Error::new(Kind::AlreadyExists, "there is something already").with("path", path),
        false => {
            let message = "the file was changed by somebody else: look at it, then try again";
            Error::new(Kind::Conflict, message).with("path", path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_small_and_never_too_many() {
        for bytes in [0, 1, BLOCK_BYTES, 5 << 30, 1 << 40, contract::api::file::FILE_BYTES_MAX] {
            let part = part_bytes(bytes);
            assert!(part >= BLOCK_BYTES && part.is_multiple_of(BLOCK_BYTES), "{bytes}");
            assert!(bytes.div_ceil(part) <= PARTS_MAX, "{bytes}");
        }
        assert_eq!(part_bytes(5 << 30), BLOCK_BYTES);
    }
}
