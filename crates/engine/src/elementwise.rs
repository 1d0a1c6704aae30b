//! Activations, and the logarithm that classification costs pick, written by hand for the CPU:
//! Burn calls a function of the C library for each number there, which takes several times as long
//! as the vector instructions that loops over `vector`'s functions become.
//!
//! Backward computes the values once more instead of keeping them: that is cheaper than memory.

use crate::fresh;
use crate::fused::{self, Fused};
use crate::vector::{exp, sigmoid, tanh, widely};
use burn::tensor::Tensor;
use std::sync::Arc;

/// A function that is applied to each number, or to each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Tanh,
    Sigmoid,
    /// Of each row.
    Softmax,
}

/// The function of a matrix on the CPU.
pub(crate) fn apply(function: Function, x: Tensor<2>) -> Tensor<2> {
    let width = x.dims()[1];
    fused::apply(Arc::new(Applied { function, width }), vec![x])
}

/// For each row the logarithm of what softmax makes of the number in its column of `columns`. The
/// probabilities `y` are softmax of `x`; they are not computed again, and the gradient goes to `x`
/// alone.
pub(crate) fn picked_log_softmax(x: Tensor<2>, y: Tensor<2>, columns: Vec<usize>) -> Tensor<2> {
    let width = x.dims()[1];
    fused::apply(Arc::new(PickedLogarithm { columns, width }), vec![x, y.detach()])
}

/// ReLU of the sum of two matrices.
pub(crate) fn add_relu(a: Tensor<2>, b: Tensor<2>) -> Tensor<2> {
    let width = a.dims()[1];
    fused::apply(Arc::new(AddRelu { width }), vec![a, b])
}

#[derive(Debug)]
struct Applied {
    function: Function,
    width: usize,
}

impl Applied {
    fn run(&self, x: &[f32]) -> Vec<f32> {
        let mut y = x.to_vec();
        widely(
            #[inline(always)]
            || match self.function {
                Function::Tanh => y.iter_mut().for_each(|number| *number = tanh(*number)),
                Function::Sigmoid => y.iter_mut().for_each(|number| *number = sigmoid(*number)),
                Function::Softmax => y.chunks_exact_mut(self.width).for_each(|row| {
                    let share = 1.0 / exponentials(row);
                    row.iter_mut().for_each(|number| *number *= share);
                }),
            },
        );
        y
    }
}

impl Fused for Applied {
    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        self.run(inputs[0])
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], _wanted: &[bool]) -> Vec<Vec<f32>> {
        let mut found = self.run(inputs[0]);
        widely(
            #[inline(always)]
            || match self.function {
                Function::Tanh => {
                    let pairs = found.iter_mut().zip(gradient);
                    pairs.for_each(|(y, gradient)| *y = (1.0 - *y * *y) * gradient);
                }
                Function::Sigmoid => {
                    let pairs = found.iter_mut().zip(gradient);
                    pairs.for_each(|(y, gradient)| *y = *y * (1.0 - *y) * gradient);
                }
                Function::Softmax => {
                    let rows = found.chunks_exact_mut(self.width);
                    for (y, gradient) in rows.zip(gradient.chunks_exact(self.width)) {
                        let product = dot(y, gradient);
                        let pairs = y.iter_mut().zip(gradient);
                        pairs.for_each(|(y, gradient)| *y *= gradient - product);
                    }
                }
            },
        );
        vec![found]
    }
}

#[derive(Debug)]
struct AddRelu {
    width: usize,
}

impl Fused for AddRelu {
    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (a, b, width) = (inputs[0], inputs[1], self.width);
        fresh::pieces(a.len(), width, |row| {
            let pairs = a[row * width..][..width].iter().zip(&b[row * width..][..width]);
            // NaN stays NaN, so that it is found.
            pairs.map(|(a, b)| if a + b <= 0.0 { 0.0 } else { a + b })
        })
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let (a, b, width) = (inputs[0], inputs[1], self.width);
        let found = fresh::pieces(a.len(), width, |row| {
            let pairs = a[row * width..][..width].iter().zip(&b[row * width..][..width]);
            let pairs = pairs.zip(&gradient[row * width..][..width]);
            pairs.map(|((a, b), gradient)| if a + b <= 0.0 { 0.0 } else { *gradient })
        });
        let count = wanted.iter().filter(|is_wanted| **is_wanted).count();
        std::iter::repeat_n(found, count).collect()
    }
}

#[derive(Debug)]
struct PickedLogarithm {
    /// By row.
    columns: Vec<usize>,
    width: usize,
}

impl Fused for PickedLogarithm {
    fn width(&self) -> usize {
        1
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let rows = inputs[0].chunks_exact(self.width).zip(inputs[1].chunks_exact(self.width));
        rows.zip(&self.columns)
            .map(|((x, y), column)| {
                // The wanted probability may be too small for a number, the highest never is.
                let highest = widely(
                    #[inline(always)]
                    || highest(y),
                );
                let place = y.iter().position(|probability| *probability == highest);
                place.map_or(f32::NAN, |place| x[*column] - x[place] + highest.ln())
            })
            .collect()
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        debug_assert_eq!(wanted, [true, false]);
        let mut found = Vec::with_capacity(inputs[1].len());
        widely(
            #[inline(always)]
            || {
                let rows = inputs[1].chunks_exact(self.width).zip(&self.columns).zip(gradient);
                for ((y, column), gradient) in rows {
                    let done = found.len();
                    found.extend(y.iter().map(|probability| -gradient * probability));
                    found[done + column] += gradient;
                }
            },
        );
        vec![found]
    }
}

/// Replaces a row by e to the power of how far its numbers are below the highest; gives the sum.
#[inline(always)]
fn exponentials(row: &mut [f32]) -> f32 {
    let highest = highest(row);
    row.iter_mut().for_each(|number| *number = exp(*number - highest));
    lanes(row, 0.0, |sum, x| sum + x).into_iter().sum()
}

/// The highest number; -∞ if there is none.
#[inline(always)]
fn highest(row: &[f32]) -> f32 {
    let highest = lanes(row, f32::NEG_INFINITY, |highest, x| if x > highest { x } else { highest });
    highest.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.into_iter().sum::<f32>() + rest
}

/// Folds a row in several lanes at once, which are vectors for the processor.
#[inline(always)]
fn lanes(row: &[f32], start: f32, fold: impl Fn(f32, f32) -> f32) -> [f32; 16] {
    let mut lanes = [start; 16];
    let chunks = row.chunks_exact(lanes.len());
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane = fold(*lane, *number);
        }
    }
    for (lane, number) in lanes.iter_mut().zip(rest) {
        *lane = fold(*lane, *number);
    }
    lanes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activation::Activation;
    use crate::argument::{numbers, tensor};
    use burn::tensor::{Device, Int, TensorData, activation};
    use proptest::prelude::*;

    fn near(what: &str, found: &[f32], expected: &[f32]) {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(expected) {
            let is_near = (found - expected).abs() < 1e-5 * expected.abs().max(1.0);
            assert!(is_near, "{what}: {found} instead of {expected}");
        }
    }

    /// The values of a function and, weighted, its gradient.
    fn both(
        x: &[f32],
        width: usize,
        weights: &[f32],
        function: impl Fn(Tensor<2>) -> Tensor<2>,
    ) -> [Vec<f32>; 2] {
        let device = Device::flex();
        let x = tensor(x.to_vec(), [x.len() / width, width], &device).autodiff().require_grad();
        let y = function(x.clone());
        let dims = y.dims();
        let weights = tensor(weights[..dims[0] * dims[1]].to_vec(), dims, &device).autodiff();
        let mut gradients = (y.clone() * weights).sum().backward();
        [numbers(y), numbers(x.grad_remove(&mut gradients).unwrap())]
    }

    proptest! {
        #[test]
        fn functions_agree_with_those_of_burn(
            rows in 1..5_usize,
            width in 1..40_usize,
            x in prop::collection::vec(-9.0..9.0_f32, 160),
            weights in prop::collection::vec(-1.0..1.0_f32, 160),
        ) {
            let x = &x[..rows * width];
            let check = |what: &str, function: Function, of: fn(Tensor<2>) -> Tensor<2>| {
                let found = both(x, width, &weights, |x| apply(function, x));
                let expected = both(x, width, &weights, of);
                near(what, &found[0], &expected[0]);
                near(&format!("gradient of {what}"), &found[1], &expected[1]);
            };
            check("tanh", Function::Tanh, Tensor::tanh);
            check("sigmoid", Function::Sigmoid, activation::sigmoid);
            check("softmax", Function::Softmax, |x| activation::softmax(x, 1));

            let found = both(x, width, &weights, |x| add_relu(x.clone(), x.mul_scalar(-0.3)));
            let sum = |x: Tensor<2>| activation::relu(x.clone() + x.mul_scalar(-0.3));
            let expected = both(x, width, &weights, sum);
            near("ReLU of a sum", &found[0], &expected[0]);
            near("gradient of ReLU of a sum", &found[1], &expected[1]);

            let columns: Vec<usize> = (0..rows).map(|row| (row * 7) % width).collect();
            let picked = |x: Tensor<2>| {
                let y = apply(Function::Softmax, x.clone());
                picked_log_softmax(x, y, columns.clone())
            };
            let found = both(x, width, &weights, picked);
            let ids: Vec<i32> = columns.iter().map(|column| *column as i32).collect();
            let expected = both(x, width, &weights, |x| {
                let ids = TensorData::new(ids.clone(), [rows, 1]);
                let ids = Tensor::<2, Int>::from_data(ids, &x.device());
                activation::log_softmax(x, 1).gather(1, ids)
            });
            near("logarithm", &found[0], &expected[0]);
            near("gradient of the logarithm", &found[1], &expected[1]);
        }
    }

    #[test]
    fn a_number_that_is_none_shows() {
        let x = || tensor(vec![1.0, f32::NAN, 2.0], [1, 3], &Device::flex());
        for activation in [Activation::Tanh, Activation::Sigmoid, Activation::Softmax] {
            assert!(numbers(activation.of(x())).iter().any(|y| y.is_nan()), "{activation:?}");
        }
        let y = apply(Function::Softmax, x());
        assert!(numbers(picked_log_softmax(x(), y, vec![0]))[0].is_nan());
    }

    /// A row as wide as a vocabulary, and its logarithms and gradients in twice the precision.
    #[test]
    fn the_logarithm_is_right_to_the_last_bits_however_small_the_probability() {
        let width = 5_000;
        let mut x: Vec<f32> = (0..width).map(|at| ((at * 7) as f32).sin() * 12.0).collect();
        x[17] = -300.0;
        let exact: Vec<f64> = x.iter().map(|number| f64::from(*number)).collect();
        let sum: f64 = exact.iter().map(|number| number.exp()).sum();
        for column in [0, 17, 1_234] {
            let found = both(&x, width, &[1.0], |x| {
                let y = apply(Function::Softmax, x.clone());
                picked_log_softmax(x, y, vec![column])
            });
            let is_near = |found: f32, expected: f64| {
                (f64::from(found) - expected).abs() <= 2e-6 * expected.abs().max(1e-3)
            };
            let expected = exact[column] - sum.ln();
            assert!(is_near(found[0][0], expected), "{} instead of {expected}", found[0][0]);
            for (at, found) in found[1].iter().enumerate() {
                let picked = if at == column { 1.0 } else { 0.0 };
                let expected = picked - exact[at].exp() / sum;
                assert!(is_near(*found, expected), "{found} instead of {expected} at {at}");
            }
        }
    }
}
