//! hₜ = f(xₜ + b + hₜ₋₁·w).

use super::{Gate, Steps, sum_of_rows};
use crate::fused::Operation;
use crate::panels::{Columns, Panels};
use crate::product::{Matrix, multiply};
use crate::vector::widely;

#[derive(Debug)]
pub(super) struct Simple {
    pub(super) steps: Steps,
    pub(super) size: usize,
    pub(super) gate: Gate,
}

impl Operation for Simple {
    /// The outputs, packed.
    type Saved = Vec<f32>;

    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Vec<f32>) {
        let size = self.size;
        let weight = Panels::new(Matrix::of_width(inputs[1], size));
        let zeros = vec![0.0; size];
        let bias = inputs.get(2).map_or(&zeros[..], |bias| bias);
        let mut outputs = Vec::with_capacity(inputs[0].len());
        for step in 0..self.steps.len() {
            let now = self.steps.range(step);
            self.steps.pack_step(step, inputs[0], bias, &mut outputs);
            let (done, rows) = outputs.split_at_mut(now.start * size);
            if step > 0 {
                let before = self.steps.before(step);
                let before = done[before.start * size..before.end * size].chunks_exact(size);
                weight.add_product(before, Columns::all(rows, size));
            }
            widely(
                #[inline(always)]
                || self.gate.apply(rows),
            );
        }
        (self.steps.unpack(&outputs, size), outputs)
    }

    fn backward(&self, inputs: &[&[f32]], outputs: &Vec<f32>, gradient: &[f32]) -> Vec<Vec<f32>> {
        let size = self.size;
        let mut gradient = self.steps.pack(gradient, size);
        let weight = Panels::new(Matrix::of_width(inputs[1], size).transposed());
        for step in (0..self.steps.len()).rev() {
            let now = self.steps.range(step);
            let (earlier, rest) = gradient.split_at_mut(now.start * size);
            let rows = &mut rest[..now.len() * size];
            let values = &outputs[now.start * size..now.end * size];
            widely(
                #[inline(always)]
                || self.gate.apply_slope(rows, values),
            );
            if step > 0 {
                let before = self.steps.before(step);
                let before = &mut earlier[before.start * size..before.end * size];
                weight.add_product(rows.chunks_exact(size), Columns::all(before, size));
            }
        }
        let before = self.steps.rows_before(outputs, size);
        let after = &gradient[gradient.len() - before.len()..];
        let mut weight = vec![0.0; size * size];
        let before = Matrix::of_width(&before, size).transposed();
        multiply(before, Matrix::of_width(after, size), &mut weight);
        let mut gradients = vec![self.steps.unpack(&gradient, size), weight];
        gradients.extend(inputs.get(2).map(|_| sum_of_rows(&gradient, size)));
        gradients
    }
}
