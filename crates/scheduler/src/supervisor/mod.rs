//! The processes of one job on one host, and the promise that none of them outlives the job.
//!
//! A supervisor is two processes, each of which ends everything when the other is killed:
//!
//! - the [`guard`], which a conductor starts: it holds the lock of the job's directory, and waits;
//! - the [`keeper`] inside it, which starts replicas, signals them, keeps their output and reports
//!   their ends, as [`message`]s over the standard input and output that it inherits tell it.
//!
//! When the keeper's input ends, because its conductor wants it or is dead, it kills what is left.
//! A process that has left its parent, its group and its session is found all the same. Where we
//! may, the keeper is the first process of a PID namespace: the kernel kills the namespace with it.
//! That takes the right to make one (`CAP_SYS_ADMIN`) and no user namespace, which would make files
//! of others, such as those of `ssh`, look like nobody's. Elsewhere guard and keeper are
//! *subreapers*: whoever loses its parent becomes their child, and is found by walking `/proc`.
//!
//! When both are killed at once, what they kept runs on. The next supervisor of the same directory,
//! the end of the job and `paddle kill` find it by a variable that all processes inherit.
//!
//! [`host`] is the conductor's end of the pipe.

pub mod gpu;
pub mod guard;
pub mod host;
pub mod keeper;
pub mod lock;
pub mod message;
pub mod processes;

mod child;
mod figures;
pub(crate) mod files;
pub(crate) mod leftover;
pub(crate) mod limits;
mod namespace;
mod probe;
pub(crate) mod sandbox;

pub use child::not_started;
