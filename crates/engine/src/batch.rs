//! What is fed to a network and what comes out of it, as plain memory.

use contract::{Error, Result};

/// One mini-batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Batch {
    /// Samples in it.
    pub samples: usize,
    /// One for each data layer, in the order of [`crate::Network::inputs`].
    pub inputs: Vec<Input>,
}

/// What one data layer gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Input {
    /// The rows of all samples, one after the other.
    pub rows: Rows,
    /// For sequences: where each sample's rows begin, and where the last one's end. For nested
    /// ones: the same of each inner sequence.
    pub sequences: Option<Vec<usize>>,
    /// For nested sequences: where each sample's sequences begin, and where the last one's end.
    pub nests: Option<Vec<usize>>,
}

impl Input {
    /// One row a sample.
    pub fn single(rows: Rows) -> Input {
        Input { rows, sequences: None, nests: None }
    }

    /// A sequence a sample; where each begins, and where the last one ends.
    pub fn sequence(rows: Rows, offsets: Vec<usize>) -> Input {
        Input { rows, sequences: Some(offsets), nests: None }
    }
}

/// Rows of one kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// Numbers, row by row.
    Dense(Vec<f32>),
    /// An id each. [`NO_ID`] looks up zeros.
    Integer(Vec<u64>),
    /// Lists of ids.
    Sparse(Lists),
}

/// The id that is no id: looked up in a table it gives zeros.
pub const NO_ID: u64 = u64::MAX;

/// Lists of ids, one a row, with or without numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lists {
    /// Where each row's ids begin, and where the last one's end.
    pub offsets: Vec<usize>,
    /// The ids of all rows.
    pub ids: Vec<u64>,
    /// The number of each id; 1 where there are none.
    pub values: Option<Vec<f32>>,
}

impl Rows {
    /// How many rows there are, if each has `width` numbers.
    pub fn len(&self, width: usize) -> usize {
        match self {
            Rows::Dense(values) => values.len() / width.max(1),
            Rows::Integer(ids) => ids.len(),
            Rows::Sparse(lists) => lists.offsets.len().saturating_sub(1),
        }
    }
}

/// What a layer gave, copied out of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its rows.
    pub rows: Rows,
    /// Numbers in a row.
    pub width: usize,
    /// Ids beside the numbers: what was found, where the numbers say how good it is.
    pub ids: Option<Vec<u64>>,
    /// As in [`Input`].
    pub sequences: Option<Vec<usize>>,
    /// As in [`Input`].
    pub nests: Option<Vec<usize>>,
}

impl Output {
    /// Adds the rows of another part of the batch.
    pub(crate) fn append(&mut self, other: Output) {
        match (&mut self.rows, other.rows) {
            (Rows::Dense(values), Rows::Dense(more)) => values.extend(more),
            (Rows::Integer(ids), Rows::Integer(more)) => ids.extend(more),
            (Rows::Sparse(lists), Rows::Sparse(more)) => {
                append_offsets(&mut lists.offsets, &more.offsets);
                lists.ids.extend(more.ids);
                if let (Some(values), Some(more)) = (&mut lists.values, more.values) {
                    values.extend(more);
                }
            }
            _ => unreachable!("a layer gives one kind of rows"),
        }
        if let (Some(ids), Some(more)) = (&mut self.ids, other.ids) {
            ids.extend(more);
        }
        for (offsets, more) in
            [(&mut self.sequences, other.sequences), (&mut self.nests, other.nests)]
        {
            if let (Some(offsets), Some(more)) = (offsets, more) {
                append_offsets(offsets, &more);
            }
        }
    }
}

/// Goes on where the offsets end, with parts as large as `more` says.
pub(crate) fn append_offsets(offsets: &mut Vec<usize>, more: &[usize]) {
    let end = offsets.last().copied().unwrap_or(0);
    offsets.extend(more.iter().skip(1).map(|offset| end + offset));
}

/// Checks that offsets begin at 0, do not fall, and end at `end`.
pub(crate) fn check_offsets(offsets: &[usize], end: usize) -> Result<()> {
    let begins = offsets.first() == Some(&0);
    let ends = offsets.last() == Some(&end);
    if begins && ends && offsets.windows(2).all(|pair| pair[0] <= pair[1]) {
        return Ok(());
    }
    Err(Error::invalid("offsets must begin at 0, must not fall, and must end at the last row")
        .with("end", end))
}
