//! The loss of SSD: how far the boxes that answer for an object are from it, and how sure they,
//! and some boxes that answer for none, are of the right class.

use super::matching::match_priors;
use super::{Prior, Truth};
use crate::fused::Operation;

/// The loss of a batch; inputs are the locations and the scores of the classes, prior by prior.
#[derive(Debug)]
pub(crate) struct MultiBoxLoss {
    pub(crate) priors: Vec<Prior>,
    /// The objects of each sample.
    pub(crate) truths: Vec<Vec<Truth>>,
    pub(crate) classes: usize,
    /// The class of nothing.
    pub(crate) background: usize,
    pub(crate) overlap_threshold: f32,
    /// A box that overlaps an object by so much is no example of nothing.
    pub(crate) negative_overlap: f32,
    /// Examples of nothing for each of an object.
    pub(crate) negatives: f32,
}

/// An example: the box of a sample, and the object or nothing that it should show.
struct Example<'a> {
    sample: usize,
    prior: usize,
    truth: Option<&'a Truth>,
}

impl MultiBoxLoss {
    fn scores<'a>(&self, scores: &'a [f32], sample: usize, prior: usize) -> &'a [f32] {
        &scores[(sample * self.priors.len() + prior) * self.classes..][..self.classes]
    }

    /// How sure a box is that it shows an object.
    fn sureness(&self, scores: &[f32]) -> f64 {
        let objects = (0..self.classes).filter(|class| *class != self.background);
        objects.map(|class| probability(scores, class)).fold(0.0, f64::max)
    }

    /// The examples of a batch: all boxes that answer for an object, and of the others those that
    /// are most sure to show one.
    fn examples(&self, scores: &[f32]) -> Vec<Example<'_>> {
        let mut all = Vec::new();
        for (sample, truths) in self.truths.iter().enumerate() {
            let matched = match_priors(&self.priors, truths, self.overlap_threshold);
            let mut found = 0;
            let mut others = Vec::new();
            for (prior, object) in matched.objects.iter().enumerate() {
                if let Some(object) = object {
                    all.push(Example { sample, prior, truth: Some(&truths[*object]) });
                    found += 1;
                } else if matched.overlaps[prior] < self.negative_overlap {
                    let own = self.scores(scores, sample, prior);
                    others.push((self.sureness(own), prior));
                }
            }
            let wanted = (self.negatives * found as f32) as usize;
            others.sort_by(|a, b| b.0.total_cmp(&a.0));
            let taken = others.into_iter().take(wanted);
            all.extend(taken.map(|(_, prior)| Example { sample, prior, truth: None }));
        }
        all
    }
}

/// What softmax makes of the score of a class.
fn probability(scores: &[f32], class: usize) -> f64 {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let power = |score: f32| f64::from(score - highest).exp();
    power(scores[class]) / scores.iter().map(|score| power(*score)).sum::<f64>()
}

impl Operation for MultiBoxLoss {
    /// The gradients of the locations and of the scores.
    type Saved = [Vec<f32>; 2];

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, [Vec<f32>; 2]) {
        let (locations, scores) = (inputs[0], inputs[1]);
        let examples = self.examples(scores);
        let matches = examples.iter().filter(|example| example.truth.is_some()).count();
        // Without an object there are no examples, and nothing is to be learnt.
        let share = 1.0 / matches.max(1) as f64;
        let mut gradients = [vec![0.0; locations.len()], vec![0.0; scores.len()]];
        let mut loss = 0.0;
        for Example { sample, prior, truth } in examples {
            let place = sample * self.priors.len() + prior;
            if let Some(truth) = truth {
                let wanted = self.priors[prior].encode(&truth.rectangle);
                for (side, wanted) in wanted.iter().enumerate() {
                    let distance = f64::from(locations[place * 4 + side]) - f64::from(*wanted);
                    let near = distance.clamp(-1.0, 1.0);
                    loss += share * (0.5 * near * near + (distance - near).abs());
                    gradients[0][place * 4 + side] = (share * near) as f32;
                }
            }
            let own = self.scores(scores, sample, prior);
            let wanted = truth.map_or(self.background, |truth| truth.class);
            loss -= share * probability(own, wanted).max(f64::from(f32::MIN_POSITIVE)).ln();
            for class in 0..self.classes {
                let is_wanted = f64::from(u8::from(class == wanted));
                let gradient = share * (probability(own, class) - is_wanted);
                gradients[1][place * self.classes + class] = gradient as f32;
            }
        }
        (vec![loss as f32; self.truths.len()], gradients)
    }

    fn backward(
        &self,
        _inputs: &[&[f32]],
        saved: &[Vec<f32>; 2],
        gradient: &[f32],
    ) -> Vec<Vec<f32>> {
        // All samples show the loss of the batch, which is learnt from once.
        let mean = gradient.iter().sum::<f32>() / gradient.len() as f32;
        let scaled = |values: &Vec<f32>| values.iter().map(|value| value * mean).collect();
        saved.iter().map(scaled).collect()
    }
}
