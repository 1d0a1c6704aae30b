//! The master of a job: it deals data out to trainers, task by task, so that trainers may come, go
//! and die during a pass and no record is skipped.
//!
//! A dataset is cut into pieces of files, some of which make a task. A trainer leases a task, reads
//! its records, and says when they are *consumed*; the pass is over when every task is done or, after
//! too many failures, set aside. What the master has decided survives its death.
//!
//! Knows nothing of training, jobs or HTTP. It takes bound listeners and a signal to stop, and neither
//! prints nor reads the environment.
//!
//! Reading order: what is dealt out (`task`, `dataset`), who has it (`queue`), on disk (`journal`), on
//! the wire (`message`), the server, the client, and the records of a task (`records`).

pub mod dataset;
pub mod task;

pub mod journal;
pub mod queue;

pub mod message;
mod metrics;

pub mod client;
pub mod records;
pub mod server;

/// The documented port of a master.
pub const PORT: u16 = 8080;
