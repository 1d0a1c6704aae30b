//! The chunks of uploads that this process has itself summed and written.
//!
//! Reading a file again only to find what was just summed on its way to the disk costs as much as
//! receiving it. So the end of an upload believes these sums, unless something else may have written
//! to the file: another request for the same chunk at the same time, somebody beside this server
//! (the file's time of change tells), or another server that shares the directory. Where there may be
//! one, nothing is believed.

use contract::checksum::Checksum;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By the names of uploads.
#[derive(Debug, Clone)]
pub(super) struct Summed {
    /// Absent where other servers may write, too.
    own: Option<Arc<Mutex<HashMap<String, Own>>>>,
}

/// Seconds and nanoseconds of a file's time of change.
pub(super) type Changed = (i64, i64);

#[derive(Debug, Default)]
struct Own {
    sums: BTreeMap<u64, Checksum>,
    writers: BTreeMap<u64, Writers>,
    /// When the file was changed last, as of our last chunk.
    changed: Changed,
}

/// Those who write one chunk at this moment.
#[derive(Debug, Default)]
struct Writers {
    active: u32,
    /// There were several at once: the chunk may be a mix.
    were_several: bool,
}

/// A chunk that is being written. Dropped without [`Writing::done`], it is not believed.
pub(super) struct Writing {
    summed: Summed,
    upload: String,
    index: u64,
}

impl Summed {
    /// Believes nothing if other servers may write to the same directory.
    pub(super) fn new(is_shared: bool) -> Self {
        Summed { own: (!is_shared).then(Arc::default) }
    }

    /// A chunk is written from now on.
    pub(super) fn write(&self, upload: &str, index: u64) -> Writing {
        if let Some(mut all) = self.lock() {
            let own = all.entry(upload.to_owned()).or_default();
            own.sums.remove(&index);
            let writers = own.writers.entry(index).or_default();
            writers.were_several |= writers.active > 0;
            writers.active += 1;
        }
        Writing { summed: self.clone(), upload: upload.to_owned(), index }
    }

    /// The sums of an upload whose file was last changed at `changed`.
    pub(super) fn of(&self, upload: &str, changed: Changed) -> BTreeMap<u64, Checksum> {
        let Some(all) = self.lock() else { return BTreeMap::new() };
        let own = all.get(upload).filter(|own| own.changed == changed);
        own.map(|own| own.sums.clone()).unwrap_or_default()
    }

    /// The upload has ended.
    pub(super) fn forget(&self, upload: &str) {
        if let Some(mut all) = self.lock() {
            all.remove(upload);
        }
    }

    fn lock(&self) -> Option<MutexGuard<'_, HashMap<String, Own>>> {
        self.own.as_ref().map(|own| own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Writing {
    /// It was written, and had this sum on its way.
    pub(super) fn done(self, sum: Checksum, changed: Changed) {
        let mut all = self.summed.lock();
        let Some(own) = all.as_mut().and_then(|all| all.get_mut(&self.upload)) else { return };
        own.changed = own.changed.max(changed);
        if own.writers.get(&self.index).is_some_and(|writers| !writers.were_several) {
            own.sums.insert(self.index, sum);
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut all = self.summed.lock();
        let Some(own) = all.as_mut().and_then(|all| all.get_mut(&self.upload)) else { return };
        let Some(writers) = own.writers.get_mut(&self.index) else { return };
        writers.active = writers.active.saturating_sub(1);
        if writers.active == 0 {
            own.writers.remove(&self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: Checksum = Checksum([7; 32]);

    #[test]
    fn a_sum_is_believed_while_nobody_else_wrote() {
        let summed = Summed::new(false);
        summed.write("upload", 3).done(SUM, (1, 5));
        assert_eq!(summed.of("upload", (1, 5)).get(&3), Some(&SUM));
        // The file was changed since.
        assert!(summed.of("upload", (1, 6)).is_empty());
        assert!(summed.of("other", (1, 5)).is_empty());
        // It is being written again.
        drop(summed.write("upload", 3));
        assert!(summed.of("upload", (1, 5)).is_empty());
        summed.write("upload", 3).done(SUM, (1, 5));
        summed.forget("upload");
        assert!(summed.of("upload", (1, 5)).is_empty());
    }

    #[test]
    fn a_chunk_of_two_writers_at_once_may_be_a_mix() {
        let summed = Summed::new(false);
        let (first, second) = (summed.write("upload", 0), summed.write("upload", 0));
        first.done(SUM, (1, 1));
        second.done(SUM, (1, 1));
        assert!(summed.of("upload", (1, 1)).is_empty());
        // One after the other is fine.
        summed.write("upload", 0).done(SUM, (1, 1));
        assert_eq!(summed.of("upload", (1, 1)).len(), 1);
    }

    #[test]
    fn where_other_servers_write_nothing_is_believed() {
        let summed = Summed::new(true);
        summed.write("upload", 3).done(SUM, (1, 5));
        assert!(summed.of("upload", (1, 5)).is_empty());
    }
}
