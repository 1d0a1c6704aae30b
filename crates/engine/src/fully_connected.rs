//! `x·w + b`, and ReLU of it, as one operation: the product is written once, and bias and ReLU are
//! applied where it lies, where Burn's operations make a tensor of each step.

use crate::fused::{self, Fused};
use crate::product::{Matrix, product};
use crate::vector::widely;
use burn::tensor::Tensor;
use std::sync::{Arc, OnceLock};

/// The output for rows `x`, with a bias of one row, on the CPU.
pub(crate) fn fully_connected(
    x: Tensor<2>,
    w: Tensor<2>,
    b: Tensor<2>,
    is_relu: bool,
) -> Tensor<2> {
    let [inner, width] = w.dims();
    let operation = FullyConnected { inner, width, is_relu, above: OnceLock::new() };
    fused::apply(Arc::new(operation), vec![x, w, b])
}

#[derive(Debug)]
struct FullyConnected {
    inner: usize,
    width: usize,
    is_relu: bool,
    /// For ReLU: 1 where the output is above 0.
    above: OnceLock<Vec<u8>>,
}

impl Fused for FullyConnected {
    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let &[x, w, b] = inputs else { unreachable!("three inputs") };
        let x = Matrix::of_width(x, self.inner);
        let mut output = product(x, Matrix::of_width(w, self.width));
        let mut above = vec![0; if self.is_relu { output.len() } else { 0 }];
        widely(
            #[inline(always)]
            || {
                if !self.is_relu {
                    for row in output.chunks_exact_mut(self.width) {
                        row.iter_mut().zip(b).for_each(|(number, bias)| *number += bias);
                    }
                }
                let rows = output.chunks_exact_mut(self.width);
                for (row, above) in rows.zip(above.chunks_exact_mut(self.width)) {
                    for ((number, bias), above) in row.iter_mut().zip(b).zip(above) {
                        let sum = *number + bias;
                        *above = u8::from(sum > 0.0);
                        // NaN stays NaN, so that it is found.
                        *number = if sum <= 0.0 { 0.0 } else { sum };
                    }
                }
            },
        );
        assert!(self.above.set(above).is_ok(), "an application runs once");
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let &[x, w, _] = inputs else { unreachable!("three inputs") };
        let Some(above) = self.above.get() else { unreachable!("the output comes first") };
        let mut bias = vec![0.0; self.width];
        let mut masked = Vec::with_capacity(above.len());
        widely(
            #[inline(always)]
            || {
                let rows = gradient.chunks_exact(self.width);
                if !self.is_relu {
                    rows.for_each(|row| add(&mut bias, row));
                    return;
                }
                for (row, above) in rows.zip(above.chunks_exact(self.width)) {
                    let done = masked.len();
                    let pairs = row.iter().zip(above);
                    masked.extend(pairs.map(|(number, above)| match above {
                        0 => 0.0,
                        _ => *number,
                    }));
                    add(&mut bias, &masked[done..]);
                }
            },
        );
        let gradient = if self.is_relu { &masked[..] } else { gradient };
        let gradient = Matrix::of_width(gradient, self.width);
        let mut found = Vec::with_capacity(3);
        if wanted[0] {
            found.push(product(gradient, Matrix::of_width(w, self.width).transposed()));
        }
        if wanted[1] {
            found.push(product(Matrix::of_width(x, self.inner).transposed(), gradient));
        }
        if wanted[2] {
            found.push(bias);
        }
        found
    }
}

#[inline(always)]
fn add(sums: &mut [f32], row: &[f32]) {
    sums.iter_mut().zip(row).for_each(|(sum, number)| *sum += number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument::numbers;
    use burn::tensor::{Device, TensorData, activation};
    use proptest::prelude::*;

    type Made = (Vec<f32>, [Vec<f32>; 3]);

    /// The output, and the gradients of inputs for a gradient of the output.
    fn run(
        [x, w, b, gradient]: [(Vec<f32>, [usize; 2]); 4],
        operation: impl Fn(Tensor<2>, Tensor<2>, Tensor<2>) -> Tensor<2>,
    ) -> Made {
        let device = Device::flex();
        let tensor =
            |(values, dims)| Tensor::<2>::from_data(TensorData::new(values, dims), &device);
        let [x, w, b] = [x, w, b].map(|one| tensor(one).autodiff().require_grad());
        let output = operation(x.clone(), w.clone(), b.clone());
        let weighted = output.clone() * tensor(gradient).autodiff();
        let mut found = weighted.sum().backward();
        let gradients = [x, w, b].map(|one| numbers(one.grad_remove(&mut found).unwrap()));
        (numbers(output), gradients)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn both_ways_agree(
            (rows, inner, width) in (1..9usize, 1..40usize, 1..40usize),
            seed in proptest::collection::vec(-2.0..2.0f32, 64), is_relu: bool,
        ) {
            let values = |count: usize, step: usize| -> Vec<f32> {
                (0..count).map(|place| seed[(place * step + step) % 61]).collect()
            };
            let inputs = || [
                (values(rows * inner, 3), [rows, inner]),
                (values(inner * width, 7), [inner, width]),
                (values(width, 11), [1, width]),
                (values(rows * width, 13), [rows, width]),
            ];
            let found = run(inputs(), |x, w, b| fully_connected(x, w, b, is_relu));
            let expected = run(inputs(), |x, w, b| {
                let sum = x.matmul(w) + b;
                if is_relu { activation::relu(sum) } else { sum }
            });
            let near = |found: &[f32], expected: &[f32]| {
                assert_eq!(found.len(), expected.len());
                for (found, expected) in found.iter().zip(expected) {
                    assert!((found - expected).abs() < 1e-3, "{found} instead of {expected}");
                }
            };
            near(&found.0, &expected.0);
            found.1.iter().zip(&expected.1).for_each(|(found, expected)| near(found, expected));
        }
    }

    #[test]
    fn bias_and_relu_have_the_bits_of_walks_one_after_the_other() {
        // A width that fills no register evenly, and numbers that are rounded in every sum.
        let (rows, inner, width) = (9, 21, 37);
        let numbers = |count: usize, step: usize| -> Vec<f32> {
            (0..count).map(|place| ((place * step) as f32 * 0.37).sin() / 3.0).collect()
        };
        let (x, w) = (numbers(rows * inner, 3), numbers(inner * width, 7));
        let (b, gradient) = (numbers(width, 11), numbers(rows * width, 13));
        for is_relu in [false, true] {
            let mut output =
                product(Matrix::of_width(&x, inner), Matrix::of_width(&w, width)).into_iter();
            let sums = || b.iter().map(|bias| output.next().unwrap() + bias).collect::<Vec<f32>>();
            let sums: Vec<f32> = std::iter::repeat_with(sums).take(rows).flatten().collect();
            let is_above = |sum: f32| !is_relu || sum > 0.0;
            let expected = sums.iter().map(|sum| if is_above(*sum) { *sum } else { 0.0 });
            let expected: Vec<u32> = expected.map(f32::to_bits).collect();
            let masked = gradient.iter().zip(&sums);
            let masked = masked.map(|(number, sum)| if is_above(*sum) { *number } else { 0.0 });
            let mut bias = vec![0.0_f32; width];
            masked.enumerate().for_each(|(place, number)| bias[place % width] += number);

            let operation = FullyConnected { inner, width, is_relu, above: OnceLock::new() };
            let bits =
                |numbers: &[f32]| numbers.iter().map(|one| one.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&operation.forward(&[&x, &w, &b])), expected);
            let found = operation.backward(&[&x, &w, &b], &gradient, &[false, false, true]);
            assert_eq!(bits(&found[0]), bits(&bias));
        }
    }

    #[test]
    fn what_is_no_number_is_not_hidden() {
        let one = |number| (vec![number], [1, 1]);
        let inputs = [one(f32::NAN), one(1.0), one(0.0), one(1.0)];
        let (output, _) = run(inputs, |x, w, b| fully_connected(x, w, b, true));
        assert!(output[0].is_nan());
    }
}
