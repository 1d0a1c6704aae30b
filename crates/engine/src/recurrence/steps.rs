//! The order in which rows of sequences are computed: step by step, and in each step all
//! sequences that are long enough, the longest first. So the sequences of a step are the first of
//! those of the step before, and the rows of a step follow one another once they are packed.

use crate::argument::Offsets;

/// Rows by steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps {
    /// The sequences, the longest first.
    sequences: Vec<usize>,
    /// For each packed row, where it is in the argument.
    rows: Vec<usize>,
    /// Where each step begins in `rows`, and where the last one ends.
    offsets: Vec<usize>,
}

impl Steps {
    /// Of these sequences, from their first row to the last or the other way round.
    pub(crate) fn new(offsets: &Offsets, is_reversed: bool) -> Steps {
        let length = |sequence: usize| offsets[sequence + 1] - offsets[sequence];
        let mut sequences: Vec<usize> = (0..offsets.len() - 1).collect();
        sequences.sort_by_key(|sequence| std::cmp::Reverse(length(*sequence)));
        let longest = sequences.first().map_or(0, |sequence| length(*sequence));
        let mut steps = Steps { sequences, rows: Vec::new(), offsets: vec![0] };
        for step in 0..longest {
            let active = steps.sequences.iter().take_while(|sequence| length(**sequence) > step);
            steps.rows.extend(active.map(|&sequence| match is_reversed {
                true => offsets[sequence + 1] - 1 - step,
                false => offsets[sequence] + step,
            }));
            steps.offsets.push(steps.rows.len());
        }
        steps
    }

    /// The sequences, the longest first.
    pub(crate) fn sequences(&self) -> &[usize] {
        &self.sequences
    }

    /// Where each step begins in the packed rows, and where the last one ends.
    pub(crate) fn offsets(&self) -> &Offsets {
        &self.offsets
    }

    /// For each row of the argument, where it is packed.
    pub(crate) fn packed(&self) -> Vec<usize> {
        let mut packed = vec![0; self.rows.len()];
        self.rows.iter().enumerate().for_each(|(place, row)| packed[*row] = place);
        packed
    }

    /// How many steps there are.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Rows of all steps.
    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// For each packed row, where it is in the argument.
    pub(crate) fn places(&self) -> &[usize] {
        &self.rows
    }

    /// The packed rows of a step.
    pub(crate) fn range(&self, step: usize) -> std::ops::Range<usize> {
        self.offsets[step]..self.offsets[step + 1]
    }

    /// The packed rows that come before those of a step in the same sequences; not for the first.
    pub(crate) fn before(&self, step: usize) -> std::ops::Range<usize> {
        let begin = self.offsets[step - 1];
        begin..begin + self.range(step).len()
    }

    /// Rows of `width` numbers in the order of the steps.
    pub(crate) fn pack(&self, rows: &[f32], width: usize) -> Vec<f32> {
        let mut packed = Vec::with_capacity(rows.len());
        for row in &self.rows {
            packed.extend_from_slice(&rows[row * width..][..width]);
        }
        packed
    }

    /// Appends the rows of a step to those that are packed already, a bias added to each.
    pub(crate) fn pack_step(&self, step: usize, rows: &[f32], bias: &[f32], packed: &mut Vec<f32>) {
        for row in &self.rows[self.range(step)] {
            let row = &rows[row * bias.len()..][..bias.len()];
            packed.extend(row.iter().zip(bias).map(|(number, bias)| number + bias));
        }
    }

    /// Packed rows in the order of the argument.
    pub(crate) fn unpack(&self, packed: &[f32], width: usize) -> Vec<f32> {
        let mut rows = vec![0.0; packed.len()];
        for (row, from) in self.rows.iter().zip(packed.chunks_exact(width)) {
            rows[row * width..][..width].copy_from_slice(from);
        }
        rows
    }

    /// For each row of the argument, the packed row before it; zeros for those of the first step.
    pub(crate) fn unpack_before(&self, packed: &[f32], width: usize) -> Vec<f32> {
        let mut rows = vec![0.0; packed.len()];
        for step in 1..self.len() {
            let before = self.before(step);
            let before = packed[before.start * width..before.end * width].chunks_exact(width);
            for (row, before) in self.rows[self.range(step)].iter().zip(before) {
                rows[row * width..][..width].copy_from_slice(before);
            }
        }
        rows
    }

    /// For each packed row but those of the first step: the row before it.
    pub(crate) fn rows_before(&self, packed: &[f32], width: usize) -> Vec<f32> {
        let mut rows = Vec::with_capacity(packed.len());
        for step in 1..self.len() {
            let before = self.before(step);
            rows.extend_from_slice(&packed[before.start * width..before.end * width]);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_sequences_come_first_and_steps_are_their_beginnings() {
        // Sequences of 1, 3, 0 and 2 rows.
        let steps = Steps::new(&[0, 1, 4, 4, 6], false);
        assert_eq!(steps.places(), [1, 4, 0, /**/ 2, 5, /**/ 3]);
        assert_eq!((steps.len(), steps.rows()), (3, 6));
        assert_eq!(steps.sequences(), [1, 3, 0, 2]);
        assert_eq!(steps.packed(), [2, 0, 3, 5, 1, 4]);
        assert_eq!([steps.range(0), steps.range(1), steps.range(2)], [0..3, 3..5, 5..6]);
        assert_eq!([steps.before(1), steps.before(2)], [0..2, 3..4]);
    }

    #[test]
    fn reversed_sequences_begin_at_their_end() {
        let steps = Steps::new(&[0, 1, 4, 4, 6], true);
        assert_eq!(steps.places(), [3, 5, 0, /**/ 2, 4, /**/ 1]);
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let steps = Steps::new(&[0, 2, 5], true);
        let rows: Vec<f32> = (0..10).map(|number| number as f32).collect();
        let packed = steps.pack(&rows, 2);
        assert_eq!(packed, [8.0, 9.0, 2.0, 3.0, 6.0, 7.0, 0.0, 1.0, 4.0, 5.0]);
        assert_eq!(steps.unpack(&packed, 2), rows);
        assert_eq!(steps.rows_before(&packed, 2), [8.0, 9.0, 2.0, 3.0, 6.0, 7.0]);
        let before = [2.0, 3.0, 0.0, 0.0, 6.0, 7.0, 8.0, 9.0, 0.0, 0.0];
        assert_eq!(steps.unpack_before(&packed, 2), before);
    }

    #[test]
    fn rows_of_a_step_are_packed_with_a_bias() {
        let steps = Steps::new(&[0, 2, 3], false);
        let mut packed = Vec::new();
        steps.pack_step(0, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[10.0, 20.0], &mut packed);
        assert_eq!(packed, [11.0, 22.0, 15.0, 26.0]);
        steps.pack_step(1, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[10.0, 20.0], &mut packed);
        assert_eq!(packed[4..], [13.0, 24.0]);
    }

    #[test]
    fn without_rows_there_are_no_steps() {
        assert_eq!(Steps::new(&[0, 0, 0], false).len(), 0);
    }
}
