//! Which records may be trained twice: those whose tasks were open at a fault, and those whose tasks
//! were finished after the checkpoint was announced that servers went back to.

use std::collections::{BTreeMap, BTreeSet};

/// What trainers do with the tasks of a master.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    /// Records of tasks that some trainer has begun and none has finished.
    open: BTreeSet<u64>,
    /// Records of tasks that were finished, each with a checkpoint that contains them.
    finished: Vec<(u64, u64)>,
    /// The highest checkpoint that a trainer has spoken of. A master counts a completion for no
    /// earlier one than those before it.
    newest: u64,
    /// Returns to checkpoints that are known, by epoch.
    returns: BTreeSet<u32>,
    /// How often each record may be trained once more.
    repeats: BTreeMap<u64, u32>,
}

impl Witness {
    pub(crate) fn begin(&mut self, records: impl Iterator<Item = u64>) {
        self.open.extend(records);
    }

    /// A trainer is about to say that a task is finished.
    pub(crate) fn claim(&mut self, cut: u64) {
        self.newest = self.newest.max(cut);
    }

    /// The master has accepted it.
    pub(crate) fn finish(&mut self, records: impl Iterator<Item = u64>) {
        for record in records {
            self.open.remove(&record);
            self.finished.push((record, self.newest));
        }
    }

    /// Somebody dies, stands still or is cut off.
    pub(crate) fn strike(&mut self) {
        for record in &self.open {
            *self.repeats.entry(*record).or_default() += 1;
        }
    }

    /// A trainer finds that servers have begun an epoch with a checkpoint.
    pub(crate) fn go_back(&mut self, epoch: u32, cut: u64) {
        if self.returns.insert(epoch) {
            for (record, _) in self.finished.extract_if(.., |(_, contains)| *contains > cut) {
                *self.repeats.entry(record).or_default() += 1;
            }
        }
    }

    pub(crate) fn repeats_max(&self, record: u64) -> u32 {
        self.repeats.get(&record).copied().unwrap_or_default()
    }
}
