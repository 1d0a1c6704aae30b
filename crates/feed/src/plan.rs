//! Which value of a sample feeds which data layer, checked once, before any line is read.

use crate::criteo;
use crate::format::Format;
use contract::{Error, Kind, Result};
use engine::batch::{Batch, Input, Lists, Rows};
use engine::shape::{Level, Shape, Value};

/// The most values of a sample: a bound for mistakes, far above real data.
const SLOTS_MAX: usize = 65_536;

/// A data layer, and the place of its value in a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name, for messages.
    pub name: String,
    /// What it wants.
    pub shape: Shape,
    /// From 0.
    pub place: usize,
}

/// How samples become batches.
#[derive(Debug, Clone)]
pub struct Plan {
    format: Format,
    /// By place in the sample: its column, if any layer wants it.
    places: Vec<Option<usize>>,
    /// One for each place that is wanted.
    columns: Vec<Layer>,
    /// By data layer, in the order of the network: its column.
    layers: Vec<usize>,
}

impl Plan {
    /// `slots` is how many values a sample of [`Format::MultiSlot`] has; `None` takes what the
    /// layers need. `layers` are in the order of the network.
    ///
    /// # Errors
    /// If a layer wants what the format does not have.
    pub fn new(format: Format, slots: Option<usize>, layers: &[Layer]) -> Result<Plan> {
        let needed = layers.iter().map(|layer| layer.place + 1).max().unwrap_or(0);
        let slots = match format {
            Format::MultiSlot => slots.unwrap_or(needed),
            Format::Criteo { .. } => criteo::PLACES,
        };
        if let Some(layer) = layers.iter().find(|layer| layer.place >= slots) {
            return Err(Error::invalid(format!("a sample has {slots} values, counted from 0"))
                .with("data layer", &layer.name)
                .with("slot", layer.place));
        }
        if slots == 0 || slots > SLOTS_MAX {
            return Err(Error::new(Kind::LimitExceeded, "a sample must have 1 to 65536 values")
                .with("slots", slots));
        }
        let mut plan = Plan { format, places: vec![None; slots], columns: vec![], layers: vec![] };
        for layer in layers {
            check(format, layer)
                .map_err(|error| error.with("data layer", &layer.name).with("slot", layer.place))?;
            let column = match plan.places[layer.place] {
                Some(column) if plan.columns[column].shape != layer.shape => {
                    return Err(Error::invalid(format!(
                        "two data layers of different types read the same value: {} is {}, but \
                         this one is {}",
                        plan.columns[column].name, plan.columns[column].shape, layer.shape
                    ))
                    .with("data layer", &layer.name)
                    .with("slot", layer.place));
                }
                Some(column) => column,
                None => {
                    plan.columns.push(layer.clone());
                    plan.columns.len() - 1
                }
            };
            plan.places[layer.place] = Some(column);
            plan.layers.push(column);
        }
        Ok(plan)
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Values of a sample.
    pub(crate) fn slots(&self) -> usize {
        self.places.len()
    }

    /// The column of a place, if it is wanted.
    #[inline]
    pub(crate) fn column(&self, place: usize) -> Option<usize> {
        self.places[place]
    }

    pub(crate) fn shape(&self, column: usize) -> &Shape {
        &self.columns[column].shape
    }

    /// The data layer that reads a place.
    pub(crate) fn layer_at(&self, place: usize) -> Option<&str> {
        self.places.get(place)?.map(|column| self.columns[column].name.as_str())
    }

    /// Columns without samples.
    pub(crate) fn empty_inputs(&self, samples: usize) -> Vec<Input> {
        let empty = |layer: &Layer| {
            let rows = match layer.shape.value {
                Value::Dense => Rows::Dense(Vec::with_capacity(samples * layer.shape.size)),
                Value::Integer => Rows::Integer(Vec::with_capacity(samples)),
                Value::SparseBinary | Value::SparseFloat => {
                    Rows::Sparse(Lists { offsets: vec![0], ..Lists::default() })
                }
            };
            let sequences = (layer.shape.level == Level::Sequence).then(|| vec![0]);
            Input { rows, sequences, nests: None }
        };
        self.columns.iter().map(empty).collect()
    }

    /// The batch of so many samples, an input for each data layer.
    pub(crate) fn to_batch(&self, samples: usize, columns: Vec<Input>) -> Batch {
        let mut left: Vec<usize> = vec![0; columns.len()];
        self.layers.iter().for_each(|column| left[*column] += 1);
        let mut columns: Vec<Option<Input>> = columns.into_iter().map(Some).collect();
        let take = |column: &usize| {
            left[*column] -= 1;
            match left[*column] {
                0 => columns[*column].take(),
                _ => columns[*column].clone(),
            }
        };
        Batch { samples, inputs: self.layers.iter().filter_map(take).collect() }
    }
}

/// Whether a format can give a layer what it wants.
fn check(format: Format, layer: &Layer) -> Result<()> {
    let Shape { value, level, size, .. } = layer.shape;
    let wants = layer.shape;
    match format {
        Format::MultiSlot => match (value, level) {
            (Value::SparseFloat, _) => Err(Error::new(
                Kind::Unsupported,
                "MultiSlot text has no pairs of ids and numbers; use a Python reader",
            )),
            (Value::SparseBinary, Level::Single) | (Value::Dense | Value::Integer, _)
                if level != Level::Nested =>
            {
                Ok(())
            }
            _ => Err(Error::new(
                Kind::Unsupported,
                format!("MultiSlot text cannot hold what the layer wants: {wants}"),
            )),
        },
        Format::Criteo { hash_size } => {
            let is_single = level == Level::Single;
            let is_good = is_single
                && match (layer.place, value) {
                    (0, Value::Dense) => size == criteo::DENSE_FEATURES,
                    (criteo::CLICK, Value::Integer) => size >= 2,
                    (criteo::CLICK, Value::Dense) => size == 1,
                    (0 | criteo::CLICK, _) => false,
                    (_, Value::Integer | Value::SparseBinary) => {
                        size == 0 || size as u64 >= hash_size
                    }
                    (_, Value::Dense | Value::SparseFloat) => false,
                };
            let has = match layer.place {
                0 => "13 numbers, a dense vector of size 13".to_owned(),
                criteo::CLICK => {
                    "the click, an integer of size 2 or a dense vector of 1".to_owned()
                }
                _ => format!("an id below {hash_size}, an integer of at least that size"),
            };
            match is_good {
                true => Ok(()),
                false => Err(Error::invalid(format!("a Criteo sample has here {has}"))
                    .with("layer wants", wants)),
            }
        }
    }
}
