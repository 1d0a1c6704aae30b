//! All numbers of a batch in rows of another size: a batch of 4 rows of 6 becomes 8 rows of 3.

use super::{Layer, Plan, Run, attributes, expect_dense, expect_inputs};
use crate::argument::Argument;
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resize {
    size: usize,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Resize>(layer)?))
}

impl Layer for Resize {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        if self.size == 0 {
            return Err(Error::invalid("size must be 1 or more"));
        }
        Ok(Plan::of(Shape::dense(self.size)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let x = inputs[0].dense()?;
        let [rows, width] = x.dims();
        if !(rows * width).is_multiple_of(self.size) {
            return Err(Error::invalid(format!(
                "{rows} rows of {width} numbers cannot be made rows of {}",
                self.size
            )));
        }
        Ok(Argument::single(x.reshape([rows * width / self.size, self.size])))
    }

    fn is_sample_by_sample(&self) -> bool {
        false
    }
}
