//! Who waits for whom: the pure core of sync, async and bounded staleness.
//!
//! The problem. In sync mode an update may happen only when every trainer has delivered its
//! gradient of the step, and no trainer may be left waiting for one that will not come: trainers
//! have different numbers of batches in a pass, leave early, break their connection and return,
//! or are restarted under the same rank. Counting arrivals fails as soon as one of these happens
//! (a retried push counts twice, a finished trainer is waited for). So nothing is counted here.
//! Each rank has a row of facts (incarnation, last frame applied, steps completed, pass finished,
//! resting, left), and every question is answered from the rows alone:
//!
//! - step t is complete when every rank that is *waited for* has completed more than t steps;
//!   a rank that has finished its pass, rests or left is not waited for, one that has not yet come
//!   is. A trainer rests while the master has no task for it: the others, whose tasks it may get
//!   when they die, must be able to finish them without it;
//! - a frame is fresh, a duplicate, or from a dead predecessor by (incarnation, sequence);
//! - with bounded staleness a pull waits for the slowest rank that is waited for.
//!
//! A process that is started again under a rank goes on where its predecessor was: the facts stay,
//! except for the frames of a step that the predecessor did not complete. In an elastic job
//! (`elastic`) it begins anew instead, and ranks without a process are not waited for.

mod elastic;

pub use elastic::{Dropped, RELEASED_MAX, Released};

use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The trainers of a job, as one shard sees them.
#[derive(Debug, Clone)]
pub struct Membership {
    members: Vec<Member>,
    /// Elastic jobs: the least number of members. `None`: every rank is a member.
    least: Option<u32>,
    /// Elastic jobs: see [`Membership::released`].
    released: Vec<Released>,
    changes: u64,
}

/// What is known of one rank.
#[derive(Debug, Clone)]
struct Member {
    presence: Presence,
    record: Record,
    /// Steps completed; frames of an unfinished step are not counted.
    steps: u64,
    /// Frames of the step under way that were accepted.
    frames: u64,
    has_finished_pass: bool,
    /// It has no data for now, but may get some in this pass.
    is_resting: bool,
    /// The highest number it has asked to synchronize at.
    synchronized: u64,
    /// It has left, and knows that all shards have heard so.
    is_gone: bool,
    /// Which attempt of the trainer spoke for the rank last, or left.
    attempt: Option<u32>,
    /// The connection that its process joined over last.
    connection: u64,
    /// Since when that connection is closed.
    closed: Option<Instant>,
}

/// What must outlive the server: in every checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The process that spoke for the rank.
    pub incarnation: u64,
    /// Its last push frame that was accepted.
    pub sequence: u64,
    /// Steps of the pass under way that are applied: a trainer that goes on from here skips as many
    /// batches.
    #[serde(default)]
    pub batches: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Not heard of since this server started.
    Awaited,
    Present {
        heard: Instant,
    },
    Left,
}

/// What to do with a push frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// It is the next one.
    Fresh,
    /// It was applied before: acknowledge it again.
    Duplicate,
}

/// Who a frame is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speaker {
    /// The rank it claims.
    pub rank: u32,
    /// The process.
    pub incarnation: u64,
    /// The connection that the frame came over, of all connections to the shard.
    pub connection: u64,
}

/// Who comes when a process joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The first process of the rank since this server started.
    First,
    /// The same process, over another connection.
    Again,
    /// Another process than before. What its predecessor delivered of a step that it did not
    /// complete is void.
    Successor(Dropped),
}

impl Membership {
    /// `trainers` ranks, none of which has come yet.
    pub fn new(trainers: u32) -> Self {
        let members = vec![Member::awaited(); trainers as usize];
        Membership { members, least: None, released: Vec::new(), changes: 0 }
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no rank.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What a checkpoint keeps. With `version`, that of a shard in step, a step that was delivered
    /// ahead of the others' is not applied yet.
    pub fn records(&self, version: Option<u64>) -> Vec<Record> {
        let record = |member: &Member| {
            let is_ahead = version.is_some_and(|version| member.steps > version);
            let batches = member.record.batches.saturating_sub(u64::from(is_ahead));
            Record { batches, ..member.record }
        };
        self.members.iter().map(record).collect()
    }

    /// Takes over what a checkpoint kept. That of another number of trainers says nothing about these:
    /// they have other batches.
    pub fn restore(&mut self, records: &[Record]) {
        if records.len() != self.members.len() {
            return;
        }
        for (member, record) in self.members.iter_mut().zip(records) {
            member.record = *record;
        }
    }

    /// A process comes, or comes back, as `rank`. A first one has at least `version` steps behind it.
    pub fn join(&mut self, now: Instant, who: Speaker, version: u64) -> Result<Arrival> {
        let Speaker { rank, incarnation, connection } = who;
        if self.is_released(rank, incarnation) {
            return Err(elastic::was_released(rank));
        }
        let is_elastic = self.is_elastic();
        let member = self.member_mut(rank)?;
        (member.connection, member.closed) = (connection, None);
        let is_first = member.presence == Presence::Awaited;
        let has_left = member.has_left();
        let earlier = member.record.incarnation;
        let arrival = match is_first {
            true => Arrival::First,
            false if earlier == incarnation => Arrival::Again,
            false => Arrival::Successor(Dropped { step: member.steps, frames: member.frames }),
        };
        if is_first && !is_elastic {
            member.steps = member.steps.max(version);
        }
        if arrival != Arrival::Again {
            member.record = Record { incarnation, sequence: 0, ..member.record };
            member.frames = 0;
        }
        // One that has left stays gone: it comes only to say so again.
        if !has_left {
            member.presence = Presence::Present { heard: now };
        }
        if is_elastic && !has_left && arrival != Arrival::Again {
            if !is_first {
                self.note_release(Released { rank, incarnation: earlier });
            }
            self.admit(rank as usize, version);
        }
        Ok(arrival)
    }

    /// Checks that a frame comes from the process that speaks for the rank, over its newest
    /// connection, and notes it. What lay unread in an older one was sent again over the newer one,
    /// and would now come after what was sent later.
    pub fn hear(&mut self, now: Instant, who: Speaker) -> Result<()> {
        let Speaker { rank, incarnation, connection } = who;
        let known = self.member(rank)?;
        if known.presence == Presence::Awaited || known.record.incarnation != incarnation {
            if self.is_released(rank, incarnation) {
                return Err(elastic::was_released(rank));
            }
            return Err(Error::new(
                Kind::Conflict,
                "this process does not speak for the rank: it has not joined, or another process \
                 of the same rank has joined after it",
            )
            .with("rank", rank));
        }
        let member = self.member_mut(rank)?;
        if member.connection != connection {
            let message = "the process has joined again over another connection";
            return Err(Error::new(Kind::Conflict, message).with("rank", rank));
        }
        if member.presence != Presence::Left {
            member.presence = Presence::Present { heard: now };
        }
        Ok(())
    }

    /// What to do with a push frame of a rank that was heard.
    pub fn judge(&self, rank: u32, sequence: u64) -> Result<Freshness> {
        let applied = self.member(rank)?.record.sequence;
        if sequence <= applied {
            return Ok(Freshness::Duplicate);
        }
        if sequence - applied > 1 {
            return Err(Error::new(Kind::Conflict, "push frames are missing before this one")
                .with("rank", rank)
                .with("expected", applied + 1)
                .with("sequence", sequence));
        }
        Ok(Freshness::Fresh)
    }

    /// A push frame was applied or is held; `completes_step` if it is the last of its step.
    pub fn accept(&mut self, rank: u32, sequence: u64, completes_step: bool) -> Result<()> {
        let member = self.member_mut(rank)?;
        member.record.sequence = sequence;
        member.frames += 1;
        if completes_step {
            member.steps += 1;
            member.record.batches += 1;
            member.frames = 0;
        }
        Ok(())
    }

    /// Steps that a rank has completed.
    pub fn steps(&self, rank: u32) -> Result<u64> {
        Ok(self.member(rank)?.steps)
    }

    /// Steps that a rank has completed in the pass under way.
    pub fn batches(&self, rank: u32) -> Result<u64> {
        Ok(self.member(rank)?.record.batches)
    }

    /// The last push frame of the rank's process that was accepted.
    pub fn sequence(&self, rank: u32) -> Result<u64> {
        Ok(self.member(rank)?.record.sequence)
    }

    /// Whether a rank rests.
    pub fn is_resting(&self, rank: u32) -> Result<bool> {
        Ok(self.member(rank)?.is_resting)
    }

    /// Whether a rank has left.
    pub fn has_left(&self, rank: u32) -> Result<bool> {
        Ok(self.member(rank)?.has_left())
    }

    /// A rank has no more data in this pass.
    pub fn finish_pass(&mut self, rank: u32) -> Result<()> {
        self.member_mut(rank)?.has_finished_pass = true;
        Ok(())
    }

    /// A rank has no data for now.
    pub fn rest(&mut self, rank: u32) -> Result<()> {
        self.member_mut(rank)?.is_resting = true;
        Ok(())
    }

    /// A rank has data again, and takes part from step `step` on, or from a later one that it was
    /// promised before. Steps until then do not wait for it.
    pub fn wake(&mut self, rank: u32, step: u64) -> Result<()> {
        let member = self.member_mut(rank)?;
        member.is_resting = false;
        member.steps = member.steps.max(step);
        Ok(())
    }

    /// A rank waits for the others at a point that all will reach; numbers rise.
    pub fn synchronize(&mut self, rank: u32, number: u64) -> Result<()> {
        let member = self.member_mut(rank)?;
        member.synchronized = member.synchronized.max(number);
        Ok(())
    }

    /// Whether all ranks that have not left are at this point.
    pub fn is_synchronized(&self, number: u64) -> bool {
        let is_elastic = self.is_elastic();
        let mut staying = self.members.iter().filter(|member| member.is_staying(is_elastic));
        staying.all(|member| member.synchronized >= number)
    }

    /// The highest number at which all ranks have been, where a process that joins goes on.
    pub fn synchronized(&self) -> u64 {
        let is_counted = |member: &&Member| !self.is_elastic() || member.is_present();
        let counted = self.members.iter().filter(is_counted);
        counted.map(|member| member.synchronized).min().unwrap_or(0)
    }

    /// A rank leaves for good; `is_gone` if all other shards have heard so.
    pub fn leave(&mut self, rank: u32, is_gone: bool) -> Result<()> {
        let member = self.member_mut(rank)?;
        member.presence = Presence::Left;
        member.is_gone |= is_gone;
        Ok(())
    }

    /// Which attempt of its trainer the process of a rank is, as it says. One that comes when the
    /// rank has left says goodbye for the process that had finished.
    pub fn note_attempt(&mut self, rank: u32, attempt: Option<u32>) -> Result<()> {
        let member = self.member_mut(rank)?;
        if !member.has_left() {
            member.attempt = attempt;
        }
        Ok(())
    }

    /// Which attempts have left, see [`contract::ready::Farewell::goodbyes`].
    pub fn goodbyes(&self) -> Vec<(u32, u32)> {
        let left = self.members.iter().enumerate().filter(|(_, member)| member.has_left());
        left.map(|(rank, member)| (rank as u32, member.attempt.unwrap_or(u32::MAX)))
            .filter(|(_, attempt)| *attempt > 0)
            .collect()
    }

    /// Which ranks updates wait for, by rank: all of them while there are too few members.
    pub fn waited_for(&self) -> Vec<bool> {
        let is_short = !self.has_quorum();
        self.members.iter().map(|member| is_short || self.is_waited_for(member)).collect()
    }

    fn is_waited_for(&self, member: &Member) -> bool {
        member.is_staying(self.is_elastic()) && !member.has_finished_pass && !member.is_resting
    }

    /// Whether every rank that is waited for has delivered step `step`, and somebody has.
    pub fn completes(&self, step: u64) -> bool {
        self.has_quorum()
            && self.members.iter().all(|member| !self.is_waited_for(member) || member.steps > step)
            && self.members.iter().any(|member| member.steps > step)
    }

    /// The ranks that step `step`, the end of the pass, or the beginning of training waits for.
    pub fn missing(&self, step: u64) -> Vec<u32> {
        let is_missing = |member: &Member| {
            let is_awaited = !self.is_elastic() && member.presence == Presence::Awaited;
            is_awaited || (self.is_waited_for(member) && member.steps <= step)
        };
        let ranks = self.members.iter().enumerate().filter(|(_, member)| is_missing(member));
        ranks.map(|(rank, _)| rank as u32).collect()
    }

    /// The ranks of which no process has come since this server started.
    pub fn awaited(&self) -> Vec<u32> {
        let is_awaited = |(_, member): &(usize, &Member)| member.presence == Presence::Awaited;
        self.members.iter().enumerate().filter(is_awaited).map(|(rank, _)| rank as u32).collect()
    }

    /// Whether a pull by a rank that completed `steps` is answered with at most `staleness`.
    pub fn is_fresh_enough(&self, steps: u64, staleness: u32) -> bool {
        let slowest = self.members.iter().filter(|member| self.is_waited_for(member));
        let slowest = slowest.map(|member| member.steps).min().unwrap_or(u64::MAX);
        steps <= slowest.saturating_add(u64::from(staleness))
    }

    /// The steps from which a rank that wakes goes on: those of the slowest that is waited for. If
    /// all rest, those of the furthest, which is the same whoever wakes first.
    pub fn pace(&self) -> u64 {
        let steps = |member: &Member| member.steps;
        let waited_for = self.members.iter().filter(|member| self.is_waited_for(member));
        let slowest = waited_for.map(steps).min();
        slowest.or_else(|| self.members.iter().map(steps).max()).unwrap_or(0)
    }

    /// Whether no rank has data left in this pass.
    pub fn is_pass_over(&self) -> bool {
        let is_over = |(rank, member): (usize, &Member)| {
            let is_vacant = self.is_elastic() && member.presence == Presence::Awaited;
            member.has_finished_pass || member.has_left() || (is_vacant && rank > 0)
        };
        self.has_quorum() && self.members.iter().enumerate().all(is_over)
    }

    /// The next pass begins for all, at the same step.
    pub fn start_pass(&mut self, version: u64) {
        for member in &mut self.members {
            member.has_finished_pass = false;
            member.is_resting = false;
            member.steps = version;
            member.record.batches = 0;
        }
    }

    /// Whether some rank has not left.
    pub fn has_staying(&self) -> bool {
        self.members.iter().any(|member| member.is_staying(self.is_elastic()))
    }

    /// How many ranks have come since this server started.
    pub fn joined(&self) -> u32 {
        let has_come = |member: &&Member| member.presence != Presence::Awaited;
        u32::try_from(self.members.iter().filter(has_come).count()).unwrap_or(u32::MAX)
    }

    /// Whether every rank has left all shards.
    pub fn is_over(&self) -> bool {
        let is_over = |(rank, member): (usize, &Member)| {
            let is_vacant = self.is_elastic() && member.presence == Presence::Awaited;
            member.is_gone || (is_vacant && rank > 0)
        };
        self.members.iter().enumerate().all(is_over)
    }

    /// A rank that is present and was not heard for longer than `timeout`.
    pub fn overdue(&self, now: Instant, timeout: Duration) -> Option<u32> {
        let is_overdue = |member: &Member| match member.presence {
            Presence::Present { heard } => now.saturating_duration_since(heard) > timeout,
            Presence::Awaited | Presence::Left => false,
        };
        self.members.iter().position(is_overdue).map(|rank| rank as u32)
    }

    /// The server itself stood still, while it read a checkpoint for instance: that is not held
    /// against ranks whose words lie unread.
    pub fn excuse(&mut self, time: Duration) {
        for member in &mut self.members {
            if let Presence::Present { heard } = &mut member.presence {
                *heard += time;
            }
            if let Some(closed) = &mut member.closed {
                *closed += time;
            }
        }
    }

    fn member(&self, rank: u32) -> Result<&Member> {
        self.members.get(rank as usize).ok_or_else(|| no_such_rank(rank, self.members.len()))
    }

    fn member_mut(&mut self, rank: u32) -> Result<&mut Member> {
        let trainers = self.members.len();
        self.members.get_mut(rank as usize).ok_or_else(|| no_such_rank(rank, trainers))
    }
}

impl Member {
    /// A rank of which no process has come.
    fn awaited() -> Self {
        Member {
            presence: Presence::Awaited,
            record: Record::default(),
            steps: 0,
            frames: 0,
            has_finished_pass: false,
            is_resting: false,
            synchronized: 0,
            is_gone: false,
            attempt: None,
            connection: 0,
            closed: None,
        }
    }

    /// Whether it trains, or is expected to.
    fn is_staying(&self, is_elastic: bool) -> bool {
        if is_elastic { self.is_present() } else { !self.has_left() }
    }

    fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Present { .. })
    }

    fn has_left(&self) -> bool {
        self.presence == Presence::Left
    }
}

fn no_such_rank(rank: u32, trainers: usize) -> Error {
    Error::invalid("rank is not below the number of trainers")
        .with("rank", rank)
        .with("trainers", trainers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaker(rank: u32, incarnation: u64) -> Speaker {
        Speaker { rank, incarnation, connection: 1 }
    }

    fn two_trainers() -> (Membership, Instant) {
        let now = Instant::now();
        let mut members = Membership::new(2);
        for rank in 0..2 {
            members.join(now, speaker(rank, 100 + u64::from(rank)), 0).unwrap();
        }
        (members, now)
    }

    #[test]
    fn a_step_is_complete_when_all_ranks_have_delivered_it() {
        let (mut members, _) = two_trainers();
        assert!(!members.completes(0));
        members.accept(1, 1, true).unwrap();
        assert!(!members.completes(0));
        members.accept(0, 1, false).unwrap();
        assert!(!members.completes(0), "a first frame is not a step");
        members.accept(0, 2, true).unwrap();
        assert!(members.completes(0));
        assert!(!members.completes(1));
    }

    #[test]
    fn a_rank_that_never_came_is_waited_for() {
        let now = Instant::now();
        let mut members = Membership::new(2);
        members.join(now, speaker(0, 7), 0).unwrap();
        members.accept(0, 1, true).unwrap();
        assert!(!members.completes(0));
        assert_eq!((members.awaited(), members.missing(0)), (vec![1], vec![1]));
    }

    #[test]
    fn ranks_that_came_are_counted_once_and_also_after_they_left() {
        let now = Instant::now();
        let mut members = Membership::new(3);
        assert_eq!(members.joined(), 0);
        for (rank, incarnation) in [(0, 10), (2, 12), (2, 13)] {
            members.join(now, speaker(rank, incarnation), 0).unwrap();
        }
        members.leave(0, true).unwrap();
        assert_eq!(members.joined(), 2);
    }

    #[test]
    fn a_rank_that_finished_its_pass_or_left_is_not_waited_for() {
        let (mut members, _) = two_trainers();
        members.accept(0, 1, true).unwrap();
        members.finish_pass(1).unwrap();
        assert!(members.completes(0));
        members.finish_pass(0).unwrap();
        assert!(members.is_pass_over());
        members.start_pass(1);
        assert!(!members.is_pass_over());
        members.leave(1, true).unwrap();
        members.accept(0, 2, true).unwrap();
        assert!(members.completes(1));
        members.leave(0, false).unwrap();
        assert!(!members.is_over(), "others may not have heard of it");
        members.leave(0, true).unwrap();
        assert!(members.is_over());
    }

    #[test]
    fn a_rank_that_rests_is_not_waited_for_until_it_wakes() {
        let (mut members, _) = two_trainers();
        members.accept(0, 1, true).unwrap();
        members.rest(1).unwrap();
        assert!(members.completes(0));
        members.finish_pass(0).unwrap();
        assert!(!members.is_pass_over(), "the resting one may still get data");
        members.wake(1, 1).unwrap();
        assert_eq!(members.steps(1).unwrap(), 1);
        members.accept(1, 1, true).unwrap();
        members.wake(1, 1).unwrap();
        assert_eq!(members.steps(1).unwrap(), 2, "asked again, it changes nothing");
    }

    #[test]
    fn a_rank_that_delivered_and_then_rested_does_not_deliver_that_step_again() {
        let (mut members, _) = two_trainers();
        members.accept(1, 1, true).unwrap();
        members.rest(1).unwrap();
        members.wake(1, 0).unwrap();
        assert_eq!(members.steps(1).unwrap(), 1);
    }

    #[test]
    fn frames_are_fresh_once_and_gaps_are_refused() {
        let (mut members, _) = two_trainers();
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Fresh);
        members.accept(0, 1, true).unwrap();
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Duplicate);
        assert_eq!(members.judge(0, 3).unwrap_err().kind(), Kind::Conflict);
        assert_eq!(members.judge(2, 1).unwrap_err().kind(), Kind::Invalid);
    }

    #[test]
    fn a_restarted_trainer_is_not_taken_for_its_dead_self() {
        let (mut members, now) = two_trainers();
        members.accept(0, 1, true).unwrap();
        members.accept(0, 2, false).unwrap();
        let arrival = members.join(now, speaker(0, 999), 5).unwrap();
        assert!(matches!(arrival, Arrival::Successor(Dropped { frames: 1, .. })), "{arrival:?}");
        assert_eq!((members.steps(0).unwrap(), members.batches(0).unwrap()), (1, 1));
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Fresh);
        assert!(
            members.hear(now, speaker(0, 100)).is_err(),
            "its dead self may not speak any more"
        );
        members.hear(now, speaker(0, 999)).unwrap();
    }

    #[test]
    fn a_trainer_that_reconnects_keeps_its_place_and_learns_nothing_twice() {
        let (mut members, now) = two_trainers();
        members.accept(0, 1, true).unwrap();
        let again = Speaker { connection: 2, ..speaker(0, 100) };
        assert_eq!(members.join(now, again, 0).unwrap(), Arrival::Again);
        assert_eq!(members.steps(0).unwrap(), 1);
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Duplicate);
        assert!(members.hear(now, speaker(0, 100)).is_err(), "its old connection is of no use");
        members.hear(now, again).unwrap();
    }

    #[test]
    fn a_trainer_that_has_left_and_dials_again_stays_gone() {
        let (mut members, now) = two_trainers();
        members.leave(0, true).unwrap();
        members.join(now, speaker(0, 999), 0).unwrap();
        assert!(members.has_left(0).unwrap());
        members.leave(1, true).unwrap();
        assert!(members.is_over());
    }

    #[test]
    fn a_restored_shard_knows_how_many_batches_of_the_pass_it_has() {
        let (mut members, now) = two_trainers();
        members.accept(0, 1, true).unwrap();
        members.accept(1, 1, true).unwrap();
        members.accept(1, 2, true).unwrap();
        // The second step of rank 1 was delivered ahead of the others' and is not applied.
        let records = members.records(Some(1));
        let mut restored = Membership::new(2);
        restored.restore(&records);
        for rank in 0..2 {
            restored.join(now, speaker(rank, 900), 1).unwrap();
            assert_eq!((restored.batches(rank).unwrap(), restored.steps(rank).unwrap()), (1, 1));
            assert_eq!(restored.judge(rank, 1).unwrap(), Freshness::Fresh);
        }
        assert_eq!(members.records(None)[1].batches, 2, "async: applied as they came");
    }

    #[test]
    fn staleness_bounds_the_distance_to_the_slowest() {
        let (mut members, _) = two_trainers();
        for sequence in 1..=3 {
            members.accept(0, sequence, true).unwrap();
        }
        assert!(!members.is_fresh_enough(3, 2));
        assert!(members.is_fresh_enough(3, 3));
        members.finish_pass(1).unwrap();
        assert!(members.is_fresh_enough(3, 0), "only the one that asks is waited for");
    }

    #[test]
    fn a_rank_that_wakes_goes_on_with_the_slowest_or_if_all_rest_with_the_furthest() {
        let (mut members, _) = two_trainers();
        for sequence in 1..=3 {
            members.accept(0, sequence, true).unwrap();
        }
        members.accept(1, 1, true).unwrap();
        assert_eq!(members.pace(), 1);
        members.rest(1).unwrap();
        assert_eq!(members.pace(), 3);
        members.rest(0).unwrap();
        assert_eq!(members.pace(), 3, "nobody is waited for");
        members.wake(1, members.pace()).unwrap();
        assert_eq!(members.steps(1).unwrap(), 3);
    }

    #[test]
    fn a_silent_rank_is_overdue_and_one_that_left_is_not() {
        let (mut members, now) = two_trainers();
        let later = now + Duration::from_secs(11);
        members.hear(later, speaker(0, 100)).unwrap();
        assert_eq!(members.overdue(later, Duration::from_secs(10)), Some(1));
        members.leave(1, true).unwrap();
        assert_eq!(members.overdue(later, Duration::from_secs(10)), None);
    }

    #[test]
    fn the_time_that_the_server_stood_still_is_not_held_against_trainers() {
        let (mut members, now) = two_trainers();
        members.excuse(Duration::from_secs(100));
        let later = now + Duration::from_secs(105);
        assert_eq!(members.overdue(later, Duration::from_secs(10)), None);
        assert_eq!(members.overdue(later, Duration::from_secs(4)), Some(0));
    }
}
