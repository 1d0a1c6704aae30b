//! The recurrent layers: `lstmemory`, `grumemory` and `recurrent`. Their input is the projected
//! row, with a part for each gate; what they learn is how a row's output enters the next.

use super::{Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::Argument;
use crate::recurrence::{self, Cell, Gate, Steps};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

struct Recurrent {
    cell: Cell,
    is_reversed: bool,
    has_bias: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lstm {
    activation: Gate,
    gate_activation: Gate,
    state_activation: Gate,
    #[serde(default)]
    is_reversed: bool,
    #[serde(default)]
    has_bias: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Gru {
    activation: Gate,
    gate_activation: Gate,
    #[serde(default)]
    is_reversed: bool,
    #[serde(default)]
    has_bias: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Simple {
    activation: Gate,
    #[serde(default)]
    is_reversed: bool,
    #[serde(default)]
    has_bias: bool,
}

pub(super) fn build_lstm(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let Lstm { activation, gate_activation, state_activation, is_reversed, has_bias } =
        attributes(layer)?;
    let cell = Cell::Lstm { candidate: activation, gate: gate_activation, state: state_activation };
    Ok(Box::new(Recurrent { cell, is_reversed, has_bias }))
}

pub(super) fn build_gru(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let Gru { activation, gate_activation, is_reversed, has_bias } = attributes(layer)?;
    let cell = Cell::Gru { candidate: activation, gate: gate_activation };
    Ok(Box::new(Recurrent { cell, is_reversed, has_bias }))
}

pub(super) fn build_simple(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    let Simple { activation, is_reversed, has_bias } = attributes(layer)?;
    Ok(Box::new(Recurrent { cell: Cell::Simple(activation), is_reversed, has_bias }))
}

impl Layer for Recurrent {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        let (input, parts) = (&inputs[0], self.cell.parts());
        expect_dense("the input", input)?;
        expect_sequence(input)?;
        if input.size % parts != 0 || input.size == 0 {
            return Err(Error::invalid(format!(
                "the input has size {}, which is not {parts} times the size of a cell; project it \
                 first, with a fc or mixed layer of size {parts} x the cell's",
                input.size
            )));
        }
        let size = input.size / parts;
        let mut plan = Plan::of(input.with_size(size));
        plan.parameters.push(Slot::weight(0, [size, parts * size]));
        if self.has_bias {
            plan.parameters.push(Slot::bias(self.cell.bias_parts() * size));
        }
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let steps = Steps::new(inputs[0].offsets()?, self.is_reversed);
        let size = x.dims()[1] / self.cell.parts();
        let taken = std::iter::once(x).chain(run.parameters.iter().cloned()).collect();
        Ok(Argument::like(inputs[0], recurrence::run(self.cell, size, steps, taken)))
    }
}
