//! Parameters that training measures, where others are learnt: moving averages of a batch's
//! statistics. Each part of a batch tells new values; the batch's are their mean.

/// New values of parameters, from the parts of a batch.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    /// Place of the parameter, samples that it was measured over, values.
    found: Vec<(usize, usize, Vec<f32>)>,
}

impl Measured {
    /// Takes what one layer found for the parameter at `place`.
    pub(crate) fn add(&mut self, place: usize, samples: usize, values: Vec<f32>) {
        self.found.push((place, samples, values));
    }

    /// Takes what another part of the batch found.
    pub(crate) fn append(&mut self, mut other: Measured) {
        self.found.append(&mut other.found);
    }

    /// By place of the parameter: the mean of what was found, weighted by samples.
    pub(crate) fn values(self, parameters: usize) -> Vec<Option<Vec<f32>>> {
        let mut totals = vec![0_usize; parameters];
        for (place, samples, _) in &self.found {
            totals[*place] += samples;
        }
        let mut means: Vec<Option<Vec<f32>>> = vec![None; parameters];
        for (place, samples, values) in self.found {
            let share = samples as f32 / totals[place] as f32;
            let scaled = values.iter().map(|value| value * share);
            match &mut means[place] {
                None => means[place] = Some(scaled.collect()),
                Some(mean) => mean.iter_mut().zip(scaled).for_each(|(mean, value)| *mean += value),
            }
        }
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_by_their_samples() {
        let mut measured = Measured::default();
        measured.add(1, 3, vec![1.0, 2.0]);
        let mut other = Measured::default();
        other.add(1, 1, vec![5.0, -2.0]);
        measured.append(other);
        assert_eq!(measured.values(3), [None, Some(vec![2.0, 1.0]), None]);
    }
}
