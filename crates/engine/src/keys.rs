//! A batch that was checked, and the keys it looks up in sparse parameters; and its parts, which
//! threads work on.
//!
//! The rows of a sparse parameter that a batch needs are fetched before the network runs, so its
//! keys are gathered from the data layers beforehand, each once, and every id of every layer that
//! looks it up gets the place of its row among them.

use crate::argument::{Argument, Value};
use crate::batch::NO_ID;
use crate::chance::mix;
use crate::topology::{Checked, NetworkIndex, Topology};
use burn::tensor::Device;
use contract::{Error, Kind, Result};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// The row of [`NO_ID`].
const NO_ROW: u32 = u32::MAX;

/// A batch, ready to run.
pub struct Prepared {
    /// By place of the parameter.
    keys: Vec<Option<Vec<u64>>>,
    whole: Part,
}

/// Some samples of a batch, one after the other.
pub(crate) struct Part {
    samples: usize,
    /// By place of the layer.
    arguments: Vec<Option<Argument>>,
    /// By place of the layer, then by slot.
    lookups: Vec<Vec<Option<Lookup>>>,
}

/// Where the ids of a data layer are in the rows of a sparse parameter.
#[derive(Clone)]
struct Lookup {
    /// The place of the data layer.
    input: usize,
    rows: Arc<[u32]>,
}

impl Prepared {
    pub(crate) fn new(
        topology: &Topology,
        checked: &Checked,
        samples: usize,
        arguments: Vec<Option<Argument>>,
    ) -> Result<Prepared> {
        let mut places: Vec<Option<Rows>> = topology
            .parameters
            .iter()
            .map(|parameter| parameter.is_sparse.then(Rows::new))
            .collect();
        let mut lookups = vec![Vec::new(); topology.layers.len()];
        for &place in &checked.order {
            for (slot, &parameter) in checked.parameters[place].iter().enumerate() {
                let Some(rows) = &mut places[parameter] else { continue };
                let Some(input) = checked.key_inputs[place][slot] else { continue };
                let ids: &[u64] = match arguments[input].as_ref().map(|argument| &argument.value) {
                    Some(Value::Integer(ids)) => ids,
                    Some(Value::Sparse(lists)) => &lists.ids,
                    Some(Value::Dense(_)) | None => &[],
                };
                rows.reserve(ids.len());
                let found = ids.iter().map(|id| rows.find(*id)).collect();
                lookups[place].resize(slot + 1, None);
                lookups[place][slot] = Some(Lookup { input, rows: found });
                if rows.keys.len() >= NO_ROW as usize {
                    return Err(Error::new(
                        Kind::LimitExceeded,
                        "the batch looks up too many rows",
                    )
                    .with("parameter", &topology.parameters[parameter].name));
                }
            }
        }
        let keys = places.into_iter().map(|rows| rows.map(Rows::into_keys)).collect();
        Ok(Prepared { keys, whole: Part { samples, arguments, lookups } })
    }

    /// Samples of the batch.
    pub fn samples(&self) -> usize {
        self.whole.samples
    }

    /// The keys whose rows a sparse parameter must bring, each once; `None` for a dense one.
    pub fn keys(&self, parameter: NetworkIndex) -> Option<&[u64]> {
        self.keys[parameter.0].as_deref()
    }

    pub(crate) fn whole(&self) -> &Part {
        &self.whole
    }

    /// Whether most of the work is bringing rows together rather than computing with them. Each part
    /// of a batch makes a gradient of all its rows, and these are summed, so that parts would then
    /// be more work than they save. `dense` are the elements of parameters that every row of data
    /// is multiplied with, `width` tells the numbers in a row of a sparse one.
    pub(crate) fn is_mostly_rows(&self, dense: usize, width: impl Fn(usize) -> usize) -> bool {
        let data = self.whole.arguments.iter().flatten().map(Argument::rows).max().unwrap_or(0);
        let keys = self.keys.iter().enumerate();
        let elements: usize =
            keys.filter_map(|(place, keys)| Some(keys.as_ref()?.len() * width(place))).sum();
        // Clearing, writing and adding an element take a few times as long as a multiplication.
        dense.saturating_mul(data) < 8 * elements
    }
}

impl Part {
    /// Splits the samples into `count` parts of about the same number.
    pub(crate) fn split(&self, count: usize) -> Vec<Part> {
        let bound = |number: usize| self.samples * number / count;
        (0..count).map(|number| self.cut(bound(number)..bound(number + 1))).collect()
    }

    fn cut(&self, samples: Range<usize>) -> Part {
        let cut_lookup = |lookup: &Lookup| {
            let input = self.arguments[lookup.input].as_ref();
            let entries = input.map_or(0..0, |input| input.entries(samples.clone()));
            Lookup { input: lookup.input, rows: Arc::from(&lookup.rows[entries]) }
        };
        let arguments = self
            .arguments
            .iter()
            .map(|argument| argument.as_ref().map(|argument| argument.cut(samples.clone())));
        let lookups = self
            .lookups
            .iter()
            .map(|slots| slots.iter().map(|lookup| lookup.as_ref().map(cut_lookup)).collect());
        Part { samples: samples.len(), arguments: arguments.collect(), lookups: lookups.collect() }
    }

    /// The data, for a run on `device`.
    pub(crate) fn arguments(&self, device: &Device) -> Vec<Option<Argument>> {
        let mut arguments = self.arguments.clone();
        if device.is_autodiff() {
            for argument in arguments.iter_mut().flatten() {
                if let Value::Dense(tensor) = &argument.value {
                    argument.value = Value::Dense(tensor.clone().autodiff());
                }
            }
        }
        arguments
    }

    /// By slot of the layer: where the ids of its input are in the parameter's rows.
    pub(crate) fn lookups(&self, layer: usize) -> Vec<Option<&[u32]>> {
        self.lookups[layer]
            .iter()
            .map(|lookup| lookup.as_ref().map(|lookup| &*lookup.rows))
            .collect()
    }
}

/// Keys in the order in which they were first seen, found by a table of places that is never more
/// than half full. A batch asks for tens of thousands, so this is a good part of a sparse step.
struct Rows {
    keys: Vec<u64>,
    /// A place in `keys`, plus one; 0 is empty. As many as a power of two.
    slots: Vec<u32>,
}

thread_local! {
    /// Memory of the last table, for that of the next batch.
    static SLOTS: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

impl Rows {
    fn new() -> Rows {
        let mut slots = SLOTS.take();
        slots.clear();
        Rows { keys: Vec::new(), slots }
    }

    fn into_keys(self) -> Vec<u64> {
        SLOTS.set(self.slots);
        self.keys
    }

    /// Makes room for `more` keys.
    fn reserve(&mut self, more: usize) {
        let needed = (self.keys.len() + more).max(1) * 2;
        if needed <= self.slots.len() {
            return;
        }
        self.slots.clear();
        self.slots.resize(needed.next_power_of_two(), 0);
        for place in 0..self.keys.len() {
            let slot = self.slot(self.keys[place]);
            self.slots[slot] = place as u32 + 1;
        }
    }

    /// The place of a key, for which there must be room.
    fn find(&mut self, key: u64) -> u32 {
        if key == NO_ID {
            return NO_ROW;
        }
        let slot = self.slot(key);
        if self.slots[slot] == 0 {
            self.keys.push(key);
            self.slots[slot] = self.keys.len() as u32;
        }
        self.slots[slot] - 1
    }

    /// The slot where a key is, or where it would be.
    fn slot(&self, key: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = mix(key) as usize & mask;
        while self.slots[slot] != 0 && self.keys[self.slots[slot] as usize - 1] != key {
            slot = (slot + 1) & mask;
        }
        slot
    }
}
