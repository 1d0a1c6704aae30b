//! The linear chain behind `crf` and `crf_decoding`: a score for every way to tag a sequence, the
//! sum of the rows' scores and of the transitions between tags.
//!
//! Sums over all ways are made in double precision and in powers of e, every row scaled to a sum
//! of 1 and the logarithms of the scales added up. So a row costs a product with one matrix and no
//! logarithm per pair of tags.

use crate::argument::Offsets;
use crate::fused::Operation;
use std::sync::Arc;

/// The learnt scores as the original lays them out: a row for the first tag, one for the last, and
/// a row of following tags for each tag.
#[derive(Clone, Copy)]
struct Scores<'a> {
    first: &'a [f32],
    last: &'a [f32],
    transitions: &'a [f32],
    tags: usize,
}

impl<'a> Scores<'a> {
    fn of(weight: &'a [f32], tags: usize) -> Self {
        let (first, rest) = weight.split_at(tags);
        let (last, transitions) = rest.split_at(tags);
        Scores { first, last, transitions, tags }
    }

    fn transition(&self, from: usize, to: usize) -> f32 {
        self.transitions[from * self.tags + to]
    }
}

/// Numbers as powers of e, divided by the largest; and its logarithm.
fn powers(scores: &[f32]) -> (Vec<f64>, f64) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let power = |score: &f32| f64::from(score - highest).exp();
    (scores.iter().map(power).collect(), f64::from(highest))
}

/// Scales numbers to a sum of 1 and gives the sum.
fn normalize(numbers: &mut [f64]) -> f64 {
    let sum: f64 = numbers.iter().sum();
    numbers.iter_mut().for_each(|number| *number /= sum);
    sum
}

/// The negative logarithm of the probability of the labels, for each sequence. Inputs: the scores
/// of rows, and the learnt ones.
#[derive(Debug)]
pub(crate) struct LogLikelihood {
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) labels: Arc<[u64]>,
    pub(crate) tags: usize,
}

/// The learnt scores as powers of e.
struct Powers {
    first: Vec<f64>,
    last: Vec<f64>,
    transitions: Vec<f64>,
    /// Of each, the logarithm of what it was divided by.
    scales: [f64; 3],
}

impl Powers {
    fn of(scores: Scores<'_>) -> Powers {
        let (first, first_scale) = powers(scores.first);
        let (last, last_scale) = powers(scores.last);
        let (transitions, scale) = powers(scores.transitions);
        Powers { first, last, transitions, scales: [first_scale, last_scale, scale] }
    }
}

/// What is known of every row after the way forward.
#[derive(Debug)]
pub(crate) struct Saved {
    /// The rows' scores as powers of e.
    rows: Vec<f64>,
    /// The probability of each tag from what came before.
    forward: Vec<f64>,
    /// What each row of it was divided by.
    scales: Vec<f64>,
}

impl LogLikelihood {
    fn sequences(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.offsets.windows(2).map(|pair| pair[0]..pair[1])
    }

    fn label(&self, row: usize) -> usize {
        self.labels[row] as usize
    }

    /// The score of the labels themselves.
    fn label_score(&self, x: &[f32], scores: Scores<'_>, rows: std::ops::Range<usize>) -> f64 {
        let (first, last) = (self.label(rows.start), self.label(rows.end - 1));
        let mut score = f64::from(scores.first[first]) + f64::from(scores.last[last]);
        for row in rows.clone() {
            score += f64::from(x[row * self.tags + self.label(row)]);
            if row > rows.start {
                score += f64::from(scores.transition(self.label(row - 1), self.label(row)));
            }
        }
        score
    }

    /// The logarithm of the sum over all ways, but for the last tag's scores, row by row.
    fn walk(&self, powers: &Powers, rows: std::ops::Range<usize>, saved: &mut Saved) {
        let tags = self.tags;
        for row in rows.clone() {
            let (done, rest) = saved.forward.split_at_mut(row * tags);
            let own = &mut rest[..tags];
            if row == rows.start {
                own.copy_from_slice(&powers.first);
            } else {
                let before = &done[(row - 1) * tags..];
                for (share, transitions) in before.iter().zip(powers.transitions.chunks_exact(tags))
                {
                    own.iter_mut().zip(transitions).for_each(|(sum, power)| *sum += share * power);
                }
            }
            let scores = &saved.rows[row * tags..][..tags];
            own.iter_mut().zip(scores).for_each(|(sum, power)| *sum *= power);
            saved.scales[row] = normalize(own);
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Operation for LogLikelihood {
    type Saved = Saved;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Saved) {
        let (x, tags) = (inputs[0], self.tags);
        let scores = Scores::of(inputs[1], tags);
        let learnt = Powers::of(scores);
        let count = x.len() / tags;
        let mut row_scales = Vec::with_capacity(count);
        let mut saved =
            Saved { rows: Vec::new(), forward: vec![0.0; x.len()], scales: vec![0.0; count] };
        for row in x.chunks_exact(tags) {
            let (row, scale) = powers(row);
            saved.rows.extend(row);
            row_scales.push(scale);
        }
        let mut costs = Vec::new();
        for rows in self.sequences() {
            if rows.is_empty() {
                costs.push(0.0);
                continue;
            }
            self.walk(&learnt, rows.clone(), &mut saved);
            let at_end = &saved.forward[(rows.end - 1) * tags..rows.end * tags];
            let [first, last, between] = learnt.scales;
            let all = rows.clone().map(|row| saved.scales[row].ln() + row_scales[row]).sum::<f64>()
                + dot(at_end, &learnt.last).ln()
                + first
                + last
                + between * (rows.len() - 1) as f64;
            costs.push((all - self.label_score(x, scores, rows)) as f32);
        }
        (costs, saved)
    }

    fn backward(&self, inputs: &[&[f32]], saved: &Saved, gradient: &[f32]) -> Vec<Vec<f32>> {
        let tags = self.tags;
        let learnt = Powers::of(Scores::of(inputs[1], tags));
        let mut to_x = vec![0.0_f32; inputs[0].len()];
        let mut to_learnt = vec![0.0_f64; inputs[1].len()];
        for (rows, gradient) in self.sequences().zip(gradient) {
            if rows.is_empty() {
                continue;
            }
            let gradient = f64::from(*gradient);
            let (to_first, rest) = to_learnt.split_at_mut(tags);
            let (to_last, to_transitions) = rest.split_at_mut(tags);
            // Of each tag: what follows it, so that with `forward` it gives its probability.
            let mut after = learnt.last.clone();
            let scale = dot(&saved.forward[(rows.end - 1) * tags..rows.end * tags], &after);
            after.iter_mut().for_each(|number| *number /= scale);
            for row in rows.clone().rev() {
                let own = &saved.forward[row * tags..][..tags];
                for tag in 0..tags {
                    let is_label = f64::from(u8::from(self.label(row) == tag));
                    let surplus = gradient * (own[tag] * after[tag] - is_label);
                    to_x[row * tags + tag] = surplus as f32;
                    if row == rows.start {
                        to_first[tag] += surplus;
                    }
                    if row == rows.end - 1 {
                        to_last[tag] += surplus;
                    }
                }
                if row == rows.start {
                    continue;
                }
                let reach: Vec<f64> = (after.iter().zip(&saved.rows[row * tags..]))
                    .map(|(after, power)| after * power / saved.scales[row])
                    .collect();
                let before = &saved.forward[(row - 1) * tags..row * tags];
                for (from, transitions) in learnt.transitions.chunks_exact(tags).enumerate() {
                    after[from] = dot(transitions, &reach);
                    let share = gradient * before[from];
                    let sums = &mut to_transitions[from * tags..][..tags];
                    let terms = sums.iter_mut().zip(transitions).zip(&reach);
                    terms.for_each(|((sum, power), reach)| *sum += share * power * reach);
                }
                to_transitions[self.label(row - 1) * tags + self.label(row)] -= gradient;
            }
        }
        vec![to_x, to_learnt.into_iter().map(|number| number as f32).collect()]
    }
}

/// The way with the highest score for each sequence; of equals the lowest tags.
pub(crate) fn best_tags(x: &[f32], weight: &[f32], offsets: &Offsets, tags: usize) -> Vec<u64> {
    let scores = Scores::of(weight, tags);
    let mut best = vec![0; x.len() / tags.max(1)];
    for pair in offsets.windows(2) {
        let rows = &x[pair[0] * tags..pair[1] * tags];
        let mut from: Vec<usize> = Vec::new();
        let mut reached = Vec::new();
        for (place, row) in rows.chunks_exact(tags).enumerate() {
            let before = std::mem::take(&mut reached);
            for (tag, own) in row.iter().enumerate() {
                if place == 0 {
                    reached.push(scores.first[tag] + own);
                    continue;
                }
                let through = |from: usize| before[from] + scores.transition(from, tag);
                let source = highest((0..tags).map(through));
                from.push(source);
                reached.push(through(source) + own);
            }
        }
        if reached.is_empty() {
            continue;
        }
        let mut tag = highest(reached.iter().zip(scores.last).map(|(a, b)| a + b));
        for row in (pair[0]..pair[1]).rev() {
            best[row] = tag as u64;
            if row > pair[0] {
                tag = from[(row - pair[0] - 1) * tags + tag];
            }
        }
    }
    best
}

/// The place of the highest number; the first of equals.
fn highest(numbers: impl Iterator<Item = f32>) -> usize {
    let better = |best: (usize, f32), next: (usize, f32)| if next.1 > best.1 { next } else { best };
    numbers.enumerate().reduce(better).map_or(0, |(place, _)| place)
}
