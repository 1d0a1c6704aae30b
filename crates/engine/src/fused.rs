//! Operations written by hand for the CPU, forward and backward, as functions of slices; here they
//! are made part of Burn's automatic differentiation.
//!
//! Layers use them where the operations that Burn has would be much slower, or walk through memory
//! many times. On other devices the same is composed of Burn's operations, which the tests also
//! compare with.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Device, Tensor, TensorData};
use std::fmt::Debug;
use std::sync::Arc;

/// One application of an operation to some matrices. What it keeps from forward to backward is its
/// own affair: every application is an object of its own.
pub(crate) trait Fused: Debug + Send + Sync + 'static {
    /// Numbers in a row of the output.
    fn width(&self) -> usize;

    /// The output, row after row.
    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32>;

    /// The gradients of those inputs that are wanted, from that of the output.
    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>>;
}

/// Whether such operations run on this device.
pub(crate) fn is_supported(device: &Device) -> bool {
    *device == Device::flex()
}

/// Applies an operation of one input.
pub(crate) fn apply_one(operation: Arc<dyn Fused>, x: Tensor<2>) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::fused_one(x.into_dispatch(), operation))
}

/// Applies an operation of three inputs.
pub(crate) fn apply_three(operation: Arc<dyn Fused>, inputs: [Tensor<2>; 3]) -> Tensor<2> {
    let [a, b, c] = inputs.map(Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::fused_three(a, b, c, operation))
}

#[backend_extension(Flex, Autodiff)]
trait FusedOperations: Backend {
    fn fused_one(x: FloatTensor<Self>, operation: Arc<dyn Fused>) -> FloatTensor<Self>;

    fn fused_three(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        operation: Arc<dyn Fused>,
    ) -> FloatTensor<Self>;
}

impl FusedOperations for Flex {
    fn fused_one(x: FlexTensor, operation: Arc<dyn Fused>) -> FlexTensor {
        forward(operation.as_ref(), &[x.to_contiguous()])
    }

    fn fused_three(
        a: FlexTensor,
        b: FlexTensor,
        c: FlexTensor,
        operation: Arc<dyn Fused>,
    ) -> FlexTensor {
        forward(operation.as_ref(), &[a, b, c].map(|input| input.to_contiguous()))
    }
}

impl<C: CheckpointStrategy> FusedOperations for Autodiff<Flex, C> {
    fn fused_one(x: FloatTensor<Self>, operation: Arc<dyn Fused>) -> FloatTensor<Self> {
        track::<C, 1>([x], operation)
    }

    fn fused_three(
        a: FloatTensor<Self>,
        b: FloatTensor<Self>,
        c: FloatTensor<Self>,
        operation: Arc<dyn Fused>,
    ) -> FloatTensor<Self> {
        track::<C, 3>([a, b, c], operation)
    }
}

/// Computes the output and notes how to come back.
fn track<C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<Flex, C>>; N],
    operation: Arc<dyn Fused>,
) -> FloatTensor<Autodiff<Flex, C>> {
    #[derive(Debug)]
    struct Step;

    impl<const N: usize> Backward<Flex, N> for Step {
        type State = (Arc<dyn Fused>, Vec<FlexTensor>);

        fn backward(
            self,
            ops: Ops<Self::State, N>,
            grads: &mut Gradients,
            _checkpointer: &mut Checkpointer,
        ) {
            let (operation, inputs) = ops.state;
            let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
            let wanted = ops.parents.each_ref().map(Option::is_some);
            let slices: Vec<&[f32]> = inputs.iter().map(contiguous).collect();
            let found = operation.backward(&slices, contiguous(&gradient), &wanted);
            let nodes = ops.parents.iter().zip(&inputs);
            let nodes = nodes.filter_map(|(node, input)| Some((node.as_ref()?, input)));
            for ((node, input), values) in nodes.zip(found) {
                let data = TensorData::new(values, input.shape());
                grads.register::<Flex>(node.id, FlexTensor::from_data(data));
            }
        }
    }

    let mut tensors = Vec::with_capacity(N);
    let nodes = inputs.map(|input| {
        let (tensor, node) = input.into_parts();
        tensors.push(tensor.to_contiguous());
        node
    });
    let output = forward(operation.as_ref(), &tensors);
    match Step.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish((operation, tensors), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}

fn forward(operation: &dyn Fused, inputs: &[FlexTensor]) -> FlexTensor {
    let slices: Vec<&[f32]> = inputs.iter().map(contiguous).collect();
    let output = operation.forward(&slices);
    let (rows, width) = (inputs[0].shape()[0], operation.width());
    FlexTensor::from_data(TensorData::new(output, [rows, width]))
}

fn contiguous(tensor: &FlexTensor) -> &[f32] {
    let start = tensor.layout().start_offset();
    &tensor.storage::<f32>()[start..start + tensor.layout().num_elements()]
}
