//! A consistent cut through the rows of a sparse table, taken while they change.
//!
//! Rows are handed out by number. A row that is about to change is copied aside first if it was
//! there when the cut began, has not been handed out and has not been copied yet. Copies are of
//! single rows: updates hit rows at random, so copying the neighbours with them would copy the
//! whole table within a few requests and stall them. A bit per row says what was copied.

use super::rows::Rows;
use super::{RowRef, Shape, key_of};
use std::collections::VecDeque;

/// Rows handed out at a time take about this much, so that doing it is a short pause.
const SAVED_BYTES: usize = 128 << 10;

/// Some rows of a table as they were when the cut began.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedRows {
    shape: Shape,
    words: Vec<u32>,
}

impl SavedRows {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.words.len() / self.shape.stride()
    }

    /// Whether there are none; a cut never hands out such.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Keys and rows.
    pub fn iter(&self) -> impl Iterator<Item = (u64, RowRef<'_>)> {
        self.words
            .chunks_exact(self.shape.stride())
            .map(|words| (key_of(words), self.shape.row(words)))
    }
}

/// A cut under way.
#[derive(Debug)]
pub(super) struct Cut {
    shape: Shape,
    /// Rows when the cut began; later ones are not part of it.
    rows: u32,
    /// The first row whose turn has not come.
    next: u32,
    /// A bit for every row: copied aside.
    copied: Vec<u64>,
    /// Copies, in buffers of [`SAVED_BYTES`]; only the last is still being filled.
    buffers: VecDeque<Vec<u32>>,
    buffer_rows: usize,
}

impl Cut {
    pub(super) fn new(rows: &Rows) -> Cut {
        let shape = rows.shape();
        let row_bytes = shape.stride() * size_of::<u32>();
        Cut {
            shape,
            rows: rows.len(),
            next: 0,
            copied: vec![0; (rows.len() as usize).div_ceil(64)],
            buffers: VecDeque::new(),
            buffer_rows: (SAVED_BYTES / row_bytes).max(1),
        }
    }

    /// To be called before a row changes.
    #[inline]
    pub(super) fn before_change(&mut self, row: u32, rows: &Rows) {
        if row < self.next || row >= self.rows || self.is_copied(row) {
            return;
        }
        self.copied[row as usize / 64] |= 1 << (row % 64);
        let full = self.buffer_rows * self.shape.stride();
        if self.buffers.back().is_none_or(|buffer| buffer.len() == full) {
            self.buffers.push_back(Vec::with_capacity(full));
        }
        if let Some(buffer) = self.buffers.back_mut() {
            buffer.extend_from_slice(rows.words(row));
        }
    }

    /// The next rows; `None` when all were handed out. Full buffers go first: they hold memory.
    pub(super) fn next_saved(&mut self, rows: &Rows) -> Option<SavedRows> {
        if self.buffers.len() > 1 {
            return self.next_buffer();
        }
        while self.next < self.rows {
            let words = self.take_range(rows);
            if !words.is_empty() {
                return Some(SavedRows { shape: self.shape, words });
            }
        }
        self.next_buffer()
    }

    /// Memory held for the cut alone.
    pub(super) fn bytes(&self) -> usize {
        let copies: usize = self.buffers.iter().map(Vec::capacity).sum();
        copies * size_of::<u32>() + self.copied.capacity() * size_of::<u64>()
    }

    fn next_buffer(&mut self) -> Option<SavedRows> {
        self.buffers.pop_front().map(|words| SavedRows { shape: self.shape, words })
    }

    /// The rows of the next range that were not copied aside.
    fn take_range(&mut self, rows: &Rows) -> Vec<u32> {
        let end = self.rows.min(self.next.saturating_add(self.buffer_rows as u32));
        let mut words = Vec::with_capacity((end - self.next) as usize * self.shape.stride());
        for row in self.next..end {
            if !self.is_copied(row) {
                words.extend_from_slice(rows.words(row));
            }
        }
        self.next = end;
        words
    }

    #[inline]
    fn is_copied(&self, row: u32) -> bool {
        self.copied[row as usize / 64] & (1 << (row % 64)) != 0
    }
}
