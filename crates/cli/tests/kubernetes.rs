//! Stories on a real Kubernetes with Volcano: the original's manifest, and `paddle launch`.
//! `make test-clusters` starts the cluster; without one these are skipped with a word about it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubernetes {
    #[path = "../cloud/server.rs"]
    #[expect(dead_code, reason = "the tests of the cloud use the rest")]
    pub(crate) mod server;
    #[path = "../cloud/user.rs"]
    #[expect(dead_code, reason = "the tests of the cloud use the rest")]
    pub(crate) mod user;

    #[path = "../launch/repository.rs"]
    pub(crate) mod repository;

    mod backend;
    mod cloud;
    mod cluster;
    mod deploy;
    mod entry;
    mod launch;
    mod losses;
    mod manifest;
}
