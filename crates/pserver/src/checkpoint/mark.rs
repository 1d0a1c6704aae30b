//! Whether all shards have the same checkpoint folder: shard 0 leaves a mark with the number of its
//! epoch there, and the others must see it. A folder that each machine has for itself would hold
//! checkpoints that are never complete, and nobody would know before one is needed.

use super::catalogue::entries;
use crate::message::Epoch;
use contract::{Error, Kind, Result};
use std::path::Path;
use std::time::{Duration, Instant};

const NAME: &str = ".epoch-";
/// How long a network file system may hide a new file from other machines.
const HIDDEN_MAX: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// Shard 0: marks the folder, and takes away the marks of epochs that are over. A folder that cannot
/// be written to is no reason not to train: its checkpoints are missed, and said to be, in the end.
pub(crate) fn leave(folder: &Path, epoch: u32) {
    let write = || {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join(format!("{NAME}{epoch}")), [])
    };
    if let Err(error) = write() {
        let folder = folder.display();
        tracing::warn!(%folder, %error, "cannot write to the checkpoint folder");
    }
    let own = format!("{NAME}{epoch}");
    for name in entries(folder).unwrap_or_default() {
        if name.starts_with(NAME) && name != own {
            // If it stays, nobody looks for it any more.
            let _ = std::fs::remove_file(folder.join(name));
        }
    }
}

/// Every other shard: refuses a folder in which the mark does not appear. One that cannot be looked
/// into is as one that cannot be written to.
///
/// # Errors
/// [`Kind::Conflict`] that names the folder.
pub(crate) fn expect(folder: &Path, epoch: Epoch) -> Result<()> {
    let begun = Instant::now();
    let name = format!("{NAME}{}", epoch.number);
    // A listing, because what is asked for by name may be remembered as missing.
    while let Ok(found) = entries(folder)
        && folder.is_dir()
    {
        if found.contains(&name) {
            return Ok(());
        }
        if begun.elapsed() >= HIDDEN_MAX {
            let message = "the checkpoint folder of this server is not that of server 0, which has \
                           left a file there; give all servers one folder that all their machines \
                           share (--checkpoint_dir)";
            return Err(Error::new(Kind::Conflict, message)
                .with("folder", folder.display())
                .with("file", name));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
