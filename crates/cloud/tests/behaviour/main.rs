//! The server in this process, over real connections: what each call takes, gives and refuses. Jobs
//! that run are tried where their commands are, in `cli`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cloud;

mod accounts;
mod damage;
mod packages;
mod refusals;
mod secrets;
mod starting;
