//! The same cells composed of Burn's operations, which find the gradient: for devices on which
//! operations written by hand do not run, and for tests to compare with.

use super::{Cell, Gate, Steps};
use burn::tensor::{Int, Tensor, TensorData};

pub(super) fn run(cell: Cell, size: usize, steps: &Steps, inputs: &[Tensor<2>]) -> Tensor<2> {
    let (x, weight) = (&inputs[0], inputs[1].clone());
    let device = x.device();
    let bias = inputs.get(2).cloned();
    let bias = bias.unwrap_or_else(|| Tensor::zeros([1, cell.bias_parts() * size], &device));
    let part = |of: &Tensor<2>, at: usize, count: usize| columns(of, at * size, count * size);
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
                let sums = x + before.matmul(weight.clone());
                let peepholes = part(&bias, 4, 3);
                let gates = [candidate, gate, shown];
                let (output, new) = lstm_step(gates, &sums, old, Some(&peepholes));
                state = new;
                output
            }
            Cell::Gru { candidate, gate } => gru_step([candidate, gate], &x, before, &weight),
            Cell::Simple(gate) => of(gate, x + before.matmul(weight.clone())),
        });
    }
    Tensor::cat(outputs, 0).select(0, places(&steps.packed(), &device))
}

/// Output and state of LSTM cells, from the sums that go into candidate, input, forget and output
/// gate, the state before, and the peepholes of the three gates. The gates are those of
/// [`Cell::Lstm`].
pub(crate) fn lstm_step(
    [candidate, gate, shown]: [Gate; 3],
    sums: &Tensor<2>,
    state: Tensor<2>,
    peepholes: Option<&Tensor<2>>,
) -> (Tensor<2>, Tensor<2>) {
    let size = state.dims()[1];
    let into = |place: usize, state: &Tensor<2>| {
        let sum = columns(sums, place * size, size);
        match peepholes {
            Some(peepholes) => sum + state.clone() * columns(peepholes, (place - 1) * size, size),
            None => sum,
        }
    };
    let (input, forget) = (of(gate, into(1, &state)), of(gate, into(2, &state)));
    let new = of(candidate, columns(sums, 0, size)) * input + state * forget;
    (of(gate, into(3, &new)) * of(shown, new.clone()), new)
}

/// The output of GRU cells, from what goes into update gate, reset gate and candidate, and the
/// output before. Gates and weight are those of [`Cell::Gru`].
pub(crate) fn gru_step(
    [candidate, gate]: [Gate; 2],
    x: &Tensor<2>,
    before: Tensor<2>,
    weight: &Tensor<2>,
) -> Tensor<2> {
    let size = before.dims()[1];
    let flat = weight.clone().reshape([1, 3 * size * size]);
    let gates = columns(&flat, 0, 2 * size * size).reshape([size, 2 * size]);
    let own = columns(&flat, 2 * size * size, size * size).reshape([size, size]);
    let both = of(gate, columns(x, 0, 2 * size) + before.clone().matmul(gates));
    let reset = (columns(&both, size, size) * before.clone()).matmul(own);
    let new = of(candidate, columns(x, 2 * size, size) + reset);
    before.clone() + columns(&both, 0, size) * (new - before)
}

fn columns(of: &Tensor<2>, begin: usize, count: usize) -> Tensor<2> {
    of.clone().narrow(1, begin, count)
}

fn of(gate: Gate, x: Tensor<2>) -> Tensor<2> {
    gate.activation().of(x)
}

fn places(places: &[usize], device: &burn::tensor::Device) -> Tensor<1, Int> {
    let places: Vec<i32> = places.iter().map(|place| *place as i32).collect();
    let count = places.len();
    Tensor::from_data(TensorData::new(places, [count]), device)
}
