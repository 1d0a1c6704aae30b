//! Users' files: looking at them, and moving them in both directions.
//!
//! A large file is uploaded in chunks, several at a time:
//!
//! 1. [`Begin`] says how large it is, and gets an [`Upload`]: its id and the chunks it lacks.
//! 2. If there is a file already, [`Checksums`] of the new one let the server take the chunks that
//!    are the same, and answer with those that are not.
//! 3. Every missing chunk is PUT with its checksum, in any order.
//! 4. [`Checksums`] of all chunks end it. The server reads what it has, answers which chunks are
//!    not what they should be, or publishes the file at once.
//!
//! The same [`Begin`] again continues an upload that broke off. Small files go many at a time, in a
//! [`super::pack`].

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::checksum::Checksum;
use crate::{Error, Kind, Result};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link. Links are shown and removed, never followed.
    Link,
    /// A socket, a pipe or a device that a job has made.
    Other,
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Where it is: `/pfs/…`.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
    /// Its length; 0 for what is not a file.
    pub bytes: u64,
    /// When it was changed last.
    pub modified_ms: u64,
    /// Its permissions, as of `chmod`; 0 where the store has none.
    pub mode: u32,
    /// Changes whenever the content does; empty for what is not a file.
    #[serde(default)]
    pub etag: String,
}

impl Entry {
    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == EntryKind::Directory
    }

    /// Its last component.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Names one path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PathQuery {
    /// The path.
    pub path: String,
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ListQuery {
    /// A directory, a file, or a pattern.
    pub path: String,
    /// Everything below it too.
    #[serde(default)]
    pub is_recursive: bool,
    /// Whether `*`, `?` and `[…]` in the path are patterns. Without it they are letters.
    #[serde(default)]
    pub is_pattern: bool,
    /// The directory itself, not what is in it.
    #[serde(default)]
    pub is_itself: bool,
}

/// A line of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ListLine {
    /// One of them.
    Entry(Entry),
    /// There are no more. A list without this line is not whole.
    End(u64),
}

/// What to remove.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct RemoveQuery {
    /// The path.
    pub path: String,
    /// A directory with everything in it. Without this only an empty one is removed.
    #[serde(default)]
    pub is_recursive: bool,
}

/// What to copy or move where, in one datacenter or between two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Relocate {
    /// What is there.
    pub from: String,
    /// The path it gets. Directories above it are made.
    pub to: String,
    /// Refuse if there is something already.
    #[serde(default)]
    pub if_absent: bool,
}

/// What to change of a file or directory without its content; what is absent stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// The path.
    pub path: String,
    /// Its permissions, as of `chmod`.
    #[serde(default)]
    pub mode: Option<u32>,
    /// When it was changed.
    #[serde(default)]
    pub modified_ms: Option<u64>,
}

/// How much there is below a path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiskUsage {
    /// Bytes of all files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// Directories, without the one that was asked for.
    pub directories: u64,
}

/// How far copying, moving, removing or measuring has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Files that are done.
    pub files: u64,
    /// Bytes that are done.
    pub bytes: u64,
}

/// A line of the answer to copying, moving, removing or measuring that takes longer than a moment:
/// the answer has status 202, and its last line is [`OperationLine::Ended`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationLine {
    /// It goes on.
    Working(Progress),
    /// It has ended.
    Ended(Ended),
}

/// How an operation ended: what the answer would have been, had it taken no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ended {
    /// The status.
    pub status: u16,
    /// The body, as JSON text; empty if there is none.
    pub body: String,
}

/// The header by which a client names an operation of its own, up to 64 letters and digits. The
/// same request with the same name again waits for the same operation.
pub const OPERATION: &str = "operation-id";

/// How to read a content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ContentQuery {
    /// The file.
    pub path: String,
    /// Whether the checksum of the bytes that are sent follows them, as
    /// [`crate::checksum::CHECKSUM_BYTES`] more bytes. The sender computes it while it reads.
    #[serde(default)]
    pub is_checked: bool,
}

/// How to write a content in one piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct PutQuery {
    /// The file.
    pub path: String,
    /// What its content must add up to.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<String>)]
    pub checksum: Option<Checksum>,
    /// Its permissions.
    #[serde(default)]
    pub mode: Option<u32>,
    /// When it was changed.
    #[serde(default)]
    pub modified_ms: Option<u64>,
}

/// How to send a chunk of an upload: one of the two says what it adds up to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ChunkQuery {
    /// What it must add up to.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    #[schema(value_type = Option<String>)]
    pub checksum: Option<Checksum>,
    /// Whether the checksum follows the bytes of the chunk, as
    /// [`crate::checksum::CHECKSUM_BYTES`] more bytes. The sender computes it while it reads.
    #[serde(default)]
    pub is_checked: bool,
}

/// Begins, or continues, an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Begin {
    /// Where the file will be. Directories above it are made.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The length of every chunk but the last.
    pub chunk_bytes: u64,
    /// Names what is sent: an upload of the same source to the same path continues an earlier one.
    /// At most [`SOURCE_BYTES_MAX`] bytes.
    #[serde(default)]
    pub source: String,
    /// Its permissions.
    #[serde(default)]
    pub mode: Option<u32>,
    /// When it was changed.
    #[serde(default)]
    pub modified_ms: Option<u64>,
    /// Refuse if there is a file already.
    #[serde(default)]
    pub if_absent: bool,
    /// Refuse if the file that is there has another etag.
    #[serde(default)]
    pub if_match: Option<String>,
}

/// Some chunks in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Span {
    /// The first, counted from 0.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// An upload that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Upload {
    /// Its name in later calls.
    pub id: String,
    /// Where the file will be.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// The length of every chunk but the last.
    pub chunk_bytes: u64,
    /// The chunks that have not arrived.
    pub missing: Vec<Span>,
    /// The file that is there, whose chunks may be the same.
    #[serde(default)]
    pub existing: Option<Entry>,
}

/// The checksums of all chunks, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Checksums {
    /// The checksums.
    #[schema(value_type = Vec<String>)]
    pub checksums: Vec<Checksum>,
}

/// What has become of an upload that should be complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completed {
    /// The file, if it was published.
    #[serde(default)]
    pub entry: Option<Entry>,
    /// Otherwise, the chunks that are missing or are not what they should be.
    #[serde(default)]
    pub missing: Vec<Span>,
    /// It is still being checked or on its way to the store: ask again.
    #[serde(default)]
    pub is_working: bool,
}

/// A link by which anybody may download a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Link {
    /// Its number, by which it is revoked.
    pub id: String,
    /// The file.
    pub path: String,
    /// The address to give away.
    pub url: String,
    /// When it was made.
    pub created_ms: u64,
}

/// The longest name of a source.
pub const SOURCE_BYTES_MAX: usize = 256;
/// The smallest and largest chunk.
pub const CHUNK_BYTES: std::ops::RangeInclusive<u64> = 4 << 10..=64 << 20;
/// The most chunks of a file.
pub const CHUNKS_MAX: u64 = 1 << 17;
/// The largest file.
pub const FILE_BYTES_MAX: u64 = 1 << 42;

/// The chunks of a file of some length: how many there are and where each lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    bytes: u64,
    chunk_bytes: u64,
}

impl Chunks {
    /// The chunks of a file, if it can be sent so.
    pub fn new(bytes: u64, chunk_bytes: u64) -> Result<Self> {
        if !CHUNK_BYTES.contains(&chunk_bytes) {
            return Err(Error::invalid("a chunk has 4096 to 67108864 bytes")
                .with("chunk_bytes", chunk_bytes));
        }
        let chunks = Chunks { bytes, chunk_bytes };
        if bytes > FILE_BYTES_MAX || chunks.count() > CHUNKS_MAX {
            let message = "the file is too large for chunks of this size";
            return Err(Error::new(Kind::LimitExceeded, message)
                .with("bytes", bytes)
                .with("chunk_bytes", chunk_bytes)
                .with("chunks_max", CHUNKS_MAX));
        }
        Ok(chunks)
    }

    /// The size of chunks that suits a file: few enough to be listed, small enough to be sent again.
    pub fn suitable(bytes: u64) -> u64 {
        const CHUNKS: u64 = 256;
        let least = bytes.div_ceil(CHUNKS).next_power_of_two();
        least.clamp(4 << 20, *CHUNK_BYTES.end())
    }

    /// How many there are; none of an empty file.
    pub fn count(self) -> u64 {
        self.bytes.div_ceil(self.chunk_bytes)
    }

    /// Where a chunk begins, and its length.
    pub fn place(self, index: u64) -> Option<(u64, u64)> {
        let offset = index.checked_mul(self.chunk_bytes).filter(|_| index < self.count())?;
        Some((offset, self.chunk_bytes.min(self.bytes - offset)))
    }

    /// The chunks for which `is_missing` holds, in spans.
    pub fn spans(self, mut is_missing: impl FnMut(u64) -> bool) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        for index in (0..self.count()).filter(|index| is_missing(*index)) {
            match spans.last_mut() {
                Some(last) if last.first + last.count == index => last.count += 1,
                _ => spans.push(Span { first: index, count: 1 }),
            }
        }
        spans
    }

    /// The chunks of some spans. Spans come from a peer: what is not a chunk is left out.
    pub fn indices(self, spans: &[Span]) -> Vec<u64> {
        let count = self.count();
        let range =
            |span: &Span| span.first.min(count)..span.first.saturating_add(span.count).min(count);
        spans.iter().flat_map(range).take(usize::try_from(count).unwrap_or(usize::MAX)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn chunks_have_limits() {
        assert!(Chunks::new(1, 4095).is_err());
        assert!(Chunks::new(1, (64 << 20) + 1).is_err());
        assert!(Chunks::new(u64::MAX, 64 << 20).is_err());
        assert!(Chunks::new(1 << 40, 4096).is_err());
        assert_eq!(Chunks::new(0, 4096).unwrap().count(), 0);
        assert_eq!(Chunks::new(0, 4096).unwrap().place(0), None);
    }

    #[test]
    fn a_suitable_chunk_is_allowed_for_every_file() {
        for bytes in [0, 1, 1 << 20, 5 << 30, 1 << 40, FILE_BYTES_MAX] {
            Chunks::new(bytes, Chunks::suitable(bytes)).unwrap();
        }
        assert_eq!(Chunks::suitable(2 << 30), 8 << 20);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn chunks_cover_a_file_without_gap(bytes in 0..1_u64 << 24, size in 4096..1_u64 << 20) {
            let chunks = Chunks::new(bytes, size).unwrap();
            let mut end = 0;
            for index in 0..chunks.count() {
                let (offset, length) = chunks.place(index).unwrap();
                prop_assert_eq!(offset, end);
                prop_assert!(length > 0);
                end += length;
            }
            prop_assert_eq!(end, bytes);
            prop_assert_eq!(chunks.place(chunks.count()), None);
        }

        #[test]
        fn spans_say_which_chunks(missing in prop::collection::btree_set(0..64_u64, 0..64)) {
            let chunks = Chunks::new(64 * 4096, 4096).unwrap();
            let spans = chunks.spans(|index| missing.contains(&index));
            let indices = chunks.indices(&spans);
            prop_assert_eq!(indices, missing.into_iter().collect::<Vec<_>>());
        }

        #[test]
        fn hostile_spans_name_no_other_chunks(first in any::<u64>(), count in any::<u64>()) {
            let chunks = Chunks::new(10 * 4096, 4096).unwrap();
            let spans = [Span { first, count }; 3];
            let indices = chunks.indices(&spans);
            prop_assert!(indices.len() <= 10 && indices.iter().all(|index| *index < 10));
        }
    }
}
