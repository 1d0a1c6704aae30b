//! Networks that are run again and again: along sequences (`recurrent_group`), or until a sentence
//! is complete (`beam_search`).

mod beam_search;
mod step;

pub(super) use beam_search::build as build_beam_search;

use super::{Layer, Plan, Run, attributes};
use crate::argument::{Argument, Origin};
use crate::recurrence::Steps;
use crate::shape::{self, Level, Shape};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::{Arc, OnceLock};
use step::{Checked, Role, Step};

/// Runs a step for every row of its sequences, or for every sequence of nested ones. All samples
/// go through a step at once, those that are long enough.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    step: Step,
    is_reversed: bool,
    #[serde(skip)]
    checked: OnceLock<Checked>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Group>(layer)?))
}

impl Layer for Group {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        if self.step.links.iter().all(|link| link.role != Role::Part) {
            return Err(Error::invalid(
                "a recurrent group needs at least one sequence to go along; all its inputs are \
                 StaticInput",
            ));
        }
        let checked = self.step.check(inputs, Vec::new())?;
        let shape = joined(&checked)?;
        let level = match shape.level {
            Level::Single => Level::Sequence,
            Level::Sequence | Level::Nested => Level::Nested,
        };
        let shape = Shape { level, ..Shape::dense(shape.size) };
        Ok(Plan { shape, parameters: checked.parameters })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let checked = checked(&self.checked, || self.step.check(run.shapes, Vec::new()))?;
        let offsets = self.way(inputs)?;
        let steps = Steps::new(&offsets, self.is_reversed);
        let parts = |role: Role, input: &Argument| match role {
            Role::Part => input.unnested().0.select(steps.places()).split(steps.offsets()),
            Role::Whole => vec![input.select(steps.sequences())],
            Role::Boot | Role::Word => vec![input.clone()],
        };
        let links = self.step.links.iter().zip(inputs);
        let links: Vec<Vec<Argument>> =
            links.map(|(link, input)| parts(link.role, input)).collect();
        let mut memories = self.step.boot(checked, run, inputs, steps.sequences())?;
        let mut outputs = Vec::new();
        for step in 0..steps.len() {
            let samples = steps.range(step).len();
            let seen = self.step.links.iter().zip(&links).map(|(link, parts)| match link.role {
                Role::Part => parts[step].clone(),
                Role::Whole => parts[0].first(samples),
                Role::Boot | Role::Word => parts[0].clone(),
            });
            let kept = memories.iter().map(|memory| memory.first(samples));
            let values = self.step.run(checked, run, step, seen.chain(kept).collect())?;
            outputs.push(side_by_side(checked, &values)?);
            memories = checked.remember(&values);
        }
        let (shape, order) = (joined(checked)?, steps.packed());
        let arrange = |parts: &[Argument]| Argument::join(parts, &shape, run.device).select(&order);
        let origin = origin(&outputs, arrange);
        Ok(Argument { origin, ..arrange(&outputs).nested(offsets) })
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}

impl Group {
    /// Where each sample begins in what the group goes along.
    fn way(&self, inputs: &[&Argument]) -> Result<Arc<[usize]>> {
        let mut way: Option<&Arc<[usize]>> = None;
        for (link, input) in self.step.links.iter().zip(inputs) {
            if link.role != Role::Part {
                continue;
            }
            let (_, offsets) = input.unnested();
            if way.is_some() && way != offsets {
                return Err(Error::invalid(
                    "inputs are sequences of different lengths in the same sample; a recurrent \
                     group takes them step by step",
                ));
            }
            way = offsets;
        }
        way.cloned().ok_or_else(|| Error::invalid("needs a sequence to go along"))
    }
}

/// What softmax or sigmoid was applied to in every step, arranged as the outputs are: costs are
/// computed from it.
fn origin(outputs: &[Argument], arrange: impl Fn(&[Argument]) -> Argument) -> Option<Origin> {
    let before = |output: &Argument| match &output.origin {
        Some(Origin::Softmax(x) | Origin::Sigmoid(x)) => Some(Argument::like(output, x.clone())),
        Some(Origin::Ids(_)) | None => None,
    };
    let all = outputs.iter().map(before).collect::<Option<Vec<_>>>()?;
    let x = arrange(&all).dense().ok()?;
    match outputs.first()?.origin {
        Some(Origin::Softmax(_)) => Some(Origin::Softmax(x)),
        _ => Some(Origin::Sigmoid(x)),
    }
}

/// What a network was found to be, found when it is first asked for.
fn checked(cell: &OnceLock<Checked>, check: impl FnOnce() -> Result<Checked>) -> Result<&Checked> {
    match cell.get() {
        Some(checked) => Ok(checked),
        None => {
            let checked = check()?;
            Ok(cell.get_or_init(|| checked))
        }
    }
}

/// The outputs of a step, side by side.
fn joined(checked: &Checked) -> Result<Shape> {
    let shapes: Vec<Shape> = checked.outputs.iter().map(|place| checked.shapes[*place]).collect();
    let Some(first) = shapes.first() else {
        return Err(Error::invalid("a step must give at least one layer"));
    };
    for shape in &shapes {
        if shape.value != shape::Value::Dense || shape.level != first.level {
            return Err(Error::invalid(format!(
                "the layers that a step gives must have numbers, and all be sequences or none; \
                 one is {first}, another {shape}"
            )));
        }
    }
    Ok(Shape { level: first.level, ..Shape::dense(shapes.iter().map(|shape| shape.size).sum()) })
}

fn side_by_side(checked: &Checked, values: &[Argument]) -> Result<Argument> {
    let outputs: Vec<&Argument> = checked.outputs.iter().map(|place| &values[*place]).collect();
    if let [one] = outputs[..] {
        return Ok(one.clone());
    }
    super::expect_same_rows(&outputs)?;
    let columns = outputs.iter().map(|output| output.dense()).collect::<Result<Vec<_>>>()?;
    Ok(Argument::like(outputs[0], Tensor::cat(columns, 1)))
}
