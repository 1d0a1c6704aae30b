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
//! The set of ranks is fixed today and has an epoch, which changes when the set does.

use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The trainers of a job, as one shard sees them.
#[derive(Debug, Clone)]
pub struct Membership {
    epoch: u64,
    members: Vec<Member>,
}

/// What is known of one rank.
#[derive(Debug, Clone)]
struct Member {
    presence: Presence,
    record: Record,
    /// Steps completed; frames of an unfinished step are not counted.
    steps: u64,
    has_finished_pass: bool,
    /// It has no data for now, but may get some in this pass.
    is_resting: bool,
    /// The highest number it has asked to synchronize at.
    synchronized: u64,
}

/// What must outlive the server, so that a push is applied at most once: in every checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The process that speaks for the rank.
    pub incarnation: u64,
    /// Its last push frame that was applied.
    pub sequence: u64,
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

impl Membership {
    /// `trainers` ranks, none of which has come yet.
    pub fn new(trainers: u32) -> Self {
        let awaited = Member {
            presence: Presence::Awaited,
            record: Record::default(),
            steps: 0,
            has_finished_pass: false,
            is_resting: false,
            synchronized: 0,
        };
        Membership { epoch: 0, members: vec![awaited; trainers as usize] }
    }

    /// Counts the changes of the set of ranks.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is no rank.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// How many ranks have joined since this server started.
    pub fn joined(&self) -> usize {
        let has_joined = |member: &&Member| member.presence != Presence::Awaited;
        self.members.iter().filter(has_joined).count()
    }

    /// What a checkpoint keeps.
    pub fn records(&self) -> Vec<Record> {
        self.members.iter().map(|member| member.record).collect()
    }

    /// Takes over what a checkpoint kept.
    pub fn restore(&mut self, records: &[Record]) {
        for (member, record) in self.members.iter_mut().zip(records) {
            member.record = *record;
        }
    }

    /// A process comes, or comes back, as `rank`. Returns whether it replaces another process.
    ///
    /// `steps` and `acknowledged` are what it knows itself; a process that has just started knows
    /// neither and begins where the shard is.
    pub fn join(
        &mut self,
        now: Instant,
        rank: u32,
        incarnation: u64,
        progress: Progress,
    ) -> Result<bool> {
        let member = self.member_mut(rank)?;
        let is_same = member.record.incarnation == incarnation;
        let replaces = !is_same && member.presence != Presence::Awaited;
        if is_same {
            // What it knows to be applied was applied, if perhaps by a server that has died since.
            member.record.sequence = member.record.sequence.max(progress.acknowledged);
        } else {
            member.record = Record { incarnation, sequence: progress.acknowledged };
            member.has_finished_pass = false;
        }
        member.is_resting = progress.is_resting;
        if !is_same || member.presence == Presence::Awaited {
            member.steps = progress.steps.unwrap_or(progress.version);
        }
        // One that has left and dials again only to hear that it has: it stays gone.
        if !(is_same && member.presence == Presence::Left) {
            member.presence = Presence::Present { heard: now };
        }
        Ok(replaces)
    }

    /// Checks that a frame comes from the process that speaks for the rank, and notes it.
    pub fn hear(&mut self, now: Instant, rank: u32, incarnation: u64) -> Result<()> {
        let member = self.member_mut(rank)?;
        if member.presence == Presence::Awaited || member.record.incarnation != incarnation {
            return Err(Error::new(
                Kind::Conflict,
                "this process does not speak for the rank: it has not joined, or was replaced",
            )
            .with("rank", rank));
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
        if sequence > applied + 1 {
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
        member.steps += u64::from(completes_step);
        Ok(())
    }

    /// Steps that a rank has completed.
    pub fn steps(&self, rank: u32) -> Result<u64> {
        Ok(self.member(rank)?.steps)
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

    /// A rank has data again. It takes part in the step that the shard, at `version`, does next,
    /// unless it has delivered that one before it rested.
    pub fn wake(&mut self, rank: u32, version: u64) -> Result<()> {
        let member = self.member_mut(rank)?;
        if member.is_resting {
            member.is_resting = false;
            member.steps = member.steps.max(version);
        }
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
        let mut staying = self.members.iter().filter(|member| member.presence != Presence::Left);
        staying.all(|member| member.synchronized >= number)
    }

    /// The highest number at which all ranks have been, where a process that joins goes on.
    pub fn synchronized(&self) -> u64 {
        self.members.iter().map(|member| member.synchronized).min().unwrap_or(0)
    }

    /// A rank leaves for good.
    pub fn leave(&mut self, rank: u32) -> Result<()> {
        self.member_mut(rank)?.presence = Presence::Left;
        Ok(())
    }

    /// Which ranks updates wait for, by rank.
    pub fn waited_for(&self) -> Vec<bool> {
        self.members.iter().map(Member::is_waited_for).collect()
    }

    /// Whether every rank that is waited for has delivered step `step`, and somebody has.
    pub fn completes(&self, step: u64) -> bool {
        self.members.iter().all(|member| !member.is_waited_for() || member.steps > step)
            && self.members.iter().any(|member| member.steps > step)
    }

    /// Whether a pull by a rank that completed `steps` is answered with at most `staleness`.
    pub fn is_fresh_enough(&self, steps: u64, staleness: u32) -> bool {
        let slowest = self.members.iter().filter(|member| member.is_waited_for());
        let slowest = slowest.map(|member| member.steps).min().unwrap_or(u64::MAX);
        steps <= slowest.saturating_add(u64::from(staleness))
    }

    /// Whether no rank has data left in this pass.
    pub fn is_pass_over(&self) -> bool {
        let is_over = |member: &Member| member.has_finished_pass || member.has_left();
        self.members.iter().all(is_over)
    }

    /// The next pass begins for all, at the same step.
    pub fn start_pass(&mut self, version: u64) {
        for member in &mut self.members {
            member.has_finished_pass = false;
            member.is_resting = false;
            member.steps = version;
        }
    }

    /// Whether every rank has come since this server started.
    pub fn is_complete(&self) -> bool {
        self.members.iter().all(|member| member.presence != Presence::Awaited)
    }

    /// The least number of steps that a rank has completed, of those that do not rest.
    pub fn steps_min(&self) -> u64 {
        let active = self.members.iter().filter(|member| !member.is_resting);
        active.map(|member| member.steps).min().unwrap_or(0)
    }

    /// Whether every rank has left.
    pub fn is_over(&self) -> bool {
        self.members.iter().all(|member| member.presence == Presence::Left)
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

/// How far a process that joins believes to be, and how far the shard is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Steps it has completed; `None` for a process that has just started.
    pub steps: Option<u64>,
    /// Its last push frame that it knows to be applied.
    pub acknowledged: u64,
    /// Whether it has no data for now.
    pub is_resting: bool,
    /// The shard's version, where a new process begins.
    pub version: u64,
}

impl Member {
    fn is_waited_for(&self) -> bool {
        !self.has_left() && !self.has_finished_pass && !self.is_resting
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

    fn two_trainers() -> (Membership, Instant) {
        let now = Instant::now();
        let mut members = Membership::new(2);
        for rank in 0..2 {
            members.join(now, rank, 100 + u64::from(rank), Progress::default()).unwrap();
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
        members.join(now, 0, 7, Progress::default()).unwrap();
        members.accept(0, 1, true).unwrap();
        assert!(!members.completes(0));
        assert!(!members.is_complete());
    }

    #[test]
    fn ranks_that_came_are_counted_once_and_also_after_they_left() {
        let now = Instant::now();
        let mut members = Membership::new(3);
        assert_eq!(members.joined(), 0);
        for (rank, incarnation) in [(0, 10), (2, 12), (2, 13)] {
            members.join(now, rank, incarnation, Progress::default()).unwrap();
        }
        members.leave(0).unwrap();
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
        members.leave(1).unwrap();
        members.accept(0, 2, true).unwrap();
        assert!(members.completes(1));
        members.leave(0).unwrap();
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
        members.wake(1, 9).unwrap();
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
        let progress = Progress { version: 5, ..Progress::default() };
        assert!(members.join(now, 0, 999, progress).unwrap());
        assert_eq!(members.steps(0).unwrap(), 5);
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Fresh);
        assert!(members.hear(now, 0, 100).is_err(), "the dead self may not speak any more");
        members.hear(now, 0, 999).unwrap();
    }

    #[test]
    fn a_trainer_that_reconnects_keeps_its_place_and_learns_nothing_twice() {
        let (mut members, now) = two_trainers();
        members.accept(0, 1, true).unwrap();
        let progress = Progress { steps: Some(1), acknowledged: 1, ..Progress::default() };
        assert!(!members.join(now, 0, 100, progress).unwrap());
        assert_eq!(members.steps(0).unwrap(), 1);
        assert_eq!(members.judge(0, 1).unwrap(), Freshness::Duplicate);
    }

    #[test]
    fn a_trainer_that_has_left_and_dials_again_stays_gone() {
        let (mut members, now) = two_trainers();
        members.leave(0).unwrap();
        members.join(now, 0, 100, Progress::default()).unwrap();
        members.leave(1).unwrap();
        assert!(members.is_over());
    }

    #[test]
    fn a_restored_server_takes_the_trainers_word_for_what_it_lost() {
        let now = Instant::now();
        let mut members = Membership::new(1);
        members.restore(&[Record { incarnation: 100, sequence: 3 }]);
        let progress =
            Progress { steps: Some(8), acknowledged: 8, version: 3, ..Progress::default() };
        members.join(now, 0, 100, progress).unwrap();
        assert_eq!(members.steps_min(), 8);
        assert_eq!(members.judge(0, 9).unwrap(), Freshness::Fresh);
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
    fn a_silent_rank_is_overdue_and_one_that_left_is_not() {
        let (mut members, now) = two_trainers();
        let later = now + Duration::from_secs(11);
        members.hear(later, 0, 100).unwrap();
        assert_eq!(members.overdue(later, Duration::from_secs(10)), Some(1));
        members.leave(1).unwrap();
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
