//! Which task next, leases, passes: a pure state machine. No clock, no I/O; `now` is passed in.
//!
//! **The problem.** Every task of a pass must be consumed once, by trainers that come, die, hang and
//! wake up again, while the master itself may die at any moment; and nobody may wait for something
//! that will not happen.
//!
//! **Leases.** A task is lent, not given: (task, epoch), where every dispatch has a new epoch. If a
//! trainer does not renew in time, the task is dealt out again, and whatever the old trainer says
//! later carries an old epoch and counts for nothing. So a task is finished once per pass, though its
//! records may have been read twice. Only a trainer that says it cannot read a task blames the task;
//! one that dies proves nothing against it, and deaths must not cost records.
//!
//! **The pass.** The obvious way, "no more tasks: the pass is over for you", lets trainers run ahead
//! while a task is still out; when that task comes back nobody is left to take it. Here a trainer
//! with nothing to do waits as long as anything is out, and gets it if it comes back. The pass is
//! over exactly when every task is settled (done, or set aside after too many failures); that is
//! looked at whenever one is settled, whatever the reason (`facts`).
//!
//! **Durability.** Every decision is a [`Change`], and changes are made by applying them: recovery
//! is applying them again. They are taken by [`Queue::take_changes`]; no answer may leave before they
//! are on disk. Deadlines are no facts: they belong to this life of the master, and after a recovery
//! every lease begins anew, so that nobody loses a task because the master was away.
//!
//! **Checkpoints.** Parameters live elsewhere, and can go back to an older cut, which undoes what
//! trainers did since. A completion therefore carries the first cut that contains it, and
//! [`Queue::reopen`] opens everything that is in no cut any more, in earlier passes if need be
//! (`past`). Leases are taken back too: part of their gradients may be lost. A trainer may know an old cut and
//! claim too little, so a completion counts for no earlier cut than any completion before it: in
//! doubt a task is done twice, never skipped.

mod facts;
mod order;
mod past;
mod status;

pub use facts::{Change, Facts};

use crate::dataset::Dataset;
use crate::message::{Get, Next, PassOver, REASON_CHARS_MAX, Reopened};
use crate::task::{Lease, Task};
use contract::{Error, Result};
use facts::{Grant, Outcome, State, TaskFacts};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// By what rules tasks are dealt out. They may be others after a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// How long a lease holds when it is not renewed. Default 15 s: trainers renew it every 5.
    pub lease: Duration,
    /// How often trainers may say in one pass that they cannot read a task; after one more it is set
    /// aside. Default 3.
    pub failures_max: u32,
    /// Number of passes; 0 for no end. Default 0.
    pub passes: u64,
    /// Deal the tasks of every pass out in an order of its own. Default `None`: in file order.
    pub shuffle_seed: Option<u64>,
    /// How long a trainer that is heard of may keep a task that others wait for. Default 6 hours.
    pub stall: Duration,
}

/// All tasks and who has them.
#[derive(Debug)]
pub struct Queue {
    rules: Rules,
    facts: Facts,
    /// The pending tasks.
    held: BTreeMap<u64, Held>,
    changes: Vec<Change>,
}

/// When the lease of a task began, in this life of the master, and when it runs out.
#[derive(Debug, Clone, Copy)]
struct Held {
    since: Instant,
    until: Instant,
}

/// A task that a trainer has had for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stalled {
    /// The task.
    pub task: u64,
    /// The trainer's name.
    pub trainer: String,
    /// For how long.
    pub time: Duration,
}

/// A lease is renewed three times, which takes a while.
const LEASE_MIN: Duration = Duration::from_millis(100);
const LEASE_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

impl Default for Rules {
    fn default() -> Self {
        Rules {
            lease: Duration::from_secs(15),
            failures_max: 3,
            passes: 0,
            shuffle_seed: None,
            stall: Duration::from_secs(6 * 3600),
        }
    }
}

impl Rules {
    /// Refuses what could never work.
    pub fn check(&self) -> Result<()> {
        if (LEASE_MIN..=LEASE_MAX).contains(&self.lease) {
            return Ok(());
        }
        Err(Error::invalid("the time after which a task is dealt out again is out of range")
            .with("task_timeout", format_args!("{:?}", self.lease))
            .with("min", format_args!("{LEASE_MIN:?}"))
            .with("max", format_args!("{LEASE_MAX:?}")))
    }
}

impl Queue {
    /// A queue without data.
    pub fn new(rules: Rules) -> Self {
        let (facts, held, changes) = Default::default();
        Queue { rules, facts, held, changes }
    }

    /// A queue as it was: the facts at some time and the changes since. All leases begin anew.
    pub fn recover(rules: Rules, facts: Facts, changes: &[Change], now: Instant) -> Result<Self> {
        facts.check_whole()?;
        let mut queue = Queue { facts, ..Queue::new(rules) };
        queue.facts.admit_gap();
        let is_pending = |task: &TaskFacts| matches!(task.state, State::Pending { .. });
        let pending = queue.facts.tasks.iter().enumerate().filter(|(_, task)| is_pending(task));
        let held = Held { since: now, until: now + queue.rules.lease };
        queue.held = pending.map(|(at, _)| (at as u64, held)).collect();
        for change in changes {
            queue.facts.check(change)?;
            queue.apply(change, now);
        }
        Ok(queue)
    }

    /// Everything that must survive.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What has been decided since this was asked last.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// The data, once it is known.
    pub fn dataset(&self) -> Option<&Dataset> {
        self.facts.dataset.as_ref()
    }

    /// The pass under way, from 0.
    pub fn pass(&self) -> u64 {
        self.facts.pass
    }

    /// Tasks that wait for a trainer, and tasks that a trainer has.
    pub fn open_tasks(&self) -> (usize, usize) {
        (self.facts.todo.len(), self.held.len())
    }

    /// Whether the last pass is over.
    pub fn is_over(&self) -> bool {
        self.rules.passes > 0 && self.facts.pass >= self.rules.passes
    }

    /// When the next lease runs out.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.held.values().map(|held| held.until).min()
    }

    /// Sets the data. To be called once.
    pub fn fill(&mut self, now: Instant, dataset: Dataset) {
        assert!(self.facts.dataset.is_none(), "the dataset is set once");
        self.commit(now, Change::Filled { dataset: Box::new(dataset) });
    }

    /// A task for a trainer, or why there is none. [`Next::Wait`] changes nothing.
    pub fn get(&mut self, now: Instant, owner: u64, get: &Get) -> Next {
        if self.facts.dataset.is_none() {
            return Next::Wait;
        }
        if get.pass.is_some_and(|pass| pass < self.facts.pass) {
            return Next::PassOver(self.last_pass());
        }
        if self.is_over() {
            return Next::AllOver;
        }
        // Its answer was lost on the way: without this the task would wait for its deadline.
        let unknown = self.leases_of(owner).find(|lease| !get.leases.contains(lease));
        if let Some(Lease { task, .. }) = unknown {
            self.prolong(now, task);
            return Next::Task(self.task(task));
        }
        let Some(task) = self.facts.todo.front().copied() else { return Next::Wait };
        self.commit(now, Change::Leased { task, owner, name: get.name.clone() });
        Next::Task(self.task(task))
    }

    /// A trainer has consumed a task. False, and nothing changes, if it is no longer the trainer's.
    pub fn finish(&mut self, now: Instant, owner: u64, lease: Lease, cut: Option<u64>) -> bool {
        if self.is_of(owner, lease) {
            let cut = cut.map(|cut| cut.max(self.facts.cut));
            self.commit(now, Change::Finished { task: lease.task, cut });
            return true;
        }
        // Said before, and the answer was lost.
        self.facts.tasks.get(lease.task as usize).is_some_and(|task| {
            let by_this = |outcome: &Outcome| {
                matches!(outcome, Outcome::Done { epoch, .. } if *epoch == lease.epoch)
            };
            matches!(&task.state, State::Settled(outcome) if by_this(outcome))
                || task.before.as_ref().is_some_and(by_this)
        })
    }

    /// A trainer cannot work on a task; without a reason it only gives it back. False, and nothing
    /// changes, if it is no longer the trainer's.
    pub fn fail(&mut self, now: Instant, owner: u64, lease: Lease, reason: Option<&str>) -> bool {
        let is_of = self.is_of(owner, lease);
        match reason {
            _ if !is_of => {}
            Some(reason) => self.blame(now, lease.task, reason),
            None => self.commit(now, Change::Returned { task: lease.task, is_blamed: false }),
        }
        is_of
    }

    /// A trainer is alive; returns which of the leases it has lost.
    pub fn renew(&mut self, now: Instant, owner: u64, leases: &[Lease]) -> Vec<Lease> {
        let mut lost = Vec::new();
        for lease in leases {
            if self.is_of(owner, *lease) {
                self.prolong(now, lease.task);
            } else {
                lost.push(*lease);
            }
        }
        lost
    }

    /// Takes away what was not renewed in time; the tasks, and the trainers that had them. No blame: a
    /// task that several trainers died with would end up set aside, and its records would be missing.
    pub fn expire(&mut self, now: Instant) -> Vec<(u64, String)> {
        let late = self.held.iter().filter(|(_, held)| held.until <= now);
        let late: Vec<(u64, String)> =
            late.filter_map(|(task, _)| Some((*task, self.trainer_of(*task)?))).collect();
        for (task, _) in &late {
            self.commit(now, Change::Returned { task: *task, is_blamed: false });
        }
        late
    }

    /// The tasks that trainers have had for `time` and longer.
    pub fn stalled(&self, now: Instant, time: Duration) -> Vec<Stalled> {
        let held = self.held.iter().map(|(task, held)| (*task, now.duration_since(held.since)));
        held.filter(|(_, had)| *had >= time)
            .filter_map(|(task, time)| {
                Some(Stalled { task, trainer: self.trainer_of(task)?, time })
            })
            .collect()
    }

    /// Takes away what trainers have had for too long although others wait; which tasks those are.
    /// No blame, as of [`Queue::expire`].
    pub fn take_stalled(&mut self, now: Instant) -> Vec<Stalled> {
        let stalled = self.stalled(now, self.rules.stall);
        for Stalled { task, .. } in &stalled {
            self.commit(now, Change::Returned { task: *task, is_blamed: false });
        }
        stalled
    }

    /// A trainer goes; its tasks are dealt out first.
    pub fn leave(&mut self, now: Instant, owner: u64) {
        let leases: Vec<Lease> = self.leases_of(owner).collect();
        for Lease { task, .. } in leases {
            self.commit(now, Change::Returned { task, is_blamed: false });
        }
    }

    /// Parameters went back to a cut. What only later ones contain is to be done again; a restore
    /// that was heard of before changes nothing.
    ///
    /// `Conflict` if that is no longer known.
    pub fn reopen(&mut self, now: Instant, cut: u64, restore: u64) -> Result<Reopened> {
        let is_news = !self.facts.restores.contains(&(cut, restore));
        let before = self.facts.completions() + self.held.len() as u64;
        if is_news && self.facts.dataset.is_some() {
            self.facts.check_restore(cut)?;
            self.commit(now, Change::Reopened { cut, restore });
        }
        let after = self.facts.completions() + self.held.len() as u64;
        Ok(Reopened { pass: self.facts.pass, reopened: before - after })
    }

    /// Whether this trainer is to save the model: the first who asks is, for so long.
    pub fn request_save(
        &mut self,
        now: Instant,
        unix_ms: u64,
        trainer: &str,
        duration_ms: u64,
    ) -> Result<bool> {
        if trainer.is_empty() {
            return Err(Error::invalid("trainer id is empty; give each trainer an id of its own"));
        }
        let is_held = |grant: &Grant| {
            let until = grant.at_unix_ms.saturating_add(grant.duration_ms);
            grant.trainer != trainer && (grant.at_unix_ms..until).contains(&unix_ms)
        };
        if self.facts.grant.as_ref().is_some_and(is_held) {
            return Ok(false);
        }
        let trainer = trainer.to_owned();
        self.commit(now, Change::Granted { trainer, at_unix_ms: unix_ms, duration_ms });
        Ok(true)
    }

    fn last_pass(&self) -> PassOver {
        let ended = |wanted: fn(&Outcome) -> bool| {
            let before = self.facts.tasks.iter().filter_map(|task| task.before.as_ref());
            before.filter(|outcome| wanted(outcome)).count() as u64
        };
        PassOver {
            pass: self.facts.pass,
            done: ended(|outcome| matches!(outcome, Outcome::Done { .. })),
            set_aside: ended(|outcome| matches!(outcome, Outcome::SetAside { .. })),
        }
    }

    fn task(&self, id: u64) -> Task {
        Task {
            id,
            epoch: self.facts.tasks[id as usize].epoch,
            pass: self.facts.pass,
            lease_ms: self.rules.lease.as_millis() as u64,
            pieces: self.dataset().map_or_else(Vec::new, |dataset| dataset.pieces(id)),
        }
    }

    fn is_of(&self, asking: u64, lease: Lease) -> bool {
        self.facts.tasks.get(lease.task as usize).is_some_and(|task| {
            task.epoch == lease.epoch
                && matches!(task.state, State::Pending { owner, .. } if owner == asking)
        })
    }

    fn leases_of(&self, asking: u64) -> impl Iterator<Item = Lease> {
        self.held.keys().filter_map(move |task| {
            let facts = &self.facts.tasks[*task as usize];
            let is_of = matches!(facts.state, State::Pending { owner, .. } if owner == asking);
            is_of.then_some(Lease { task: *task, epoch: facts.epoch })
        })
    }

    fn trainer_of(&self, task: u64) -> Option<String> {
        match &self.facts.tasks[task as usize].state {
            State::Pending { name, .. } => Some(name.clone()),
            _ => None,
        }
    }

    fn prolong(&mut self, now: Instant, task: u64) {
        if let Some(held) = self.held.get_mut(&task) {
            held.until = now + self.rules.lease;
        }
    }

    fn blame(&mut self, now: Instant, task: u64, reason: &str) {
        let failures = self.facts.tasks[task as usize].failures + 1;
        if failures <= self.rules.failures_max {
            return self.commit(now, Change::Returned { task, is_blamed: true });
        }
        let reason = reason.chars().take(REASON_CHARS_MAX).collect();
        self.commit(now, Change::SetAside { task, reason });
    }

    fn commit(&mut self, now: Instant, change: Change) {
        self.apply(&change, now);
        self.changes.push(change);
    }

    fn apply(&mut self, change: &Change, now: Instant) {
        self.facts.apply(change, self.rules.shuffle_seed);
        match change {
            Change::Leased { task, .. } => {
                self.held.insert(*task, Held { since: now, until: now + self.rules.lease });
            }
            Change::Finished { task, .. }
            | Change::Returned { task, .. }
            | Change::SetAside { task, .. } => {
                self.held.remove(task);
            }
            Change::Reopened { .. } => self.held.clear(),
            Change::Filled { .. } | Change::Granted { .. } => {}
        }
    }
}
