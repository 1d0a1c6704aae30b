//! Long short-term memory with peepholes. With the four parts of xₜ + b + hₜ₋₁·w being c̃, i, f, o:
//!
//! cₜ = f(c̃)·g(i + pᵢ·cₜ₋₁) + cₜ₋₁·g(f + p_f·cₜ₋₁), hₜ = s(cₜ)·g(o + pₒ·cₜ).

use super::{Gate, Steps};
use crate::fused::Operation;
use crate::panels::{Columns, Panels};
use crate::product::{Matrix, multiply};
use crate::vector::widely;

#[derive(Debug)]
pub(super) struct Lstm {
    pub(super) steps: Steps,
    pub(super) size: usize,
    pub(super) candidate: Gate,
    pub(super) gate: Gate,
    pub(super) state: Gate,
}

/// All packed.
#[derive(Debug)]
pub(super) struct Saved {
    /// The four parts, after their functions.
    gates: Vec<f32>,
    states: Vec<f32>,
    /// The states, after their function.
    shown: Vec<f32>,
    outputs: Vec<f32>,
}

/// What one row of a step reads and makes.
struct Row<'a> {
    gates: &'a mut [f32],
    before: &'a [f32],
    state: &'a mut [f32],
    shown: &'a mut [f32],
    output: &'a mut [f32],
}

/// The same on the way back.
struct RowBack<'a> {
    gates: &'a [f32],
    before: &'a [f32],
    state: &'a [f32],
    shown: &'a [f32],
    output_gradient: &'a [f32],
    gate_gradient: &'a mut [f32],
    /// Of the state, from the step after; then that of the state before.
    state_gradient: &'a mut [f32],
}

fn parts(row: &[f32], size: usize) -> [&[f32]; 4] {
    [&row[..size], &row[size..2 * size], &row[2 * size..3 * size], &row[3 * size..4 * size]]
}

fn parts_mut(row: &mut [f32], size: usize) -> [&mut [f32]; 4] {
    let (front, back) = row.split_at_mut(2 * size);
    let ((a, b), (c, d)) = (front.split_at_mut(size), back.split_at_mut(size));
    [a, b, c, &mut d[..size]]
}

#[inline(always)]
fn add_row(sums: &mut [f32], row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
}

/// Adds the products of two rows.
#[inline(always)]
fn add_products(sums: &mut [f32], a: &[f32], b: &[f32]) {
    sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
}

#[inline(always)]
fn set_products(values: &mut [f32], a: &[f32], b: &[f32]) {
    values.iter_mut().zip(a).zip(b).for_each(|((value, a), b)| *value = a * b);
}

impl Lstm {
    #[inline(always)]
    fn row(&self, peepholes: &[f32], row: Row<'_>) {
        let size = self.size;
        let [of_input, of_forget, of_output] = [0, 1, 2].map(|at| &peepholes[at * size..][..size]);
        let Row { gates, before, state, shown, output: own } = row;
        let [candidate, input, forget, output] = parts_mut(gates, size);
        add_products(input, of_input, before);
        add_products(forget, of_forget, before);
        self.candidate.apply(candidate);
        self.gate.apply(input);
        self.gate.apply(forget);
        set_products(state, candidate, input);
        add_products(state, before, forget);
        add_products(output, of_output, state);
        self.gate.apply(output);
        shown.copy_from_slice(state);
        self.state.apply(shown);
        set_products(own, output, shown);
    }

    #[inline(always)]
    fn row_back(&self, peepholes: &[f32], sums: &mut [f32], row: RowBack<'_>) {
        let size = self.size;
        let [of_input, of_forget, of_output] = [0, 1, 2].map(|at| &peepholes[at * size..][..size]);
        let [candidate, input, forget, output] = parts(row.gates, size);
        let [to_candidate, to_input, to_forget, to_output] =
            parts_mut(&mut *row.gate_gradient, size);

        set_products(to_output, row.output_gradient, row.shown);
        self.gate.apply_slope(to_output, output);
        // Borrowed for the gradient of the state as the output shows it.
        let through_shown = &mut *to_candidate;
        set_products(through_shown, row.output_gradient, output);
        self.state.apply_slope(through_shown, row.shown);
        let to_state = row.state_gradient;
        add_row(to_state, through_shown);
        add_products(to_state, to_output, of_output);

        set_products(to_candidate, to_state, input);
        self.candidate.apply_slope(to_candidate, candidate);
        set_products(to_input, to_state, candidate);
        self.gate.apply_slope(to_input, input);
        set_products(to_forget, to_state, row.before);
        self.gate.apply_slope(to_forget, forget);

        to_state.iter_mut().zip(forget).for_each(|(gradient, forget)| *gradient *= forget);
        add_products(to_state, to_input, of_input);
        add_products(to_state, to_forget, of_forget);

        let (sum_gates, rest) = sums.split_at_mut(4 * size);
        let (sum_input, rest) = rest.split_at_mut(size);
        let (sum_forget, sum_output) = rest.split_at_mut(size);
        add_products(sum_input, to_input, row.before);
        add_products(sum_forget, to_forget, row.before);
        add_products(sum_output, to_output, row.state);
        add_row(sum_gates, row.gate_gradient);
    }

    /// The part of the bias that is added, and the peepholes.
    fn split_bias<'a>(&self, inputs: &[&'a [f32]], zeros: &'a [f32]) -> (&'a [f32], &'a [f32]) {
        inputs.get(2).map_or(zeros, |bias| *bias).split_at(4 * self.size)
    }
}

impl Operation for Lstm {
    type Saved = Saved;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Saved) {
        let (size, steps) = (self.size, &self.steps);
        let zeros = vec![0.0; 7 * size];
        let (bias, peepholes) = self.split_bias(inputs, &zeros);
        let weight = Panels::new(Matrix::of_width(inputs[1], 4 * size));
        let mut gates = Vec::with_capacity(steps.rows() * 4 * size);
        let [mut states, mut shown, mut outputs] =
            [(); 3].map(|()| Vec::with_capacity(steps.rows() * size));
        for step in 0..steps.len() {
            let now = steps.range(step);
            steps.pack_step(step, inputs[0], bias, &mut gates);
            let gates = &mut gates[now.start * 4 * size..];
            for column in [&mut states, &mut shown, &mut outputs] {
                column.resize(now.end * size, 0.0);
            }
            let (done, states) = states.split_at_mut(now.start * size);
            let (outputs_done, outputs) = outputs.split_at_mut(now.start * size);
            let shown = &mut shown[now.start * size..];
            let states_before = if step > 0 {
                let before = steps.before(step);
                let before = before.start * size..before.end * size;
                let rows = outputs_done[before.clone()].chunks_exact(size);
                weight.add_product(rows, Columns::all(gates, 4 * size));
                Some(&done[before])
            } else {
                None
            };
            widely(
                #[inline(always)]
                || {
                    for (row, gates) in gates.chunks_exact_mut(4 * size).enumerate() {
                        let own = row * size..(row + 1) * size;
                        self.row(
                            peepholes,
                            Row {
                                gates,
                                before: states_before
                                    .map_or(&zeros[..size], |all| &all[own.clone()]),
                                state: &mut states[own.clone()],
                                shown: &mut shown[own.clone()],
                                output: &mut outputs[own],
                            },
                        );
                    }
                },
            );
        }
        (steps.unpack(&outputs, size), Saved { gates, states, shown, outputs })
    }

    fn backward(&self, inputs: &[&[f32]], saved: &Saved, gradient: &[f32]) -> Vec<Vec<f32>> {
        let (size, steps) = (self.size, &self.steps);
        let zeros = vec![0.0; 7 * size];
        let (_, peepholes) = self.split_bias(inputs, &zeros);
        let weight = Panels::new(Matrix::of_width(inputs[1], 4 * size).transposed());
        let mut output_gradient = steps.pack(gradient, size);
        let mut gate_gradient = vec![0.0; steps.rows() * 4 * size];
        let mut state_gradient = vec![0.0; steps.range(0).len() * size];
        let mut bias_gradient = vec![0.0; 7 * size];
        for step in (0..steps.len()).rev() {
            let now = steps.range(step);
            let places = &steps.places()[now.clone()];
            widely(
                #[inline(always)]
                || {
                    for (row, (at, place)) in now.zip(places).enumerate() {
                        let own = at * size..(at + 1) * size;
                        let before = match step {
                            0 => &zeros[..size],
                            _ => &saved.states[(steps.before(step).start + row) * size..][..size],
                        };
                        self.row_back(
                            peepholes,
                            &mut bias_gradient,
                            RowBack {
                                gates: &saved.gates[at * 4 * size..][..4 * size],
                                before,
                                state: &saved.states[own.clone()],
                                shown: &saved.shown[own.clone()],
                                output_gradient: &output_gradient[own],
                                gate_gradient: &mut gate_gradient[place * 4 * size..][..4 * size],
                                state_gradient: &mut state_gradient[row * size..][..size],
                            },
                        );
                    }
                },
            );
            if step > 0 {
                let before = steps.before(step);
                let before = &mut output_gradient[before.start * size..before.end * size];
                let rows =
                    places.iter().map(|place| &gate_gradient[place * 4 * size..][..4 * size]);
                weight.add_product(rows, Columns::all(before, size));
            }
        }
        let before = steps.unpack_before(&saved.outputs, size);
        let mut weight = vec![0.0; size * 4 * size];
        let before = Matrix::of_width(&before, size).transposed();
        multiply(before, Matrix::of_width(&gate_gradient, 4 * size), &mut weight);
        let mut gradients = vec![gate_gradient, weight];
        gradients.extend(inputs.get(2).map(|_| bias_gradient));
        gradients
    }
}
