//! `paddle launch`, `jobs`, `attach`, `logs` and `kill` from outside. What every place must do is
//! tried through the trait, in `backend.rs`; here is what people type and see.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launch {
    pub(crate) mod component;
    pub(crate) mod installed;
    pub(crate) mod job;
    pub(crate) mod processes;
    pub(crate) mod repository;
    pub(crate) mod slurm_cluster;
    pub(crate) mod sshd;

    mod attached;
    mod attacked;
    mod detached;
    mod face;
    mod kubernetes;
    mod mpi;
    mod slurm;
    mod ssh;
}
