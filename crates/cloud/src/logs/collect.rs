//! Copies what the replicas of a job print into the archive, exactly once, whatever dies meanwhile.
//!
//! Beside each archived log is a note: up to which of the backend's cursors it was copied, and how
//! long the archive was then. The note is written after the bytes, so after a crash the archive may
//! be longer than the note says: then the bytes are asked for again from the noted cursor, and as
//! many as the archive has already are left out. Without a note, or with a damaged one, the log is
//! begun anew.
//!
//! What is too much for the archive is removed from it, but for what somebody who follows and keeps
//! reading has not read yet. When the job has ended they are waited for, and that is removed, too.

use super::news::Writer;
use crate::Cloud;
use crate::blocking::blocking;
use crate::datacenters::Datacenter;
use crate::files::log;
use crate::jobs::row::JobRow;
use contract::state::State;
use contract::{Kind, Result};
use disk::Access;
use scheduler::backend::{Cursor, LogPiece};
use scheduler::{JobRecord, ReplicaId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Copies the logs of one job.
pub(crate) struct Collector {
    datacenter: Arc<Datacenter>,
    row: JobRow,
    log_bytes_max: u64,
    replicas: BTreeMap<ReplicaId, Progress>,
    /// Those who follow.
    news: Writer,
}

/// How far a log was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// The length of the archive when the cursor was reached.
    archived: u64,
    cursor: Cursor,
    /// Whether nothing follows.
    is_last: bool,
    /// Bytes from the cursor on that the archive has already.
    #[serde(skip)]
    surplus: u64,
}

/// What came of a look at the logs of a job.
pub(crate) struct Collected {
    /// Whether there was anything new.
    pub(crate) has_moved: bool,
    /// Whether the job goes on, or everything that it printed is archived.
    pub(crate) is_complete: bool,
}

/// How long to wait for what a job printed last, when its backend says neither what it is nor that
/// there is no more.
pub(crate) const LAST_MAX: Duration = Duration::from_secs(600);
/// The pause before the next look at a job that has ended: at first, and when nothing has come of
/// many.
const WAIT: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long to wait for followers of a job that has ended.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The most pieces of one replica that are copied before the others have their turn.
const PIECES_MAX: usize = 16;
const NOTE: &str = "copied.json";

impl Collector {
    /// For one job.
    pub(crate) fn new(cloud: &Cloud, datacenter: &Arc<Datacenter>, row: &JobRow) -> Self {
        Collector {
            datacenter: Arc::clone(datacenter),
            news: Writer::new(datacenter.news.of(&row.uid)),
            row: row.clone(),
            log_bytes_max: cloud.config.limits.log_bytes,
            replicas: BTreeMap::new(),
        }
    }

    /// Copies what there is; everything, if the job has ended.
    pub(crate) async fn collect(&mut self, record: &JobRecord) -> Result<Collected> {
        let is_over = record.state.is_final();
        let mut has_moved = false;
        let mut still_since = Instant::now();
        let mut pause = WAIT;
        loop {
            let (mut moves, mut is_complete) = (false, true);
            for replica in &record.replicas {
                let (moved, is_done) = self.collect_one(record, replica.replica).await?;
                moves |= moved;
                is_complete &= is_done;
            }
            if moves {
                (has_moved, still_since, pause) = (true, Instant::now(), WAIT);
                self.news.tell();
            }
            if !is_over {
                return Ok(Collected { has_moved, is_complete: true });
            }
            if is_complete || still_since.elapsed() >= LAST_MAX {
                self.shrink().await?;
                return Ok(Collected { has_moved, is_complete });
            }
            if !moves {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Waits for those who keep reading, but not long: the end of the job is not told before. Then
    /// removes what was kept for them alone.
    async fn shrink(&self) -> Result<()> {
        let deadline = Instant::now() + WAIT_MAX;
        for (replica, progress) in &self.replicas {
            let is_behind = || self.news.lag(*replica, progress.archived) > self.log_bytes_max / 2;
            while is_behind() && Instant::now() < deadline {
                tokio::time::sleep(WAIT).await;
            }
            let directory = self.datacenter.store.logs(&self.row.uid).join(replica.to_string());
            blocking(move || log::shrink(&directory)).await?;
        }
        Ok(())
    }

    /// Says that the end of the job is written down.
    pub(crate) fn end(&self) {
        self.news.end();
    }

    async fn collect_one(
        &mut self,
        record: &JobRecord,
        replica: ReplicaId,
    ) -> Result<(bool, bool)> {
        let directory = self.datacenter.store.logs(&self.row.uid).join(replica.to_string());
        let progress = match self.replicas.entry(replica) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(vacant) => {
                // Nothing was printed by what was never started.
                let own = record.replica(replica);
                if own.is_some_and(|own| own.started_ms.is_none()) {
                    return Ok((false, true));
                }
                let directory = directory.clone();
                vacant.insert(blocking(move || open(&directory)).await?)
            }
        };
        let mut has_moved = false;
        for _ in 0..PIECES_MAX {
            if progress.is_last {
                return Ok((has_moved, true));
            }
            let piece =
                self.datacenter.backend.logs(&self.row.uid, replica, &progress.cursor).await;
            let piece = match piece {
                Ok(piece) => piece,
                // A replica that a scaled job no longer has.
                Err(error) if error.kind() == Kind::NotFound => return Ok((has_moved, true)),
                Err(error) => return Err(error),
            };
            if piece.bytes.is_empty() && !piece.is_last {
                return Ok((has_moved, false));
            }
            has_moved |= !piece.bytes.is_empty();
            let before = progress.clone();
            let begin = before.archived;
            let unread = self.news.lag(replica, begin);
            let (directory, kept) = (directory.clone(), Kept { max: self.log_bytes_max, unread });
            let (after, bytes) = match blocking(move || take(&directory, before, piece, kept)).await
            {
                Ok(taken) => taken,
                Err(error) => {
                    // A full disk may have taken a part of it: the next look finds out.
                    self.replicas.remove(&replica);
                    return Err(error);
                }
            };
            *progress = after;
            self.news.print(replica, begin, bytes);
        }
        Ok((has_moved, false))
    }
}

/// Finds out how far a log was copied, or begins it.
fn open(directory: &Path) -> Result<Progress> {
    let note = note(directory);
    let text = match std::fs::read(&note) {
        Ok(text) => Some(text),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(crate::files::unusable(&note)(source)),
    };
    match text.map(|text| serde_json::from_slice::<Progress>(&text)) {
        Some(Ok(mut progress)) => {
            progress.surplus = log::end(directory)?.saturating_sub(progress.archived);
            return Ok(progress);
        }
        // After a power failure it may be empty.
        Some(Err(error)) => {
            let file = note.display();
            tracing::warn!(%file, %error, "a damaged note: the log is copied again");
        }
        None => {}
    }
    if directory.exists() {
        disk::remove_tree(directory).map_err(crate::files::unusable(directory))?;
    }
    crate::files::make_private(directory)?;
    let progress = Progress::default();
    save(&note, &progress)?;
    Ok(progress)
}

/// Bytes of a log that are kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// By the configuration.
    max: u64,
    /// At its end, for those who follow.
    unread: u64,
}

/// Adds a piece to a log; what was added comes back.
fn take(
    directory: &Path,
    mut progress: Progress,
    piece: LogPiece,
    kept: Kept,
) -> Result<(Progress, Vec<u8>)> {
    let mut bytes = piece.bytes;
    if piece.skipped_bytes > 0 {
        let lost = format!("\n[{} bytes were not kept]\n", piece.skipped_bytes);
        bytes.splice(0..0, lost.into_bytes());
    }
    let known = usize::try_from(progress.surplus).unwrap_or(usize::MAX).min(bytes.len());
    if known < bytes.len() {
        // Who has read everything is not behind by one piece.
        let unread = if kept.unread == 0 { 0 } else { kept.unread + bytes.len() as u64 };
        log::append(directory, &bytes[known..], kept.max, unread)?;
    }
    progress.surplus -= known as u64;
    progress.archived += bytes.len() as u64;
    progress.cursor = piece.next;
    progress.is_last = piece.is_last;
    if progress.is_last {
        // Its backend is told to forget it.
        log::sync(directory)?;
    }
    save(&note(directory), &progress)?;
    Ok((progress, bytes))
}

fn note(directory: &Path) -> PathBuf {
    directory.join(NOTE)
}

/// Notes are written often and are only hints, so they wait for no disk; they appear whole.
fn save(path: &Path, progress: &Progress) -> Result<()> {
    let json = crate::database::to_json(progress)?;
    if progress.is_last {
        return disk::publish(path, Access::Private, json.as_bytes());
    }
    let partial = path.with_extension("new");
    std::fs::write(&partial, json).map_err(crate::files::unusable(&partial))?;
    std::fs::rename(&partial, path).map_err(crate::files::unusable(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Kept = Kept { max: 1 << 20, unread: 0 };

    fn piece(bytes: &str, next: u64) -> LogPiece {
        LogPiece {
            bytes: bytes.as_bytes().to_vec(),
            next: Cursor(next.to_string()),
            skipped_bytes: 0,
            is_last: false,
        }
    }

    fn text(directory: &Path) -> String {
        String::from_utf8(log::read(directory, 0, 1000).unwrap().bytes).unwrap()
    }

    #[test]
    fn a_log_is_copied_once_whenever_the_copier_dies() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("trainer-0");
        let progress = open(&directory).unwrap();
        let before = take(&directory, progress, piece("one\n", 4), KEPT).unwrap().0;
        // Killed after the bytes and before the note.
        let old = std::fs::read(note(&directory)).unwrap();
        take(&directory, before.clone(), piece("two\nthree\n", 14), KEPT).unwrap();
        std::fs::write(note(&directory), old).unwrap();
        // Asked again, the backend cuts elsewhere, and there is more.
        let again = open(&directory).unwrap();
        assert_eq!((again.cursor.clone(), again.surplus), (before.cursor, 10));
        let again = take(&directory, again, piece("two\n", 8), KEPT).unwrap().0;
        let again = take(&directory, again, piece("three\nfour\n", 19), KEPT).unwrap().0;
        assert_eq!(text(&directory), "one\ntwo\nthree\nfour\n");
        assert_eq!(again.archived, log::end(&directory).unwrap());
    }

    #[test]
    fn a_log_without_a_note_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("trainer-0");
        log::append(&directory, b"half", KEPT.max, 0).unwrap();
        open(&directory).unwrap();
        assert_eq!(text(&directory), "");
    }

    #[test]
    fn a_log_with_a_damaged_note_is_begun_anew() {
        for damaged in ["", "{"] {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("trainer-0");
            let progress = open(&directory).unwrap();
            take(&directory, progress, piece("one\n", 4), KEPT).unwrap();
            std::fs::write(note(&directory), damaged).unwrap();
            let again = open(&directory).unwrap();
            take(&directory, again, piece("one\ntwo\n", 8), KEPT).unwrap();
            assert_eq!(text(&directory), "one\ntwo\n");
        }
        // What cannot be read now may be there.
        let folder = tempfile::tempdir().unwrap();
        log::append(folder.path(), b"kept", KEPT.max, 0).unwrap();
        std::fs::create_dir(note(folder.path())).unwrap();
        assert!(open(folder.path()).is_err());
        assert_eq!(text(folder.path()), "kept");
    }

    #[test]
    fn what_the_backend_no_longer_had_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let progress = open(folder.path()).unwrap();
        let lost = LogPiece { skipped_bytes: 7, ..piece("rest\n", 12) };
        take(folder.path(), progress, lost, KEPT).unwrap();
        assert_eq!(text(folder.path()), "\n[7 bytes were not kept]\nrest\n");
    }
}
