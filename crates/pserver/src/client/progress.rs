//! How far this trainer is with one shard: what must be remembered from connection to connection.

use super::Restored;
use crate::message::Joined;
use contract::{Error, Kind, Result};

/// Every shard counts for itself: one that holds async rows counts all trainers' pushes, one that
/// holds sync blocks counts steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Which life of the server we know.
    server: Option<u64>,
    /// What the first join said.
    pub(super) joined: Option<Joined>,
    /// Steps completed, on the shard's count.
    pub(super) steps: u64,
    /// The pass under way.
    pub(super) pass: u64,
    /// The last push frame that was numbered, and the last that was answered.
    pub(super) sequence: u64,
    pub(super) acknowledged: u64,
    /// The version of the values that we hold.
    pub(super) base: u64,
    /// The newest version heard of.
    pub(super) version: u64,
    /// Something that was acknowledged is in the shard's values.
    pub(super) has_delivered: bool,
    pub(super) is_resting: bool,
    pub(super) has_left: bool,
    /// The checkpoint that this life of the server began with.
    pub(super) restored: Option<Restored>,
    /// How often the server came back as another process, and updates that were lost with it.
    pub(super) restarts: u64,
    pub(super) lost_steps: u64,
}

impl Progress {
    pub(super) fn has_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// Takes note of what a shard says when we join, for the first time or again. Returns the
    /// steps that it has lost.
    pub(super) fn join(&mut self, joined: &Joined, server: u64) -> Result<u64> {
        let is_other = self.server.is_some_and(|known| known != server);
        if joined.needs_values && is_other && self.has_delivered {
            return Err(Error::new(
                Kind::Conflict,
                "server has restarted without a checkpoint and its values are lost; start the job \
                 again, with --checkpoint_dir and --restore",
            ));
        }
        self.server = Some(server);
        self.restored = joined.restored_cut.map(|cut| Restored { cut, server });
        self.version = self.version.max(joined.version);
        self.has_delivered |= !joined.needs_values;
        if !self.has_joined() {
            (self.steps, self.base, self.pass) = (joined.version, joined.version, joined.pass);
            // Not 0 for a process that was given the incarnation of its predecessor.
            (self.sequence, self.acknowledged) = (joined.sequence, joined.sequence);
            self.joined = Some(joined.clone());
            return Ok(0);
        }
        if !is_other {
            return Ok(0);
        }
        // Never ahead: a pass that we are still in has to be finished under its own number.
        self.pass = self.pass.min(joined.pass);
        let lost = self.steps.saturating_sub(joined.version);
        self.restarts += 1;
        self.lost_steps += lost;
        Ok(lost)
    }

    /// A push frame was answered by a shard at `version`.
    pub(super) fn acknowledge(&mut self, sequence: u64, version: u64, is_last: bool) {
        self.acknowledged = self.acknowledged.max(sequence);
        self.version = self.version.max(version);
        self.steps += u64::from(is_last);
        self.has_delivered = true;
    }

    /// Values were read at `version`.
    pub(super) fn read(&mut self, version: u64) {
        self.version = self.version.max(version);
        self.base = self.base.max(version);
        self.has_delivered = true;
    }

    /// A pass is over for all; the shard's count is everybody's.
    pub(super) fn finish_pass(&mut self, version: u64, pass: u64) {
        (self.steps, self.pass) = (version, pass);
        self.is_resting = false;
        self.version = self.version.max(version);
    }

    /// After a rest, the shard's next step is ours too.
    pub(super) fn wake(&mut self, steps: u64) {
        self.steps = steps;
        self.is_resting = false;
        self.version = self.version.max(steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(version: u64, needs_values: bool) -> Joined {
        Joined { needs_values, version, pass: 0, sequence: 0, restored_cut: None, synchronized: 0 }
    }

    #[test]
    fn a_process_begins_where_the_shard_is() {
        let mut progress = Progress::default();
        let first = Joined { sequence: 9, ..joined(5, false) };
        assert_eq!(progress.join(&first, 1).unwrap(), 0);
        assert_eq!((progress.steps, progress.sequence, progress.acknowledged), (5, 9, 9));
        progress.acknowledge(10, 5, true);
        assert_eq!(progress.join(&joined(5, false), 1).unwrap(), 0);
        assert_eq!((progress.steps, progress.acknowledged), (6, 10), "a reconnect changes nothing");
    }

    #[test]
    fn steps_that_a_restarted_server_lost_are_counted() {
        let mut progress = Progress::default();
        progress.join(&joined(0, true), 1).unwrap();
        (1..=8).for_each(|sequence| progress.acknowledge(sequence, sequence, true));
        progress.finish_pass(8, 1);
        assert_eq!(progress.join(&joined(3, false), 2).unwrap(), 5);
        assert_eq!((progress.restarts, progress.lost_steps, progress.pass), (1, 5, 0));
        assert_eq!(progress.steps, 8);
    }

    #[test]
    fn a_server_without_its_values_is_an_error_only_if_it_had_any() {
        let mut progress = Progress::default();
        progress.join(&joined(0, true), 1).unwrap();
        progress.join(&joined(0, true), 2).unwrap();
        progress.read(0);
        assert_eq!(progress.join(&joined(0, true), 3).unwrap_err().kind(), Kind::Conflict);
    }
}
