//! Logs of replicas on other machines, kept here too while they are written: a host that is lost
//! takes its own with it. At the end they are replaced by what the hosts have, byte for byte.

use super::view::View;
use contract::{Error, Result};
use scheduler::conductor::Watch;
use scheduler::conductor::decide::Decision;
use scheduler::conductor::record::JobRecord;
use scheduler::{ReplicaId, ReplicaRecord};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Shows a job, and keeps its logs in a directory per host.
pub(super) struct Copies {
    view: View,
    log_dir: PathBuf,
    files: BTreeMap<ReplicaId, File>,
    /// Where the log of each replica is here.
    paths: BTreeMap<ReplicaId, PathBuf>,
    /// False once that has failed, and was said: the job goes on.
    can_copy: bool,
}

impl Copies {
    pub(super) fn new(view: View, log_dir: PathBuf) -> Self {
        let (files, paths) = (BTreeMap::new(), BTreeMap::new());
        Copies { view, log_dir, files, paths, can_copy: true }
    }

    /// Writes the last record, and says how the job ended.
    pub(super) fn finish(&mut self, record: &JobRecord) -> Result<()> {
        let record = self.here(record);
        self.view.changed(&record);
        self.view.finish(&record)
    }

    /// The record, with logs where they are found on this machine.
    fn here(&mut self, record: &JobRecord) -> JobRecord {
        let mut record = record.clone();
        for replica in &mut record.replicas {
            replica.log = copy_of(&self.log_dir, replica);
            self.paths.insert(replica.replica, replica.log.clone());
        }
        record
    }

    fn append(&mut self, replica: ReplicaId, text: &str) -> std::io::Result<()> {
        let Some(path) = self.paths.get(&replica) else { return Ok(()) };
        let file = match self.files.entry(replica) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(place) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                place.insert(File::create(path)?)
            }
        };
        file.write_all(text.as_bytes())
    }
}

fn copy_of(log_dir: &Path, replica: &ReplicaRecord) -> PathBuf {
    let folder = log_dir.join(replica.replica.rank.to_string());
    folder.join(replica.log.file_name().unwrap_or_default())
}

impl Watch for Copies {
    fn log(&mut self, replica: ReplicaId, text: &str) {
        if self.can_copy
            && let Err(source) = self.append(replica, text)
        {
            self.can_copy = false;
            let error = Error::io("cannot keep logs here while they are written", source);
            cli::exit::report("paddle launch", &error.with("log_dir", self.log_dir.display()));
        }
        self.view.log(replica, text);
    }

    fn decided(&mut self, decision: &Decision, reason: &str) {
        self.view.decided(decision, reason);
    }

    fn changed(&mut self, record: &JobRecord) {
        let record = self.here(record);
        self.view.changed(&record);
    }
}
