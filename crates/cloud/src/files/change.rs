//! Changes of a file where it is, for the original's protocol, which touches a file and then writes
//! chunks into it.

use super::place::PermittedPath;
use super::service::{drawn, existing, publish, refused, scratch, write};
use super::stores::{Change, Condition, Publication, missing};
use crate::blocking::blocking;
use contract::{Error, Kind, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The largest file that is changed by being written again.
const CHANGE_BYTES_MAX: u64 = 64 << 20;
/// One at a time: of two changes of one file none may be lost.
static CHANGING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Changes a file where it is, or, in a store of whole files, puts a changed one in its place.
pub(crate) async fn change(place: &PermittedPath, change: Change) -> Result<()> {
    if place.files.changes_in_place() {
        return place.files.change(place.path.clone(), change, place.owner).await;
    }
    let _turn = CHANGING.lock().await;
    let there = existing(place).await?;
    let bytes = match (&change, &there) {
        (Change::Touch(bytes), Some(there)) if there.bytes == *bytes => return Ok(()),
        (Change::Touch(bytes), _) => *bytes,
        (Change::Write(..), Some(there)) => there.bytes,
        (Change::Write(..), None) => return Err(missing(&place.path)),
    };
    if bytes > CHANGE_BYTES_MAX {
        let message = "this store keeps whole files only, and one of this size cannot be written \
                       again with every chunk: use a newer client";
        return Err(Error::new(Kind::Unsupported, message)
            .with("path", &place.path)
            .with("bytes", bytes)
            .with("bytes_max", CHANGE_BYTES_MAX));
    }
    let scratch = scratch(place).await?;
    let staged = scratch.path().join("data");
    let target = staged.clone();
    match change {
        Change::Touch(bytes) => {
            blocking(move || {
                let file = File::create_new(&target).map_err(refused)?;
                file.set_len(bytes).map_err(refused)
            })
            .await?;
        }
        Change::Write(offset, chunk) => {
            let opened = place.files.open(place.path.clone()).await?;
            let length = opened.entry.bytes;
            let pieces = drawn(opened.source.pieces(0..length));
            write(&staged, Some(length), length, pieces).await?;
            blocking(move || {
                let file = File::options().write(true).open(&target).map_err(refused)?;
                file.write_all_at(&chunk, offset).map_err(refused)
            })
            .await?;
        }
    }
    let publication = Publication {
        path: place.path.clone(),
        staged,
        mode: place.mode(there.as_ref().map(|there| there.mode)),
        modified_ms: None,
        owner: place.owner,
        condition: Condition {
            if_absent: there.is_none(),
            if_match: there.map(|there| there.etag),
        },
    };
    publish(place, publication).await.map(|_| ())
}
