//! `paddlecloud serve` from outside: a real server process, real jobs, real kills. What people type
//! and see is tried elsewhere; here it is what the service promises whatever dies.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cloud {
    #[path = "../launch/component.rs"]
    pub(crate) mod component;
    #[path = "../launch/repository.rs"]
    pub(crate) mod repository;
    #[path = "../launch/slurm_cluster.rs"]
    pub(crate) mod slurm_cluster;
    #[path = "../launch/sshd.rs"]
    pub(crate) mod sshd;

    pub(crate) mod job {
        pub(crate) use super::server::wait_until;
    }
    pub(crate) mod person;
    pub(crate) mod postgres;
    pub(crate) mod server;
    pub(crate) mod transfers;
    pub(crate) mod user;

    mod abuse;
    mod crashes;
    mod disabled;
    mod files;
    mod files_broken;
    mod files_hostile;
    mod files_legacy;
    mod isolation;
    mod legacy;
    mod logs;
    mod mounted_programs;
    mod mounting;
    mod places;
    mod several;
    mod stores;
    mod submitting;
}
