//! A byte buffer for chunks. It keeps its initialised memory between uses, so that refilling it
//! neither allocates nor zeroes: for 32 MiB chunks that costs as much as reading them.

/// Bytes `begin..end` are content, those behind it memory to be overwritten.
#[derive(Default)]
pub(crate) struct Buffer {
    storage: Vec<u8>,
    begin: usize,
    end: usize,
}

/// Content from half of this on gets [`HUGE`] memory when it grows.
const LARGE: usize = 512 << 20;
/// The default limit of a chunk, and room for what a decoder writes ahead.
const HUGE: usize = (1 << 30) + (1 << 20);
// The kernel copies from the page cache a third faster if source and target lie alike.
const ALIGNMENT: usize = 64;

impl Buffer {
    pub(crate) fn clear(&mut self) {
        (self.begin, self.end) = (0, 0);
    }

    /// Empties it, and makes room for `bytes`, known to be there, of a file at `offset`.
    pub(crate) fn clear_for(&mut self, bytes: usize, offset: u64) {
        if self.storage.len() < bytes + ALIGNMENT {
            // Fresh zeroed memory costs nothing until it is written; the old goes first.
            self.storage = Vec::new();
            self.storage = vec![0; bytes + ALIGNMENT];
        }
        let aligned = self.storage.as_ptr().align_offset(ALIGNMENT);
        self.begin = (aligned + offset as usize % ALIGNMENT) % ALIGNMENT;
        self.end = self.begin;
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.begin
    }

    /// What it takes, content or not.
    pub(crate) fn capacity(&self) -> usize {
        self.storage.len()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.storage[self.begin..self.end]
    }

    /// Exactly `bytes` of memory behind the content; [`Buffer::commit`] makes it content.
    pub(crate) fn spare(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.end + bytes;
        if self.storage.len() < end {
            // Doubling keeps the cost of growing linear. Fresh zeroed memory costs nothing until it is
            // written, so a large chunk gets room up to the default limit: copying it once more
            // would hold twice the limit.
            let doubled = self.storage.len().saturating_mul(2);
            let size = if (LARGE..HUGE).contains(&doubled) { HUGE } else { doubled };
            let mut storage = vec![0; end.max(size)];
            storage[..self.end].copy_from_slice(&self.storage[..self.end]);
            self.storage = storage;
        }
        &mut self.storage[self.end..end]
    }

    pub(crate) fn commit(&mut self, bytes: usize) {
        assert!(self.end + bytes <= self.storage.len());
        self.end += bytes;
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.spare(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
    }
}
