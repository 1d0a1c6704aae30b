//! One parameter on one shard: its values, and what has arrived for the step under way.

use super::Part;
use super::pulled::Pulled;
use crate::message::{Entry, Message, Payload};
use contract::mode::Mode;
use contract::{Error, Kind, Result};
use std::ops::{Deref, Range};
use std::rc::Rc;
use table::gradient::are_finite;
use table::initializer::Initializer;
use table::model::{Model, Parameter, Shape};
use table::optimizer::{Now, Update};
use table::placement::{self, ShardPlace};
use table::store::{self, DenseTable, SparseTable};

pub(super) struct Table<B> {
    pub(super) name: String,
    pub(super) mode: Mode,
    pub(super) values: Values<B>,
    pub(super) update: Update,
    initializer: Initializer,
    seed: u64,
    name_hash: u64,
}

pub(super) enum Values<B> {
    Dense {
        blocks: DenseTable,
        /// Gradients of the step under way, by position of the block.
        arrivals: Vec<Vec<Arrival<B>>>,
    },
    Sparse {
        rows: SparseTable,
        rows_max: Option<u64>,
        width: usize,
        /// Gradients of the step under way.
        arrivals: Vec<(u32, Rc<Payload<B>>, usize)>,
        pulled: Pulled,
        place: ShardPlace,
    },
}

/// Values that are looked at together.
const FINITE_CHECKED: usize = 4096;

/// One trainer's gradient of one block, where it was received.
pub(super) struct Arrival<B> {
    rank: u32,
    payload: Rc<Payload<B>>,
    entry: usize,
    /// Where in the entry's values it begins.
    offset: usize,
}

impl<B: Deref<Target = [u8]>> Table<B> {
    pub(super) fn new(
        model: &Model,
        parameter: &Parameter,
        place: &ShardPlace,
        bytes_max: usize,
    ) -> Result<Self> {
        let is_sparse = parameter.shape.is_sparse();
        let update = Update::new(&model.optimizer, &parameter.settings, is_sparse)?;
        let name_hash = placement::name_hash(&parameter.name);
        let (columns, counters) = (update.columns().state.len(), update.columns().counters.len());
        let values = match parameter.shape {
            Shape::Dense { elements } => {
                let blocks_max = bytes_max / (placement::BLOCK_ELEMENTS * size_of::<f32>()) + 1;
                // One more than fit is enough to refuse: a peer may claim any number.
                let blocks = place.blocks(name_hash, elements).take(blocks_max.saturating_add(1));
                let owned: Vec<u64> = blocks.collect();
                let arrivals = owned.iter().map(|_| Vec::new()).collect();
                let blocks = DenseTable::new(elements, owned, columns, counters, bytes_max)?;
                Values::Dense { blocks, arrivals }
            }
            Shape::Sparse { width, rows } => {
                let width = width as usize;
                let shape = store::Shape { width, state: width * columns, counters };
                Values::Sparse {
                    rows: SparseTable::new(shape, bytes_max),
                    rows_max: rows,
                    width,
                    arrivals: Vec::new(),
                    pulled: Pulled::default(),
                    place: *place,
                }
            }
        };
        Ok(Table {
            name: parameter.name.clone(),
            mode: parameter.mode,
            values,
            update,
            initializer: parameter.initializer,
            seed: model.seed,
            name_hash,
        })
    }

    pub(super) fn is_sparse(&self) -> bool {
        matches!(self.values, Values::Sparse { .. })
    }

    pub(super) fn rows(&self) -> u64 {
        match &self.values {
            Values::Dense { .. } => 0,
            Values::Sparse { rows, .. } => rows.len() as u64,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.values {
            Values::Dense { blocks, .. } => blocks.bytes() as u64,
            Values::Sparse { rows, .. } => rows.bytes() as u64,
        }
    }

    /// Checks that keys and values of an entry belong here and together, and that values are numbers;
    /// `has_values` is false for a pull. Returns how many values the keys have.
    pub(super) fn check(
        &self,
        payload: &Payload<B>,
        entry: &Entry,
        has_values: bool,
    ) -> Result<usize> {
        let keys = payload.keys(entry);
        let expected = match &self.values {
            Values::Dense { blocks, arrivals } => {
                let mut elements = 0;
                let mut positions = Vec::with_capacity(if has_values { keys.len() } else { 0 });
                for key in keys {
                    let position = blocks.position_of(*key).ok_or_else(|| self.not_here(*key))?;
                    elements += blocks.block(position).value.len();
                    if has_values {
                        let is_of_rank = |arrival: &Arrival<B>| arrival.rank == payload.head.rank;
                        if arrivals[position].iter().any(is_of_rank) {
                            return Err(self.is_twice(payload, *key));
                        }
                        positions.push((position, *key));
                    }
                }
                positions.sort_unstable();
                if let Some(pair) = positions.windows(2).find(|pair| pair[0] == pair[1]) {
                    return Err(self.is_twice(payload, pair[0].1));
                }
                elements
            }
            Values::Sparse { rows_max, width, place, .. } => {
                for key in keys {
                    if rows_max.is_some_and(|rows| *key >= rows) {
                        return Err(Error::invalid("key is not below the number of rows")
                            .with("parameter", &self.name)
                            .with("key", key));
                    }
                    if !place.owns(placement::bucket_of(self.name_hash, *key)) {
                        return Err(self.not_here(*key));
                    }
                }
                keys.len().saturating_mul(*width)
            }
        };
        let values = payload.values(entry);
        if let Some(place) = first_not_finite(values) {
            return Err(Error::invalid(
                "a value is not a finite number; lower the learning rate, or clip gradients",
            )
            .with("parameter", &self.name)
            .with("rank", payload.head.rank)
            .with("value", values[place])
            .with("place", place));
        }
        let found = values.len();
        if found != if has_values { expected } else { 0 } {
            return Err(Error::invalid("values do not fit the keys")
                .with("parameter", &self.name)
                .with("keys", keys.len())
                .with("values", found)
                .with("expected", expected));
        }
        Ok(expected)
    }

    /// Fills every dense block with its first values; rows get theirs when they are touched.
    pub(super) fn initialize(&mut self) {
        let Values::Dense { blocks, .. } = &mut self.values else { return };
        for position in 0..blocks.len() {
            let block = blocks.block_mut(position);
            let first = block.number * placement::BLOCK_ELEMENTS as u64;
            self.initializer.fill(self.seed, self.name_hash, first, block.value);
        }
    }

    /// Takes values as they are; what the optimizer keeps beside them starts anew.
    pub(super) fn set(&mut self, now: &Now, payload: &Payload<B>, entry: &Entry) -> Result<()> {
        let (keys, values) = (payload.keys(entry), payload.values(entry));
        match &mut self.values {
            Values::Dense { blocks, .. } => {
                let mut rest = values;
                for key in keys {
                    let Some(position) = blocks.position_of(*key) else { continue };
                    let block = blocks.block_mut(position);
                    let (value, after) = rest.split_at(block.value.len());
                    rest = after;
                    block.value.copy_from_slice(value);
                    block.state.fill(0.0);
                    block.counters.fill(0);
                }
                Ok(())
            }
            Values::Sparse { rows, width, .. } => rows.visit(
                keys,
                |_, _| {},
                |place, row| {
                    row.state.fill(0.0);
                    row.counters.fill(0);
                    // The new row owes nothing for the updates before it.
                    self.update.catch_up(now, row.value, row.state, row.counters);
                    row.state.fill(0.0);
                    row.value.copy_from_slice(&values[place * *width..][..*width]);
                },
            ),
        }
    }

    /// Applies an entry's gradients at once.
    pub(super) fn apply(&mut self, now: &Now, payload: &Payload<B>, entry: &Entry) -> Result<()> {
        let (keys, gradients) = (payload.keys(entry), payload.values(entry));
        match &mut self.values {
            Values::Dense { blocks, .. } => {
                let mut rest = gradients;
                for key in keys {
                    let Some(position) = blocks.position_of(*key) else { continue };
                    let block = blocks.block_mut(position);
                    let (gradient, after) = rest.split_at(block.value.len());
                    rest = after;
                    self.update.apply(now, gradient, block.value, block.state, block.counters);
                }
                Ok(())
            }
            Values::Sparse { .. } => self.apply_rows(now, keys, gradients, Some(payload.head.rank)),
        }
    }

    /// Applies gradients of rows; those of one rank alone, or the sum of several.
    fn apply_rows(
        &mut self,
        now: &Now,
        keys: &[u64],
        gradients: &[f32],
        rank: Option<u32>,
    ) -> Result<()> {
        let Values::Sparse { rows, width, pulled, .. } = &mut self.values else { return Ok(()) };
        let (initializer, rule, width) = (&self.initializer, (&self.update, now), *width as u64);
        let (seed, name_hash) = (self.seed, self.name_hash);
        if let Some(numbers) = rank.and_then(|rank| pulled.find(rank, keys)) {
            table::rows::update_again(rows, rule, numbers, gradients);
            return Ok(());
        }
        table::rows::update(rows, rule, keys, gradients, |key, value| {
            initializer.fill(seed, name_hash, key.wrapping_mul(width), value);
        })
    }

    /// Keeps an entry's gradients until the others' are there. A block that now has those of all
    /// ranks that are `awaited` is updated.
    pub(super) fn hold(
        &mut self,
        now: &Now,
        payload: &Rc<Payload<B>>,
        entry: usize,
        awaited: &[bool],
    ) {
        let rank = payload.head.rank;
        match &mut self.values {
            Values::Dense { blocks, arrivals } => {
                let mut offset = 0;
                for key in payload.keys(&payload.entries[entry]) {
                    let Some(position) = blocks.position_of(*key) else { continue };
                    let payload = Rc::clone(payload);
                    arrivals[position].push(Arrival { rank, payload, entry, offset });
                    offset += blocks.block(position).value.len();
                    if is_complete(&arrivals[position], awaited) {
                        update_block(&self.update, now, blocks, position, &mut arrivals[position]);
                    }
                }
            }
            Values::Sparse { arrivals, .. } => arrivals.push((rank, Rc::clone(payload), entry)),
        }
    }

    /// Updates the blocks that lack no `awaited` rank: fewer are waited for than before.
    pub(super) fn update_complete(&mut self, now: &Now, awaited: &[bool]) {
        let Values::Dense { blocks, arrivals } = &mut self.values else { return };
        for (position, arrived) in arrivals.iter_mut().enumerate() {
            if is_complete(arrived, awaited) {
                update_block(&self.update, now, blocks, position, arrived);
            }
        }
    }

    /// Ends a step: whatever has arrived is all there will be.
    pub(super) fn finish_step(&mut self, now: &Now) -> Result<()> {
        self.update_complete(now, &[]);
        let Values::Sparse { arrivals, width, .. } = &mut self.values else { return Ok(()) };
        let mut arrived = std::mem::take(arrivals);
        arrived.sort_by_key(|(rank, ..)| *rank);
        let width = *width;
        match &arrived[..] {
            [] => Ok(()),
            [(_, payload, entry)] => {
                let entry = &payload.entries[*entry];
                let rank = Some(payload.head.rank);
                self.apply_rows(now, payload.keys(entry), payload.values(entry), rank)
            }
            several => {
                let (keys, sums) = merge(several, width);
                self.apply_rows(now, &keys, &sums, None)
            }
        }
    }

    /// Drops what a process that was replaced has delivered for `step`, which it did not complete.
    pub(super) fn drop_arrivals(&mut self, of_rank: u32, step: u64) {
        let is_kept =
            |rank: u32, payload: &Payload<B>| (rank, payload.head.version) != (of_rank, step);
        match &mut self.values {
            Values::Dense { arrivals, .. } => {
                for arrived in arrivals {
                    arrived.retain(|arrival| is_kept(arrival.rank, &arrival.payload));
                }
            }
            Values::Sparse { arrivals, .. } => {
                arrivals.retain(|(rank, payload, _)| is_kept(*rank, payload));
            }
        }
    }

    /// Whether a block has the update of a step that its shard, at `version`, has not completed.
    pub(super) fn is_ahead(&self, version: u64) -> bool {
        let Values::Dense { blocks, .. } = &self.values else { return false };
        self.mode == Mode::Sync && (0..blocks.len()).any(|at| blocks.version(at) > version)
    }

    /// Updates of a block's value so far, `version` at least.
    pub(super) fn has_version(&self, keys: &[u64], version: u64) -> bool {
        let Values::Dense { blocks, .. } = &self.values else { return false };
        keys.iter().all(|key| {
            blocks.position_of(*key).is_some_and(|position| blocks.version(position) >= version)
        })
    }

    /// Appends the values of `keys`, checked before, to `out`.
    pub(super) fn read(
        &mut self,
        now: &Now,
        keys: &[u64],
        style: ReadStyle,
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let start = out.len();
        let (initializer, update) = (&self.initializer, &self.update);
        let (seed, name_hash) = (self.seed, self.name_hash);
        let mut scratch = Vec::new();
        match &mut self.values {
            Values::Dense { blocks, .. } => {
                for key in keys {
                    let Some(position) = blocks.position_of(*key) else { continue };
                    let block = blocks.block(position);
                    out.extend_from_slice(if style.is_averaged {
                        update.applied(block.value, block.state, block.counters, &mut scratch)
                    } else {
                        block.value
                    });
                }
                Ok(())
            }
            Values::Sparse { rows, width, pulled, .. } => {
                let width = *width;
                out.resize(start + keys.len() * width, 0.0);
                let out = &mut out[start..];
                let first = |key: u64, value: &mut [f32]| {
                    initializer.fill(seed, name_hash, key.wrapping_mul(width as u64), value);
                };
                if style.is_read_only {
                    rows.peek(keys, |place, row| {
                        let target = &mut out[place * width..][..width];
                        match row {
                            Some(row) if style.is_averaged => target.copy_from_slice(
                                update.applied(row.value, row.state, row.counters, &mut scratch),
                            ),
                            Some(row) => {
                                update.read(now, row.value, row.state, row.counters, target);
                            }
                            None => first(keys[place], target),
                        }
                    });
                    return Ok(());
                }
                let mut forgotten = Vec::new();
                let numbers = pulled.note(style.rank, keys).unwrap_or(&mut forgotten);
                table::rows::fetch(rows, (update, now), keys, (out, numbers), first)
            }
        }
    }

    /// Appends a page of rows to a reply.
    pub(super) fn scan(&self, now: &Now, page: Range<usize>, is_averaged: bool, out: &mut Message) {
        let Values::Sparse { rows, .. } = &self.values else { return };
        let mut scratch = Vec::new();
        rows.scan(page.start, page.len(), |key, row| {
            out.keys.push(key);
            if is_averaged {
                let update = &self.update;
                let average = update.applied(row.value, row.state, row.counters, &mut scratch);
                out.values.extend_from_slice(average);
            } else {
                let start = out.values.len();
                out.values.resize(start + row.value.len(), 0.0);
                let target = &mut out.values[start..];
                self.update.read(now, row.value, row.state, row.counters, target);
            }
        });
    }

    /// Puts a block or row of a checkpoint in its place.
    pub(super) fn restore(&mut self, part: Part<'_>) -> Result<()> {
        let unfit = || {
            Error::new(Kind::Damaged, "checkpoint does not fit the model's parameter")
                .with("parameter", &self.name)
                .with("key", part.key)
        };
        match &mut self.values {
            Values::Dense { blocks, .. } => {
                let position = blocks.position_of(part.key).ok_or_else(unfit)?;
                let block = blocks.block_mut(position);
                if (block.value.len(), block.state.len(), block.counters.len())
                    != (part.value.len(), part.state.len(), part.counters.len())
                {
                    return Err(unfit());
                }
                block.value.copy_from_slice(part.value);
                block.state.copy_from_slice(part.state);
                block.counters.copy_from_slice(part.counters);
                Ok(())
            }
            Values::Sparse { rows, .. } => {
                let shape = rows.shape();
                if (shape.width, shape.state, shape.counters)
                    != (part.value.len(), part.state.len(), part.counters.len())
                {
                    return Err(unfit());
                }
                rows.insert(&[part.key], |_, row| {
                    row.value.copy_from_slice(part.value);
                    row.state.copy_from_slice(part.state);
                    row.counters.copy_from_slice(part.counters);
                })
            }
        }
    }

    fn is_twice(&self, payload: &Payload<B>, block: u64) -> Error {
        Error::invalid("a block comes twice in a step of one trainer")
            .with("parameter", &self.name)
            .with("block", block)
            .with("rank", payload.head.rank)
    }

    fn not_here(&self, key: u64) -> Error {
        Error::invalid("key or block belongs to another shard; use the same placement")
            .with("parameter", &self.name)
            .with("key", key)
    }
}

/// How values are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadStyle {
    /// Rows that do not exist are not created.
    pub(super) is_read_only: bool,
    pub(super) is_averaged: bool,
    /// Who wants them.
    pub(super) rank: u32,
}

// Counts only ranks that are waited for: one that delivered its gradient and then finished its pass
// must not stand in for one that is still to deliver.
fn is_complete<B>(arrivals: &[Arrival<B>], awaited: &[bool]) -> bool {
    let is_awaited = |arrival: &&Arrival<B>| awaited.get(arrival.rank as usize) == Some(&true);
    let expected = awaited.iter().filter(|is_awaited| **is_awaited).count();
    !arrivals.is_empty() && arrivals.iter().filter(is_awaited).count() >= expected
}

// Sums in the order of ranks, so that equal runs give equal bits.
fn update_block<B: Deref<Target = [u8]>>(
    update: &Update,
    now: &Now,
    blocks: &mut DenseTable,
    position: usize,
    arrivals: &mut Vec<Arrival<B>>,
) {
    arrivals.sort_by_key(|arrival| arrival.rank);
    let block = blocks.block_mut(position);
    let elements = block.value.len();
    if let [arrival] = &arrivals[..] {
        // One trainer: its gradient is the sum.
        let gradient = arrival.gradient(elements);
        update.apply(now, gradient, block.value, block.state, block.counters);
    } else {
        let mut sum = vec![0.0; elements];
        for arrival in arrivals.iter() {
            add(&mut sum, arrival.gradient(elements));
        }
        update.apply(now, &sum, block.value, block.state, block.counters);
    }
    *block.version = now.step + 1;
    arrivals.clear();
}

impl<B: Deref<Target = [u8]>> Arrival<B> {
    fn gradient(&self, elements: usize) -> &[f32] {
        &self.payload.values(&self.payload.entries[self.entry])[self.offset..][..elements]
    }
}

// Sums rows by key, in the order of ranks; `arrived` is sorted by rank.
fn merge<B: Deref<Target = [u8]>>(
    arrived: &[(u32, Rc<Payload<B>>, usize)],
    width: usize,
) -> (Vec<u64>, Vec<f32>) {
    let mut order: Vec<(u64, usize, usize)> = Vec::new();
    for (source, (_, payload, entry)) in arrived.iter().enumerate() {
        let keys = payload.keys(&payload.entries[*entry]);
        order.extend(keys.iter().enumerate().map(|(place, key)| (*key, source, place)));
    }
    order.sort_unstable();
    let mut keys: Vec<u64> = Vec::with_capacity(order.len());
    let mut sums: Vec<f32> = Vec::with_capacity(order.len() * width);
    for (key, source, place) in order {
        let (_, payload, entry) = &arrived[source];
        let gradient = &payload.values(&payload.entries[*entry])[place * width..][..width];
        if keys.last() == Some(&key) {
            let start = sums.len() - width;
            add(&mut sums[start..], gradient);
        } else {
            keys.push(key);
            sums.extend_from_slice(gradient);
        }
    }
    (keys, sums)
}

/// The place of the first NaN or infinity. One in a gradient would spread to the whole model.
fn first_not_finite(values: &[f32]) -> Option<usize> {
    let block = values.chunks(FINITE_CHECKED).position(|block| !are_finite(block))?;
    let begin = block * FINITE_CHECKED;
    values[begin..].iter().position(|value| !value.is_finite()).map(|place| begin + place)
}

fn add(sum: &mut [f32], gradient: &[f32]) {
    for (sum, gradient) in sum.iter_mut().zip(gradient) {
        *sum += gradient;
    }
}
