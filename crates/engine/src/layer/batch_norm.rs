//! Batch normalization: each channel of a picture, or each column, with the mean and variance that
//! it has over the batch, and a learnt scale and bias instead.
//!
//! In training they are those of the batch; where threads share a batch, those of each thread's
//! part, as in the original. A test takes moving averages, which training measures and which belong
//! to the trainer: they are parameters that are saved with the model, but no gradient changes them
//! and no server has them.

use super::{Initial, Layer, Plan, Run, Slot, attributes, expect_dense, expect_inputs};
use crate::activation::Activation;
use crate::argument::Argument;
use crate::image::normalization::{Normalization, Statistics};
use crate::shape::Shape;
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchNorm {
    channels: Option<usize>,
    epsilon: f32,
    /// The share of the old averages in the new ones.
    moving_average_fraction: f32,
    /// Whether a test takes the averages, not what it finds in its batch.
    use_global_stats: bool,
}

/// The places of its parameters; the bias, if there is one, is the last.
const SCALE: usize = 0;
const MEAN: usize = 1;
const VARIANCE: usize = 2;
const BIAS: usize = 3;

pub(super) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<BatchNorm>(layer)?))
}

impl BatchNorm {
    fn normalization(&self, input: &Shape) -> Result<Normalization> {
        let known = input
            .frame
            .map(|(height, width)| input.size / (input.depth.unwrap_or(1) * height * width));
        let channels = known.or(self.channels).unwrap_or(input.size);
        let is_right = self.channels.is_none_or(|said| said == channels);
        if !is_right || channels == 0 || !input.size.is_multiple_of(channels) {
            return Err(Error::invalid(format!(
                "num_channels is {} but the input of size {} has {channels} channels; leave \
                 num_channels out",
                self.channels.unwrap_or(0),
                input.size
            )));
        }
        Ok(Normalization { channels, pixels: input.size / channels, epsilon: self.epsilon })
    }

    fn run(&self, run: &Run<'_>, inputs: &[&Argument], is_relu: bool) -> Result<Argument> {
        let how = self.normalization(&run.shapes[0])?;
        let x = inputs[0].dense()?;
        let bias = match run.parameters.get(BIAS) {
            Some(bias) => bias.clone(),
            None => Tensor::zeros([1, how.channels], &x.device()),
        };
        let scale = run.parameter(SCALE);
        if !run.is_training && self.use_global_stats {
            let known = [run.parameter(MEAN), run.parameter(VARIANCE)];
            return Ok(Argument::like(inputs[0], how.apply_known(x, known, [scale, bias])));
        }
        let (y, found) = how.apply([x, scale, bias], is_relu);
        if run.is_training {
            self.measure(run, &found);
        }
        Ok(Argument::like(inputs[0], y))
    }

    /// Tells what the averages are after this batch.
    fn measure(&self, run: &Run<'_>, found: &Statistics) {
        let keep = self.moving_average_fraction;
        for (slot, now) in [(MEAN, &found.mean), (VARIANCE, &found.variance)] {
            let before = crate::argument::numbers(run.parameter(slot));
            let pairs = before.iter().zip(now);
            let after = pairs.map(|(before, now)| keep * before + (1.0 - keep) * now);
            run.measure(slot, after.collect());
        }
    }
}

impl Layer for BatchNorm {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 1..=1)?;
        expect_dense("the input", &inputs[0])?;
        if self.epsilon.is_nan() || self.epsilon <= 0.0 {
            return Err(Error::invalid("epsilon must be above 0").with("epsilon", self.epsilon));
        }
        if !(0.0..=1.0).contains(&self.moving_average_fraction) {
            return Err(Error::invalid("moving_average_fraction must be 0 to 1")
                .with("moving_average_fraction", self.moving_average_fraction));
        }
        let dims = [1, self.normalization(&inputs[0])?.channels];
        let shape = inputs[0].with_size(inputs[0].size).with_sides_of(&inputs[0]);
        let mut plan = Plan::of(shape);
        let scale = Initial::Constant { value: 1.0 };
        plan.parameters.push(Slot { initial: scale, ..Slot::weight(0, dims) });
        for place in [MEAN, VARIANCE] {
            let slot = Slot { initial: Initial::Zero, ..Slot::weight(place, dims) };
            plan.parameters.push(Slot { is_measured: true, ..slot });
        }
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        self.run(run, inputs, false)
    }

    fn forward_finished(
        &self,
        run: &Run<'_>,
        inputs: &[&Argument],
        activation: Activation,
    ) -> Option<Result<Argument>> {
        let is_test = !run.is_training && self.use_global_stats;
        (activation == Activation::Relu && !is_test).then(|| self.run(run, inputs, true))
    }

    fn own_bias(&self, output: &Shape) -> Option<usize> {
        self.normalization(output).ok().map(|how| how.channels)
    }
}
