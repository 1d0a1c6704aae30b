//! What is written by hand against the same composed of Burn's operations: values and gradients,
//! over windows of all kinds.

use super::convolution::Convolution;
use super::normalization::Normalization;
use super::pooling::{Pool, Pooling};
use super::{Axis, Image, Moves};
use crate::argument::{numbers, tensor};
use burn::tensor::{Device, Tensor, activation};
use proptest::prelude::*;

const ROWS: usize = 3;

/// Numbers that look random, none twice: of equals the two ways may choose different ones.
fn fill(count: usize, salt: usize) -> Vec<f32> {
    (0..count).map(|place| (((place + salt) * 7919 % 10_007) as f32) / 5_000.0 - 1.0).collect()
}

/// The output, and the gradients of `Σ output·weights`, of a function of some matrices.
fn run(
    dims: &[[usize; 2]],
    function: impl FnOnce(Vec<Tensor<2>>) -> Tensor<2>,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let device = Device::flex();
    let inputs = dims.iter().enumerate().map(|(salt, dims)| {
        let values = fill(dims[0] * dims[1], salt * 1_000);
        tensor(values, *dims, &device).autodiff().require_grad()
    });
    let inputs: Vec<Tensor<2>> = inputs.collect();
    let output = function(inputs.clone());
    let [rows, width] = output.dims();
    let weights = tensor(fill(rows * width, 77), [rows, width], &device);
    let mut found = (output.clone() * weights).sum().backward();
    let gradients = inputs.iter().map(|input| numbers(input.grad_remove(&mut found).unwrap()));
    let gradients = gradients.collect();
    (numbers(output), gradients)
}

/// Compares two ways on one thread and on several.
fn check(
    dims: &[[usize; 2]],
    by_hand: impl Fn(Vec<Tensor<2>>) -> Tensor<2> + Sync,
    composed: impl Fn(Vec<Tensor<2>>) -> Tensor<2>,
) {
    let expected = run(dims, composed);
    for threads in [1, 2] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let found = pool.install(|| run(dims, &by_hand));
        near("output", &found.0, &expected.0);
        for (number, (found, expected)) in found.1.iter().zip(&expected.1).enumerate() {
            near(&format!("gradient of input {number}"), found, expected);
        }
    }
}

fn near(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0_f32, |scale, number| scale.max(number.abs()));
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_near = (found - expected).abs() <= 1e-4 * scale;
        assert!(is_near, "{what}: number {place} is {found} instead of {expected}");
    }
}

fn three(inputs: Vec<Tensor<2>>) -> [Tensor<2>; 3] {
    <[Tensor<2>; 3]>::try_from(inputs).unwrap()
}

/// A side, and a window that fits it.
fn moves() -> impl Strategy<Value = (usize, Moves)> {
    let sizes = (1..6_usize, 1..4_usize, 1..4_usize, 0..3_usize, 1..3_usize, any::<bool>());
    sizes.prop_filter_map("fits", |(length, window, stride, padding, dilation, is_rounded_up)| {
        let moves = Moves { window, stride, padding, dilation, is_rounded_up };
        moves.along(length).ok().map(|_| (length, moves))
    })
}

fn axis((length, moves): (usize, Moves)) -> Axis {
    moves.along(length).unwrap()
}

fn image(channels: usize, [height, width]: [usize; 2]) -> Image {
    Image { channels, height, width }
}

proptest! {
    #[test]
    fn convolutions_agree(
        down in moves(), across in moves(), groups in 1..3_usize, is_transposed in any::<bool>(),
    ) {
        let plain = |(length, moves)| (length, Moves { is_rounded_up: false, ..moves });
        let window = [axis(plain(down)), axis(plain(across))];
        let wide = image(2 * groups, window.map(|axis| axis.length));
        let narrow = image(3 * groups, window.map(|axis| axis.places));
        let how = Convolution { wide, narrow, groups, window, is_transposed };
        let weight = [narrow.channels, how.weight_width()];
        let dims = [[ROWS, how.input().size()], weight, [1, how.output().channels]];
        check(
            &dims,
            |inputs| { let [x, w, b] = three(inputs); how.apply(x, w, b) },
            |inputs| { let [x, w, b] = three(inputs); how.composed(x, w, b) },
        );
    }

    #[test]
    fn poolings_agree(down in moves(), across in moves(), is_max in any::<bool>()) {
        let dense = |(length, moves)| (length, Moves { dilation: 1, ..moves });
        let window = [axis(dense(down)), axis(dense(across))];
        let input = image(2, window.map(|axis| axis.length));
        let pooling = if is_max { Pooling::Max } else { Pooling::Average };
        let how = Pool { input, window, pooling };
        let one = |inputs: Vec<Tensor<2>>| inputs.into_iter().next().unwrap();
        check(&[[ROWS, input.size()]], |x| how.apply(one(x)), |x| how.composed(one(x)));
    }

    #[test]
    fn normalizations_agree(
        channels in 1..4_usize, pixels in 1..40_usize, is_relu in any::<bool>(),
    ) {
        let how = Normalization { channels, pixels, epsilon: 1e-3 };
        let dims = [[ROWS, channels * pixels], [1, channels], [1, channels]];
        check(
            &dims,
            |inputs| how.apply(three(inputs), is_relu).0,
            |inputs| {
                let y = how.composed(three(inputs)).0;
                if is_relu { activation::relu(y) } else { y }
            },
        );
        let device = Device::flex();
        let [x, scale, bias] = dims.map(|dims| tensor(fill(dims[0] * dims[1], 5), dims, &device));
        let (_, found) = how.apply([x.clone(), scale.clone(), bias.clone()], is_relu);
        let (_, expected) = how.composed([x, scale, bias]);
        near("mean", &found.mean, &expected.mean);
        near("variance", &found.variance, &expected.variance);
    }
}

#[test]
fn a_side_that_is_stopped_on_is_as_long_as_the_window_reaches() {
    let moves = Moves { window: 3, stride: 2, padding: 1, dilation: 2, is_rounded_up: false };
    let axis = moves.stopping(4).unwrap();
    assert_eq!((axis.length, axis.places), (9, 4));
    assert_eq!(moves.along(9).unwrap(), axis);
}
