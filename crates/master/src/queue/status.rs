//! What people ask a queue.

use super::Queue;
use super::facts::{Outcome, State};
use crate::message::{PendingTask, SetAsideTask, Status};

/// What a list shows at most.
const LISTED_MAX: usize = 1000;
/// Files of a task that are named at most.
const FILES_MAX: usize = 10;

impl Queue {
    /// Everything that people ask for.
    pub fn status(&self) -> Status {
        let facts = &self.facts;
        let mut status = Status {
            dataset: self.dataset().map_or_else(Vec::new, |dataset| dataset.patterns().to_vec()),
            pass: facts.pass,
            passes: self.rules.passes,
            is_over: self.is_over(),
            tasks: facts.tasks.len() as u64,
            todo: facts.todo.len() as u64,
            pending: self.held.len() as u64,
            done: 0,
            set_aside: 0,
            pending_tasks: Vec::new(),
            set_aside_tasks: Vec::new(),
        };
        for (at, task) in facts.tasks.iter().enumerate() {
            let id = at as u64;
            match &task.state {
                State::Todo => {}
                State::Pending { name, .. } => {
                    if status.pending_tasks.len() < LISTED_MAX {
                        let (trainer, failures) = (name.clone(), task.failures.into());
                        let pending =
                            PendingTask { task: id, epoch: task.epoch, trainer, failures };
                        status.pending_tasks.push(pending);
                    }
                }
                State::Settled(Outcome::Done { .. }) => status.done += 1,
                State::Settled(Outcome::SetAside { reason }) => {
                    status.set_aside += 1;
                    self.list(&mut status, id, facts.pass, reason);
                }
            }
            if let Some(Outcome::SetAside { reason }) = &task.before {
                self.list(&mut status, id, facts.pass - 1, reason);
            }
        }
        status
    }

    fn list(&self, status: &mut Status, task: u64, pass: u64, reason: &str) {
        if status.set_aside_tasks.len() >= LISTED_MAX {
            return;
        }
        let mut files = self.dataset().map_or_else(Vec::new, |dataset| dataset.files(task));
        files.truncate(FILES_MAX);
        let reason = reason.to_owned();
        status.set_aside_tasks.push(SetAsideTask { task, pass, reason, files });
    }
}
