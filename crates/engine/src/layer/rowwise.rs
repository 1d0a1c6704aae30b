//! Layers without parameters that make a row of each row of their inputs. What they check and how
//! they run is the same, so such a layer is a rule for its size and a function of tensors.

use super::{Layer, Plan, Run, expect_dense, expect_inputs, expect_same_level, expect_same_rows};
use crate::argument::Argument;
use crate::shape::Shape;
use burn::tensor::Tensor;
use contract::Result;

/// A layer of one input, each number of which becomes one; a picture stays a picture.
pub(super) fn each(
    compute: impl Fn(Tensor<2>) -> Tensor<2> + Send + Sync + 'static,
) -> Box<dyn Layer> {
    Box::new(Each(compute))
}

/// A layer of two inputs, whose names are for errors. `width` gives the size of the output.
pub(super) fn pair(
    names: [&'static str; 2],
    width: impl Fn([&Shape; 2]) -> Result<usize> + Send + Sync + 'static,
    compute: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<2> + Send + Sync + 'static,
) -> Box<dyn Layer> {
    Box::new(Pair { names, width, compute })
}

struct Each<Compute>(Compute);

impl<Compute: Fn(Tensor<2>) -> Tensor<2> + Send + Sync> Layer for Each<Compute> {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        Ok(Plan::of(inputs[0].with_size(inputs[0].size).with_sides_of(&inputs[0])))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        Ok(Argument::like(inputs[0], (self.0)(inputs[0].dense()?)))
    }
}

struct Pair<Width, Compute> {
    names: [&'static str; 2],
    width: Width,
    compute: Compute,
}

impl<Width, Compute> Layer for Pair<Width, Compute>
where
    Width: Fn([&Shape; 2]) -> Result<usize> + Send + Sync,
    Compute: Fn(Tensor<2>, Tensor<2>) -> Tensor<2> + Send + Sync,
{
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        for (name, input) in self.names.iter().zip(inputs) {
            expect_dense(name, input)?;
        }
        Ok(Plan::of(inputs[0].with_size((self.width)([&inputs[0], &inputs[1]])?)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let made = (self.compute)(inputs[0].dense()?, inputs[1].dense()?);
        Ok(Argument::like(inputs[0], made))
    }
}
