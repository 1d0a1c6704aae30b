//! What is fed: it has no inputs, and its output is the batch's.

use super::{Layer, Plan, Run, attributes, expect_inputs};
use crate::argument::Argument;
use crate::shape::{Level, Shape, Value};
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    value: Value,
    level: Level,
    /// Absent: any 64-bit key.
    size: Option<usize>,
    frame: Option<(usize, usize)>,
    #[serde(default)]
    depth: Option<usize>,
}

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Data>(layer)?))
}

impl Layer for Data {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 0..=0)?;
        if self.size == Some(0) || (self.size.is_none() && self.value == Value::Dense) {
            return Err(Error::invalid("a data layer has a size of 1 or more")
                .with("size", self.size.unwrap_or(0)));
        }
        let size = self.size.unwrap_or(0);
        if let Some((height, width)) = self.frame {
            let pixels = height.checked_mul(width);
            let pixels = pixels.and_then(|pixels| pixels.checked_mul(self.depth.unwrap_or(1)));
            if pixels.is_none_or(|pixels| pixels == 0 || !size.is_multiple_of(pixels)) {
                let depth =
                    self.depth.map_or(String::new(), |depth| format!("depth {depth} times "));
                return Err(Error::invalid(format!(
                    "{depth}height {height} times width {width} does not divide the size {size}"
                )));
            }
        }
        let Data { value, level, frame, depth, .. } = *self;
        Ok(Plan::of(Shape { size, value, level, is_data: true, frame, depth }))
    }

    fn forward(&self, _run: &Run<'_>, _inputs: &[&Argument]) -> Result<Argument> {
        Err(Error::invalid("a data layer is fed, not computed"))
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}
