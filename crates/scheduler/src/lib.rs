//! A job description becomes running replicas, and running replicas become states and logs.
//!
//! It knows processes, never training: what a replica computes, and what its figures mean, is
//! nobody's business here. It does not read the environment or print; `cli` does.
//!
//! From the outside in:
//!
//! - a [`Submission`] is a job as data; a [`Backend`] takes it and answers every later question
//!   about it by its id;
//! - [`jobs`] is the backend of all places that are made of processes: each job is a directory with
//!   everything that is known of it, and a conductor process that runs it;
//! - the [`conductor`] decides (who starts when, who is started again, what the end is), purely,
//!   and carries that out on any number of supervisors;
//! - a [`supervisor`] per job and machine starts, ends and watches the replicas of that machine as
//!   it is told over a pipe, and takes everything down when the pipe closes;
//! - [`local`], [`ssh`], [`mpi`] and [`slurm`] are how the machines of a place are found and
//!   reached.
//!
//! What runs is made by one pure function, [`plan::plan`].

pub mod backend;
pub mod lines;
pub mod plan;
pub mod record;
pub mod replica;
pub mod submission;

mod introduction;

pub mod conductor;
pub mod supervisor;

pub mod jobs;

pub mod meeting;

pub mod kubernetes;
pub mod local;
pub mod mpi;
pub mod slurm;
pub mod ssh;

pub use backend::Backend;
pub use record::{JobRecord, ReplicaRecord};
pub use replica::ReplicaId;
pub use submission::Submission;
