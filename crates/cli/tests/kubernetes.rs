//! Stories on a real Kubernetes with Volcano: the original's manifest, and `paddle launch`.
//! `make test-clusters` starts the cluster; without one these are skipped with a word about it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kubernetes {
    mod backend;
    mod cluster;
    mod launch;
    mod manifest;
}
