//! The processes of one job on one host.
//!
//! `guard` is the outer process and `keeper` the inner one; `host` is the other end of their pipe.

pub mod host;
pub mod message;
