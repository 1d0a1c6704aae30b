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

    pub(super) fn sequence_slice(&self) -> Matrix {
        let bounds = self.layer.attributes["bounds"].as_array().unwrap();
        let bound = |name: &str, sample: usize| {
            let place = bounds.iter().position(|bound| bound == name)?;
            Some(self.number(place + 1, sample) as usize)
        };
        let sequences = self.sequences(0).into_iter().enumerate();
        sequences
            .flat_map(|(sample, rows)| {
                let first = bound("first", sample).unwrap_or(0);
                let end = match (bound("last", sample), bound("count", sample)) {
                    (Some(last), _) => last + 1,
                    (None, Some(count)) => first + count,
                    (None, None) => rows.len(),
                };
                rows[first..end].to_vec()
            })
            .collect()
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
