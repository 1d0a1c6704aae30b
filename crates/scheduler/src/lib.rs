//! Backends: a job description becomes running replicas, observed state and logs.

pub mod mpi;
pub mod ssh;
