//! The mathematics of parameters: how a model is described, how its values begin, change and are
//! kept, and which shard holds what.
//!
//! Everything here is a function of its arguments: no sockets, files, clock or threads. A parameter
//! server's shard and a trainer that holds its own parameters use the same code, so both give the
//! same bits.
//!
//! Reading order: what a model is (`model`), what changes it (`gradient`) and how (`optimizer`), its
//! first values (`initializer`), which shard holds which part (`placement`), where values and optimizer
//! state lie in memory (`store`), and what changes the rows of a request together (`rows`).

pub mod model;

pub mod gradient;
pub mod initializer;
pub mod optimizer;
pub mod placement;
pub mod rows;
pub mod store;
