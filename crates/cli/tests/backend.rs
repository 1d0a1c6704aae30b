//! The promise of `scheduler::Backend`, tried on every place that is made of processes: this
//! machine, ssh hosts, Open MPI and Slurm; and on Kubernetes. One list of trials, a test of each for each place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod backend {
    #[path = "../launch/component.rs"]
    pub(crate) mod component;
    #[path = "../launch/installed.rs"]
    pub(crate) mod installed;
    #[path = "../launch/processes.rs"]
    pub(crate) mod processes;
    #[path = "../launch/repository.rs"]
    pub(crate) mod repository;
    #[path = "../launch/slurm_cluster.rs"]
    pub(crate) mod slurm_cluster;
    #[path = "../launch/sshd.rs"]
    pub(crate) mod sshd;

    pub(crate) mod either;
    pub(crate) mod job;
    pub(crate) mod places;
    #[macro_use]
    pub(crate) mod trials;

    mod chaos;
    mod isolation;
    mod slurm;
    mod suites;
}
