//! Noise-contrastive estimation: the label's class is told apart from a few classes drawn by
//! chance, instead of being compared with all of them. The chance is a function of seed, step,
//! part of the batch, and layer alone.

use super::super::{
    Layer, Plan, Run, Slot, attributes, expect_dense, expect_same_level, expect_same_rows,
};
use super::{Pairs, expect_class, expect_known};
use crate::activation::softplus;
use crate::argument::{Argument, tensor};
use crate::row_sums::{RowLists, row_sums};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nce {
    classes: usize,
    negatives: usize,
    /// How often each class is drawn; all alike if absent.
    #[serde(default)]
    distribution: Option<Vec<f64>>,
    /// Whether the last input is a weight for each row.
    #[serde(default)]
    has_weight: bool,
    #[serde(default)]
    has_bias: bool,
    #[serde(default = "super::one")]
    coeff: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Nce>(layer)?))
}

impl Nce {
    /// Inputs before the label.
    fn taken(&self, inputs: usize) -> usize {
        inputs.saturating_sub(1 + usize::from(self.has_weight))
    }

    /// How often a class is drawn.
    fn share(&self, class: u64) -> f64 {
        match &self.distribution {
            None => 1.0 / self.classes as f64,
            Some(shares) => shares[class as usize],
        }
    }

    /// A class by a number from 0 to 1; `ends` are the sums of the shares.
    fn draw(&self, number: f64, ends: &[f64]) -> u64 {
        let class = match self.distribution {
            None => (number * self.classes as f64) as usize,
            Some(_) => ends.partition_point(|end| *end <= number),
        };
        class.min(self.classes - 1) as u64
    }
}

impl Layer for Nce {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        let taken = self.taken(inputs.len());
        if taken == 0 {
            return Err(Error::invalid("takes one or more inputs and a label"));
        }
        expect_same_level(inputs)?;
        let label = &inputs[taken];
        expect_class(label, self.classes)?;
        if let Some(shares) = &self.distribution {
            let sum: f64 = shares.iter().sum();
            if shares.len() != self.classes || shares.iter().any(|share| *share <= 0.0) {
                return Err(Error::invalid(
                    "neg_distribution must have a share above 0 for every class",
                )
                .with("classes", self.classes)
                .with("shares", shares.len()));
            }
            if (sum - 1.0).abs() > 1e-3 {
                return Err(Error::invalid("neg_distribution must sum to 1").with("sum", sum));
            }
        }
        if self.negatives == 0 {
            return Err(Error::invalid("num_neg_samples must be 1 or more"));
        }
        let mut plan = Plan::of(label.with_size(1));
        for (place, input) in inputs[..taken].iter().enumerate() {
            expect_dense("the input", input)?;
            plan.parameters.push(Slot::weight(place, [self.classes, input.size]));
        }
        if self.has_bias {
            plan.parameters.push(Slot::bias(self.classes));
        }
        Ok(plan)
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let taken = self.taken(inputs.len());
        let label = inputs[taken];
        let labels = label.ids()?;
        expect_known(labels)?;
        let ends: Vec<f64> = (self.distribution.iter().flatten())
            .scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
            .collect();
        let mut numbers = run.chance.numbers();
        let (mut classes, mut is_label) = (Vec::new(), Vec::new());
        for class in labels.iter() {
            classes.push(*class);
            is_label.push(1.0);
            for number in numbers.by_ref().take(self.negatives) {
                classes.push(self.draw(number, &ends));
                is_label.push(0.0);
            }
        }
        let (each, count) = (1 + self.negatives, classes.len());
        let pairs = Pairs {
            inputs: (0..count).map(|entry| (entry / each) as u32).collect(),
            weights: classes.iter().map(|class| *class as u32).collect(),
        };
        let scores = pairs.scores(run, &inputs[..taken])?;
        // With p the sigmoid of a score and b how often noise shows the class, the label costs
        // −ln(p / (p + b)) and noise −ln(b / (p + b)).
        let device = scores.device();
        let noise = |class: &u64| (self.negatives as f64 * self.share(*class)) as f32;
        let noise = tensor(classes.iter().map(noise).collect(), [count, 1], &device);
        let is_label = tensor(is_label, [count, 1], &device);
        let minus_logarithm = softplus(scores.neg());
        let together = (minus_logarithm.clone().neg().exp() + noise.clone()).log();
        let own = is_label.clone() * minus_logarithm;
        let other = (is_label.neg() + 1.0) * noise.log();
        let costs = own - other + together;
        let offsets = (0..=labels.len()).map(|row| row * each).collect();
        let all = (0..count as u32).collect();
        let mut costs = row_sums(costs, RowLists { offsets, rows: all, weights: None });
        if self.has_weight {
            costs = costs * inputs[taken + 1].dense()?;
        }
        Ok(Argument::like(label, costs))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}
