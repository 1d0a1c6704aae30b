//! The part of the model that one shard holds: values, optimizer state, counters.
//!
//! A shard owns its stores and is one thread, so there are no locks here. A store knows neither
//! names nor rules: callers say how a new row begins and what an update does, in closures and on
//! borrowed slices.
//!
//! Both stores can be cut: between `begin_cut` and the end of the cut, `next_saved` hands out, bit
//! by bit and while updates go on, exactly what the store held at `begin_cut`. What is about to
//! change and has not been handed out yet is copied aside first.

mod cut;
mod dense;
mod huge_pages;
mod index;
mod lookahead;
mod prefetch;
mod rows;
mod sparse;

pub use cut::SavedRows;
pub use dense::{BlockMut, BlockRef, DenseTable, SavedBlock};
pub use sparse::SparseTable;

/// How wide the rows of a sparse table are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Elements (f32) of the value.
    pub width: usize,
    /// Elements (f32) of the optimizer's state: its columns one after the other.
    pub state: usize,
    /// Counters (u32).
    pub counters: usize,
}

impl Shape {
    /// Words (u32) of a row: key, counters, value, state.
    fn stride(&self) -> usize {
        self.value_end() + self.state
    }

    /// Words up to the end of the value: all that a pull reads.
    fn value_end(&self) -> usize {
        KEY_WORDS + self.counters + self.width
    }

    #[inline(always)]
    fn row<'a>(&self, words: &'a [u32]) -> RowRef<'a> {
        let (counters, elements) = words[KEY_WORDS..].split_at(self.counters);
        let (value, state) = bytemuck::cast_slice(elements).split_at(self.width);
        RowRef { value, state, counters }
    }

    #[inline(always)]
    fn row_mut<'a>(&self, words: &'a mut [u32]) -> Row<'a> {
        let (counters, elements) = words[KEY_WORDS..].split_at_mut(self.counters);
        let (value, state) = bytemuck::cast_slice_mut(elements).split_at_mut(self.width);
        Row { value, state, counters }
    }
}

/// A row that may be changed.
#[derive(Debug, PartialEq)]
pub struct Row<'a> {
    /// The value.
    pub value: &'a mut [f32],
    /// The optimizer's state: columns one after the other, each as wide as the value.
    pub state: &'a mut [f32],
    /// The counters.
    pub counters: &'a mut [u32],
}

/// A row that is only read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowRef<'a> {
    /// The value.
    pub value: &'a [f32],
    /// The optimizer's state: columns one after the other, each as wide as the value.
    pub state: &'a [f32],
    /// The counters.
    pub counters: &'a [u32],
}

/// Words of a row in front of its counters.
const KEY_WORDS: usize = 2;

#[inline(always)]
fn key_of(words: &[u32]) -> u64 {
    u64::from(words[0]) | (u64::from(words[1]) << 32)
}
