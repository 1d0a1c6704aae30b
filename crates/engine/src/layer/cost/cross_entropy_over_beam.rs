//! Learning to search: the cross entropy over all paths that a beam search has kept.
//!
//! A search has some steps. Each gives a score to every candidate and keeps a few of them; what was
//! kept is what the next step has sequences of candidates for, in the same order. A path is one
//! candidate a step, its score the sum of theirs. The right path may leave the beam: then the steps
//! after that do not count, and the right path is compared as one more path of that step.

use super::super::places::{expect_places, read_places};
use super::super::{Layer, Plan, Run, expect_dense, expect_sequence};
use crate::argument::Argument;
use crate::batch::NO_ID;
use crate::fused::{self, Operation};
use crate::shape::{Level, Shape, Value};
use crate::topology;
use burn::tensor::Tensor;
use contract::{Error, Result};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CrossEntropyOverBeam {
    #[serde(default = "super::one")]
    coeff: f32,
}

/// Inputs of a step: scores, places that were kept, the right place.
const STEP_INPUTS: usize = 3;

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(super::super::attributes::<CrossEntropyOverBeam>(layer)?))
}

impl Layer for CrossEntropyOverBeam {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        if inputs.is_empty() || !inputs.len().is_multiple_of(STEP_INPUTS) {
            return Err(Error::invalid("needs candidate_scores, selected_candidates and gold"));
        }
        for (step, beam) in inputs.chunks(STEP_INPUTS).enumerate() {
            let [scores, selected, gold] = [&beam[0], &beam[1], &beam[2]];
            let check = || {
                expect_dense("candidate_scores", scores)?;
                expect_sequence(scores)?;
                if scores.size != 1 {
                    return Err(Error::invalid(format!(
                        "candidate_scores must have size 1 but has {}",
                        scores.size
                    )));
                }
                if step > 0 && scores.level != Level::Nested {
                    return Err(Error::invalid(format!(
                        "candidate_scores of a later step have a sequence for each candidate that \
                         was kept, so they are nested sequences, but this is {scores}"
                    )));
                }
                expect_places("selected_candidates", selected)?;
                if gold.value != Value::Integer || gold.level != Level::Single {
                    return Err(Error::invalid(format!(
                        "gold must be one integer a sample but is {gold}"
                    )));
                }
                Ok(())
            };
            check().map_err(|error: Error| error.with("beam", step))?;
        }
        Ok(Plan::of(Shape::dense(1)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let mut searches: Vec<Search> = Vec::new();
        searches.resize_with(inputs[2].rows(), Search::default);
        let (mut scores, mut begin) = (Vec::new(), 0);
        for (step, beam) in inputs.chunks(STEP_INPUTS).enumerate() {
            add_beam(&mut searches, beam, begin).map_err(|error| error.with("beam", step))?;
            begin += beam[0].rows();
            scores.push(beam[0].dense()?);
        }
        let paths = searches.iter().map(Search::paths).collect::<Result<Vec<_>>>()?;
        let cost = fused::apply_saving(OverPaths(paths), vec![Tensor::cat(scores, 0)], 1);
        Ok(Argument::single(cost))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(self.coeff)
    }
}

/// Adds a step to the search of each sample; its scores begin at `begin` among those of all steps.
fn add_beam(searches: &mut [Search], beam: &[&Argument], begin: usize) -> Result<()> {
    let offsets = beam[0].offsets()?;
    let kept = read_places(beam[1], offsets.len() - 1)?;
    let nests = match &beam[0].nests {
        Some(nests) => nests.to_vec(),
        None => (0..offsets.len()).collect(),
    };
    if nests.len() != searches.len() + 1 || beam[2].rows() != searches.len() {
        return Err(Error::invalid("beams have different numbers of samples"));
    }
    for (sample, search) in searches.iter_mut().enumerate() {
        let rows = nests[sample]..nests[sample + 1];
        let sequence = |row: usize| [begin + offsets[row], begin + offsets[row + 1]];
        let step = Step {
            sequences: rows.clone().map(sequence).collect(),
            kept: kept[rows].to_vec(),
            gold: beam[2].ids()?[sample],
        };
        search.add(step).map_err(|error| error.with("sample", sample))?;
    }
    Ok(())
}

/// A step of a sample's search.
#[derive(Debug)]
struct Step {
    /// Where the scores of each sequence of candidates begin and end.
    sequences: Vec<[usize; 2]>,
    /// For each sequence the candidates that were kept.
    kept: Vec<Vec<usize>>,
    /// The right candidate, in the sequence that it belongs to.
    gold: u64,
}

/// A sample's search.
#[derive(Debug, Default)]
struct Search {
    steps: Vec<Step>,
}

/// The scores of each path by their places; the right one first.
type Paths = Vec<Vec<usize>>;

impl Search {
    fn add(&mut self, step: Step) -> Result<()> {
        let expected = match self.steps.last() {
            None => 1,
            Some(before) => before.kept.iter().map(Vec::len).sum(),
        };
        if step.sequences.len() != expected {
            return Err(Error::invalid(format!(
                "a step has {} sequences of candidates where the one before kept {expected}",
                step.sequences.len()
            )));
        }
        for (sequence, kept) in step.sequences.iter().zip(&step.kept) {
            let length = sequence[1] - sequence[0];
            if let Some(place) = kept.iter().find(|place| **place >= length) {
                return Err(Error::invalid(format!("candidate {place} is selected of {length}")));
            }
        }
        self.steps.push(step);
        Ok(())
    }

    /// The paths that are compared.
    fn paths(&self) -> Result<Paths> {
        // Paths of the candidates that were kept so far, and where the right one is among them.
        let mut kept: Paths = vec![Vec::new()];
        let mut right = 0;
        for step in &self.steps {
            let [begin, end] = step.sequences[right];
            if step.gold == NO_ID || step.gold >= (end - begin) as u64 {
                return Err(Error::invalid(format!(
                    "gold is candidate {} of {}",
                    step.gold as i64,
                    end - begin
                )));
            }
            let gold = begin + step.gold as usize;
            let right_path = [&kept[right][..], &[gold]].concat();
            let each = step.sequences.iter().zip(&step.kept).zip(&kept);
            let next: Paths = each
                .flat_map(|((sequence, places), path)| {
                    places.iter().map(move |place| [&path[..], &[sequence[0] + place]].concat())
                })
                .collect();
            match next.iter().position(|path| *path == right_path) {
                Some(place) => (kept, right) = (next, place),
                // It has left the beam.
                None => return Ok(std::iter::once(right_path).chain(next).collect()),
            }
        }
        kept.swap(0, right);
        Ok(kept)
    }
}

/// Minus the logarithm of what softmax gives to the right path of each sample.
#[derive(Debug)]
struct OverPaths(Vec<Paths>);

impl Operation for OverPaths {
    /// For each sample what softmax gives to each path.
    type Saved = Vec<Vec<f64>>;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Vec<Vec<f64>>) {
        let softmax = |paths: &Paths| -> Vec<f64> {
            let score = |path: &Vec<usize>| path.iter().map(|at| f64::from(inputs[0][*at])).sum();
            let scores: Vec<f64> = paths.iter().map(score).collect();
            let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - highest).exp()).sum();
            scores.iter().map(|score| (score - highest).exp() / sum).collect()
        };
        let shares: Vec<Vec<f64>> = self.0.iter().map(softmax).collect();
        let cost = |shares: &Vec<f64>| -shares[0].max(f64::from(f32::MIN_POSITIVE)).ln() as f32;
        (shares.iter().map(cost).collect(), shares)
    }

    fn backward(
        &self,
        inputs: &[&[f32]],
        shares: &Vec<Vec<f64>>,
        gradient: &[f32],
    ) -> Vec<Vec<f32>> {
        let mut found = vec![0.0; inputs[0].len()];
        for ((paths, shares), gradient) in self.0.iter().zip(shares).zip(gradient) {
            for (number, (path, share)) in paths.iter().zip(shares).enumerate() {
                let right = if number == 0 { 1.0 } else { 0.0 };
                for place in path {
                    found[*place] += gradient * (share - right) as f32;
                }
            }
        }
        vec![found]
    }
}
