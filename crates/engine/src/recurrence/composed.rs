//! The same cells composed of Burn's operations, which find the gradient: for devices on which
//! operations written by hand do not run, and for tests to compare with.

use super::{Cell, Gate, Steps};
use burn::tensor::{Int, Tensor, TensorData};

pub(super) fn run(cell: Cell, size: usize, steps: &Steps, inputs: &[Tensor<2>]) -> Tensor<2> {
    let (x, weight) = (&inputs[0], inputs[1].clone());
    let device = x.device();
    let bias = inputs.get(2).cloned();
    let bias = bias.unwrap_or_else(|| Tensor::zeros([1, cell.bias_parts() * size], &device));
    let part =
        |of: &Tensor<2>, at: usize, count: usize| of.clone().narrow(1, at * size, count * size);
    let x = x.clone() + part(&bias, 0, cell.parts());
    let mut outputs: Vec<Tensor<2>> = Vec::new();
    let mut state = Tensor::zeros([steps.range(0).len(), size], &device);
    for step in 0..steps.len() {
        let rows = steps.range(step);
        let x = x.clone().select(0, places(&steps.places()[rows.clone()], &device));
        let before = match outputs.last() {
            None => Tensor::zeros([rows.len(), size], &device),
            Some(before) => before.clone().narrow(0, 0, rows.len()),
        };
        outputs.push(match cell {
            Cell::Lstm { candidate, gate, state: shown } => {
                let old = state.clone().narrow(0, 0, rows.len());
                let parts = x + before.matmul(weight.clone());
                let peephole = |state: &Tensor<2>, at| state.clone() * part(&bias, at, 1);
                let input = of(gate, part(&parts, 1, 1) + peephole(&old, 4));
                let forget = of(gate, part(&parts, 2, 1) + peephole(&old, 5));
                state = of(candidate, part(&parts, 0, 1)) * input + old * forget;
                of(gate, part(&parts, 3, 1) + peephole(&state, 6)) * of(shown, state.clone())
            }
            Cell::Gru { candidate, gate } => {
                let flat = weight.clone().reshape([1, 3 * size * size]);
                let gates = flat.clone().narrow(1, 0, 2 * size * size).reshape([size, 2 * size]);
                let own = flat.narrow(1, 2 * size * size, size * size).reshape([size, size]);
                let both = of(gate, part(&x, 0, 2) + before.clone().matmul(gates));
                let reset = (part(&both, 1, 1) * before.clone()).matmul(own);
                let new = of(candidate, part(&x, 2, 1) + reset);
                let update = part(&both, 0, 1);
                before.clone() + update * (new - before)
            }
            Cell::Simple(gate) => of(gate, x + before.matmul(weight.clone())),
        });
    }
    let mut back = vec![0; steps.rows()];
    steps.places().iter().enumerate().for_each(|(packed, row)| back[*row] = packed);
    Tensor::cat(outputs, 0).select(0, places(&back, &device))
}

fn of(gate: Gate, x: Tensor<2>) -> Tensor<2> {
    gate.activation().of(x)
}

fn places(places: &[usize], device: &burn::tensor::Device) -> Tensor<1, Int> {
    let places: Vec<i32> = places.iter().map(|place| *place as i32).collect();
    let count = places.len();
    Tensor::from_data(TensorData::new(places, [count]), device)
}
