//! The cloud's API as both ends see it: statuses now, bodies and paths as they are built.
//!
//! The original's REST paths and envelopes are not here: they are a translation in `cloud`.

pub mod status;
