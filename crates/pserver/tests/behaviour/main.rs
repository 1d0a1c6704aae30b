//! How the parameter server behaves, through its public face.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkpoint;
mod client;
mod disk;
mod hostile;
mod interleaving;
mod scene;
mod shard;
