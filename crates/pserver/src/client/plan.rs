//! What is given to a link, or wanted of it → requests of bounded size. Pure; keys and values stay
//! where they are.
//!
//! Large dense parameters are cut into frames of sixteen blocks, so that a shard receives one, updates
//! another and answers a third at the same time; small parameters share frames. Rows travel in
//! larger frames when pushed: a shard merges the frames of a step, which costs more than waiting.

use super::Pull;
use super::layout::Layout;
use super::split::{Positions, Rows};
use crate::message::{EntryHead, Head, Payload, ValueType, Verb};
use contract::{Error, Kind, Result};
use std::ops::{Deref, Range};
use table::gradient::Gradient;
use table::model::ModelIndex;
use table::placement::BLOCK_ELEMENTS;

/// A request with its parts where the caller has them.
pub(super) struct Request<'a> {
    pub(super) verb: Verb,
    pub(super) head: Head,
    pub(super) entries: Vec<EntryHead>,
    pub(super) keys: Vec<&'a [u64]>,
    pub(super) values: Vec<&'a [f32]>,
    /// Pull: where each entry's values go.
    targets: Vec<Target<'a>>,
    /// Of keys and values, here or in the reply.
    bytes: usize,
}

/// Where values of a reply go: which of the pulls, and where in it.
#[derive(Clone, Copy)]
struct Target<'a> {
    pull: usize,
    destination: Destination<'a>,
}

/// Where values go in the caller's memory.
#[derive(Clone, Copy)]
enum Destination<'a> {
    Blocks(&'a [u64]),
    Rows { positions: Positions<'a>, count: usize, width: usize },
}

/// Requests to one shard, those about blocks apart from those about rows.
#[derive(Default)]
pub(super) struct Plan<'a> {
    pub(super) dense: Vec<Request<'a>>,
    pub(super) sparse: Vec<Request<'a>>,
}

/// Sixteen blocks and their numbers: a mebibyte. Smaller frames cost more in switching between
/// reading, updating and writing than they gain by overlapping them; larger ones gain nothing.
const DENSE_BYTES_MAX: usize = BLOCKS_PER_FRAME * (BLOCK_ELEMENTS * 4 + 16);
const BLOCKS_PER_FRAME: usize = 16;
const PUSHED_ROWS_BYTES_MAX: usize = 4 << 20;
const PULLED_ROWS_BYTES_MAX: usize = 256 << 10;
/// Many tiny parameters: bounded by what their heads cost.
const ENTRIES_PER_FRAME_MAX: usize = 4096;

impl<'a> Plan<'a> {
    /// Gradients or values for the shard behind `link`; `rows` are the split ones of the sparse.
    pub(super) fn given(
        verb: Verb,
        layout: &'a Layout,
        link: usize,
        gradients: &[Gradient<'a>],
        rows: &'a [Option<Rows<'a>>],
    ) -> Result<Plan<'a>> {
        let mut plan = Plan::default();
        let mut dense = Frames::new(verb, DENSE_BYTES_MAX, &mut plan.dense);
        let mut sparse = Frames::new(verb, PUSHED_ROWS_BYTES_MAX, &mut plan.sparse);
        for (gradient, rows) in gradients.iter().zip(rows) {
            // What is set is set exactly.
            let value_type = match verb {
                Verb::Push => layout.placed(*gradient.parameter())?.value_type,
                _ => ValueType::F32,
            };
            (dense.value_type, sparse.value_type) = (value_type, value_type);
            match gradient {
                Gradient::Dense { parameter, values } => {
                    let Some(shard) = layout.shard(link, false) else { continue };
                    let blocks = layout.placed(*parameter)?.blocks(shard);
                    dense.add_blocks(*parameter, blocks, values.len(), |request, blocks| {
                        push_slices(blocks, values, &mut request.values)
                    });
                }
                Gradient::Sparse { parameter, .. } => {
                    let (Some(shard), Some(rows)) = (layout.shard(link, true), rows) else {
                        continue;
                    };
                    let (keys, width) = (rows.keys(shard), rows.width());
                    let values = rows.values(shard);
                    sparse.add_rows(*parameter, keys, width, |request, range| {
                        let values = &values[range.start * width..range.end * width];
                        request.values.push(values);
                        values.len()
                    });
                }
            }
        }
        Ok(plan)
    }

    /// What is wanted of the shard behind `link`; as f32 if it `is_exact`.
    pub(super) fn wanted(
        layout: &'a Layout,
        link: usize,
        pulls: &[Pull<'_>],
        rows: &'a [Option<Rows<'a>>],
        is_exact: bool,
    ) -> Result<Plan<'a>> {
        let mut plan = Plan::default();
        let mut dense = Frames::new(Verb::Pull, DENSE_BYTES_MAX, &mut plan.dense);
        let mut sparse = Frames::new(Verb::Pull, PULLED_ROWS_BYTES_MAX, &mut plan.sparse);
        for (pull, (wanted, rows)) in pulls.iter().zip(rows).enumerate() {
            let value_type = match is_exact {
                true => ValueType::F32,
                false => layout.placed(wanted.parameter())?.value_type,
            };
            (dense.value_type, sparse.value_type) = (value_type, value_type);
            match wanted {
                Pull::Dense { parameter, out } => {
                    let Some(shard) = layout.shard(link, false) else { continue };
                    let blocks = layout.placed(*parameter)?.blocks(shard);
                    dense.add_blocks(*parameter, blocks, out.len(), |request, blocks| {
                        request
                            .targets
                            .push(Target { pull, destination: Destination::Blocks(blocks) });
                        0
                    });
                }
                Pull::Sparse { parameter, .. } => {
                    let (Some(shard), Some(rows)) = (layout.shard(link, true), rows) else {
                        continue;
                    };
                    let (keys, width) = (rows.keys(shard), rows.width());
                    sparse.add_rows(*parameter, keys, width, |request, range| {
                        let count = range.len();
                        let positions = rows.positions(shard, range);
                        let destination = Destination::Rows { positions, count, width };
                        request.targets.push(Target { pull, destination });
                        0
                    });
                }
            }
        }
        Ok(plan)
    }
}

impl<'a> Request<'a> {
    /// A request without entries.
    pub(super) fn of(verb: Verb, head: Head) -> Self {
        let (entries, keys, values, targets) = Default::default();
        Request { verb, head, entries, keys, values, targets, bytes: 0 }
    }

    /// The [`ValueType`] of its values, or of those of the reply.
    pub(super) fn value_type(&self) -> u16 {
        self.entries.first().map_or(ValueType::F32 as u16, |entry| entry.data_type)
    }

    /// Copies the values of a pull's reply to where they are wanted.
    pub(super) fn fill<B: Deref<Target = [u8]>>(
        &self,
        reply: &Payload<B>,
        pulls: &mut [Pull<'_>],
    ) -> Result<()> {
        let parameters = self.entries.iter().map(|entry| entry.parameter);
        if !reply.entries.iter().map(|entry| entry.parameter).eq(parameters) {
            return Err(unfit());
        }
        for (entry, target) in reply.entries.iter().zip(&self.targets) {
            let values = reply.values(entry);
            match (target.destination, &mut pulls[target.pull]) {
                (Destination::Blocks(blocks), Pull::Dense { out, .. }) => {
                    place_blocks(blocks, values, out)?;
                }
                (Destination::Rows { positions, count, width }, Pull::Sparse { out, .. })
                    if values.len() == count * width =>
                {
                    positions.place(values, width, out);
                }
                _ => return Err(unfit()),
            }
        }
        Ok(())
    }
}

fn unfit() -> Error {
    Error::new(Kind::Damaged, "server's reply does not fit the request")
}

/// Requests that are filled one after the other.
struct Frames<'a, 'p> {
    verb: Verb,
    /// Of the values to come; a frame has one type.
    value_type: ValueType,
    bytes_max: usize,
    requests: &'p mut Vec<Request<'a>>,
}

impl<'a, 'p> Frames<'a, 'p> {
    fn new(verb: Verb, bytes_max: usize, requests: &'p mut Vec<Request<'a>>) -> Self {
        Frames { verb, value_type: ValueType::F32, bytes_max, requests }
    }

    /// Adds blocks of a parameter; `attach` adds what belongs to some of them to a request and
    /// says how many values that brought.
    fn add_blocks(
        &mut self,
        parameter: ModelIndex,
        blocks: &'a [u64],
        elements: usize,
        mut attach: impl FnMut(&mut Request<'a>, &'a [u64]) -> usize,
    ) {
        let bytes_of = |block: &u64| 8 + 4 * elements_of(*block, elements).len();
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let room = self.room(bytes_of(first));
            let mut bytes = 0;
            let fits = |block: &&u64| {
                bytes += bytes_of(block);
                bytes <= room
            };
            let (taken, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            let bytes = taken.iter().map(bytes_of).sum();
            self.add(parameter, taken, bytes, |request| attach(request, taken));
            rest = after;
        }
    }

    /// Adds rows of a parameter, likewise.
    fn add_rows(
        &mut self,
        parameter: ModelIndex,
        keys: &'a [u64],
        width: usize,
        mut attach: impl FnMut(&mut Request<'a>, Range<usize>) -> usize,
    ) {
        let row_bytes = 8 + 4 * width;
        let mut start = 0;
        while start < keys.len() {
            let count = (self.room(row_bytes) / row_bytes).max(1);
            let range = start..keys.len().min(start + count);
            let taken = &keys[range.clone()];
            start = range.end;
            self.add(parameter, taken, taken.len() * row_bytes, |request| attach(request, range));
        }
    }

    /// Bytes that the last request has left, a new one if it has not `least`.
    fn room(&mut self, least: usize) -> usize {
        let room = self.requests.last().map_or(0, |last| {
            let is_full = last.entries.len() >= ENTRIES_PER_FRAME_MAX
                || last.value_type() != self.value_type as u16;
            if is_full { 0 } else { self.bytes_max.saturating_sub(last.bytes) }
        });
        if room >= least {
            return room;
        }
        self.requests.push(Request::of(self.verb, Head::default()));
        self.bytes_max
    }

    fn add(
        &mut self,
        parameter: ModelIndex,
        keys: &'a [u64],
        bytes: usize,
        attach: impl FnOnce(&mut Request<'a>) -> usize,
    ) {
        let Some(request) = self.requests.last_mut() else { return };
        request.bytes += bytes;
        request.keys.push(keys);
        let values = attach(request);
        request.entries.push(EntryHead {
            parameter: parameter.0 as u32,
            data_type: self.value_type as u16,
            keys: keys.len() as u32,
            values: values as u32,
            ..EntryHead::default()
        });
    }
}

/// The elements of a block, of a parameter that has so many.
fn elements_of(block: u64, elements: usize) -> Range<usize> {
    let start = block as usize * BLOCK_ELEMENTS;
    start..elements.min(start + BLOCK_ELEMENTS)
}

/// Adds the values of blocks, neighbours in one slice. Returns how many they are.
fn push_slices<'a>(blocks: &[u64], values: &'a [f32], slices: &mut Vec<&'a [f32]>) -> usize {
    let mut total = 0;
    for run in blocks.chunk_by(|one, next| one + 1 == *next) {
        let start = elements_of(run[0], values.len()).start;
        let end = elements_of(run[run.len() - 1], values.len()).end;
        total += end - start;
        slices.push(&values[start..end]);
    }
    total
}

fn place_blocks(blocks: &[u64], values: &[f32], out: &mut [f32]) -> Result<()> {
    let expected: usize = blocks.iter().map(|block| elements_of(*block, out.len()).len()).sum();
    if expected != values.len() {
        return Err(unfit());
    }
    let mut rest = values;
    for block in blocks {
        let place = elements_of(*block, out.len());
        let (block, after) = rest.split_at(place.len());
        out[place].copy_from_slice(block);
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::split::Buffers;
    use crate::client::testing;
    use contract::port::Ports;
    use proptest::prelude::*;

    /// A reply to a pull of dense blocks, made from all values.
    fn reply(request: &Request<'_>, values: &[f32]) -> Payload<Vec<u8>> {
        let mut entries = request.entries.clone();
        let mut all = Vec::new();
        for (entry, keys) in entries.iter_mut().zip(&request.keys) {
            let before = all.len();
            for key in *keys {
                all.extend_from_slice(&values[elements_of(*key, values.len())]);
            }
            (entry.keys, entry.values) = (0, (all.len() - before) as u32);
        }
        let mut body = crate::message::encode_heads(Head::default(), &entries);
        body.extend_from_slice(bytemuck::cast_slice(&all));
        Payload::decode(body).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn blocks_are_given_once_and_found_again(
            elements in 1..600_000usize, servers in 1..4u32, dense in 1..3u16,
        ) {
            let mut model = testing::model();
            let shape = table::model::Shape::Dense { elements: elements as u64 };
            model.parameters[testing::DENSE.0].shape = shape;
            let layout = Layout::new(&model, servers, Ports { dense, ..Ports::default() });
            let values: Vec<f32> = (0..elements).map(|i| i as f32).collect();
            let gradients = [Gradient::Dense { parameter: testing::DENSE, values: &values }];
            let (mut given, mut out) = (0, vec![-1.0; elements]);
            let mut pulls = [Pull::Dense { parameter: testing::DENSE, out: &mut out }];
            for link in 0..layout.links().count() {
                let push = Plan::given(Verb::Push, &layout, link, &gradients, &[None]).unwrap();
                let pull = Plan::wanted(&layout, link, &pulls, &[None], false).unwrap();
                prop_assert_eq!(push.dense.len(), pull.dense.len());
                for (push, pull) in push.dense.iter().zip(&pull.dense) {
                    prop_assert_eq!(&push.keys, &pull.keys);
                    let count: usize = push.values.iter().map(|slice| slice.len()).sum();
                    prop_assert_eq!(push.entries[0].values as usize, count);
                    // A last block of a few elements fits in beside sixteen whole ones.
                    prop_assert!(count * 4 <= DENSE_BYTES_MAX);
                    given += count;
                    let answer = reply(pull, &values);
                    prop_assert_eq!(answer.values(&answer.entries[0]), push.values.concat());
                    pull.fill(&answer, &mut pulls).unwrap();
                }
            }
            prop_assert_eq!(given, elements);
            prop_assert_eq!(out, values);
        }
    }

    #[test]
    fn rows_fill_frames_up_to_their_limit_and_small_parameters_share_them() {
        let layout = Layout::new(&testing::model(), 1, Ports { sparse: 0, ..Ports::default() });
        let keys: Vec<u64> = (0..500_000).map(|key| key % 1000).collect();
        let values = vec![1.0; keys.len() * 4];
        let gradient =
            Gradient::Sparse { parameter: testing::SPARSE, keys: &keys, values: &values };
        let rows = || Some(Rows::wanted(&keys, 4, (1, 1), Buffers::default()));
        let given = Rows::given((&keys, &values), 4, (1, 1), true, Buffers::default()).unwrap();
        let given = [Some(given)];
        let plan = Plan::given(Verb::Push, &layout, 0, &[gradient], &given).unwrap();
        assert_eq!(plan.sparse.len(), (keys.len() * 24).div_ceil(PUSHED_ROWS_BYTES_MAX));
        assert!(plan.sparse.iter().all(|request| request.bytes <= PUSHED_ROWS_BYTES_MAX));

        let (mut one, mut two) = (vec![0.0; 40], vec![0.0; 40]);
        let pulls = [
            Pull::Sparse { parameter: testing::SPARSE, keys: &keys[..10], out: &mut one },
            Pull::Sparse { parameter: testing::SPARSE, keys: &keys[..10], out: &mut two },
        ];
        let wanted = [rows(), rows()];
        let plan = Plan::wanted(&layout, 0, &pulls, &wanted, false).unwrap();
        assert!(plan.sparse.iter().all(|request| request.bytes <= PULLED_ROWS_BYTES_MAX));
        let shared = plan.sparse.iter().filter(|request| request.entries.len() == 2).count();
        assert_eq!(shared, 1, "the second begins in the frame where the first ends");
    }

    #[test]
    fn a_reply_that_does_not_fit_is_damage() {
        let layout = Layout::new(&testing::model(), 1, Ports::default());
        let mut out = vec![0.0; 100_000];
        let mut pulls = [Pull::Dense { parameter: testing::DENSE, out: &mut out }];
        let plan = Plan::wanted(&layout, 0, &pulls, &[None], false).unwrap();
        let short = reply(&plan.dense[0], &[0.0; 99_000]);
        assert_eq!(plan.dense[0].fill(&short, &mut pulls).unwrap_err().kind(), Kind::Damaged);
        let empty = Payload::decode(crate::message::encode_heads(Head::default(), &[])).unwrap();
        assert_eq!(plan.dense[0].fill(&empty, &mut pulls).unwrap_err().kind(), Kind::Damaged);
    }
}
