//! Sentences that a step, which tells how probable each next word is, finds most probable.
//!
//! For each sample the best `beam_size` beginnings are kept and continued with every word; those
//! that end are put aside. A beginning that is worse than all sentences that were put aside cannot
//! win any more, because a sentence only becomes less probable as it grows.

use super::super::{Initial, Layer, Plan, Run, Slot, attributes};
use super::stage::Stage;
use super::step::{Checked, Role, Step};
use super::turn::Turn;
use super::{checked, joined};
use crate::argument::{Argument, Origin, numbers, tensor};
use crate::batch::NO_ID;
use crate::row_sums::{RowLists, row_sums};
use crate::shape::{Level, Shape};
use crate::topology;
use contract::{Error, Kind, Result};
use serde::Deserialize;
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

/// The most beginnings of a sample; the most words of a sentence.
const BEAM_SIZE_MAX: usize = 1 << 16;
const LENGTH_MAX: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BeamSearch {
    step: Step,
    /// How many words there are.
    words: usize,
    /// Numbers in a word's row of the table that the step sees.
    embedding_size: usize,
    /// The word before the first.
    bos_id: u64,
    /// The word that ends a sentence.
    eos_id: u64,
    beam_size: usize,
    /// The most words of a sentence.
    max_length: usize,
    /// How many sentences are given for each sample.
    results: usize,
    #[serde(skip)]
    checked: OnceLock<Checked>,
}

/// Words that belong together, and the logarithm of how probable they are.
#[derive(Debug, Clone)]
struct Sentence {
    sample: usize,
    words: Vec<u64>,
    score: f32,
}

/// A sentence with one more word, before it is known whether it is kept.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    /// The sentence, among those that were continued.
    of: usize,
    word: u64,
    score: f32,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<BeamSearch>(layer)?))
}

impl Layer for BeamSearch {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        self.check_numbers()?;
        let checked = self.check_step(inputs)?;
        let gives = joined(&checked)?;
        if gives.size != self.words || gives.level != Level::Single || checked.outputs.len() != 1 {
            return Err(Error::invalid(format!(
                "the step must give one layer, the probability of each of the {} words, but gives \
                 {gives}",
                self.words
            )));
        }
        Ok(Plan { shape: Shape::dense(self.results), parameters: checked.parameters })
    }

    fn forward(&self, run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        let checked = checked(&self.checked, || self.check_step(run.shapes))?;
        let samples = inputs.first().map_or(0, |input| input.samples());
        let found = self.search(checked, run, inputs, samples)?;
        let mut scores = Vec::with_capacity(samples * self.results);
        let mut ids = Vec::new();
        for mut sentences in found {
            sentences.sort_by(|a, b| b.score.total_cmp(&a.score));
            for place in 0..self.results {
                let sentence = sentences.get(place);
                let words = sentence.map_or(&[][..], |sentence| &sentence.words);
                scores.push(sentence.map_or(f32::NEG_INFINITY, |sentence| sentence.score));
                ids.push(words.len() as u64);
                ids.extend_from_slice(words);
                ids.push(NO_ID);
            }
        }
        let scores = Argument::single(tensor(scores, [samples, self.results], run.device));
        Ok(Argument { origin: Some(Origin::Ids(Arc::from(ids))), ..scores })
    }

    fn can_be_finished(&self) -> bool {
        false
    }
}

impl BeamSearch {
    fn check_numbers(&self) -> Result<()> {
        let limits = [
            ("beam_size", self.beam_size, BEAM_SIZE_MAX),
            ("max_length", self.max_length, LENGTH_MAX),
            ("num_results_per_sample", self.results, self.beam_size),
        ];
        for (name, value, limit) in limits {
            if value == 0 || value > limit {
                return Err(Error::new(
                    Kind::LimitExceeded,
                    format!("{name} must be 1 to {limit}"),
                )
                .with(name, value));
            }
        }
        for (name, id) in [("bos_id", self.bos_id), ("eos_id", self.eos_id)] {
            if id >= self.words as u64 {
                return Err(Error::invalid(format!("{name} is not below the number of words"))
                    .with(name, id)
                    .with("words", self.words));
            }
        }
        Ok(())
    }

    fn check_step(&self, inputs: &[Shape]) -> Result<Checked> {
        if inputs.is_empty() {
            return Err(Error::invalid(
                "a beam search needs a StaticInput, or a memory with a boot_layer: otherwise all \
                 samples are the same",
            ));
        }
        let words = self.step.links.iter().filter(|link| link.role == Role::Word);
        if words.count() != 1 || self.step.links.iter().any(|link| link.role == Role::Part) {
            return Err(Error::invalid(
                "the inputs of a beam search must be one GeneratedInput and StaticInput",
            ));
        }
        // Not looked up by the ids of a data layer, so it cannot be sparse.
        let std = 1.0 / (self.words as f64).sqrt();
        let initial = Initial::Normal { mean: 0.0, std };
        let name = "embedding".to_owned();
        let dims = [self.words, self.embedding_size];
        let table = Slot { name, dims, initial, key_input: None, is_measured: false };
        // The word is the last link, and no input of the layer.
        let word = Shape::dense(self.embedding_size);
        let inputs: Vec<Shape> = inputs.iter().copied().chain([word]).collect();
        self.step.check(&inputs, vec![table])
    }

    /// The sentences of each sample.
    fn search(
        &self,
        checked: &Checked,
        run: &Run<'_>,
        inputs: &[&Argument],
        samples: usize,
    ) -> Result<Vec<Vec<Sentence>>> {
        let mut ended: Vec<Vec<Sentence>> = vec![Vec::new(); samples];
        let begin = |sample| Sentence { sample, words: Vec::new(), score: 0.0 };
        let mut open: Vec<Sentence> = (0..samples).map(begin).collect();
        let links: Vec<Option<Argument>> =
            inputs.iter().map(|input| Some((*input).clone())).chain([None]).collect();
        let mut memories = self.step.boot(checked, run, &links, samples)?;
        let mut seen: (Vec<usize>, Vec<Argument>) = (Vec::new(), Vec::new());
        for step in 0..self.max_length {
            if open.is_empty() {
                break;
            }
            let owners: Vec<usize> = open.iter().map(|sentence| sentence.sample).collect();
            if seen.0 != owners {
                seen.1 = inputs.iter().map(|input| input.select(&owners)).collect();
                seen.0 = owners;
            }
            let given = seen.1.iter().cloned().chain([self.last_words(run, &open)]);
            let mut values: Vec<Option<Argument>> = given.chain(memories).map(Some).collect();
            values.resize(checked.places.len(), None);
            self.step.run(checked, run, Turn { stages: &Stage::ALL, step }, &mut values)?;
            let probabilities = values[checked.outputs[0]].as_ref().map(Argument::dense);
            let probabilities = probabilities.ok_or_else(|| Error::invalid("has no output"))??;
            let probabilities = numbers(probabilities);
            let kept = self.continue_all(&open, &probabilities, &mut ended);
            let parents: Vec<usize> = kept.iter().map(|candidate| candidate.of).collect();
            open = kept.iter().map(|candidate| candidate.grown(&open)).collect();
            let remembered = checked.remember(&values);
            memories = remembered.iter().map(|memory| memory.select(&parents)).collect();
        }
        for sentence in open {
            ended[sentence.sample].push(sentence);
        }
        Ok(ended)
    }

    /// The rows of the words before.
    fn last_words(&self, run: &Run<'_>, open: &[Sentence]) -> Argument {
        let last = |sentence: &Sentence| sentence.words.last().copied().unwrap_or(self.bos_id);
        let rows = open.iter().map(|sentence| last(sentence) as u32).collect();
        Argument::single(row_sums(run.parameter(0), RowLists::one_each(rows)))
    }

    /// The best continuations that are still open; the others that end are put aside.
    fn continue_all(
        &self,
        open: &[Sentence],
        probabilities: &[f32],
        ended: &mut [Vec<Sentence>],
    ) -> Vec<Candidate> {
        let mut kept = Vec::new();
        let mut from = 0;
        for same in open.chunk_by(|a, b| a.sample == b.sample) {
            let ended = &mut ended[same[0].sample];
            let places = from..from + same.len();
            from = places.end;
            let worst = ended.iter().map(|sentence| sentence.score).min_by(f32::total_cmp);
            let can_win = |candidate: &Candidate| {
                ended.len() < self.beam_size || worst.is_none_or(|worst| candidate.score > worst)
            };
            let each = places.flat_map(|of| {
                let row = &probabilities[of * self.words..][..self.words];
                best_words(row, self.beam_size)
                    .into_iter()
                    .map(move |word| (of, word, row[word as usize]))
            });
            let mut best: Vec<Candidate> = each
                .map(|(of, word, probability)| {
                    let score = open[of].score + probability.max(f32::MIN_POSITIVE).ln();
                    Candidate { of, word, score }
                })
                .filter(can_win)
                .collect();
            best.sort_by(Candidate::compare);
            best.truncate(self.beam_size);
            let (ending, going_on): (Vec<_>, Vec<_>) =
                best.into_iter().partition(|candidate| candidate.word == self.eos_id);
            ended.extend(ending.iter().map(|candidate| candidate.grown(open)));
            kept.extend(going_on);
        }
        kept
    }
}

impl Candidate {
    /// The better first; of equally good ones, that with the smaller numbers.
    fn compare(&self, other: &Candidate) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(self.of.cmp(&other.of)).then(self.word.cmp(&other.word))
    }

    fn grown(&self, open: &[Sentence]) -> Sentence {
        let mut sentence = open[self.of].clone();
        sentence.words.push(self.word);
        sentence.score = self.score;
        sentence
    }
}

/// The most probable words of a row, in no order.
fn best_words(row: &[f32], count: usize) -> Vec<u64> {
    let mut words: Vec<u64> = (0..row.len() as u64).collect();
    if count < words.len() {
        let better =
            |a: &u64, b: &u64| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b));
        words.select_nth_unstable_by(count - 1, better);
        words.truncate(count);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_words_are_found_and_the_first_of_equals() {
        let mut best = best_words(&[0.1, 0.4, 0.2, 0.4, 0.2], 3);
        best.sort_unstable();
        assert_eq!(best, [1, 2, 3]);
        assert_eq!(best_words(&[0.5, 0.5], 7), [0, 1]);
    }
}
