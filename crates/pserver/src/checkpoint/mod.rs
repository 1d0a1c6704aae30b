//! Parameters ↔ bytes on disk: checkpoints, written while training goes on and read by any number
//! of servers. What a cut is and when it is taken is the shard's question; this is only the files.
//!
//! The problem. Many shards, in many processes that do not know each other, write their parts of
//! one cut at different speeds into one shared folder, and any of them may die at any moment. A
//! reader must never take half a cut, or a mixture of two, for a whole one; and it may have another
//! number of servers and ports than the writers had.
//!
//! The obvious way, a leader that collects everybody's word and then publishes one manifest, needs
//! messages between servers and fails with the leader. Here nobody collects. A shard writes its
//! data file, makes it durable, and then publishes its own manifest, atomically and last. A manifest
//! says how many shards there are, so the set of manifests is complete or not by itself: whoever
//! looks, sees the same. To be complete they must also agree (on the model, the number of shards
//! and, where updates are synchronous, the version), so that two half cuts do not make a whole.
//!
//! Every part belongs to one of 65 536 buckets for ever, a file holds the parts of a range of them,
//! and a reader takes from every file whose range meets its own what belongs to it.
//!
//! Damage is told from incompleteness: a cut that lacks manifests was never finished and is passed
//! over, while bytes that are not what their checksums say are an error that a person has to see,
//! with an older good checkpoint offered. Reading order: `names`, `manifest`, `section` (pure), then
//! `write`, `sweep`, `catalogue`, `data`, `read`, `mark`. The formats are in `docs/checkpoints.md`.

mod catalogue;
mod data;
mod manifest;
pub(crate) mod mark;
mod names;
mod read;
mod section;
mod sweep;
mod write;

pub use catalogue::{CutSummary, list, newest};
pub use read::{Directory, Which};
pub use write::{Completed, Writer};

/// The version of both formats, of data files and of manifests.
const FORMAT: u32 = 1;
