//! What a master counts. The recorder that collects and serves the numbers is installed by `cli`;
//! without one they cost next to nothing.

use crate::queue::{Change, Queue};
use metrics::{Counter, Gauge, counter, gauge};

/// The numbers of a master.
pub(crate) struct Metrics {
    leased: Counter,
    finished: Counter,
    failed: Counter,
    returned: Counter,
    set_aside: Counter,
    reopened: Counter,
    refused: Counter,
    pass: Gauge,
    todo: Gauge,
    pending: Gauge,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Metrics {
            leased: counter!("paddle_master_tasks_leased_total"),
            finished: counter!("paddle_master_tasks_finished_total"),
            failed: counter!("paddle_master_tasks_failed_total"),
            returned: counter!("paddle_master_tasks_returned_total"),
            set_aside: counter!("paddle_master_tasks_set_aside_total"),
            reopened: counter!("paddle_master_restores_total"),
            refused: counter!("paddle_master_stale_leases_total"),
            pass: gauge!("paddle_master_pass"),
            todo: gauge!("paddle_master_tasks_todo"),
            pending: gauge!("paddle_master_tasks_pending"),
        }
    }

    /// Counts a decision.
    pub(crate) fn change(&self, change: &Change) {
        match change {
            Change::Leased { .. } => self.leased.increment(1),
            Change::Finished { .. } => self.finished.increment(1),
            Change::Returned { is_blamed: true, .. } => self.failed.increment(1),
            Change::Returned { is_blamed: false, .. } => self.returned.increment(1),
            Change::SetAside { .. } => {
                self.failed.increment(1);
                self.set_aside.increment(1);
            }
            Change::Reopened { .. } => self.reopened.increment(1),
            Change::Filled { .. } | Change::Granted { .. } => {}
        }
    }

    /// Counts leases that a trainer believed to have.
    pub(crate) fn stale(&self, leases: usize) {
        self.refused.increment(leases as u64);
    }

    /// Shows where the queue is.
    pub(crate) fn position(&self, queue: &Queue) {
        let (todo, pending) = queue.open_tasks();
        self.pass.set(queue.pass() as f64);
        self.todo.set(todo as f64);
        self.pending.set(pending as f64);
    }
}
