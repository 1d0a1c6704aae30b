//! The mathematics of parameters: how a model is described, how its values begin, change and are
//! kept, and which shard holds what.
//!
//! Everything here is a function of its arguments: no sockets, files, clock or threads. A parameter
//! server's shard and a trainer that holds its own parameters use the same code, so both give the
//! same bits.
//!
//! Reading order: what a model is (`model`), its update rules (`optimizer`), its first values
//! (`initializer`), which shard holds which part (`placement`), and where values and optimizer
//! state lie in memory (`store`).

pub mod model;

pub mod initializer;
pub mod optimizer;
pub mod placement;
pub mod store;
