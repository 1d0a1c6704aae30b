//! The numbers of each sequence in rows of another size.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_sequence};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SequenceReshape {
    size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<SequenceReshape>(layer)?))
}

impl Layer for SequenceReshape {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        expect_sequence(&inputs[0])?;
        if self.size == 0 {
            return Err(Error::invalid("reshape_size must be 1 or more"));
        }
        Ok(Plan::of(inputs[0].with_size(self.size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let [rows, width] = x.dims();
        let mut offsets = vec![0];
        for pair in inputs[0].offsets()?.windows(2) {
            let numbers = (pair[1] - pair[0]) * width;
            if numbers % self.size != 0 {
                return Err(Error::invalid(format!(
                    "a sequence of {} rows of {width} cannot be made rows of {}",
                    pair[1] - pair[0],
                    self.size
                ))
                .with("sample", offsets.len() - 1));
            }
            offsets.push(offsets[offsets.len() - 1] + numbers / self.size);
        }
        let value = x.reshape([rows * width / self.size, self.size]);
        Ok(Argument { nests: inputs[0].nests.clone(), ..Argument::sequence(value, offsets) })
    }
}
