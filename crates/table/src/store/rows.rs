//! The rows of a sparse table in order of creation, by number. Rows never move to another number
//! and are never removed.
//!
//! A row is one run of words (key, counters, value, state), so that a lookup touches as few cache
//! lines as possible. Rows lie in slabs of a power of two of rows, so that adding one never copies
//! the others; only the first slab grows by doubling, so that a small table stays small. A slab is
//! many huge pages long: with small ones, a lookup in a large table also waits for the page's place.

use super::huge_pages;
use super::prefetch::prefetch;
use super::{KEY_WORDS, Row, RowRef, Shape, key_of};

/// A slab has as many rows, a power of two, as fit into this, and at least one.
const SLAB_BYTES_MAX: usize = 32 << 20;
/// What is counted of a slab at once as its rows are added: the rest is not memory yet.
const PIECE_BYTES_MAX: usize = 2 << 20;
const FIRST_ROWS: usize = 16;
const WORD_BYTES: usize = size_of::<u32>();

/// Rows by number.
#[derive(Debug)]
pub(super) struct Rows {
    shape: Shape,
    stride: usize,
    slab_bits: u32,
    piece_bits: u32,
    slabs: Vec<Vec<u32>>,
    len: u32,
    bytes: usize,
}

impl Rows {
    pub(super) fn new(shape: Shape) -> Rows {
        let stride = shape.stride();
        let bits = |bytes_max: usize| (bytes_max / WORD_BYTES / stride).max(1).ilog2();
        let (slab_bits, piece_bits) = (bits(SLAB_BYTES_MAX), bits(PIECE_BYTES_MAX));
        Rows { shape, stride, slab_bits, piece_bits, slabs: Vec::new(), len: 0, bytes: 0 }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.slabs.capacity() * size_of::<Vec<u32>>()
    }

    /// Bytes that the next [`Rows::push`] will add to those held.
    pub(super) fn growth_bytes(&self) -> usize {
        self.growth_words() * WORD_BYTES
    }

    /// Adds a row of zeros and returns its number.
    pub(super) fn push(&mut self, key: u64) -> u32 {
        let growth = self.growth_words();
        self.bytes += growth * WORD_BYTES;
        let (number, _) = self.locate(self.len);
        if number == self.slabs.len() {
            self.slabs.push(Vec::new());
        }
        let slab = &mut self.slabs[number];
        if slab.len() == slab.capacity() {
            slab.reserve_exact(if number == 0 { growth } else { self.stride << self.slab_bits });
            huge_pages::prefer(slab.spare_capacity_mut());
        }
        slab.extend_from_slice(&[key as u32, (key >> 32) as u32]);
        slab.resize(slab.len() + self.stride - KEY_WORDS, 0);
        self.len += 1;
        self.len - 1
    }

    #[inline(always)]
    pub(super) fn words(&self, row: u32) -> &[u32] {
        let (slab, word) = self.locate(row);
        &self.slabs[slab][word..word + self.stride]
    }

    #[inline(always)]
    pub(super) fn key(&self, row: u32) -> u64 {
        key_of(self.words(row))
    }

    #[inline(always)]
    pub(super) fn row(&self, row: u32) -> RowRef<'_> {
        self.shape.row(self.words(row))
    }

    #[inline(always)]
    pub(super) fn row_mut(&mut self, row: u32) -> Row<'_> {
        let (slab, word) = self.locate(row);
        self.shape.row_mut(&mut self.slabs[slab][word..word + self.stride])
    }

    /// Asks for the memory of a row's first `words` words.
    #[inline(always)]
    pub(super) fn prefetch(&self, row: u32, words: usize) {
        prefetch(&self.words(row)[..words]);
    }

    /// Slab, and word in it, where a row begins.
    #[inline(always)]
    fn locate(&self, row: u32) -> (usize, usize) {
        let row = row as usize;
        let in_slab = row & ((1 << self.slab_bits) - 1);
        // The slice is checked, so the product need not be.
        (row >> self.slab_bits, in_slab.wrapping_mul(self.stride))
    }

    fn growth_words(&self) -> usize {
        let (slab_words, piece_words) =
            (self.stride << self.slab_bits, self.stride << self.piece_bits);
        match &self.slabs[..] {
            [] => slab_words.min(self.stride * FIRST_ROWS),
            [first] if first.len() < first.capacity() => 0,
            [first] if first.len() < slab_words => first.len().min(slab_words - first.len()),
            [.., last] if last.len().is_multiple_of(piece_words) => piece_words,
            _ => 0,
        }
    }
}
