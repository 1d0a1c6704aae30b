//! Jobs on this machine.

pub mod plan;
