//! A sequence's rows become one row.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::{Argument, Offsets};
use crate::sequence::{self, Pooling};
use crate::shape::{Level, Shape};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequencePooling {
    pooling: Pooling,
    #[serde(default)]
    of: Taken,
}

/// What becomes one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Taken {
    /// All rows of a sample.
    #[default]
    Sample,
    /// Each sequence of a sample that has several.
    Sequence,
}

impl Taken {
    /// The plan of a layer that makes one row of each.
    pub(super) fn plan(self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        let input = &inputs[0];
        expect_dense("the input", input)?;
        expect_sequence(input)?;
        let level = match (self, input.level) {
            (Taken::Sample, _) => Level::Single,
            (Taken::Sequence, Level::Nested) => Level::Sequence,
            (Taken::Sequence, _) => {
                return Err(Error::invalid(format!(
                    "to make a sequence it needs sequences of sequences but its input is {input}; \
                     leave agg_level out"
                )));
            }
        };
        Ok(Plan::of(Shape { level, ..Shape::dense(input.size) }))
    }

    /// Where the rows of each begin.
    pub(super) fn offsets(self, input: &Argument) -> Result<Arc<Offsets>> {
        match self {
            Taken::Sample => input.sample_offsets(),
            Taken::Sequence => Ok(Arc::from(input.offsets()?)),
        }
    }

    /// The rows that were made.
    pub(super) fn rows(self, input: &Argument, made: Tensor<2>) -> Argument {
        match self {
            Taken::Sample => Argument::single(made),
            Taken::Sequence => {
                Argument { sequences: input.nests.clone(), ..Argument::single(made) }
            }
        }
    }
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequencePooling>(layer)?))
}

impl Layer for SequencePooling {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        self.of.plan(inputs)
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let offsets = self.of.offsets(inputs[0])?;
        let pooled = sequence::pool(inputs[0].dense()?, &offsets, self.pooling);
        Ok(self.of.rows(inputs[0], pooled))
    }
}
