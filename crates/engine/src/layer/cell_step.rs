//! One step of LSTM and GRU cells, for steps of recurrent groups that do more than `lstmemory` and
//! `grumemory`.

use super::{
    Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs, expect_same_level,
    expect_same_rows,
};
use crate::argument::Argument;
use crate::recurrence::{Gate, gru_step, lstm_step};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

/// Takes the sums of the four parts and the state before; gives the output and, beside it, the new
/// state. The bias is that of the three peepholes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LstmStep {
    activation: Gate,
    gate_activation: Gate,
    state_activation: Gate,
    has_bias: bool,
}

/// Takes the three parts and the output before; gives the output.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GruStep {
    activation: Gate,
    gate_activation: Gate,
    has_bias: bool,
}

pub(super) fn build_lstm(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<LstmStep>(layer)?))
}

pub(super) fn build_gru(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<GruStep>(layer)?))
}

/// The size of a cell, whose input has `parts` parts and whose memory one.
fn cell_size(inputs: &[Shape], parts: usize) -> Result<usize> {
    expect_inputs(inputs, 2..=2)?;
    expect_dense("the input", &inputs[0])?;
    expect_dense("the memory", &inputs[1])?;
    expect_same_level(inputs)?;
    let (input, size) = (inputs[0].size, inputs[1].size);
    if input != parts * size {
        return Err(Error::invalid(format!(
            "the input has size {input} but must have {parts} times that of the memory, {size}"
        )));
    }
    Ok(size)
}

impl Layer for LstmStep {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        let size = cell_size(inputs, 4)?;
        let mut plan = Plan::of(inputs[0].with_size(2 * size));
        plan.parameters.extend(self.has_bias.then(|| Slot::bias(3 * size)));
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let gates = [self.activation, self.gate_activation, self.state_activation];
        let peepholes = run.parameters.first();
        let (output, state) = lstm_step(gates, &inputs[0].dense()?, inputs[1].dense()?, peepholes);
        Ok(Argument::like(inputs[0], Tensor::cat(vec![output, state], 1)))
    }
}

impl Layer for GruStep {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        let size = cell_size(inputs, 3)?;
        let mut plan = Plan::of(inputs[0].with_size(size));
        plan.parameters.push(Slot::weight(0, [size, 3 * size]));
        plan.parameters.extend(self.has_bias.then(|| Slot::bias(3 * size)));
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let gates = [self.activation, self.gate_activation];
        let mut x = inputs[0].dense()?;
        if self.has_bias {
            x = x + run.parameter(1);
        }
        let output = gru_step(gates, &x, inputs[1].dense()?, &run.parameter(0));
        Ok(Argument::like(inputs[0], output))
    }
}
