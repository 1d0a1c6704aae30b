//! What becomes of names: files and directories are removed, and get others.
//!
//! The cloud is asked first. What programs of this machine have open goes on as it was
//! (`content.rs`).

use super::{Answer, Cloud, Handle, text};
use crate::content::Content;
use crate::errno::errno;
use contract::path::PfsPath;
use contract::{Kind, Result};
use fuser::{Errno, RenameFlags};
use std::ffi::OsStr;
use std::sync::Arc;

impl Cloud {
    pub(super) fn remove_directory(&self, parent: u64, name: &OsStr) -> Answer<()> {
        self.check_no_drafts(parent, text(name)?)?;
        self.unlink_name(parent, name)
    }

    pub(super) fn unlink_name(&self, parent: u64, name: &OsStr) -> Answer<()> {
        let path = self.writable(parent, name)?;
        let plain = text(name)?;
        self.keep_opened(parent, plain);
        let known = self.tree().child(parent, plain);
        let draft = known.and_then(|number| self.tree().node(number)?.draft.clone());
        // The cloud knows nothing of a file that was never closed.
        if draft.is_none_or(|draft| draft.facts().is_published) {
            self.remote.remove(&path).map_err(|error| errno(&error))?;
        }
        self.tree().remove(parent, plain);
        Ok(())
    }

    pub(super) fn move_name(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        let (old, new) = (self.writable(from.0, from.1)?, self.writable(to.0, to.1)?);
        if flags == RenameFlags::RENAME_EXCHANGE {
            return self.exchange(from, to, &old, &new);
        }
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return Err(Errno::EINVAL);
        }
        let if_absent = flags.contains(RenameFlags::RENAME_NOREPLACE);
        let names = (text(from.1)?, text(to.1)?);
        let draft = |parent, name| {
            let tree = self.tree();
            tree.child(parent, name).and_then(|number| tree.node(number)?.draft.clone())
        };
        if if_absent && draft(to.0, names.1).is_some() {
            return Err(Errno::EEXIST);
        }
        self.check_no_drafts(to.0, names.1)?;
        let is_same = old == new;
        if !is_same {
            self.keep_opened(to.0, names.1);
        }
        match draft(from.0, names.0) {
            Some(draft) if !draft.facts().is_published => {
                if if_absent && self.remote.stat(&new).is_ok() {
                    return Err(Errno::EEXIST);
                }
            }
            _ => self.rename_told(&old, &new, if_absent).map_err(|error| match error.kind() {
                Kind::AlreadyExists if !if_absent => Errno::ENOTEMPTY,
                _ => self.told(&error),
            })?,
        }
        self.tree().rename((from.0, names.0), (to.0, names.1));
        Ok(())
    }

    /// Two things get each other's names. The cloud does that in three steps; whoever looks between
    /// them finds one of the two under a hidden name.
    fn exchange(
        &self,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        old: &PfsPath,
        new: &PfsPath,
    ) -> Answer<()> {
        let (name, other) = (text(from.1)?, text(to.1)?);
        let hidden = format!(".{name}.exchanged");
        let aside = old.parent().ok_or(Errno::EINVAL)?.join(&hidden);
        let aside = aside.map_err(|error| errno(&error))?;
        let steps = [(old, &aside), (new, old), (&aside, new)];
        for (at, (from, to)) in steps.iter().enumerate() {
            if let Err(error) = self.rename_told(from, to, true) {
                for (from, to) in steps[..at].iter().rev() {
                    let _ = self.rename_told(to, from, true);
                }
                return Err(self.told(&error));
            }
        }
        let mut tree = self.tree();
        tree.rename((from.0, name), (from.0, &hidden));
        tree.rename((to.0, other), (from.0, name));
        tree.rename((from.0, &hidden), (to.0, other));
        Ok(())
    }

    /// Renames in the cloud, and tells the contents that are open.
    fn rename_told(&self, from: &PfsPath, to: &PfsPath, if_absent: bool) -> Result<()> {
        let mut contents = self.contents(|_| true);
        contents.retain(|content| content.begin_move(from, to));
        let renamed = self.remote.rename(from, to, if_absent);
        contents.iter().for_each(|content| content.end_move(renamed.is_ok()));
        renamed
    }

    /// Fetches what programs have open under a name that goes.
    fn keep_opened(&self, parent: u64, name: &str) {
        let Some(number) = self.tree().child(parent, name) else { return };
        for content in self.contents(|own| own == number) {
            if let Err(error) = content.keep(&self.remote, &self.scratch) {
                (self.notice)(&format!("{name}, which is open, goes: {}", error.chain()));
            }
        }
    }

    /// The contents in the cloud that are open, of the numbers that are wanted.
    fn contents(&self, is_wanted: impl Fn(u64) -> bool) -> Vec<Arc<Content>> {
        let of = |handle: &Handle| match handle {
            Handle::Read { number, content } if is_wanted(*number) => Some(Arc::clone(content)),
            Handle::Write { number, draft, .. } | Handle::Peek { number, draft }
                if is_wanted(*number) =>
            {
                draft.base()
            }
            _ => None,
        };
        self.handles().values().filter_map(of).collect()
    }

    /// Refuses what would take the place of a directory with files that the cloud does not know of
    /// yet, because they are being written.
    fn check_no_drafts(&self, parent: u64, name: &str) -> Answer<()> {
        let tree = self.tree();
        match tree.child(parent, name).is_some_and(|number| !tree.drafts(number).is_empty()) {
            true => Err(Errno::ENOTEMPTY),
            false => Ok(()),
        }
    }
}
