//! Rows → the shards that hold them, and back. Pure; the hot part of every sparse push and pull.
//!
//! Keys are counted per shard, the counts summed, and keys and rows moved to their shard's place:
//! two passes, no comparison, no allocation once the buffers have grown. With a single shard
//! nothing is moved at all. Within a shard keys keep their order.

use super::unique::{self, Uniqueness};
use contract::Result;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use table::placement;

/// The rows of one parameter in one call, by shard.
pub(super) struct Rows<'a> {
    given: &'a [u64],
    values: &'a [f32],
    /// False if all are used as they were given: there is one shard, and no key repeats.
    is_moved: bool,
    width: usize,
    buffers: Buffers,
}

/// Memory that is used again.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    uniqueness: Uniqueness,
    owners: Vec<u32>,
    /// Where each shard's rows begin, and the end.
    starts: Vec<usize>,
    keys: Vec<u64>,
    positions: Vec<u32>,
    values: Vec<f32>,
}

/// Buffers between two calls.
#[derive(Debug, Default)]
pub(super) struct Shelf(Mutex<Vec<Buffers>>);

/// More are dropped; a call needs as many as it names sparse parameters.
const BUFFERS_MAX: usize = 256;

/// Where the rows of a shard stand in the caller's order.
#[derive(Debug, Clone, Copy)]
pub(super) enum Positions<'a> {
    /// From here on, one after the other.
    From(usize),
    /// At these places.
    At(&'a [u32]),
}

impl<'a> Rows<'a> {
    /// Keys to ask for.
    pub(super) fn wanted(
        keys: &'a [u64],
        width: usize,
        placement: (u64, usize),
        buffers: Buffers,
    ) -> Rows<'a> {
        let mut rows = Rows { given: keys, values: &[], is_moved: false, width, buffers };
        rows.split(placement);
        rows
    }

    /// Keys with a row of values each; rows of a key that repeats are summed unless `is_unique`
    /// promises that none does.
    pub(super) fn given(
        (keys, values): (&'a [u64], &'a [f32]),
        width: usize,
        placement: (u64, usize),
        is_unique: bool,
        mut buffers: Buffers,
    ) -> Result<Rows<'a>> {
        if !is_unique && !buffers.uniqueness.holds(keys) {
            let (keys, values) = unique::deduplicate(keys, values, width)?;
            let mut merged =
                Rows { given: &keys, values: &values, is_moved: false, width, buffers };
            merged.split(placement);
            let is_moved = std::mem::replace(&mut merged.is_moved, true);
            let mut buffers = merged.buffers;
            if !is_moved {
                buffers.starts = vec![0, keys.len()];
                (buffers.keys, buffers.values) = (keys, values);
            }
            return Ok(Rows { given: &[], values: &[], is_moved: true, width, buffers });
        }
        let mut rows = Rows { given: keys, values, is_moved: false, width, buffers };
        rows.split(placement);
        Ok(rows)
    }

    fn split(&mut self, (name_hash, shards): (u64, usize)) {
        if shards == 1 {
            return;
        }
        self.is_moved = true;
        let (keys, buffers) = (self.given, &mut self.buffers);
        buffers.starts.clear();
        buffers.starts.resize(shards + 1, 0);
        buffers.owners.clear();
        buffers.owners.extend(
            keys.iter().map(|key| {
                placement::shard_of(placement::bucket_of(name_hash, *key), shards as u32)
            }),
        );
        for owner in &buffers.owners {
            buffers.starts[*owner as usize + 1] += 1;
        }
        for shard in 0..shards {
            buffers.starts[shard + 1] += buffers.starts[shard];
        }
        let mut next = buffers.starts.clone();
        buffers.keys.resize(keys.len(), 0);
        buffers.positions.resize(keys.len(), 0);
        for (position, (key, owner)) in keys.iter().zip(&buffers.owners).enumerate() {
            let place = &mut next[*owner as usize];
            buffers.keys[*place] = *key;
            buffers.positions[*place] = position as u32;
            *place += 1;
        }
        buffers.values.clear();
        if !self.values.is_empty() {
            buffers.values.reserve(self.values.len());
            for position in &buffers.positions {
                let row = &self.values[*position as usize * self.width..][..self.width];
                buffers.values.extend_from_slice(row);
            }
        }
    }

    /// The keys of a shard.
    pub(super) fn keys(&self, shard: usize) -> &[u64] {
        if self.is_moved { &self.buffers.keys[self.range(shard)] } else { self.given }
    }

    /// The values of a shard, in the order of its keys.
    pub(super) fn values(&self, shard: usize) -> &[f32] {
        let Range { start, end } = self.range(shard);
        match self.is_moved {
            true => &self.buffers.values[start * self.width..end * self.width],
            false => self.values,
        }
    }

    /// Where `range` of a shard's keys came from.
    pub(super) fn positions(&self, shard: usize, range: Range<usize>) -> Positions<'_> {
        match self.is_moved {
            true => Positions::At(&self.buffers.positions[self.range(shard)][range]),
            false => Positions::From(range.start),
        }
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The memory, for the next call.
    pub(super) fn into_buffers(self) -> Buffers {
        self.buffers
    }

    fn range(&self, shard: usize) -> Range<usize> {
        match self.is_moved {
            true => self.buffers.starts[shard]..self.buffers.starts[shard + 1],
            false => 0..self.given.len(),
        }
    }
}

impl Positions<'_> {
    /// Puts rows where they belong.
    pub(super) fn place(self, rows: &[f32], width: usize, out: &mut [f32]) {
        match self {
            Positions::From(first) => {
                out[first * width..][..rows.len()].copy_from_slice(rows);
            }
            Positions::At(positions) => {
                for (position, row) in positions.iter().zip(rows.chunks_exact(width)) {
                    out[*position as usize * width..][..width].copy_from_slice(row);
                }
            }
        }
    }
}

impl Shelf {
    pub(super) fn take(&self) -> Buffers {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(super) fn put(&self, buffers: impl Iterator<Item = Buffers>) {
        let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shelf.extend(buffers);
        shelf.truncate(BUFFERS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn split_then_merge_is_the_identity(
            keys in proptest::collection::hash_set(any::<u64>(), 0..200),
            (width, shards, hash) in (1..4usize, 1..20usize, any::<u64>()),
            cut in 1..50usize,
        ) {
            let keys: Vec<u64> = keys.into_iter().collect();
            let values: Vec<f32> = (0..keys.len() * width).map(|i| i as f32).collect();
            let placement = (hash, shards);
            let pushed =
                Rows::given((&keys, &values), width, placement, false, Buffers::default()).unwrap();
            let pulled = Rows::wanted(&keys, width, placement, Buffers::default());
            let mut out = vec![-1.0; values.len()];
            let mut count = 0;
            for shard in 0..shards {
                let (shard_keys, shard_values) = (pushed.keys(shard), pushed.values(shard));
                prop_assert_eq!(shard_keys, pulled.keys(shard));
                for key in shard_keys {
                    let bucket = placement::bucket_of(hash, *key);
                    prop_assert_eq!(placement::shard_of(bucket, shards as u32) as usize, shard);
                }
                // In pieces, as in frames.
                for start in (0..shard_keys.len()).step_by(cut) {
                    let piece = start..shard_keys.len().min(start + cut);
                    let rows = &shard_values[piece.start * width..piece.end * width];
                    pulled.positions(shard, piece).place(rows, width, &mut out);
                }
                count += shard_keys.len();
            }
            prop_assert_eq!(count, keys.len());
            prop_assert_eq!(out, values);
        }

        #[test]
        fn buffers_serve_any_call_after_any_other(
            calls in proptest::collection::vec((0..60usize, 1..5usize, 1..4usize), 1..6),
        ) {
            let shelf = Shelf::default();
            for (count, shards, width) in calls {
                let keys: Vec<u64> = (0..count as u64).map(|key| key % 50).collect();
                let values = vec![1.0; count * width];
                let rows =
                    Rows::given((&keys, &values), width, (7, shards), false, shelf.take()).unwrap();
                let mut sums: Vec<(u64, f32)> = Vec::new();
                for shard in 0..shards {
                    let sum = rows.values(shard).chunks_exact(width).map(|row| row[0]);
                    sums.extend(rows.keys(shard).iter().copied().zip(sum));
                }
                sums.sort_by_key(|(key, _)| *key);
                let expected: Vec<(u64, f32)> = (0..count.min(50))
                    .map(|key| (key as u64, if key + 50 < count { 2.0 } else { 1.0 }))
                    .collect();
                prop_assert_eq!(sums, expected);
                shelf.put([rows.into_buffers()].into_iter());
            }
        }
    }
}
