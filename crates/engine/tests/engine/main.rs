//! How networks compute, through the engine's public face.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "shown if a test fails: its case and seed")]

mod case;
mod net;
mod random;
mod reference;
mod trial;

mod batches;
mod culprit;
mod detection;
mod dropout;
mod evaluators;
mod generation;
mod gradients;
mod groups;
mod measured;
mod ranking;
mod selection;
mod side_by_side;
mod sparse;
mod threads;
mod topologies;
mod values;
