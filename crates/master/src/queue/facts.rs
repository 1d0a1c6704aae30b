//! What a queue knows and must not forget, and the only way to change it: [`Facts::apply`].
//!
//! A [`Change`] says what was decided, not what was asked, so that replaying changes needs neither
//! the clock nor the rules they were decided by. That a pass is over is not a change of its own: it
//! follows from the facts, and `apply` looks whenever a task is settled. It cannot be forgotten, and
//! no two changes can disagree about it.

use super::order::order;
use super::past::{Ended, Past};
use crate::dataset::Dataset;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Restores that are remembered, so that late reports of them are recognised.
const RESTORES_MAX: usize = 256;

/// No job comes this far: larger numbers of passes and leases are damage.
const COUNT_MAX: u64 = 1 << 48;

/// Everything that survives the master's death.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    pub(super) dataset: Option<Dataset>,
    /// The pass under way, from 0.
    pub(super) pass: u64,
    pub(super) tasks: Vec<TaskFacts>,
    /// The tasks that are [`State::Todo`], the next one first.
    pub(super) todo: VecDeque<u64>,
    /// The least cut that a completion may claim.
    pub(super) cut: u64,
    /// Cut and name of the restores heard of.
    pub(super) restores: VecDeque<(u64, u64)>,
    pub(super) grant: Option<Grant>,
    /// How many tasks are settled.
    settled: u64,
    /// How the passes before the previous one ended.
    #[serde(default)]
    past: Past,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct TaskFacts {
    /// How often it was leased, in all passes.
    pub(super) epoch: u64,
    /// Failures in this pass.
    pub(super) failures: u32,
    pub(super) state: State,
    /// How it ended in the pass before this one, if there was one.
    pub(super) before: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum State {
    #[default]
    Todo,
    /// Leased, with the task's epoch.
    Pending {
        owner: u64,
        name: String,
    },
    Settled(Outcome),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Outcome {
    /// `cut`: the first checkpoint that contains it, as far as is known.
    Done {
        epoch: u64,
        cut: Option<u64>,
    },
    SetAside {
        reason: String,
    },
}

impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Outcome {
        match ended {
            // No lease has this epoch: that it was said before is not recognised so late.
            Ended::Done(cut) => Outcome::Done { epoch: 0, cut },
            Ended::SetAside => {
                Outcome::SetAside { reason: "set aside before parameters went back".to_owned() }
            }
        }
    }
}

/// Who may save the model, by the clock on the wall: it goes on while the master is away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) trainer: String,
    pub(super) at_unix_ms: u64,
    pub(super) duration_ms: u64,
}

/// One decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The data is known.
    Filled {
        /// It.
        dataset: Box<Dataset>,
    },
    /// A trainer got a task; its epoch is one more.
    Leased {
        /// Which.
        task: u64,
        /// The trainer's incarnation.
        owner: u64,
        /// What people call it.
        name: String,
    },
    /// A trainer has consumed a task.
    Finished {
        /// Which.
        task: u64,
        /// The first checkpoint that contains it.
        cut: Option<u64>,
    },
    /// A task is to be leased again in this pass.
    Returned {
        /// Which.
        task: u64,
        /// Whether it counts as a failure, and goes to the end of the line.
        is_blamed: bool,
    },
    /// A task is given up for this pass.
    SetAside {
        /// Which.
        task: u64,
        /// Why it failed the last time.
        reason: String,
    },
    /// Parameters are those of an older checkpoint again.
    Reopened {
        /// Which.
        cut: u64,
        /// Tells this restore from others.
        restore: u64,
    },
    /// A trainer may save the model.
    Granted {
        /// Which.
        trainer: String,
        /// When.
        at_unix_ms: u64,
        /// For how long.
        duration_ms: u64,
    },
}

impl Facts {
    /// Refuses a change that these facts do not allow: one of another journal, or damage.
    pub(super) fn check(&self, change: &Change) -> Result<()> {
        let state_of = |task: &u64| self.tasks.get(*task as usize).map(|task| &task.state);
        let is_legal = match change {
            Change::Filled { .. } => self.dataset.is_none(),
            Change::Leased { task, .. } => {
                matches!(state_of(task), Some(State::Todo))
                    && self.tasks[*task as usize].epoch < COUNT_MAX
            }
            Change::Finished { task, .. }
            | Change::Returned { task, .. }
            | Change::SetAside { task, .. } => {
                matches!(state_of(task), Some(State::Pending { .. }))
            }
            Change::Reopened { cut, .. } => {
                self.check_restore(*cut)?;
                true
            }
            Change::Granted { .. } => true,
        };
        match is_legal {
            true => Ok(()),
            false => Err(Error::new(Kind::Damaged, "change does not fit what came before it")
                .with("change", format_args!("{change:.200?}"))),
        }
    }

    /// Makes a change that [`Facts::check`] allows.
    pub(super) fn apply(&mut self, change: &Change, seed: Option<u64>) {
        match change {
            Change::Filled { dataset } => {
                self.tasks = vec![TaskFacts::default(); dataset.tasks() as usize];
                self.dataset = Some((**dataset).clone());
                self.line_up(seed);
            }
            Change::Leased { task, owner, name } => {
                self.leave_line(*task);
                let task = &mut self.tasks[*task as usize];
                task.epoch += 1;
                task.state = State::Pending { owner: *owner, name: name.clone() };
            }
            Change::Finished { task, cut } => {
                let epoch = self.tasks[*task as usize].epoch;
                self.settle(*task, Outcome::Done { epoch, cut: *cut }, seed);
                self.cut = self.cut.max(cut.unwrap_or(0));
            }
            Change::Returned { task, is_blamed } => {
                let facts = &mut self.tasks[*task as usize];
                facts.state = State::Todo;
                if *is_blamed {
                    facts.failures += 1;
                    self.todo.push_back(*task);
                } else {
                    self.todo.push_front(*task);
                }
            }
            Change::SetAside { task, reason } => {
                self.settle(*task, Outcome::SetAside { reason: reason.clone() }, seed);
            }
            Change::Reopened { cut, restore } => self.reopen(*cut, *restore, seed),
            Change::Granted { trainer, at_unix_ms, duration_ms } => {
                self.grant = Some(Grant {
                    trainer: trainer.clone(),
                    at_unix_ms: *at_unix_ms,
                    duration_ms: *duration_ms,
                });
            }
        }
    }

    /// Refuses facts that contradict themselves; for those read from a disk.
    pub(super) fn check_whole(&self) -> Result<()> {
        let tasks = self.dataset.as_ref().map_or(0, Dataset::tasks);
        let mut todo: Vec<u64> = self.todo.iter().copied().collect();
        todo.sort_unstable();
        let is_todo = |(_, task): &(usize, &TaskFacts)| task.state == State::Todo;
        let expected = self.tasks.iter().enumerate().filter(is_todo).map(|(at, _)| at as u64);
        let is_settled = |task: &&TaskFacts| matches!(task.state, State::Settled(_));
        let is_plausible = |task: &TaskFacts| {
            task.epoch <= COUNT_MAX
                && u64::from(task.failures) <= COUNT_MAX >> 24
                && (task.before.is_none() || self.pass > 0)
        };
        let is_sound = tasks == self.tasks.len() as u64
            && self.pass <= COUNT_MAX
            && self.tasks.iter().all(is_plausible)
            && self.past.is_sound(tasks)
            && self.past.passes() <= self.pass.saturating_sub(1)
            && expected.eq(todo)
            && self.tasks.iter().filter(is_settled).count() as u64 == self.settled
            && (tasks == 0 || self.settled < tasks);
        match is_sound {
            true => Ok(()),
            false => Err(Error::new(Kind::Damaged, "the stored queue contradicts itself")),
        }
    }

    /// Notes what journals of earlier releases do not have: passes before the previous one.
    pub(super) fn admit_gap(&mut self) {
        if self.past.passes() + 1 < self.pass && !self.past.has_gap() {
            let known = self.tasks.iter().filter_map(|task| task.before.as_ref());
            self.past.admit_gap(known.map(Ended::from), self.cut);
        }
    }

    /// Refuses to go back to a checkpoint when it is not known what came after it.
    pub(super) fn check_restore(&self, cut: u64) -> Result<()> {
        self.past.check_restore(cut)
    }

    /// Completions that are on record, of all passes.
    pub(super) fn completions(&self) -> u64 {
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done { .. });
        let of = |task: &TaskFacts| {
            let now = matches!(&task.state, State::Settled(outcome) if is_done(outcome));
            u64::from(now) + u64::from(task.before.as_ref().is_some_and(is_done))
        };
        self.tasks.iter().map(of).sum::<u64>() + self.past.completions()
    }

    fn settle(&mut self, task: u64, outcome: Outcome, seed: Option<u64>) {
        self.tasks[task as usize].state = State::Settled(outcome);
        self.settled += 1;
        if self.settled < self.tasks.len() as u64 {
            return;
        }
        let before = self.tasks.iter().map(|task| task.before.as_ref().map(Ended::from));
        if let Some(before) = before.collect::<Option<Vec<Ended>>>() {
            self.past.push(before);
        }
        self.pass += 1;
        for task in &mut self.tasks {
            task.failures = 0;
            task.before = match std::mem::take(&mut task.state) {
                State::Settled(outcome) => Some(outcome),
                State::Todo | State::Pending { .. } => None,
            };
        }
        self.line_up(seed);
    }

    fn reopen(&mut self, cut: u64, restore: u64, seed: Option<u64>) {
        self.restores.push_back((cut, restore));
        if self.restores.len() > RESTORES_MAX {
            self.restores.pop_front();
        }
        let is_undone = |outcome: &Outcome| Ended::from(outcome).is_undone(cut);
        let has_undone = self.tasks.iter().any(|task| task.before.as_ref().is_some_and(is_undone));
        let older = self.past.undone_passes(cut);
        if older > 0 {
            self.past.drop_newest(older - 1);
            self.pass -= older - 1;
            self.go_back();
        }
        if older > 0 || has_undone {
            self.go_back();
        }
        for task in &mut self.tasks {
            match &task.state {
                State::Settled(outcome) if !is_undone(outcome) => {}
                _ => task.state = State::Todo,
            }
        }
        self.cut = cut.saturating_add(1);
        self.line_up(seed);
    }

    /// Makes the previous pass the current one again, as it ended.
    fn go_back(&mut self) {
        self.pass -= 1;
        let mut older = self.past.pop().unwrap_or_default().into_iter();
        for task in &mut self.tasks {
            task.failures = 0;
            task.state = task.before.take().map_or(State::Todo, State::Settled);
            task.before = older.next().map(Outcome::from);
        }
    }

    /// Lines up everything that is to be done, in the order of the pass.
    fn line_up(&mut self, seed: Option<u64>) {
        self.todo = order(seed, self.pass, self.tasks.len() as u64);
        self.todo.retain(|task| self.tasks[*task as usize].state == State::Todo);
        let is_settled = |task: &&TaskFacts| matches!(task.state, State::Settled(_));
        self.settled = self.tasks.iter().filter(is_settled).count() as u64;
    }

    fn leave_line(&mut self, task: u64) {
        if self.todo.front() == Some(&task) {
            self.todo.pop_front();
        } else {
            // A journal of another shuffle seed.
            self.todo.retain(|other| *other != task);
        }
    }
}
