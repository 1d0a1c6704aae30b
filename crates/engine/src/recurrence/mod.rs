//! Recurrent layers over sequences that are not padded: one hand-written operation for each kind
//! of cell, forward and backward.
//!
//! All sequences go through a step at once, those that are long enough (`steps`); so a step is a
//! product of matrices and a loop over numbers (`gate` has the functions in it). Composed of
//! Burn's operations the same takes five times as long, most of it in memory. The composed form
//! serves on other devices, and tests compare with it.

mod composed;
mod gate;
mod gru;
mod lstm;
mod simple;
mod steps;

pub(crate) use composed::{gru_step, lstm_step};
pub(crate) use gate::Gate;
pub(crate) use steps::Steps;

use crate::fused;
use burn::tensor::Tensor;

/// A kind of cell with its settings.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// `x` has 4 parts: candidate, input, forget and output gate. The bias has 7: theirs, and the
    /// peepholes of input, forget and output gate.
    Lstm { candidate: Gate, gate: Gate, state: Gate },
    /// `x` has 3 parts: update gate, reset gate and candidate. The weight is a matrix for the
    /// gates and, after it, one for the candidate.
    Gru { candidate: Gate, gate: Gate },
    /// `x` has one part.
    Simple(Gate),
}

impl Cell {
    /// Parts of a row of its input.
    pub(crate) fn parts(self) -> usize {
        match self {
            Cell::Lstm { .. } => 4,
            Cell::Gru { .. } => 3,
            Cell::Simple(_) => 1,
        }
    }

    /// Parts of its bias.
    pub(crate) fn bias_parts(self) -> usize {
        match self {
            Cell::Lstm { .. } => 7,
            Cell::Gru { .. } | Cell::Simple(_) => self.parts(),
        }
    }
}

/// The outputs of cells of `size` numbers over the rows of `inputs[0]`; the other inputs are the
/// weight and, if there is one, the bias.
pub(crate) fn run(cell: Cell, size: usize, steps: Steps, inputs: Vec<Tensor<2>>) -> Tensor<2> {
    if !fused::is_supported(&inputs[0].device()) {
        return composed::run(cell, size, &steps, &inputs);
    }
    match cell {
        Cell::Lstm { candidate, gate, state } => {
            fused::apply_saving(lstm::Lstm { steps, size, candidate, gate, state }, inputs, size)
        }
        Cell::Gru { candidate, gate } => {
            fused::apply_saving(gru::Gru { steps, size, candidate, gate }, inputs, size)
        }
        Cell::Simple(gate) => {
            fused::apply_saving(simple::Simple { steps, size, gate }, inputs, size)
        }
    }
}

/// The sum of all rows of `width` numbers.
fn sum_of_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let mut sum = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        sum.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};
    use proptest::prelude::*;

    fn matrix(rows: usize, columns: usize, numbers: &mut impl Iterator<Item = f32>) -> Tensor<2> {
        let values: Vec<f32> = numbers.take(rows * columns).collect();
        Tensor::from_data(TensorData::new(values, [rows, columns]), &Device::flex())
    }

    fn values(tensor: Tensor<2>) -> Vec<f32> {
        crate::argument::numbers(tensor)
    }

    fn near(what: &str, found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            let is_near = (found - expected).abs() < 1e-4 * expected.abs().max(1.0);
            assert!(is_near, "{what}: {found} instead of {expected}");
        }
    }

    /// Compares the operation with the composed form: outputs, and the gradients of all inputs.
    fn check(cell: Cell, size: usize, lengths: &[usize], is_reversed: bool, seed: &[f32]) {
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        });
        let offsets: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let rows = *offsets.last().unwrap();
        let mut numbers = seed.iter().copied().cycle();
        let widths = [(rows, cell.parts()), (size, cell.parts()), (1, cell.bias_parts())];
        let inputs = widths.map(|(rows, parts)| matrix(rows, parts * size, &mut numbers));
        let wanted = matrix(rows, size, &mut numbers).autodiff();
        let steps = || Steps::new(&offsets, is_reversed);
        for count in [2, 3] {
            let [by_hand, composed] = [true, false].map(|is_by_hand| {
                let inputs: Vec<_> = inputs[..count]
                    .iter()
                    .map(|input| input.clone().autodiff().require_grad())
                    .collect();
                let output = match is_by_hand {
                    true => run(cell, size, steps(), inputs.clone()),
                    false => composed::run(cell, size, &steps(), &inputs),
                };
                let mut found = (output.clone() * wanted.clone()).sum().backward();
                let gradients = inputs.iter().map(|input| input.grad_remove(&mut found).unwrap());
                (values(output), gradients.map(values).collect::<Vec<_>>())
            });
            near("output", &by_hand.0, &composed.0);
            for (place, (found, expected)) in by_hand.1.iter().zip(&composed.1).enumerate() {
                near(&format!("gradient of input {place}"), found, expected);
            }
        }
    }

    fn gates() -> impl Strategy<Value = Gate> {
        use Gate::{Brelu, Linear, Relu, Sigmoid, Stanh, Tanh};
        prop::sample::select(vec![Linear, Sigmoid, Tanh, Relu, Brelu, Stanh])
    }

    proptest! {
        #[test]
        fn operations_agree_with_their_composed_form(
            kind in 0..3,
            [candidate, gate, state] in [gates(), gates(), gates()],
            size in 1..12_usize,
            lengths in prop::collection::vec(0..6_usize, 1..6),
            is_reversed: bool,
            seed in prop::collection::vec(-0.4..0.4_f32, 1009),
        ) {
            prop_assume!(lengths.iter().any(|length| *length > 0));
            let cell = match kind {
                0 => Cell::Lstm { candidate, gate, state },
                1 => Cell::Gru { candidate, gate },
                _ => Cell::Simple(gate),
            };
            check(cell, size, &lengths, is_reversed, &seed);
        }
    }
}
