//! Removing what is not needed any more.
//!
//! Shards do not know each other, so each removes its own files; those of shards that are no more,
//! because the number of servers or ports has changed, are removed by dense shard 0. A cut loses
//! its manifests before its data, so that it never looks complete while it goes.

use super::catalogue::{self, entries};
use super::names::{Layout, Ports, Role, ShardName, cut_folder, parse_file};
use contract::{Error, Result};
use std::fs;
use std::io;
use std::path::Path;

/// Removes this shard's files of cuts that are older than the newest `keep` complete ones, and its
/// unpublished files of cuts that are older than the newest complete one.
pub(super) fn sweep(folder: &Path, keep: u32, own: ShardName, layout: Layout) -> Result<()> {
    let cuts = catalogue::numbers(folder)?;
    let (mut newest, mut oldest_kept) = (None, None);
    let mut complete = 0;
    for &cut in cuts.iter().rev() {
        if catalogue::inspect(folder, cut)?.is_complete() {
            complete += 1;
            newest = newest.or(Some(cut));
            if complete == keep {
                oldest_kept = Some(cut);
                break;
            }
        }
    }
    let is_ours = |name: &ShardName| {
        let is_janitor = own.ports == Ports::Dense && own.shard == 0;
        *name == own || (is_janitor && name.shards != layout.shards(name.ports))
    };
    for cut in cuts.into_iter().take_while(|cut| newest.is_some_and(|newest| *cut < newest)) {
        let is_expired = oldest_kept.is_some_and(|oldest| cut < oldest);
        sweep_cut(&folder.join(cut_folder(cut)), is_expired, is_ours)?;
    }
    Ok(())
}

fn sweep_cut(folder: &Path, is_expired: bool, is_ours: impl Fn(&ShardName) -> bool) -> Result<()> {
    let names = entries(folder)?;
    let files =
        names.iter().filter_map(|file| parse_file(file).map(|(name, role)| (file, name, role)));
    let mut files: Vec<_> = files.filter(|(_, name, _)| is_ours(name)).collect();
    files.sort_by_key(|(.., role)| *role != Role::Manifest);
    for (file, name, role) in files {
        let is_published = names.contains(&name.manifest());
        if is_expired || role == Role::Hidden || !is_published {
            remove(&folder.join(file), |path| fs::remove_file(path))?;
        }
    }
    // The last one out; others' files keep the folder.
    if entries(folder)?.is_empty() {
        remove(folder, |path| fs::remove_dir(path))?;
    }
    Ok(())
}

fn remove(path: &Path, remove: impl Fn(&Path) -> io::Result<()>) -> Result<()> {
    match remove(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("cannot remove old checkpoint", source).with("file", path.display()))
        }
        _ => Ok(()),
    }
}
