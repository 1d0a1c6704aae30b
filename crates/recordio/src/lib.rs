//! The RecordIO file format: a file is a row of chunks, a chunk a checksummed, perhaps compressed
//! row of records, a record any bytes.
//!
//! Two layouts of the same format exist in the wild, told apart per file: the Go one, which we
//! write, and the Fluid one, which we read and can write on request. Neither has a file header, a
//! footer or a total count, so an empty file is valid and a file cut at a chunk boundary cannot be
//! told from a shorter one. Therefore [`Writer::create`] publishes a file under its name only when
//! it is complete, and the reader treats everything but an end exactly between two chunks as
//! damage: it never ends early and silently.
//!
//! Reading order: bytes of a header ([`Header`]) → stored bytes to payload (`codec`, `snappy`) →
//! records of a payload (`chunk`) → chunks of files (`stream`) → records of files ([`Reader`]).

mod buffer;
mod chunk;
mod codec;
mod header;
mod index;
mod paths;
mod prefetch;
mod reader;
mod snappy;
mod stream;
mod writer;

pub use header::{Compressor, HEADER_BYTES, Header, Layout};
pub use index::{ChunkEntry, Index};
pub use paths::expand;
pub use reader::{ReadOptions, Reader};
pub use writer::{WriteOptions, Writer, Written};

/// The largest chunk, uncompressed, that is read or written unless the caller allows more. It
/// bounds what a hostile file can make a reader allocate.
pub const CHUNK_BYTES_LIMIT: u64 = 1 << 30;
