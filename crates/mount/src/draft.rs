//! A file that is written to. Its content is in a file of this machine that has no name, and goes
//! to the cloud whole: when the file is closed, or synced.
//!
//! Of a file that is there already the content is fetched when a part of it is changed, not before:
//! most programs replace all of it.

use crate::blocks::Blocks;
use crate::content::{Content, unusable};
use crate::remote::Remote;
use client::Item;
use contract::Result;
use contract::api::file::Entry;
use contract::path::PfsPath;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A content that is being written.
#[derive(Debug)]
pub(crate) struct Draft {
    file: File,
    /// Held while the content is sent or fetched, however long that takes.
    state: Mutex<State>,
    /// As of when nobody held `state`, for those who only look.
    facts: Mutex<Facts>,
    base: Mutex<Option<Arc<Content>>>,
}

/// The state, whose facts are known to others when it is given back.
struct Held<'a> {
    draft: &'a Draft,
    state: MutexGuard<'a, State>,
}

#[derive(Debug)]
struct State {
    /// The content in the cloud, while nothing of it was changed.
    base: Option<Arc<Content>>,
    bytes: u64,
    mode: u32,
    /// When it was changed, or when somebody says it was.
    modified: SystemTime,
    /// Whether the cloud has something else.
    is_changed: bool,
    /// Whether the cloud has a file of this name.
    is_published: bool,
    /// Whether it could not be sent, and whoever closed it was told.
    is_refused: bool,
}

/// What is to be known of a draft without its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    pub(crate) bytes: u64,
    pub(crate) mode: u32,
    pub(crate) modified: SystemTime,
    pub(crate) is_published: bool,
}

impl Draft {
    /// A new file. The cloud knows nothing of it before it is published.
    pub(crate) fn create(scratch: &Path, mode: u32) -> std::io::Result<Draft> {
        let state = State {
            base: None,
            bytes: 0,
            mode,
            modified: SystemTime::now(),
            is_changed: true,
            is_published: false,
            is_refused: false,
        };
        Draft::of(scratch, state)
    }

    /// A file that is there and will be changed.
    pub(crate) fn change(scratch: &Path, content: Arc<Content>) -> std::io::Result<Draft> {
        let entry = &content.entry;
        let state = State {
            bytes: entry.bytes,
            mode: entry.mode,
            modified: UNIX_EPOCH + Duration::from_millis(entry.modified_ms),
            is_changed: false,
            is_published: true,
            is_refused: false,
            base: Some(content),
        };
        Draft::of(scratch, state)
    }

    fn of(scratch: &Path, state: State) -> std::io::Result<Draft> {
        let file = tempfile::tempfile_in(scratch)?;
        let (facts, base) = (Mutex::new(state.facts()), Mutex::new(state.base.clone()));
        Ok(Draft { file, facts, base, state: Mutex::new(state) })
    }

    /// The content in the cloud, while nothing of it was changed, as far as that is known without
    /// waiting.
    pub(crate) fn base(&self) -> Option<Arc<Content>> {
        self.base.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn facts(&self) -> Facts {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(&self, blocks: &Blocks, offset: u64, length: u64) -> Result<Vec<u8>> {
        let (base, bytes) = {
            let state = self.lock();
            (state.base.clone(), state.bytes)
        };
        if let Some(base) = base {
            return blocks.read(&base, offset, length);
        }
        let length = length.min(bytes.saturating_sub(offset));
        let mut buffer = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file.read_exact_at(&mut buffer, offset).map_err(unusable)?;
        Ok(buffer)
    }

    pub(crate) fn write(&self, remote: &Remote, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut state = self.lock();
        self.fetch(&mut state, remote)?;
        self.file.write_all_at(bytes, offset).map_err(unusable)?;
        state.bytes = state.bytes.max(offset + bytes.len() as u64);
        state.changed();
        Ok(())
    }

    pub(crate) fn set_length(&self, remote: &Remote, bytes: u64) -> Result<()> {
        let mut state = self.lock();
        match bytes {
            0 => state.base = None,
            bytes if bytes == state.bytes && state.base.is_some() => return Ok(()),
            _ => self.fetch(&mut state, remote)?,
        }
        self.file.set_len(bytes).map_err(unusable)?;
        state.bytes = bytes;
        state.changed();
        Ok(())
    }

    /// Permissions and time, which go with the content. `false` if the content is in the cloud
    /// already, where they have to be changed by a call.
    pub(crate) fn dress(&self, mode: Option<u32>, modified: Option<SystemTime>) -> bool {
        let mut state = self.lock();
        state.mode = mode.unwrap_or(state.mode);
        state.modified = modified.unwrap_or(state.modified);
        state.is_changed
    }

    /// The content in the cloud is known by another etag.
    pub(crate) fn rebase(&self, path: &PfsPath, entry: Entry) {
        let mut state = self.lock();
        if state.base.is_some() && entry.bytes == state.bytes {
            state.base = Some(Arc::new(Content::new(path.clone(), entry)));
        }
    }

    /// Has the content sent again with its permissions and time.
    pub(crate) fn resend(&self, remote: &Remote) -> Result<()> {
        let mut state = self.lock();
        self.fetch(&mut state, remote)?;
        state.is_changed = true;
        Ok(())
    }

    /// Sends what the cloud has not got. Writers wait meanwhile.
    pub(crate) fn publish(&self, remote: &Remote, path: &PfsPath) -> Result<()> {
        let mut state = self.lock();
        if self.send(&mut state, remote, path)? {
            state.is_published = true;
        }
        Ok(())
    }

    /// As [`Draft::publish`], to another name than its own; whether there was something to send.
    pub(crate) fn keep_aside(&self, remote: &Remote, path: &PfsPath) -> Result<bool> {
        self.send(&mut self.lock(), remote, path)
    }

    fn send(&self, state: &mut State, remote: &Remote, path: &PfsPath) -> Result<bool> {
        if !state.is_changed {
            return Ok(false);
        }
        self.file.set_modified(state.modified).map_err(unusable)?;
        let modified = state.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let item = Item {
            // Opened again by this name for every part that is sent.
            local: PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd())),
            path: path.clone(),
            bytes: state.bytes,
            mode: Some(state.mode),
            modified_ms: u64::try_from(modified.as_millis()).ok(),
            etag: String::new(),
        };
        let sent = remote.send(item);
        state.is_refused = sent.is_err();
        sent?;
        state.is_changed = false;
        Ok(true)
    }

    /// Whether something would be lost that nobody was told of.
    pub(crate) fn is_owed(&self) -> bool {
        let state = self.lock();
        state.is_changed && !state.is_refused
    }

    /// Brings the content here, if it is still in the cloud alone.
    fn fetch(&self, state: &mut State, remote: &Remote) -> Result<()> {
        let Some(base) = state.base.clone() else { return Ok(()) };
        base.copy_to(remote, &self.file)?;
        state.base = None;
        Ok(())
    }

    fn lock(&self) -> Held<'_> {
        Held { draft: self, state: self.state.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Deref for Held<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Draft { facts, base, .. } = self.draft;
        *facts.lock().unwrap_or_else(PoisonError::into_inner) = self.state.facts();
        base.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&self.state.base);
    }
}

impl State {
    fn facts(&self) -> Facts {
        let State { bytes, mode, modified, is_published, .. } = *self;
        Facts { bytes, mode, modified, is_published }
    }

    fn changed(&mut self) {
        self.modified = SystemTime::now();
        (self.is_changed, self.is_refused) = (true, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_can_be_looked_at_while_it_is_sent() {
        let scratch = tempfile::tempdir().unwrap();
        let draft = Draft::create(scratch.path(), 0o640).unwrap();
        {
            let mut sending = draft.lock();
            sending.bytes = 5;
            // Does not wait, and sees what was there before.
            assert_eq!((draft.facts().bytes, draft.facts().mode), (0, 0o640));
        }
        assert_eq!(draft.facts().bytes, 5);
    }
}
