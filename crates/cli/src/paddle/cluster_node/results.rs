//! What a node sends: `log/rank-N` from every node, and `output/rank-00000` from the first. While its
//! hook runs and while it trains, node 0 sends what is new every few seconds, so that it can be looked
//! at.

use super::say;
use super::workspace::Workspace;
use client::Receiver;
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::SystemTime;

/// The results of a node.
pub(super) struct Results(Arc<Folders>);

struct Folders {
    receiver: Receiver,
    rank: u32,
    log: PathBuf,
    /// Of the first node alone.
    output: Option<PathBuf>,
    /// The log of the parameter server beside this trainer, if it is on this machine.
    server_log: Option<PathBuf>,
    /// What was sent, by length and time. Whoever sends holds it: of two at the same time the one
    /// with the older content might be the last.
    sent: Mutex<HashMap<String, (u64, SystemTime)>>,
}

/// Deeper is no model.
const DEPTH_MAX: usize = 16;
/// While a training runs, a file above this size is sent again only when an eighth of it is new: a
/// log that is sent whole every few seconds would fill the network before it fills the disk.
const SMALL: u64 = 1 << 20;
/// A pass is complete when it has this file.
const DONE: &str = "done";

impl Results {
    pub(super) fn new(
        receiver: Receiver,
        workspace: &Workspace,
        save_dir: &str,
        rank: u32,
    ) -> Results {
        let output = (rank == 0).then(|| workspace.root.join(save_dir));
        Results(Arc::new(Folders {
            receiver,
            rank,
            log: workspace.root.join("log"),
            output,
            server_log: server_log(rank),
            sent: Mutex::default(),
        }))
    }

    pub(super) fn receiver(&self) -> &Receiver {
        &self.0.receiver
    }

    /// Sends what is new of the first node, beside its program; what fails is sent again later.
    pub(super) fn send_news(&self) {
        if self.0.rank > 0 {
            return;
        }
        let folders = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let mut sent = match folders.sent.try_lock() {
                Ok(sent) => sent,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return,
            };
            if let Err(error) = folders.send(&mut sent, true) {
                say(&format!("results are sent later: {}", error.message()));
            }
        });
    }

    /// Sends all that was not sent.
    pub(super) fn send_all(&self) -> Result<()> {
        let mut sent = self.0.sent.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.send(&mut sent, false)
    }
}

impl Folders {
    /// Sends what is new. What cannot be sent does not keep back the rest, unless nothing arrives.
    fn send(&self, sent: &mut HashMap<String, (u64, SystemTime)>, is_running: bool) -> Result<()> {
        let mut found = Found { is_running, ..Found::default() };
        let rank = format!("rank-{:05}", self.rank);
        found.logs(&self.log, &format!("log/{rank}"));
        if let Some(server) = self.server_log.as_ref().filter(|file| file.is_file()) {
            found.files.push((server.clone(), format!("log/{rank}/server.log")));
        }
        if let Some(output) = &self.output {
            found.list(output, &format!("output/{rank}"), 0);
        }
        let Found { files, mut failed, .. } = found;
        for (path, name) in files {
            let Ok(metadata) = path.metadata() else { continue };
            let state = (metadata.len(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let known = sent.get(&name);
            let waits = |known: &(u64, SystemTime)| is_running && is_hardly_more(known.0, state.0);
            if known == Some(&state) || known.is_some_and(waits) {
                continue;
            }
            match self.receiver.send_result(&path, &name) {
                Ok(()) => drop(sent.insert(name, state)),
                // A training may keep its last pass alone.
                Err(_) if !path.exists() => {}
                Err(error) if error.kind().is_retryable() => return Err(error),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// What is in the folders of a node.
#[derive(Default)]
struct Found {
    /// While a training runs, only passes that are complete.
    is_running: bool,
    files: Vec<(PathBuf, String)>,
    /// The first that cannot be sent.
    failed: Option<Error>,
}

impl Found {
    /// The files below a folder.
    fn list(&mut self, folder: &Path, name: &str, depth: usize) {
        let refused =
            |source| Error::io("cannot read results", source).with("folder", folder.display());
        let entries = match std::fs::read_dir(folder) {
            Err(source) if source.kind() == ErrorKind::NotFound => return,
            Err(source) => return self.fail(refused(source)),
            Ok(_) if depth > DEPTH_MAX => {
                let error = Error::new(Kind::LimitExceeded, "the results are too deep");
                return self.fail(error.with("folder", folder.display()));
            }
            Ok(entries) => entries,
        };
        for entry in entries {
            let entry = entry.and_then(|entry| Ok((entry.file_type()?, entry)));
            let (kind, entry) = match entry {
                // Removed meanwhile, as a pass that is not the last.
                Err(source) if source.kind() == ErrorKind::NotFound => continue,
                Err(source) => {
                    self.fail(refused(source));
                    continue;
                }
                Ok(entry) => entry,
            };
            let Ok(below) = entry.file_name().into_string() else {
                let error = Error::invalid("the name of a result is no UTF-8: rename it");
                self.fail(error.with("file", format!("{name}/{}", entry.file_name().display())));
                continue;
            };
            let name = format!("{name}/{below}");
            if kind.is_dir() {
                let is_complete = !self.is_running || entry.path().join(DONE).is_file();
                if is_complete {
                    self.list(&entry.path(), &name, depth + 1);
                }
            } else if kind.is_file() {
                self.files.push((entry.path(), name));
            } else {
                say(&format!("{name} is no file, and is not sent"));
            }
        }
    }

    /// The files below the folder of logs, all of them.
    fn logs(&mut self, folder: &Path, name: &str) {
        let is_running = std::mem::take(&mut self.is_running);
        self.list(folder, name, 0);
        self.is_running = is_running;
    }

    fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }
}

/// Whether a file that was sent with one length can wait, now that it has another.
fn is_hardly_more(sent: u64, length: u64) -> bool {
    sent >= SMALL && (sent..sent + sent / 8).contains(&length)
}

/// The log of the server of the same number, as the launcher names it.
fn server_log(rank: u32) -> Option<PathBuf> {
    let own = PathBuf::from(std::env::var_os("PADDLE_LOG_DIR")?);
    match own.ends_with(format!("trainer-{rank}")) {
        true => Some(own.parent()?.join(format!("pserver-{rank}.log"))),
        false => Some(own.join("server.log")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_does_not_keep_back_the_rest() {
        use std::os::unix::ffi::OsStrExt;
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::write(odd, "").unwrap();
        std::fs::create_dir(folder.path().join("pass-00000")).unwrap();
        std::fs::write(folder.path().join("pass-00000/w"), "").unwrap();
        let mut found = Found::default();
        found.list(folder.path(), "output/rank-00000", 0);
        let names: Vec<&str> = found.files.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["output/rank-00000/pass-00000/w"]);
        insta::assert_snapshot!(found.failed.unwrap(), @"the name of a result is no UTF-8: rename it (file: output/rank-00000/\u{fffd})");
        // While a training runs a pass without its last file is left for later.
        let mut found = Found { is_running: true, ..Found::default() };
        found.list(folder.path(), "output/rank-00000", 0);
        assert!(found.files.is_empty());
        found.logs(folder.path(), "log/rank-00000");
        assert_eq!(found.files.len(), 1);
    }

    #[test]
    fn a_log_that_grows_for_days_is_sent_a_few_times_altogether() {
        let (mut sent, mut bytes) = (0, 0);
        for length in (0..=SMALL * 4096).step_by(100_000) {
            if !is_hardly_more(sent, length) {
                sent = length;
                bytes += length;
            }
        }
        assert!(bytes < 10 * SMALL * 4096, "{bytes}");
        assert!(!is_hardly_more(sent, sent - 1), "another file has its place");
    }
}
