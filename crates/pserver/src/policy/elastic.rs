//! Elastic jobs: trainers that come and go while the others train.
//!
//! The number of trainers that a server is told is then a capacity. A rank without a process is
//! *vacant*: nobody waits for it. A process that joins becomes a member that rests, and takes part
//! from the step on that it wakes for, which is the same on all shards. A process that dies is
//! *released*: its rank is vacant again, what it has delivered completely stays, the rest of its
//! step is dropped, and nothing that it may still send is taken.
//!
//! Every such change has a number. Shard 0 alone decides about releases and keeps the list of them;
//! trainers carry it to the other shards. So a trainer that some shards cannot hear is a member
//! everywhere or nowhere.
//!
//! With fewer members than the minimum no step and no pass is completed. Trainer 0 is needed at the
//! end of a pass, since it writes the model; steps go on without it.

use super::{Member, Membership, Presence};
use contract::{Error, Kind};
use std::time::{Duration, Instant};

/// A process that is no longer a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    /// The rank that it spoke for.
    pub rank: u32,
    /// The process.
    pub incarnation: u64,
}

/// What was dropped with a process that was released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// The step that it had not completed.
    pub step: u64,
    /// The frames of that step that it had delivered.
    pub frames: u64,
}

/// Releases that are remembered. One that is forgotten is of a process that has long ended.
pub const RELEASED_MAX: usize = 4096;

impl Membership {
    /// `capacity` ranks, all vacant, of which `least` are needed.
    pub fn elastic(capacity: u32, least: u32) -> Self {
        Membership { least: Some(least), ..Membership::new(capacity) }
    }

    /// Whether trainers may come and go.
    pub fn is_elastic(&self) -> bool {
        self.least.is_some()
    }

    /// The number of the newest change of members.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The processes that were released, oldest first.
    pub fn released(&self) -> &[Released] {
        &self.released
    }

    /// The ranks that have a process, or had one that finished its training.
    pub fn active(&self) -> usize {
        self.members.iter().filter(|member| member.presence != Presence::Awaited).count()
    }

    /// Whether there are enough members to go on.
    pub fn has_quorum(&self) -> bool {
        self.least.is_none_or(|least| self.active() >= least as usize)
    }

    /// For whom training, or the end of a pass, waits beyond its members: whoever is missing at the
    /// minimum, and trainer 0.
    pub fn wanted(&self) -> Option<String> {
        let least = self.least?;
        let vacant = self.awaited();
        if !self.has_quorum() {
            let ranks = crate::shard::trainers(&vacant);
            return Some(format!(
                "at least {least} trainers; there are {}, and {ranks} may come",
                self.active()
            ));
        }
        (vacant.first() == Some(&0))
            .then(|| "trainer 0, which brings the first values and ends the passes".to_owned())
    }

    /// The connection of a process is closed; it may make another.
    pub fn disconnect(&mut self, now: Instant, connection: u64) {
        let is_its = |member: &&mut Member| {
            member.connection == connection && matches!(member.presence, Presence::Present { .. })
        };
        if let Some(member) = self.members.iter_mut().find(is_its) {
            member.closed = Some(now);
        }
    }

    /// A process that was not heard of for `timeout`, or whose connection has been closed for
    /// `grace`.
    pub fn vanished(&self, now: Instant, timeout: Duration, grace: Duration) -> Option<Released> {
        let since = |moment: Instant| now.saturating_duration_since(moment);
        let has_vanished = |member: &Member| match member.presence {
            Presence::Present { heard } => {
                since(heard) > timeout || member.closed.is_some_and(|closed| since(closed) > grace)
            }
            Presence::Awaited | Presence::Left => false,
        };
        let rank = self.members.iter().position(has_vanished)?;
        let incarnation = self.members[rank].record.incarnation;
        Some(Released { rank: rank as u32, incarnation })
    }

    /// Whether there are members, and none of them was heard of for `timeout`.
    pub fn is_deserted(&self, now: Instant, timeout: Duration) -> bool {
        let heard = self.members.iter().filter_map(|member| match member.presence {
            Presence::Present { heard } => Some(heard),
            Presence::Awaited | Presence::Left => None,
        });
        heard.max().is_some_and(|heard| now.saturating_duration_since(heard) > timeout)
    }

    /// A process is no member any more. `None` if it was none, or has finished its training.
    pub fn release(&mut self, who: Released) -> Option<Dropped> {
        let member = self.members.get_mut(who.rank as usize)?;
        let is_present = matches!(member.presence, Presence::Present { .. });
        if !is_present || member.record.incarnation != who.incarnation {
            return None;
        }
        let dropped = Dropped { step: member.steps, frames: member.frames };
        *member = Member { steps: member.steps, ..Member::awaited() };
        self.note_release(who);
        Some(dropped)
    }

    pub(super) fn note_release(&mut self, who: Released) {
        if self.released.len() == RELEASED_MAX {
            self.released.remove(0);
        }
        self.released.push(who);
        self.changes += 1;
    }

    pub(super) fn is_released(&self, rank: u32, incarnation: u64) -> bool {
        self.released.contains(&Released { rank, incarnation })
    }

    /// A process takes a vacant rank. What an earlier one has delivered for a step to come stays
    /// delivered.
    pub(super) fn admit(&mut self, rank: usize, version: u64) {
        let synchronized = self.synchronized();
        let member = &mut self.members[rank];
        member.steps = member.steps.max(version);
        member.record.batches = 0;
        member.has_finished_pass = false;
        member.is_resting = true;
        member.synchronized = synchronized;
        self.changes += 1;
    }
}

pub(super) fn was_released(rank: u32) -> Error {
    let message = "the servers have gone on without this trainer: it was not heard of for too \
                   long, or another process took its rank; start it again";
    Error::new(Kind::Conflict, message).with("rank", rank)
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, Speaker};
    use super::*;

    fn join(members: &mut Membership, rank: u32, incarnation: u64) -> Arrival {
        let who = Speaker { rank, incarnation, connection: incarnation };
        members.join(Instant::now(), who, 0).unwrap()
    }

    #[test]
    fn nobody_waits_for_a_vacant_rank_and_a_joiner_takes_part_when_it_wakes() {
        let mut members = Membership::elastic(3, 1);
        join(&mut members, 0, 10);
        members.wake(0, 0).unwrap();
        members.accept(0, 1, true).unwrap();
        assert!(members.completes(0));
        join(&mut members, 2, 12);
        assert!(members.completes(0), "it rests");
        members.wake(2, 1).unwrap();
        members.accept(0, 2, true).unwrap();
        assert!(!members.completes(1));
        members.accept(2, 1, true).unwrap();
        assert!(members.completes(1));
    }

    #[test]
    fn fewer_than_the_minimum_complete_no_step_and_no_pass() {
        let mut members = Membership::elastic(3, 2);
        join(&mut members, 0, 10);
        members.wake(0, 0).unwrap();
        members.accept(0, 1, true).unwrap();
        assert!(!members.completes(0));
        assert_eq!(
            members.wanted().unwrap(),
            "at least 2 trainers; there are 1, and trainers 1, 2 may come"
        );
        members.finish_pass(0).unwrap();
        assert!(!members.is_pass_over());
        join(&mut members, 1, 11);
        assert!(members.completes(0));
        assert_eq!(members.wanted(), None);
    }

    #[test]
    fn a_released_process_is_not_waited_for_and_is_not_taken_back() {
        let mut members = Membership::elastic(2, 1);
        for rank in 0..2 {
            join(&mut members, rank, 10 + u64::from(rank));
            members.wake(rank, 0).unwrap();
        }
        members.accept(1, 1, false).unwrap();
        let who = Released { rank: 1, incarnation: 11 };
        assert_eq!(members.release(who), Some(Dropped { step: 0, frames: 1 }));
        assert_eq!(members.release(who), None);
        members.accept(0, 1, true).unwrap();
        assert!(members.completes(0));
        let old = Speaker { rank: 1, incarnation: 11, connection: 11 };
        assert_eq!(members.join(Instant::now(), old, 1).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(members.hear(Instant::now(), old).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(join(&mut members, 1, 99), Arrival::First);
    }

    #[test]
    fn a_pass_and_the_job_end_with_trainer_0_and_without_the_vacant() {
        let mut members = Membership::elastic(3, 1);
        join(&mut members, 1, 11);
        members.finish_pass(1).unwrap();
        assert!(!members.is_pass_over());
        join(&mut members, 0, 10);
        members.finish_pass(0).unwrap();
        assert!(members.is_pass_over());
        members.leave(1, true).unwrap();
        assert!(!members.is_over());
        members.leave(0, true).unwrap();
        assert!(members.is_over());
    }

    #[test]
    fn a_closed_connection_is_a_death_only_after_a_while() {
        let (second, now) = (Duration::from_secs(1), Instant::now());
        let mut members = Membership::elastic(1, 1);
        let who = Speaker { rank: 0, incarnation: 7, connection: 7 };
        members.join(now, who, 0).unwrap();
        members.disconnect(now, 7);
        assert_eq!(members.vanished(now + second, 60 * second, 5 * second), None);
        let released = Released { rank: 0, incarnation: 7 };
        assert_eq!(members.vanished(now + 6 * second, 60 * second, 5 * second), Some(released));
        members.join(now, who, 0).unwrap();
        assert_eq!(members.vanished(now + 6 * second, 60 * second, 5 * second), None);
    }
}
