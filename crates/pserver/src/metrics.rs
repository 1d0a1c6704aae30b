//! What a shard counts. The recorder that collects and serves the numbers is installed by `cli`;
//! without one they cost next to nothing.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use std::time::Duration;

/// The numbers of one port.
pub struct Metrics {
    pushes: Counter,
    push_bytes: Counter,
    pulls: Counter,
    pull_bytes: Counter,
    duplicates: Counter,
    dropped: Counter,
    wait_seconds: Histogram,
    staleness: Histogram,
    rows: Gauge,
    table_bytes: Gauge,
    cut_seconds: Histogram,
    cut_bytes: Gauge,
}

impl Metrics {
    /// The numbers of the shard behind `port`.
    pub fn new(port: u16) -> Self {
        let port = port.to_string();
        let label = || [("port", port.clone())];
        Metrics {
            pushes: counter!("paddle_pserver_pushes_total", &label()),
            push_bytes: counter!("paddle_pserver_push_bytes_total", &label()),
            pulls: counter!("paddle_pserver_pulls_total", &label()),
            pull_bytes: counter!("paddle_pserver_pull_bytes_total", &label()),
            duplicates: counter!("paddle_pserver_duplicate_pushes_total", &label()),
            dropped: counter!("paddle_pserver_dropped_pushes_total", &label()),
            wait_seconds: histogram!("paddle_pserver_wait_seconds", &label()),
            staleness: histogram!("paddle_pserver_staleness_updates", &label()),
            rows: gauge!("paddle_pserver_rows", &label()),
            table_bytes: gauge!("paddle_pserver_table_bytes", &label()),
            cut_seconds: histogram!("paddle_pserver_checkpoint_seconds", &label()),
            cut_bytes: gauge!("paddle_pserver_checkpoint_bytes", &label()),
        }
    }

    pub(crate) fn push(&self, bytes: usize, staleness: u64) {
        self.pushes.increment(1);
        self.push_bytes.increment(bytes as u64);
        self.staleness.record(staleness as f64);
    }

    pub(crate) fn pull(&self, bytes: usize) {
        self.pulls.increment(1);
        self.pull_bytes.increment(bytes as u64);
    }

    pub(crate) fn duplicate(&self) {
        self.duplicates.increment(1);
    }

    pub(crate) fn dropped(&self) {
        self.dropped.increment(1);
    }

    /// How long a parked request waited: at the barrier, for values, for a pass.
    pub(crate) fn waited(&self, time: Duration) {
        self.wait_seconds.record(time.as_secs_f64());
    }

    pub(crate) fn held(&self, rows: u64, bytes: u64) {
        self.rows.set(rows as f64);
        self.table_bytes.set(bytes as f64);
    }

    pub(crate) fn saved(&self, time: Duration, bytes: u64) {
        self.cut_seconds.record(time.as_secs_f64());
        self.cut_bytes.set(bytes as f64);
    }
}
