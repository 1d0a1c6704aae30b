//! The training engine: a network described as data, run with automatic differentiation.
//!
//! A [`topology::Topology`] says what the network is; [`Network`] checks it and computes costs and
//! gradients from batches and values that are plain slices. It keeps no parameters, knows no
//! optimizer and talks to nobody. Only this crate names `burn`.
//!
//! Reading order: `shape` and `topology` (what is known beforehand), `layer` (one file each),
//! `batch` and `argument` (what flows), `network` (how it runs).

pub mod activation;
pub mod batch;
pub mod evaluator;
pub mod layer;
pub mod network;
pub mod pool;
pub mod shape;
pub mod topology;

mod alignment;
mod argument;
mod chain;
mod chance;
mod column_sums;
mod detection;
mod device;
mod dropout;
mod elementwise;
mod fresh;
mod fully_connected;
mod fused;
mod gradient_clip;
mod gradient_tap;
mod image;
mod keys;
mod lent;
mod measured;
mod panels;
mod product;
mod recurrence;
mod row_sums;
mod sequence;
mod side_by_side;
mod vector;

pub use keys::Prepared;
pub use network::{Culprit, Network, NetworkConfig, Seen, Trained};
pub use topology::NetworkIndex;
