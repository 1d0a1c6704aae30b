//! Another name for an object: a copy inside the store, then the removal of what was copied.
//!
//! A file is there under the old name until it is whole under the new one, so one that is killed in
//! between leaves two, never none. A directory is moved file by file: everything is copied before
//! anything is removed, and a copy that fails leaves what was there. What somebody writes meanwhile
//! is not removed: only an object that is still the one that was copied.

use super::super::{Condition, Renaming, into_itself, is_a_directory, is_within, over_a_file};
use super::super::{parent_of, relative, taken};
use super::{Objects, check_name, etag, quoted, refused};
use crate::files::operation;
use contract::api::file::Entry;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use opendal::ErrorKind;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The largest object that stores copy in one request; larger ones pass through the server.
const COPY_BYTES_MAX: u64 = 5 << 30;
/// Objects that are copied at the same time.
const COPIES: usize = 8;

/// Something that has another name now, too.
pub(super) struct Copied {
    key: String,
    /// The mark of the object that was copied; absent for a directory.
    etag: Option<String>,
}

impl Objects {
    pub(super) async fn rename_now(
        &self,
        from: &PfsPath,
        to: &PfsPath,
        how: Renaming,
    ) -> Result<Entry> {
        let (parent, _) = parent_of(from)?;
        parent_of(to)?;
        check_name(to)?;
        let source = self.stat_now(from).await?;
        if from == to {
            return Ok(source);
        }
        if is_within(to, from) && source.is_directory() {
            return Err(into_itself(to));
        }
        self.check_above(to).await?;
        let there = match self.stat_now(to).await {
            Err(error) if error.kind() == contract::Kind::NotFound => None,
            there => Some(there?),
        };
        Condition { if_absent: how.if_absent, if_match: None }.check(there.as_ref())?;
        match &there {
            Some(there) if there.is_directory() && !source.is_directory() => {
                return Err(is_a_directory(to));
            }
            Some(there) if !there.is_directory() && source.is_directory() => {
                return Err(over_a_file(to));
            }
            Some(there) if there.is_directory() && !self.is_empty(to).await? => {
                return Err(taken(to));
            }
            _ => {}
        }
        // The directory above stays, also if this was all in it.
        self.mark(&parent).await?;
        match source.is_directory() {
            true => self.move_directory(from, to).await?,
            false => {
                let (old, new) = (relative(from), relative(to));
                let copied = self.copy_object(&old, &new, how.if_absent).await.map_err(
                    |error| match error.kind() {
                        ErrorKind::ConditionNotMatch => taken(to),
                        _ => refused(error, from),
                    },
                )?;
                self.remove_copied(&copied).await.map_err(|error| refused(error, from))?;
            }
        }
        self.stat_now(to).await
    }

    async fn move_directory(&self, from: &PfsPath, to: &PfsPath) -> Result<()> {
        let (old, new) = (format!("{}/", relative(from)), format!("{}/", relative(to)));
        let failed = |error| refused(error, from);
        let done: Mutex<Vec<Copied>> = Mutex::default();
        let has_failed = AtomicBool::new(false);
        let counted = operation::current();
        let lister = self.operator.lister_with(&old).recursive(true).await.map_err(failed)?;
        let copying = lister
            .take_while(|_| ready(!has_failed.load(Ordering::Relaxed)))
            .map(|found| {
                let (old, new, done, counted) = (&old, &new, &done, &counted);
                async move {
                    let found = found?;
                    let rest = found.path().strip_prefix(old.as_str()).unwrap_or_default();
                    let target = format!("{new}{rest}");
                    let copied = match target.ends_with('/') {
                        true => {
                            self.operator.create_dir(&target).await?;
                            Copied { key: found.path().to_owned(), etag: None }
                        }
                        false => self.copy_object(found.path(), &target, false).await?,
                    };
                    counted.add(1, found.metadata().content_length());
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(copied);
                    opendal::Result::Ok(())
                }
            })
            .buffer_unordered(COPIES)
            // Those under way end, so that all copies are known; no others begin.
            .fold(Ok(()), |first, next| {
                has_failed.fetch_or(next.is_err(), Ordering::Relaxed);
                ready(first.and(next))
            })
            .await;
        let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = copying {
            // What was there stays; half a copy goes.
            let copies = done.iter().filter_map(|copied| copied.key.strip_prefix(&old));
            for rest in copies {
                let _ = self.operator.delete(&format!("{new}{rest}")).await;
            }
            let _ = self.operator.delete(&new).await;
            return Err(failed(error));
        }
        self.mark(to).await?;
        let removals =
            done.into_iter().map(|copied| async move { self.remove_copied(&copied).await });
        stream::iter(removals)
            .buffer_unordered(COPIES)
            .try_collect::<()>()
            .await
            .map_err(failed)?;
        self.operator.delete(&old).await.map_err(failed)?;
        match self.has_directory(from).await? {
            false => Ok(()),
            true => {
                let message = "the directory was moved, but for files that were written to it \
                               meanwhile: they are where they were";
                Err(Error::new(Kind::Conflict, message).with("path", from))
            }
        }
    }

    /// Removes what was copied, unless somebody has written something else there since.
    pub(super) async fn remove_copied(&self, copied: &Copied) -> opendal::Result<()> {
        if let Some(known) = &copied.etag {
            match self.operator.stat(&copied.key).await {
                Ok(found) if etag(&found) == *known => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.operator.delete(&copied.key).await
    }

    /// Copies an object with its metadata.
    pub(super) async fn copy_object(
        &self,
        from: &str,
        to: &str,
        if_absent: bool,
    ) -> opendal::Result<Copied> {
        let metadata = self.operator.stat(from).await?;
        let copied = Copied { key: from.to_owned(), etag: Some(etag(&metadata)) };
        let bytes = metadata.content_length();
        let can_refuse = self.operator.info().capability().copy_with_if_not_exists;
        if bytes < COPY_BYTES_MAX {
            let copying = self.operator.copy_with(from, to);
            let copying = match if_absent && can_refuse {
                true => copying.if_not_exists(true),
                false => copying,
            };
            return copying.await.map(|_| copied);
        }
        let given: Vec<(String, String)> = [super::MODE, super::MODIFIED]
            .iter()
            .filter_map(|name| {
                let value = metadata.user_metadata()?.get(name)?;
                Some(((*name).to_owned(), value.to_owned()))
            })
            .collect();
        let reader = self.operator.reader_with(from).if_match(&quoted(&etag(&metadata))).await?;
        let mut pieces = reader.into_stream(0..bytes).await?;
        let writing = self.operator.writer_with(to).user_metadata(given).chunk(64 << 20);
        let mut writer = writing.if_not_exists(if_absent).await?;
        while let Some(piece) = pieces.next().await {
            let written = match piece {
                Ok(piece) => writer.write(piece).await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                let _ = writer.abort().await;
                return Err(error);
            }
        }
        writer.close().await.map(|_| copied)
    }
}
