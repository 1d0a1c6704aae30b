//! Update rules and stores, through the crate's public face.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod optimizer;
mod store;
