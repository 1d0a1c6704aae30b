//! What every process of a job agrees on. Pure data and rules: no I/O, no clock, no environment.
//!
//! A front door builds a [`job::JobSpec`] and checks it; a backend gives every replica the
//! variables of an [`env::Environment`]; the replica parses them back, and prints a
//! [`ready::Ready`] line when it serves. Whoever watches speaks in the words of [`state`] and
//! [`exit`]. Anything that would have to open, connect, wait or look at the machine belongs to
//! another crate.
//!
//! The modules below are in reading order: first the small words, then what is built from them.

pub mod error;
pub mod secret;

pub mod mode;
pub mod role;
mod word;

pub mod checksum;
pub mod name;
pub mod path;
pub mod port;
pub mod quantity;
pub mod quote;

pub mod exit;
pub mod job;
pub mod state;

pub mod env;
pub mod ready;

pub mod api;

pub use error::{Error, Kind, Result};
