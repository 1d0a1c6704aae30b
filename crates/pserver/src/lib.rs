//! The parameter server and its client: the heart of the system.
//!
//! Trainers pull values and push gradients; shards hold disjoint parts of the model and apply the
//! optimizer. This crate knows keys, values, versions and peers, never jobs, users or HTTP. It
//! takes bound listeners and a shutdown signal, and neither prints nor reads the environment. The
//! mathematics (models, update rules, stores, placement) are in the crate `table`.
//!
//! Reading order: how trainers meet (`policy`), the state machine of one port (`shard`), its
//! messages and checkpoints, the server around it and the client.

pub mod policy;

mod brain_float;
pub mod checkpoint;
pub mod message;
pub mod metrics;
pub mod shard;

pub mod client;
pub mod server;
