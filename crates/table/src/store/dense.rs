//! The blocks of one dense parameter that a shard owns.
//!
//! Values lie one block behind the other, so that neighbours can be lent as one slice and written
//! to a socket without a copy. State, counters and versions lie beside them, block by block.

use crate::placement::{BLOCK_ELEMENTS, blocks_of};
use contract::{Error, Kind, Result};
use std::ops::Range;

/// Blocks of a dense parameter, by position among those that the shard owns.
#[derive(Debug)]
pub struct DenseTable {
    elements: u64,
    blocks: Vec<u64>,
    columns: usize,
    counters_per_block: usize,
    values: Vec<f32>,
    states: Vec<f32>,
    counters: Vec<u32>,
    versions: Vec<u64>,
    cut: Option<Cut>,
}

/// A block that is only read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BlockRef<'a> {
    /// Number of the block in the parameter.
    pub number: u64,
    /// The value.
    pub value: &'a [f32],
    /// The optimizer's state: columns one after the other, each as long as the value.
    pub state: &'a [f32],
    /// The counters.
    pub counters: &'a [u32],
    /// How often the block was changed, by whatever measure its user keeps.
    pub version: u64,
}

/// A block that may be changed.
#[derive(Debug, PartialEq)]
pub struct BlockMut<'a> {
    /// Number of the block in the parameter.
    pub number: u64,
    /// The value.
    pub value: &'a mut [f32],
    /// The optimizer's state: columns one after the other, each as long as the value.
    pub state: &'a mut [f32],
    /// The counters.
    pub counters: &'a mut [u32],
    /// How often the block was changed, by whatever measure its user keeps.
    pub version: &'a mut u64,
}

/// A block as it was when the cut began.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedBlock {
    /// Number of the block in the parameter.
    pub number: u64,
    /// The value.
    pub value: Vec<f32>,
    /// The optimizer's state: columns one after the other, each as long as the value.
    pub state: Vec<f32>,
    /// The counters.
    pub counters: Vec<u32>,
    /// The version.
    pub version: u64,
}

/// A cut under way.
#[derive(Debug)]
struct Cut {
    /// By position: neither handed out nor copied aside.
    is_pending: Vec<bool>,
    /// The first position whose turn has not come.
    next: usize,
    copies: Vec<SavedBlock>,
}

impl DenseTable {
    /// The blocks `blocks` (numbers, rising) of a parameter of `elements` elements, all zeros, with
    /// `columns` columns of state and `counters` counters per block.
    ///
    /// # Errors
    /// [`Kind::Invalid`] when the numbers do not rise or are behind the parameter's end;
    /// [`Kind::LimitExceeded`] when more than `bytes_max` bytes would be held, copies for a cut not
    /// counted.
    pub fn new(
        elements: u64,
        blocks: Vec<u64>,
        columns: usize,
        counters: usize,
        bytes_max: usize,
    ) -> Result<DenseTable> {
        let is_rising = blocks.windows(2).all(|pair| pair[0] < pair[1]);
        if !is_rising || blocks.last().is_some_and(|&last| last >= blocks_of(elements)) {
            let message = "the blocks of a dense parameter must rise and lie within it";
            return Err(Error::invalid(message).with("elements", elements));
        }
        let owned: usize = blocks.iter().map(|&block| block_len(elements, block)).sum();
        let bytes = bytes_of(owned, blocks.len(), columns, counters);
        if bytes.is_none_or(|bytes| bytes > bytes_max) {
            let message =
                "the dense parameter is larger than the memory limit; raise it or use more servers";
            return Err(Error::new(Kind::LimitExceeded, message)
                .with("elements", owned)
                .with("columns", columns)
                .with("bytes_max", bytes_max));
        }
        Ok(DenseTable {
            elements,
            values: vec![0.0; owned],
            states: vec![0.0; owned * columns],
            counters: vec![0; blocks.len() * counters],
            versions: vec![0; blocks.len()],
            blocks,
            columns,
            counters_per_block: counters,
            cut: None,
        })
    }

    /// Elements of the whole parameter, on all shards.
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Number of blocks owned.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether no block is owned.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Numbers of the blocks owned, rising.
    pub fn blocks(&self) -> &[u64] {
        &self.blocks
    }

    /// Memory held, copies for a cut included.
    pub fn bytes(&self) -> usize {
        let table = bytes_of(self.values.len(), self.len(), self.columns, self.counters_per_block);
        table.unwrap_or(usize::MAX) + self.displaced_bytes()
    }

    /// Position of a block; `None` if it is not owned.
    pub fn position_of(&self, block: u64) -> Option<usize> {
        self.blocks.binary_search(&block).ok()
    }

    /// Version of the block at a position.
    pub fn version(&self, position: usize) -> u64 {
        self.versions[position]
    }

    /// The values of neighbouring positions as one slice.
    pub fn values(&self, positions: Range<usize>) -> &[f32] {
        if positions.is_empty() {
            return &[];
        }
        &self.values[self.place(positions.start).start..self.place(positions.end - 1).end]
    }

    /// The block at a position, to read it.
    pub fn block(&self, position: usize) -> BlockRef<'_> {
        let place = self.place(position);
        BlockRef {
            number: self.blocks[position],
            value: &self.values[place.clone()],
            state: &self.states[place.start * self.columns..place.end * self.columns],
            counters: &self.counters[self.counters_place(position)],
            version: self.versions[position],
        }
    }

    /// The block at a position, to change it. Copies it aside first if a cut needs it.
    pub fn block_mut(&mut self, position: usize) -> BlockMut<'_> {
        if self.cut.as_ref().is_some_and(|cut| cut.is_pending[position]) {
            let saved = self.saved(position);
            if let Some(cut) = &mut self.cut {
                cut.is_pending[position] = false;
                cut.copies.push(saved);
            }
        }
        let place = self.place(position);
        let counters_place = self.counters_place(position);
        BlockMut {
            number: self.blocks[position],
            value: &mut self.values[place.clone()],
            state: &mut self.states[place.start * self.columns..place.end * self.columns],
            counters: &mut self.counters[counters_place],
            version: &mut self.versions[position],
        }
    }

    /// Begins a cut: [`DenseTable::next_saved`] will hand out every block as it is now. One cut at
    /// a time.
    pub fn begin_cut(&mut self) {
        assert!(self.cut.is_none(), "a cut begins while another is under way");
        let is_pending = vec![true; self.len()];
        self.cut = Some(Cut { is_pending, next: 0, copies: Vec::new() });
    }

    /// The next block of the cut, every block once, in no promised order; `None` ends it.
    pub fn next_saved(&mut self) -> Option<SavedBlock> {
        let cut = self.cut.as_mut()?;
        if let Some(saved) = cut.copies.pop() {
            return Some(saved);
        }
        let pending = cut.is_pending[cut.next..].iter().position(|is_pending| *is_pending);
        let Some(offset) = pending else {
            self.cut = None;
            return None;
        };
        let position = cut.next + offset;
        cut.is_pending[position] = false;
        cut.next = position + 1;
        Some(self.saved(position))
    }

    /// Ends a cut that nobody wants any more.
    pub fn abandon_cut(&mut self) {
        self.cut = None;
    }

    /// Whether a cut is under way: begun, and [`DenseTable::next_saved`] has not said `None`.
    pub fn is_cutting(&self) -> bool {
        self.cut.is_some()
    }

    /// Memory held for the cut alone.
    pub fn displaced_bytes(&self) -> usize {
        self.cut.as_ref().map_or(0, |cut| cut.copies.iter().map(SavedBlock::bytes).sum())
    }

    fn saved(&self, position: usize) -> SavedBlock {
        let block = self.block(position);
        SavedBlock {
            number: block.number,
            value: block.value.to_vec(),
            state: block.state.to_vec(),
            counters: block.counters.to_vec(),
            version: block.version,
        }
    }

    /// Where the values of a position lie. Only the parameter's last block is shorter than the
    /// others, and it is at the last position if it is owned at all.
    fn place(&self, position: usize) -> Range<usize> {
        let start = position * BLOCK_ELEMENTS;
        start..start + block_len(self.elements, self.blocks[position])
    }

    fn counters_place(&self, position: usize) -> Range<usize> {
        position * self.counters_per_block..(position + 1) * self.counters_per_block
    }
}

impl SavedBlock {
    fn bytes(&self) -> usize {
        size_of_val(&self.value[..])
            + size_of_val(&self.state[..])
            + size_of_val(&self.counters[..])
    }
}

/// Elements of a block.
fn block_len(elements: u64, block: u64) -> usize {
    (elements - block * BLOCK_ELEMENTS as u64).min(BLOCK_ELEMENTS as u64) as usize
}

/// Memory that a table needs; `None` if no machine has it.
fn bytes_of(elements: usize, blocks: usize, columns: usize, counters: usize) -> Option<usize> {
    let values = elements.checked_mul(columns.checked_add(1)?)?.checked_mul(size_of::<f32>())?;
    let per_block = counters.checked_mul(size_of::<u32>())?.checked_add(2 * size_of::<u64>())?;
    values.checked_add(blocks.checked_mul(per_block)?)
}
