//! How far this trainer is with one shard: what must be remembered from connection to connection.

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
    /// The last push frame that was numbered, and the last that was answered.
    pub(super) sequence: u64,
    pub(super) acknowledged: u64,
    /// The version of the values that we hold.
    pub(super) base: u64,
    /// The version of the values that the step under way was begun with, if newer ones have come.
    begun_with: Option<u64>,
    /// The newest version heard of.
    pub(super) version: u64,
    pub(super) has_left: bool,
}

impl Progress {
    /// Refuses another process than the one that we joined before.
    pub(super) fn check_server(&self, server: u64) -> Result<()> {
        match self.server.is_some_and(|known| known != server) {
            false => Ok(()),
            true => Err(Error::new(
                Kind::Conflict,
                "server was started again; all servers and trainers start again together, from \
                 one checkpoint (--restore)",
            )),
        }
    }

    /// Takes note of what a shard says when we join, for the first time or again.
    pub(super) fn join(&mut self, joined: &Joined, server: u64) {
        self.version = self.version.max(joined.version);
        if self.server.replace(server).is_none() {
            (self.steps, self.base) = (joined.steps, joined.version);
            // Not 0 for a process that was given the incarnation of its predecessor.
            (self.sequence, self.acknowledged) = (joined.sequence, joined.sequence);
            self.joined = Some(joined.clone());
        }
    }

    pub(super) fn has_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// Whether the shard counts the steps of all trainers.
    pub(super) fn is_in_step(&self) -> bool {
        self.joined.as_ref().is_some_and(|joined| joined.is_in_step)
    }

    /// A push frame was answered by a shard at `version`.
    pub(super) fn acknowledge(&mut self, sequence: u64, version: u64, is_last: bool) {
        self.acknowledged = self.acknowledged.max(sequence);
        self.version = self.version.max(version);
        self.steps += u64::from(is_last);
    }

    /// The version of the values that the step to be pushed was computed from. If the push
    /// `is_overlapping`, the next step has begun, with the values that we hold.
    pub(super) fn take_base(&mut self, is_overlapping: bool) -> u64 {
        let begun_with = is_overlapping.then_some(self.base);
        std::mem::replace(&mut self.begun_with, begun_with).unwrap_or(self.base)
    }

    /// Values were read at `version`.
    pub(super) fn read(&mut self, version: u64) {
        self.version = self.version.max(version);
        self.base = self.base.max(version);
    }

    /// A pass is over for all, or we take part again: the shard says from which step on.
    pub(super) fn go_on(&mut self, steps: u64) {
        self.steps = steps;
        self.version = self.version.max(steps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Epoch;

    #[test]
    fn a_process_begins_where_its_predecessor_was_and_a_reconnect_changes_nothing() {
        let first = Joined {
            needs_values: false,
            version: 5,
            pass: 0,
            sequence: 9,
            epoch: Epoch { number: 1, cut: 0, has_begun: true },
            is_in_step: true,
            steps: 6,
            batches: 6,
            is_resting: false,
            has_left: false,
            can_cut: true,
            announced: None,
            cut: 0,
            synchronized: 0,
            is_elastic: false,
        };
        let mut progress = Progress::default();
        progress.join(&first, 1);
        assert_eq!((progress.steps, progress.sequence, progress.acknowledged), (6, 9, 9));
        progress.acknowledge(10, 5, true);
        progress.join(&first, 1);
        assert_eq!((progress.steps, progress.acknowledged), (7, 10));
        progress.read(8);
        assert_eq!(progress.take_base(true), 8, "computed from what was held");
        progress.read(9);
        assert_eq!(progress.take_base(true), 8, "begun before 9 came");
        progress.read(11);
        assert_eq!(progress.take_base(false), 9);
        assert_eq!(progress.take_base(false), 11);
        progress.check_server(1).unwrap();
        assert_eq!(progress.check_server(2).unwrap_err().kind(), Kind::Conflict);
    }
}
