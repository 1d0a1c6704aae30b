//! Networks that are run again and again: along sequences (`recurrent_group`), or until a sentence
//! is complete (`beam_search`).

mod beam_search;
mod output;
mod stage;
mod step;
mod turn;

pub(super) use beam_search::build as build_beam_search;
pub(super) use output::build as build_output;

use super::{Layer, Plan, Run, attributes};
use crate::argument::{Argument, Origin};
use crate::recurrence::Steps;
use crate::shape::{self, Level, Shape};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;
use stage::Stage;
use std::sync::{Arc, OnceLock};
use step::{Checked, Role, Step};
use turn::Turn;

/// Runs a step for every row of its sequences, or for every sequence of nested ones. All samples
/// go through a step at once, those that are long enough.
///
/// If a step gives several rows, they stand side by side in the group's output. If it gives several
/// layers of which some are sequences, `recurrent_group_output` layers take them apart.
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
        let shape = match checked.gives_several() {
            true => checked.output_shapes()?[0],
            false => joined(&checked)?,
        };
        let shape = Shape { level: outer(shape.level), ..Shape::dense(shape.size) };
        Ok(Plan { shape, parameters: checked.parameters })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let checked = checked(&self.checked, || self.step.check(run.shapes, Vec::new()))?;
        let offsets = self.way(inputs)?;
        let steps = Steps::new(&offsets, self.is_reversed);
        // Values of all steps together: rows in the order of the steps, samples the longest first.
        let mut all: Vec<Option<Argument>> = vec![None; checked.places.len()];
        for ((link, input), value) in self.step.links.iter().zip(inputs).zip(&mut all) {
            *value = Some(match link.role {
                Role::Part => input.unnested().0.select(steps.places()),
                Role::Whole | Role::Boot | Role::Word => input.select(steps.sequences()),
            });
        }
        let early = Turn { stages: &[Stage::Before, Stage::Once], step: 0 };
        self.step.run(checked, run, early, &mut all)?;
        self.run_steps(checked, run, &steps, &mut all)?;
        checked.unpack(&steps, &mut all);
        let late = Turn { stages: &[Stage::After], step: 0 };
        self.step.run(checked, run, late, &mut all)?;
        let outside = |given: &Argument| given.clone().nested(Arc::clone(&offsets));
        if !checked.gives_several() {
            return Ok(outside(&side_by_side(checked, &all)?));
        }
        let given = checked.outputs.iter().filter_map(|place| all[*place].as_ref());
        let outputs: Arc<[Argument]> = given.map(outside).collect();
        let first =
            outputs.first().cloned().ok_or_else(|| Error::invalid("a step gave nothing"))?;
        Ok(Argument { origin: Some(Origin::Outputs(outputs)), ..first })
    }

    fn runs_without_rows(&self, inputs: &[Shape]) -> bool {
        let checked = checked(&self.checked, || self.step.check(inputs, Vec::new()));
        checked.is_ok_and(Checked::gives_several)
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}

impl Group {
    /// Runs the layers of every step, and joins what is wanted of them later.
    fn run_steps(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        steps: &Steps,
        all: &mut [Option<Argument>],
    ) -> Result<()> {
        let is_at = |stage: Stage| move |place: &usize| checked.places[*place].stage == stage;
        let mut taken = checked.taken_at(Stage::During);
        taken.extend(checked.remembered());
        taken.extend(&checked.outputs);
        let parts = unique(taken.iter().copied().filter(is_at(Stage::Before)));
        let parts = parts
            .into_iter()
            .filter_map(|place| Some((place, all[place].as_ref()?.split(steps.offsets()))));
        let parts: Vec<(usize, Vec<Argument>)> = parts.collect();
        let wholes = unique(taken.into_iter().filter(is_at(Stage::Once)));
        let wanted = checked.outputs.iter().copied().chain(checked.taken_at(Stage::After));
        // What every step sees is given by every step.
        let is_of_step = |place: &usize| is_at(Stage::During)(place) || is_at(Stage::Once)(place);
        let wanted = unique(wanted.filter(is_of_step));
        let mut kept: Vec<Vec<Argument>> = vec![Vec::new(); wanted.len()];
        let mut memories = self.step.boot(checked, run, all, steps.sequences().len())?;
        for step in 0..steps.len() {
            let samples = steps.range(step).len();
            let mut values: Vec<Option<Argument>> = vec![None; all.len()];
            for (place, parts) in &parts {
                values[*place] = Some(parts[step].clone());
            }
            for &place in &wholes {
                values[place] = all[place].as_ref().map(|whole| whole.first(samples));
            }
            for (number, memory) in memories.iter().enumerate() {
                values[self.step.links.len() + number] = Some(memory.first(samples));
            }
            self.step.run(checked, run, Turn { stages: &[Stage::During], step }, &mut values)?;
            memories = checked.remember(&values);
            for (place, kept) in wanted.iter().zip(&mut kept) {
                kept.extend(values[*place].take());
            }
        }
        for (place, kept) in wanted.into_iter().zip(kept) {
            all[place] = Some(Argument::join(&kept, &checked.places[place].shape, run.device));
        }
        Ok(())
    }

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

/// Each place once.
fn unique(places: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut places: Vec<usize> = places.collect();
    places.sort_unstable();
    places.dedup();
    places
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

/// What a layer of a step is outside of its group.
fn outer(level: Level) -> Level {
    match level {
        Level::Single => Level::Sequence,
        Level::Sequence | Level::Nested => Level::Nested,
    }
}

impl Checked {
    /// Puts what is needed after the last step in the order of the rows outside. Layers that run
    /// then give their outputs in this order already: these can be much wider than their inputs, as
    /// the probabilities of words are.
    fn unpack(&self, steps: &Steps, all: &mut [Option<Argument>]) {
        let packed = steps.packed();
        let is_there = |place: &usize| self.places[*place].stage != Stage::After;
        let wanted = self.outputs.iter().copied().chain(self.taken_at(Stage::After));
        for place in unique(wanted.filter(is_there)) {
            all[place] = all[place].take().map(|value| value.select(&packed));
        }
    }

    /// What a step gives.
    fn output_shapes(&self) -> Result<Vec<Shape>> {
        let shapes: Vec<Shape> =
            self.outputs.iter().map(|place| self.places[*place].shape).collect();
        if shapes.is_empty() {
            return Err(Error::invalid("a step must give at least one layer"));
        }
        match shapes.iter().find(|shape| shape.value != shape::Value::Dense) {
            None => Ok(shapes),
            Some(shape) => Err(Error::invalid(format!(
                "the layers that a step gives must have numbers but one is {shape}"
            ))),
        }
    }

    /// Whether a step gives several layers that cannot stand side by side.
    fn gives_several(&self) -> bool {
        let is_sequence = |place: &usize| self.places[*place].shape.level != Level::Single;
        self.outputs.len() > 1 && self.outputs.iter().any(is_sequence)
    }
}

/// The outputs of a step, side by side.
fn joined(checked: &Checked) -> Result<Shape> {
    let shapes = checked.output_shapes()?;
    let level = shapes[0].level;
    Ok(Shape { level, ..Shape::dense(shapes.iter().map(|shape| shape.size).sum()) })
}

fn side_by_side(checked: &Checked, values: &[Option<Argument>]) -> Result<Argument> {
    let outputs = checked.outputs.iter().filter_map(|place| values[*place].as_ref());
    let outputs: Vec<&Argument> = outputs.collect();
    if let [one] = outputs[..] {
        return Ok(one.clone());
    }
    super::expect_same_rows(&outputs)?;
    let columns = outputs.iter().map(|output| output.dense()).collect::<Result<Vec<_>>>()?;
    Ok(Argument::like(outputs[0], Tensor::cat(columns, 1)))
}
