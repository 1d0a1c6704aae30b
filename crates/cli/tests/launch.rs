//! `paddle launch` from outside. One suite of trials, run against every backend by its harness, and
//! what is special about each.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod launch {
    pub(crate) mod component;
    pub(crate) mod job;
    pub(crate) mod sshd;
    #[macro_use]
    pub(crate) mod trials;

    mod backend;
    mod conductor;
    mod face;
    mod launched;
    mod local;
    mod mpi;
    mod ssh;
}
