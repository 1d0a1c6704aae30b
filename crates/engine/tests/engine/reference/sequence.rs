//! Layers that move rows of sequences.

use super::{Given, Matrix};

impl Given<'_> {
    /// The rows of each sequence of an input.
    fn sequences(&self, input: usize) -> Vec<&[Vec<f64>]> {
        let taken = &self.inputs[input];
        let offsets = taken.offsets.as_ref().unwrap();
        offsets.windows(2).map(|pair| &taken.rows[pair[0]..pair[1]]).collect()
    }

    pub(super) fn expand(&self) -> Matrix {
        let offsets = match self.inputs[0].offsets {
            None => self.inputs[1].samples(),
            Some(_) => self.inputs[1].offsets.clone().unwrap(),
        };
        let each = offsets
            .windows(2)
            .enumerate()
            .flat_map(|(sample, pair)| vec![self.row(0, sample).to_vec(); pair[1] - pair[0]]);
        each.collect()
    }

    pub(super) fn sequence_concat(&self) -> Matrix {
        let pairs = self.sequences(0).into_iter().zip(self.sequences(1));
        pairs.flat_map(|(a, b)| [a, b].concat()).collect()
    }

    pub(super) fn sequence_reshape(&self) -> Matrix {
        let size = self.attribute("size", 0.0) as usize;
        let all = self.sequences(0).into_iter().map(<[Vec<f64>]>::concat);
        all.flat_map(|numbers| numbers.chunks(size).map(<[f64]>::to_vec).collect::<Vec<_>>())
            .collect()
    }

    /// Each row with those after it, as far as the sequence goes.
    pub(super) fn row_conv(&self) -> Matrix {
        let mut output = Vec::new();
        for rows in self.sequences(0) {
            for begin in 0..rows.len() {
                let mut sum = Vec::new();
                for (row, weight) in rows[begin..].iter().zip(&self.parameters[0]) {
                    super::add(&mut sum, &super::zip(row, weight, |x, w| x * w));
                }
                output.push(sum);
            }
        }
        output
    }

    /// The places of the highest scores of each sequence, and -1 where there are none.
    pub(super) fn best_places(&self) -> Matrix {
        let count = self.attribute("beam_size", 0.0) as usize;
        let best = |rows: &[Vec<f64>]| {
            let mut scores: Vec<f64> = rows.iter().map(|row| row[0]).collect();
            let found = (0..count).map(|_| {
                let place = (!scores.is_empty()).then(|| super::best(&scores));
                let place = place.filter(|place| scores[*place] > f64::NEG_INFINITY);
                place.map_or(-1.0, |place| {
                    scores[place] = f64::NEG_INFINITY;
                    place as f64
                })
            });
            found.collect()
        };
        self.sequences(0).into_iter().map(best).collect()
    }

    pub(super) fn sub_nested_sequence(&self) -> Matrix {
        let sequences = self.sequences(0);
        let nests = self.inputs[0].nests.as_ref().unwrap();
        let mut output = Vec::new();
        for (sample, pair) in nests.windows(2).enumerate() {
            for place in self.row(1, sample).iter().take_while(|place| **place >= 0.0) {
                output.extend(sequences[pair[0] + *place as usize].to_vec());
            }
        }
        output
    }

    /// Minus the logarithm of the right path's share in the powers of all paths' scores.
    pub(super) fn cross_entropy_over_beam(&self) -> Matrix {
        let steps = self.inputs.len() / 3;
        let cost = |sample: usize| {
            // Every path so far with its score, and which of them is right.
            let mut paths = vec![0.0];
            let mut right = 0;
            for step in 0..steps {
                let sequences = self.sequences(step * 3);
                let begin =
                    self.inputs[step * 3].nests.as_ref().map_or(sample, |nests| nests[sample]);
                let gold = self.number(step * 3 + 2, sample);
                let right_score = paths[right] + sequences[begin + right][gold as usize][0];
                let (mut next, mut found) = (Vec::new(), None);
                for (number, score) in paths.iter().enumerate() {
                    for place in self.row(step * 3 + 1, begin + number) {
                        if *place < 0.0 {
                            break;
                        }
                        if number == right && *place == gold {
                            found = Some(next.len());
                        }
                        next.push(score + sequences[begin + number][*place as usize][0]);
                    }
                }
                paths = next;
                let Some(place) = found else {
                    paths.push(right_score);
                    right = paths.len() - 1;
                    break;
                };
                right = place;
            }
            let sum: f64 = paths.iter().map(|score| score.exp()).sum();
            vec![sum.ln() - paths[right]]
        };
        (0..self.inputs[2].len()).map(cost).collect()
    }

    pub(super) fn sequence_slice(&self) -> Matrix {
        let bounds = self.layer.attributes["bounds"].as_array().unwrap();
        let bound = |name: &str, sequence: usize, part: usize| {
            let place = bounds.iter().position(|bound| bound == name)?;
            Some(self.row(place + 1, sequence)[part])
        };
        let mut output = Vec::new();
        for (sequence, rows) in self.sequences(0).into_iter().enumerate() {
            for part in 0..self.inputs[1].rows[sequence].len() {
                let first = bound("first", sequence, part).unwrap_or(0.0);
                let last = bound("last", sequence, part).unwrap_or(rows.len() as f64 - 1.0);
                if first < 0.0 || last < 0.0 {
                    break;
                }
                let end = match bound("count", sequence, part) {
                    Some(count) => first + count,
                    None => last + 1.0,
                };
                output.extend(rows[first as usize..end as usize].to_vec());
            }
        }
        output
    }

    /// A row beside its neighbours; beyond the ends are rows of `padding`, or zeros.
    pub(super) fn context(
        &self,
        input: usize,
        row: usize,
        [start, length]: [isize; 2],
        padding: Option<&Matrix>,
    ) -> Vec<f64> {
        let taken = &self.inputs[input];
        let offsets = taken.offsets.as_ref().unwrap();
        let own = offsets.windows(2).find(|pair| (pair[0]..pair[1]).contains(&row)).unwrap();
        let (begin, end) = (own[0] as isize, own[1] as isize);
        let neighbour = |at: isize| {
            let wanted = row as isize + start + at;
            let learnt = |place: isize| match padding {
                Some(padding) => padding[place as usize].clone(),
                None => vec![0.0; taken.width],
            };
            match wanted {
                _ if wanted < begin => learnt(-start.min(0) - (begin - wanted)),
                _ if wanted >= end => learnt(-start.min(0) + wanted - end),
                _ => taken.rows[wanted as usize].clone(),
            }
        };
        (0..length).flat_map(neighbour).collect()
    }
}
