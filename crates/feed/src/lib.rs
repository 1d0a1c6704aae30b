//! Training data in files, as batches for the engine: lines are read and parsed on background
//! threads, without Python.
//!
//! Reading order: what a line is (`format`, with `multislot` and `criteo`) and where its values go
//! (`plan`, `columns`), lines of files (`lines`), work that is done ahead in order (`ahead`), the
//! samples kept in memory (`memory`), and a pass over the data (`feed`). Batches that another process
//! made come as parcels (`parcel`).
//!
//! The same files and settings give the same batches in the same order, whatever the number of
//! threads: a trainer that is started again counts on it to skip what it has trained.
//!
//! It knows neither jobs nor the master: whoever has leased records passes them in as [`Lines`].

pub mod parcel;

mod ahead;
mod columns;
mod criteo;
mod feed;
mod format;
mod lines;
mod memory;
mod multislot;
mod number;
mod plan;

pub use feed::{Batches, Config, Feed, Interrupt, Malformed, Memory, Share};
pub use format::Format;
pub use lines::{LINE_BYTES_MAX, LineOrigin, Lines, append_record};
pub use plan::{Layer, Plan};
