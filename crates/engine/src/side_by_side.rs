//! Lookups of one table whose rows stand side by side, as one operation.
//!
//! Click models look up one row for each of some dozen slots and concatenate them. One by one, each
//! lookup makes a tensor, and on the way back a gradient as large as all rows of the batch, which
//! are then added up; that costs more than the lookups. So a `concat` over such layers, where
//! nobody else looks at them, gathers all rows straight into its output, and its gradient is added
//! to one gradient of the table, sample by sample.
//!
//! Only on the CPU; on other devices, and when the output of such a layer is asked for, the layers
//! run as they are written.

use crate::argument::{Argument, Value, numbers};
use crate::fused::{self, Fused};
use crate::layer::{Layer, Plan, Run};
use crate::row_sums::{RowLists, add_scaled};
use crate::shape::{self, Level, Shape};
use crate::topology::{Checked, Topology};
use crate::vector::widely;
use burn::tensor::Tensor;
use contract::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Lookups of fewer layers are left alone.
const LOOKUPS_MIN: usize = 2;

/// The layers of a network that run as one.
#[derive(Default)]
pub(crate) struct Joined {
    /// By place of the `concat`.
    pub(crate) layers: BTreeMap<usize, SideBySide>,
    /// Places of the lookups, which do not run.
    pub(crate) skipped: BTreeSet<usize>,
}

/// A `concat` of lookups and other inputs.
pub(crate) struct SideBySide {
    /// In the order of the columns.
    parts: Vec<Part>,
    /// Places of the layers it reads: of a lookup, the layer that has its ids.
    pub(crate) inputs: Vec<usize>,
    /// For each lookup, place and slot of the layer that it stands for.
    pub(crate) lookups: Vec<(usize, usize)>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    /// Rows of the table in this slot.
    Lookup { slot: usize, table: usize, width: usize },
    /// Numbers that are fed, so that they need no gradient.
    Data { width: usize },
    /// What another layer gives.
    Other,
}

impl Joined {
    /// Finds what can run as one.
    pub(crate) fn new(topology: &Topology, checked: &Checked) -> Joined {
        let mut readers = vec![0; topology.layers.len()];
        for place in checked.inputs.iter().flatten() {
            readers[*place] += 1;
        }
        let seen = topology.evaluators.iter().flat_map(|evaluator| &evaluator.inputs);
        let seen: BTreeSet<&String> = topology.outputs.iter().chain(seen).collect();
        let is_free = |place: usize| {
            let layer = &topology.layers[place];
            readers[place] == 1 && !seen.contains(&layer.name) && is_plain_lookup(layer)
        };
        let mut joined = Joined::default();
        for (place, layer) in topology.layers.iter().enumerate() {
            let is_single = checked.shapes[place].level == Level::Single;
            if layer.kind != "concat" || layer.has_bias || !is_single {
                continue;
            }
            let (mut parts, mut inputs, mut lookups) = (Vec::new(), Vec::new(), Vec::new());
            for &input in &checked.inputs[place] {
                let Shape { size: width, is_data, value, .. } = checked.shapes[input];
                if is_free(input) {
                    let (slot, table) = (lookups.len(), checked.parameters[input][0]);
                    parts.push(Part::Lookup { slot, table, width });
                    inputs.push(checked.inputs[input][0]);
                    lookups.push((input, 0));
                } else {
                    let is_fed = is_data && value == shape::Value::Dense;
                    parts.push(if is_fed { Part::Data { width } } else { Part::Other });
                    inputs.push(input);
                }
            }
            if runs(&parts).any(|run| count_lookups(run) >= LOOKUPS_MIN) {
                joined.skipped.extend(lookups.iter().map(|(layer, _)| *layer));
                joined.layers.insert(place, SideBySide { parts, inputs, lookups });
            }
        }
        joined
    }
}

/// Whether a layer looks rows up and does nothing else.
fn is_plain_lookup(layer: &crate::topology::Layer) -> bool {
    let is_finished = layer.activation == crate::activation::Activation::Linear
        && !layer.has_bias
        && layer.drop_rate == 0.0
        && layer.error_clip.is_none();
    let projections = layer.attributes.get("projections").and_then(|all| all.as_array());
    let is_table = projections.is_some_and(|all| match all.as_slice() {
        [one] => one.get("name").and_then(|name| name.as_str()) == Some("table"),
        _ => false,
    });
    layer.kind == "mixed" && is_finished && is_table
}

/// The parts in runs that one operation makes: lookups of one table, with data between them.
fn runs(parts: &[Part]) -> impl Iterator<Item = &[Part]> {
    parts.chunk_by({
        let mut table_of_run = None;
        move |before, after| {
            if let Part::Lookup { table, .. } = before {
                table_of_run = Some(*table);
            }
            let goes_on = match (before, after) {
                (Part::Other, _) | (_, Part::Other) => false,
                (_, Part::Data { .. }) => true,
                (_, Part::Lookup { table, .. }) => table_of_run.is_none_or(|one| one == *table),
            };
            if !goes_on {
                table_of_run = None;
            }
            goes_on
        }
    })
}

fn count_lookups(parts: &[Part]) -> usize {
    parts.iter().filter(|part| matches!(part, Part::Lookup { .. })).count()
}

impl Layer for SideBySide {
    fn plan(&self, _inputs: &[Shape]) -> Result<Plan> {
        unreachable!("it stands for layers that were planned")
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let rows = inputs[0].rows();
        let mut done = 0;
        let mut outputs = Vec::new();
        for parts in runs(&self.parts) {
            let inputs = &inputs[done..done + parts.len()];
            done += parts.len();
            outputs.push(match count_lookups(parts) {
                0 => Tensor::cat(inputs.iter().map(|one| one.dense()).collect::<Result<_>>()?, 1),
                _ => gather(run, parts, inputs, rows)?,
            });
        }
        let output = match outputs.len() {
            1 => outputs.remove(0),
            _ => Tensor::cat(outputs, 1),
        };
        Ok(Argument::single(output))
    }
}

fn gather(run: &Run<'_>, parts: &[Part], inputs: &[&Argument], rows: usize) -> Result<Tensor<2>> {
    let mut column = 0;
    let mut columns = Vec::with_capacity(parts.len());
    let mut table = None;
    for (part, input) in parts.iter().zip(inputs) {
        let (width, source) = match (part, &input.value) {
            (Part::Lookup { slot, width, .. }, _) => {
                table = Some(run.parameter(*slot));
                (*width, Source::Rows(run.lists(*slot, input)?))
            }
            (Part::Data { width }, Value::Dense(data)) => {
                (*width, Source::Fed(numbers(data.clone())))
            }
            _ => unreachable!("parts were planned"),
        };
        columns.push(Columns { first: column, width, source });
        column += width;
    }
    let Some(table) = table else { unreachable!("one of the parts is a lookup") };
    Ok(fused::apply(Arc::new(Gather { columns, width: column, rows }), vec![table]))
}

/// Rows of a table, and data, in the columns of one matrix.
#[derive(Debug)]
struct Gather {
    columns: Vec<Columns>,
    width: usize,
    rows: usize,
}

#[derive(Debug)]
struct Columns {
    first: usize,
    width: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Rows(RowLists),
    Fed(Vec<f32>),
}

impl Fused for Gather {
    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let table = inputs[0];
        let mut output = Vec::with_capacity(self.rows * self.width);
        widely(
            #[inline(always)]
            || {
                for row in 0..self.rows {
                    for Columns { width, source, .. } in &self.columns {
                        source.append(row, *width, table, &mut output);
                    }
                }
            },
        );
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        if !wanted[0] {
            return Vec::new();
        }
        let mut table = vec![0.0; inputs[0].len()];
        widely(
            #[inline(always)]
            || {
                for (row, gradient) in gradient.chunks_exact(self.width).enumerate() {
                    for Columns { first, width, source } in &self.columns {
                        let Source::Rows(lists) = source else { continue };
                        let change = &gradient[*first..first + width];
                        for entry in lists.offsets[row]..lists.offsets[row + 1] {
                            let to = &mut table[lists.rows[entry] as usize * width..][..*width];
                            add_scaled(to, lists.weight(entry), change);
                        }
                    }
                }
            },
        );
        vec![table]
    }
}

impl Source {
    /// Appends the columns of a row.
    #[inline(always)]
    fn append(&self, row: usize, width: usize, table: &[f32], output: &mut Vec<f32>) {
        match self {
            Source::Fed(values) => output.extend_from_slice(&values[row * width..][..width]),
            Source::Rows(lists) => lists.append_sum(row, table, width, output),
        }
    }
}
