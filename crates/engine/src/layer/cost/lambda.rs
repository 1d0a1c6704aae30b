//! LambdaRank: the documents of a query are a sequence, whose scores should rank them as their
//! relevance does.
//!
//! The output is the NDCG of the ranking, the same for every document of the query; it is what one
//! wants to see, but it changes only in jumps. The gradient is that of another cost,
//! `Σ |ΔDCG|·ln(1 + e^(sⱼ − sᵢ))` over pairs of which i is the more relevant, divided by the best
//! DCG; ΔDCG is what exchanging the two in the best ranking would change.

use super::super::{
    Layer, Plan, Run, attributes, expect_dense, expect_inputs, expect_one_sequence,
    expect_same_level, expect_same_rows,
};
use crate::argument::{Argument, numbers};
use crate::fused::{self, Operation};
use crate::shape::Shape;
use crate::topology;
use contract::{Error, Result};
use serde::Deserialize;
use std::sync::Arc;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lambda {
    /// Documents that count in DCG: the first ones of the ranking.
    truncation: usize,
    /// The most relevant documents whose pairs are compared; absent: all.
    sorted: Option<usize>,
}

pub(in crate::layer) fn build(layer: &topology::Layer) -> Result<Box<dyn Layer>> {
    Ok(Box::new(attributes::<Lambda>(layer)?))
}

impl Layer for Lambda {
    fn plan(&self, inputs: &[Shape]) -> Result<Plan> {
        expect_inputs(inputs, 2..=2)?;
        expect_same_level(inputs)?;
        expect_one_sequence(&inputs[0])?;
        for (what, input) in ["the input", "the score"].iter().zip(inputs) {
            expect_dense(what, input)?;
            if input.size != 1 {
                let size = input.size;
                return Err(Error::invalid(format!("{what} must have size 1 but has {size}")));
            }
        }
        if self.truncation == 0 {
            return Err(Error::invalid("NDCG_num must be 1 or more"));
        }
        if self.sorted.is_some_and(|sorted| sorted < self.truncation) {
            return Err(Error::invalid("max_sort_size must be -1 for all, or at least NDCG_num")
                .with("NDCG_num", self.truncation));
        }
        Ok(Plan::of(inputs[0].with_size(1)))
    }

    fn forward(&self, _run: &Run<'_>, inputs: &[&Argument]) -> Result<Argument> {
        expect_same_rows(inputs)?;
        let relevance = numbers(inputs[1].dense()?);
        let offsets: Arc<[usize]> = Arc::from(inputs[0].offsets()?);
        for (sample, pair) in offsets.windows(2).enumerate() {
            if pair[1] - pair[0] < self.truncation {
                return Err(Error::invalid(format!(
                    "a query has {} documents, fewer than NDCG_num, {}; leave such queries out of \
                     the data or make NDCG_num smaller",
                    pair[1] - pair[0],
                    self.truncation
                ))
                .with("sample", sample));
            }
            if relevance[pair[0]..pair[1]].iter().all(|relevance| *relevance <= 0.0) {
                return Err(Error::invalid(
                    "no document of a query has a score above 0, so no ranking is better than \
                     another; leave such queries out of the data",
                )
                .with("sample", sample));
            }
        }
        let Lambda { truncation, sorted } = *self;
        let ranking = Ranking { offsets, relevance, truncation, sorted };
        let ndcg = fused::apply_saving(ranking, vec![inputs[0].dense()?], 1);
        Ok(Argument::like(inputs[0], ndcg))
    }

    fn coefficient(&self) -> Option<f32> {
        Some(1.0)
    }
}

#[derive(Debug)]
struct Ranking {
    /// Where the documents of each query begin.
    offsets: Arc<[usize]>,
    relevance: Vec<f32>,
    truncation: usize,
    sorted: Option<usize>,
}

/// What a relevance is worth at a place of the ranking.
fn gain(relevance: f32, place: usize) -> f64 {
    (f64::from(relevance).exp2() - 1.0) / ((place + 2) as f64).ln()
}

/// The places of numbers, those of the largest first.
fn descending(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
    order
}

impl Ranking {
    /// The DCG of documents in this order.
    fn dcg(&self, relevance: &[f32], order: &[usize]) -> f64 {
        let places = order.iter().take(self.truncation).enumerate();
        places.map(|(place, document)| gain(relevance[*document], place)).sum()
    }

    /// Adds the gradient of each score of a query.
    fn add_lambdas(&self, relevance: &[f32], scores: &[f32], lambdas: &mut [f32]) {
        let order = descending(relevance);
        let best = self.dcg(relevance, &order);
        let sorted = self.sorted.unwrap_or(usize::MAX).min(order.len());
        let discount = |place: usize| 1.0 / ((place + 2) as f64).ln();
        for (i, &above) in order[..sorted].iter().enumerate() {
            for (j, &below) in order.iter().enumerate().skip(i + 1) {
                let worth = f64::from(relevance[above]).exp2() - f64::from(relevance[below]).exp2();
                let moved = discount(i) - if j < sorted { discount(j) } else { 0.0 };
                let distance = f64::from(scores[above]) - f64::from(scores[below]);
                let lambda = (worth * moved).abs() / (1.0 + distance.exp()) / best;
                lambdas[above] -= lambda as f32;
                lambdas[below] += lambda as f32;
            }
        }
    }
}

impl Operation for Ranking {
    /// The gradient of each score.
    type Saved = Vec<f32>;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Vec<f32>) {
        let mut ndcg = vec![0.0; inputs[0].len()];
        let mut lambdas = vec![0.0; inputs[0].len()];
        for pair in self.offsets.windows(2) {
            let query = pair[0]..pair[1];
            let (relevance, scores) = (&self.relevance[query.clone()], &inputs[0][query.clone()]);
            let best = self.dcg(relevance, &descending(relevance));
            let found = self.dcg(relevance, &descending(scores)) / best;
            ndcg[query.clone()].fill(found as f32);
            self.add_lambdas(relevance, scores, &mut lambdas[query]);
        }
        (ndcg, lambdas)
    }

    fn backward(&self, _inputs: &[&[f32]], lambdas: &Vec<f32>, gradient: &[f32]) -> Vec<Vec<f32>> {
        vec![lambdas.iter().zip(gradient).map(|(lambda, gradient)| lambda * gradient).collect()]
    }
}
