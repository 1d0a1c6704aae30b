//! A byte buffer for chunks. It keeps its initialised memory between uses, so that refilling it
//! neither allocates nor zeroes: for 32 MiB chunks that costs as much as reading them.

/// Bytes `0..filled` are content, the rest is memory to be overwritten.
#[derive(Default)]
pub(crate) struct Buffer {
    storage: Vec<u8>,
    filled: usize,
}

impl Buffer {
    pub(crate) fn clear(&mut self) {
        self.filled = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.filled
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.storage[..self.filled]
    }

    /// Exactly `bytes` of memory behind the content; [`Buffer::commit`] makes it content.
    pub(crate) fn spare(&mut self, bytes: usize) -> &mut [u8] {
        let end = self.filled + bytes;
        if self.storage.len() < end {
            // Doubling keeps the cost of growing linear; what is claimed but never delivered by a
            // hostile file costs at most as much again as it has delivered so far.
            self.storage.resize(end.max(self.storage.len().saturating_mul(2)), 0);
        }
        &mut self.storage[self.filled..end]
    }

    pub(crate) fn commit(&mut self, bytes: usize) {
        assert!(self.filled + bytes <= self.storage.len());
        self.filled += bytes;
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.spare(bytes.len()).copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}
