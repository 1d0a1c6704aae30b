//! Training and model files, through the crate's public face, alone and with real servers.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod net;
mod servers;

mod damage;
mod files;
mod overlap;
mod resuming;
mod steps;
mod training;
mod values;
