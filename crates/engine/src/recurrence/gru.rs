//! Gated recurrent unit. With the parts of xₜ + b being z, r, c̃:
//!
//! z = g(z + hₜ₋₁·w_z), r = g(r + hₜ₋₁·w_r), c̃ = f(c̃ + (r·hₜ₋₁)·w_c), hₜ = (1 − z)·hₜ₋₁ + z·c̃.

use super::{Gate, Steps, sum_of_rows};
use crate::fused::Operation;
use crate::panels::{Columns, Panels};
use crate::product::{Matrix, multiply};
use crate::vector::widely;

#[derive(Debug)]
pub(super) struct Gru {
    pub(super) steps: Steps,
    pub(super) size: usize,
    pub(super) candidate: Gate,
    pub(super) gate: Gate,
}

/// All packed.
#[derive(Debug)]
pub(super) struct Saved {
    /// The three parts, after their functions.
    gates: Vec<f32>,
    /// r·hₜ₋₁.
    reset: Vec<f32>,
    outputs: Vec<f32>,
}

impl Gru {
    /// The matrices of the gates and of the candidate.
    fn weights<'a>(&self, weight: &'a [f32]) -> [Matrix<'a>; 2] {
        let (gates, candidate) = weight.split_at(2 * self.size * self.size);
        [Matrix::of_width(gates, 2 * self.size), Matrix::of_width(candidate, self.size)]
    }

    /// From the gradient of the outputs of a step: that of the candidate, of the update gate
    /// before its function, and, in place, that of the outputs before as far as they pass.
    #[inline(always)]
    fn back_to_update(&self, gates: &[f32], before: &[f32], to_gates: &mut [f32], own: &mut [f32]) {
        let size = self.size;
        let (update, candidate) = (&gates[..size], &gates[2 * size..]);
        let (to_update, rest) = to_gates.split_at_mut(size);
        let to_candidate = &mut rest[size..];
        for column in 0..size {
            let gradient = own[column];
            to_candidate[column] = gradient * update[column];
            to_update[column] = gradient * (candidate[column] - before[column]);
            own[column] = gradient * (1.0 - update[column]);
        }
        self.candidate.apply_slope(to_candidate, candidate);
        self.gate.apply_slope(to_update, update);
    }
}

impl Operation for Gru {
    type Saved = Saved;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Saved) {
        let (size, steps) = (self.size, &self.steps);
        let width = 3 * size;
        let [gate_weight, candidate_weight] = self.weights(inputs[1]).map(Panels::new);
        let zeros = vec![0.0; width];
        let bias = inputs.get(2).map_or(&zeros[..], |bias| bias);
        let mut gates = Vec::with_capacity(steps.rows() * width);
        let [mut reset, mut outputs] = [(); 2].map(|()| Vec::with_capacity(steps.rows() * size));
        let none = vec![0.0; steps.range(0).len() * size];
        for step in 0..steps.len() {
            let now = steps.range(step);
            steps.pack_step(step, inputs[0], bias, &mut gates);
            reset.resize(now.end * size, 0.0);
            outputs.resize(now.end * size, 0.0);
            let gates = &mut gates[now.start * width..];
            let reset = &mut reset[now.start * size..];
            let (done, outputs) = outputs.split_at_mut(now.start * size);
            let mut before = &none[..];
            if step > 0 {
                let rows = steps.before(step);
                before = &done[rows.start * size..rows.end * size];
                let target = Columns { values: gates, width, from: 0 };
                gate_weight.add_product(before.chunks_exact(size), target);
            }
            widely(
                #[inline(always)]
                || {
                    let rows = gates.chunks_exact_mut(width).zip(reset.chunks_exact_mut(size));
                    for ((gates, reset), before) in rows.zip(before.chunks_exact(size)) {
                        self.gate.apply(&mut gates[..2 * size]);
                        let parts = reset.iter_mut().zip(&gates[size..]).zip(before);
                        parts.for_each(|((reset, gate), before)| *reset = gate * before);
                    }
                },
            );
            if step > 0 {
                let target = Columns { values: gates, width, from: 2 * size };
                candidate_weight.add_product(reset.chunks_exact(size), target);
            }
            widely(
                #[inline(always)]
                || {
                    let rows = gates.chunks_exact_mut(width).zip(outputs.chunks_exact_mut(size));
                    for ((gates, output), before) in rows.zip(before.chunks_exact(size)) {
                        let (front, candidate) = gates.split_at_mut(2 * size);
                        self.candidate.apply(candidate);
                        let parts = output.iter_mut().zip(&*front).zip(&*candidate).zip(before);
                        parts.for_each(|(((output, update), candidate), before)| {
                            *output = before + update * (candidate - before);
                        });
                    }
                },
            );
        }
        (steps.unpack(&outputs, size), Saved { gates, reset, outputs })
    }

    fn backward(&self, inputs: &[&[f32]], saved: &Saved, gradient: &[f32]) -> Vec<Vec<f32>> {
        let (size, steps) = (self.size, &self.steps);
        let width = 3 * size;
        let weights = self.weights(inputs[1]).map(Matrix::transposed);
        let [gate_weight, candidate_weight] = weights.map(Panels::new);
        let mut gradient = steps.pack(gradient, size);
        let mut gate_gradient = vec![0.0; steps.rows() * width];
        let mut reset_gradient = vec![0.0; steps.range(0).len() * size];
        let none = vec![0.0; steps.range(0).len() * size];
        for step in (0..steps.len()).rev() {
            let now = steps.range(step);
            let (earlier, own) = gradient.split_at_mut(now.start * size);
            let own = &mut own[..now.len() * size];
            let to_gates = &mut gate_gradient[now.start * width..now.end * width];
            let gates = &saved.gates[now.start * width..now.end * width];
            let before_rows = if step > 0 { steps.before(step) } else { 0..0 };
            let before = match step {
                0 => &none[..],
                _ => &saved.outputs[before_rows.start * size..before_rows.end * size],
            };
            widely(
                #[inline(always)]
                || {
                    let rows = to_gates.chunks_exact_mut(width).zip(own.chunks_exact_mut(size));
                    let rows = rows.zip(gates.chunks_exact(width)).zip(before.chunks_exact(size));
                    for (((to_gates, own), gates), before) in rows {
                        self.back_to_update(gates, before, to_gates, own);
                    }
                },
            );
            if step == 0 {
                // There was nothing to reset.
                continue;
            }
            let to_reset = &mut reset_gradient[..now.len() * size];
            to_reset.fill(0.0);
            let to_candidate = to_gates.chunks_exact(width).map(|row| &row[2 * size..]);
            candidate_weight.add_product(to_candidate, Columns::all(to_reset, size));
            widely(
                #[inline(always)]
                || {
                    let rows = to_gates.chunks_exact_mut(width).zip(own.chunks_exact_mut(size));
                    let rows = rows.zip(gates.chunks_exact(width)).zip(before.chunks_exact(size));
                    for ((((to_gates, own), gates), before), to_reset) in
                        rows.zip(to_reset.chunks_exact(size))
                    {
                        let (gate, to_gate) =
                            (&gates[size..2 * size], &mut to_gates[size..2 * size]);
                        for column in 0..size {
                            to_gate[column] = to_reset[column] * before[column];
                            own[column] += to_reset[column] * gate[column];
                        }
                        self.gate.apply_slope(to_gate, gate);
                    }
                },
            );
            let to_both = to_gates.chunks_exact(width).map(|row| &row[..2 * size]);
            gate_weight.add_product(to_both, Columns::all(own, size));
            let earlier = &mut earlier[before_rows.start * size..before_rows.end * size];
            earlier.iter_mut().zip(&*own).for_each(|(sum, gradient)| *sum += gradient);
        }
        let weight = self.weight_gradient(saved, &gate_gradient);
        let mut gradients = vec![steps.unpack(&gate_gradient, width), weight];
        gradients.extend(inputs.get(2).map(|_| sum_of_rows(&gate_gradient, width)));
        gradients
    }
}

impl Gru {
    fn weight_gradient(&self, saved: &Saved, gate_gradient: &[f32]) -> Vec<f32> {
        let (size, width) = (self.size, 3 * self.size);
        let before = self.steps.rows_before(&saved.outputs, size);
        let first = gate_gradient.len() - 3 * before.len();
        let after = &gate_gradient[first..];
        let reset = &saved.reset[first / 3..];
        let mut weight = vec![0.0; size * width];
        let (gates, candidate) = weight.split_at_mut(2 * size * size);
        let before = Matrix::of_width(&before, size).transposed();
        let to_both = Matrix::columns_of(after, width, 0, 2 * size);
        multiply(before, to_both, gates);
        let to_candidate = Matrix::columns_of(after, width, 2 * size, size);
        let reset = Matrix::of_width(reset, size).transposed();
        multiply(reset, to_candidate, candidate);
        weight
    }
}
