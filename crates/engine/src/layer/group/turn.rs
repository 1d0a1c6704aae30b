//! How the network of a step runs.

use super::stage::Stage;
use super::step::{Checked, Remembered, Step};
use crate::argument::{Argument, Value};
use crate::layer::{Node, Run};
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;
use std::cell::RefCell;
use std::sync::Arc;

/// Whose turn it is: the layers of some stages, in a step.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    pub(super) stages: &'a [Stage],
    pub(super) step: usize,
}

impl Step {
    /// What memories are in the first step; `links` are those of all samples.
    pub(super) fn boot(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        links: &[Option<Argument>],
        samples: usize,
    ) -> Result<Vec<Argument>> {
        let each = self.memories.iter().zip(&checked.memories);
        each.map(|(memory, Remembered { boot, bias, .. })| {
            if let Some(id) = memory.boot_id {
                let ids = Value::Integer(Arc::from(vec![id; samples]));
                return Ok(Argument::single(Tensor::zeros([1, 1], run.device)).with_value(ids));
            }
            let zeros = || Argument::single(Tensor::zeros([samples, memory.size], run.device));
            let mut begin = boot.and_then(|link| links[link].clone()).unwrap_or_else(zeros);
            if let Some(bias) = bias {
                let biased = begin.dense()? + run.parameter(*bias);
                begin.set_dense(biased);
            }
            memory.activation.apply(begin)
        })
        .collect()
    }

    /// Runs the layers whose turn it is; `values` are by place.
    pub(super) fn run(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        turn: Turn<'_>,
        values: &mut [Option<Argument>],
    ) -> Result<()> {
        let given = self.links.len() + self.memories.len();
        for (number, layer) in self.layers.iter().enumerate() {
            let own = &checked.places[given + number];
            if !turn.stages.contains(&own.stage) {
                continue;
            }
            let inputs = &checked.inputs[number];
            let taken: Vec<&Argument> =
                inputs.iter().filter_map(|place| values[*place].as_ref()).collect();
            let shapes: Vec<Shape> =
                inputs.iter().map(|place| checked.places[*place].shape).collect();
            let inside = Run {
                parameters: &run.parameters[checked.slots[number].clone()],
                lookups: &[],
                chance: run.chance.within(number, turn.step),
                shapes: &shapes,
                is_training: run.is_training,
                device: run.device,
                measured: RefCell::default(),
            };
            let built = checked.built[number].as_ref();
            let value = Node { layer, built, shape: &own.shape }.run(&inside, &taken);
            let value = value.map_err(|error| error.with("step layer", &layer.name))?;
            values[given + number] = Some(value);
        }
        Ok(())
    }
}

impl Checked {
    /// What the memories of the next step are.
    pub(super) fn remember(&self, values: &[Option<Argument>]) -> Vec<Argument> {
        self.memories.iter().filter_map(|memory| values[memory.of].clone()).collect()
    }
}
