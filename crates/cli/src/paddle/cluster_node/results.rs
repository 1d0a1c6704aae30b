//! What a node sends: `log/rank-N` from every node, and `output/rank-00000` from the first. While it
//! trains, node 0 sends what is new every few seconds, so that it can be looked at.

use super::say;
use super::workspace::Workspace;
use client::Receiver;
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The results of a node.
pub(super) struct Results {
    inner: Arc<Folders>,
    /// Whether something is being sent at the moment.
    is_sending: Arc<AtomicBool>,
}

struct Folders {
    receiver: Receiver,
    rank: u32,
    log: PathBuf,
    /// Of the first node alone.
    output: Option<PathBuf>,
    /// The log of the parameter server beside this trainer, if it is on this machine.
    server_log: Option<PathBuf>,
    /// What was sent, by length and time.
    sent: Mutex<HashMap<String, (u64, SystemTime)>>,
}

/// Deeper is no model.
const DEPTH_MAX: usize = 16;
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
        let inner = Folders {
            receiver,
            rank,
            log: workspace.root.join("log"),
            output,
            server_log: server_log(rank),
            sent: Mutex::default(),
        };
        Results { inner: Arc::new(inner), is_sending: Arc::default() }
    }

    pub(super) fn receiver(&self) -> &Receiver {
        &self.inner.receiver
    }

    /// Sends what is new of the first node, beside the training. What fails is sent again later.
    pub(super) fn send_news(&self) {
        if self.inner.rank > 0 || self.is_sending.swap(true, Ordering::SeqCst) {
            return;
        }
        let (inner, is_sending) = (Arc::clone(&self.inner), Arc::clone(&self.is_sending));
        std::thread::spawn(move || {
            if let Err(error) = inner.send(true) {
                say(&format!("results are sent later: {}", error.message()));
            }
            is_sending.store(false, Ordering::SeqCst);
        });
    }

    /// Sends all that was not sent.
    pub(super) fn send_all(&self) -> Result<()> {
        self.inner.send(false)
    }
}

impl Folders {
    fn send(&self, is_running: bool) -> Result<()> {
        let mut files = Vec::new();
        let rank = format!("rank-{:05}", self.rank);
        list(&self.log, &format!("log/{rank}"), false, 0, &mut files)?;
        if let Some(server) = self.server_log.as_ref().filter(|file| file.is_file()) {
            files.push((server.clone(), format!("log/{rank}/server.log")));
        }
        if let Some(output) = &self.output {
            list(output, &format!("output/{rank}"), is_running, 0, &mut files)?;
        }
        for (path, name) in files {
            let Ok(metadata) = path.metadata() else { continue };
            let state = (metadata.len(), metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
            let is_known = |sent: &HashMap<_, _>| sent.get(&name) == Some(&state);
            if is_known(&self.sent.lock().unwrap_or_else(PoisonError::into_inner)) {
                continue;
            }
            self.receiver.send_result(&path, &name)?;
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(name, state);
        }
        Ok(())
    }
}

/// The log of the server of the same number, as the launcher names it.
fn server_log(rank: u32) -> Option<PathBuf> {
    let own = PathBuf::from(std::env::var_os("PADDLE_LOG_DIR")?);
    match own.ends_with(format!("trainer-{rank}")) {
        true => Some(own.parent()?.join(format!("pserver-{rank}.log"))),
        false => Some(own.join("server.log")),
    }
}

/// The files below a folder. While a training runs, only passes that are complete.
fn list(
    folder: &Path,
    name: &str,
    is_running: bool,
    depth: usize,
    files: &mut Vec<(PathBuf, String)>,
) -> Result<()> {
    let refused =
        |source| Error::io("cannot read results", source).with("folder", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(refused)?,
    };
    if depth > DEPTH_MAX {
        return Err(Error::new(Kind::LimitExceeded, "the results are too deep")
            .with("folder", folder.display()));
    }
    for entry in entries {
        let entry = entry.map_err(refused)?;
        let kind = entry.file_type().map_err(refused)?;
        let Ok(below) = entry.file_name().into_string() else {
            return Err(Error::invalid("the name of a result is no UTF-8").with("folder", name));
        };
        let name = format!("{name}/{below}");
        if kind.is_dir() {
            let is_complete = !is_running || entry.path().join(DONE).is_file();
            if is_complete {
                list(&entry.path(), &name, is_running, depth + 1, files)?;
            }
        } else if kind.is_file() {
            files.push((entry.path(), name));
        } else {
            say(&format!("{name} is no file, and is not sent"));
        }
    }
    Ok(())
}
