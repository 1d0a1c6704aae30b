//! The master from outside: its rules, its memory, its files, its sockets.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod data;
mod dataset;
mod interleaving;
mod journal;
mod queue;
mod records;
mod server;
