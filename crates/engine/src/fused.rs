//! Operations written by hand, forward and backward, as functions of slices; here they are made
//! part of Burn's automatic differentiation.
//!
//! Layers use them where the operations that Burn has would be much slower, or walk through memory
//! many times. On the CPU they read tensors where they lie. On other devices inputs and outputs go
//! over the host, so what matters there is also composed of Burn's operations, which the tests
//! compare with.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, Backend, Dispatch, ExtensionType, Flex, TensorMetadata, backend_extension,
};
use burn::tensor::{DType, Device, Tensor, TensorData};
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

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

/// An operation that makes something on the way forward that the way back needs, and that finds
/// the gradients of all inputs together.
pub(crate) trait Operation: Debug + Send + Sync + 'static {
    /// What the way back needs beside the inputs.
    type Saved: Debug + Send + Sync;

    /// The output, row after row.
    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Self::Saved);

    /// The gradient of every input, from that of the output.
    fn backward(&self, inputs: &[&[f32]], saved: &Self::Saved, gradient: &[f32]) -> Vec<Vec<f32>>;
}

/// Whether such operations read the tensors of a device where they lie.
pub(crate) fn is_supported(device: &Device) -> bool {
    *device == Device::flex()
}

/// Applies an operation of one to three inputs.
pub(crate) fn apply(operation: Arc<dyn Fused>, inputs: Vec<Tensor<2>>) -> Tensor<2> {
    let mut inputs = inputs.into_iter().map(Tensor::into_dispatch);
    let inputs = match (inputs.next(), inputs.next(), inputs.next(), inputs.next()) {
        (Some(a), None, ..) => Inputs::One(a),
        (Some(a), Some(b), None, _) => Inputs::Two(a, b),
        (Some(a), Some(b), Some(c), None) => Inputs::Three(a, b, c),
        _ => unreachable!("an operation has one to three inputs"),
    };
    Tensor::from_dispatch(Dispatch::fused(inputs, operation))
}

/// Applies an operation of one to three inputs whose output has rows of `width` numbers.
pub(crate) fn apply_saving(
    operation: impl Operation,
    inputs: Vec<Tensor<2>>,
    width: usize,
) -> Tensor<2> {
    apply(Arc::new(Saving { operation, width, saved: OnceLock::new() }), inputs)
}

#[derive(Debug)]
struct Saving<O: Operation> {
    operation: O,
    width: usize,
    saved: OnceLock<O::Saved>,
}

impl<O: Operation> Fused for Saving<O> {
    fn width(&self) -> usize {
        self.width
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (output, saved) = self.operation.forward(inputs);
        assert!(self.saved.set(saved).is_ok(), "an application runs once");
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32], wanted: &[bool]) -> Vec<Vec<f32>> {
        let Some(saved) = self.saved.get() else { unreachable!("the output comes first") };
        let all = self.operation.backward(inputs, saved, gradient).into_iter().zip(wanted);
        all.filter_map(|(gradient, is_wanted)| is_wanted.then_some(gradient)).collect()
    }
}

/// The inputs of an operation, as Burn hands them from device to device.
#[derive(ExtensionType)]
enum Inputs<B: Backend> {
    One(FloatTensor<B>),
    Two(FloatTensor<B>, FloatTensor<B>),
    Three(FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
}

impl<B: Backend> From<Inputs<B>> for Vec<FloatTensor<B>> {
    fn from(inputs: Inputs<B>) -> Self {
        match inputs {
            Inputs::One(a) => vec![a],
            Inputs::Two(a, b) => vec![a, b],
            Inputs::Three(a, b, c) => vec![a, b, c],
        }
    }
}

#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
trait FusedOperations: Backend {
    fn fused(
        #[extension_type] inputs: Inputs<Self>,
        operation: Arc<dyn Fused>,
    ) -> FloatTensor<Self>;
}

/// A backend whose tensors can be read as slices.
trait Readable: Backend {
    /// What is held while a slice is read.
    type Held;

    fn hold(tensor: FloatTensor<Self>) -> Self::Held;
    fn read(held: &Self::Held) -> &[f32];
}

impl Readable for Flex {
    type Held = FlexTensor;

    fn hold(tensor: FlexTensor) -> FlexTensor {
        tensor.to_contiguous()
    }

    fn read(held: &FlexTensor) -> &[f32] {
        contiguous(held)
    }
}

/// The numbers of a tensor whose rows follow one another.
pub(crate) fn contiguous(tensor: &FlexTensor) -> &[f32] {
    debug_assert_eq!(tensor.dtype(), DType::F32);
    let start = tensor.layout().start_offset();
    &tensor.storage::<f32>()[start..start + tensor.layout().num_elements()]
}

#[cfg(feature = "gpu")]
impl Readable for burn::backend::Cube {
    type Held = Vec<f32>;

    fn hold(tensor: FloatTensor<Self>) -> Vec<f32> {
        to_host::<Self>(tensor)
    }

    fn read(held: &Vec<f32>) -> &[f32] {
        held
    }
}

#[cfg(feature = "gpu")]
fn to_host<B: Backend>(tensor: FloatTensor<B>) -> Vec<f32> {
    let data = burn::tensor::read_sync(B::float_into_data(tensor));
    let data = data.unwrap_or_else(|error| panic!("the device gives tensors out: {error:?}"));
    data.try_into_vec().unwrap_or_else(|error| panic!("tensors hold f32: {error:?}"))
}

impl FusedOperations for Flex {
    fn fused(inputs: Inputs<Self>, operation: Arc<dyn Fused>) -> FlexTensor {
        forward::<Self>(inputs.into(), operation.as_ref())
    }
}

#[cfg(feature = "gpu")]
impl FusedOperations for burn::backend::Cube {
    fn fused(inputs: Inputs<Self>, operation: Arc<dyn Fused>) -> FloatTensor<Self> {
        forward::<Self>(inputs.into(), operation.as_ref())
    }
}

impl<B: Readable, C: CheckpointStrategy> FusedOperations for Autodiff<B, C> {
    fn fused(inputs: Inputs<Self>, operation: Arc<dyn Fused>) -> FloatTensor<Self> {
        match inputs {
            Inputs::One(a) => track::<B, C, 1>([a], operation),
            Inputs::Two(a, b) => track::<B, C, 2>([a, b], operation),
            Inputs::Three(a, b, c) => track::<B, C, 3>([a, b, c], operation),
        }
    }
}

fn forward<B: Readable>(inputs: Vec<FloatTensor<B>>, operation: &dyn Fused) -> FloatTensor<B> {
    let device = inputs[0].device();
    let held: Vec<_> = inputs.into_iter().map(B::hold).collect();
    let output = operation.forward(&held.iter().map(B::read).collect::<Vec<_>>());
    let (rows, width) = (output.len() / operation.width(), operation.width());
    B::float_from_data(TensorData::new(output, [rows, width]), &device)
}

/// Computes the output and notes how to come back.
fn track<B: Readable, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    operation: Arc<dyn Fused>,
) -> FloatTensor<Autodiff<B, C>> {
    #[derive(Debug)]
    struct Step;

    impl<B: Readable, const N: usize> Backward<B, N> for Step {
        type State = (Arc<dyn Fused>, Vec<FloatTensor<B>>);

        fn backward(
            self,
            ops: Ops<Self::State, N>,
            grads: &mut Gradients,
            _checkpointer: &mut Checkpointer,
        ) {
            let (operation, inputs) = ops.state;
            let gradient = grads.consume::<B>(&ops.node);
            let device = gradient.device();
            let shapes: Vec<_> = inputs.iter().map(TensorMetadata::shape).collect();
            let wanted = ops.parents.each_ref().map(Option::is_some);
            let held: Vec<_> = inputs.into_iter().map(B::hold).collect();
            let slices: Vec<_> = held.iter().map(B::read).collect();
            let gradient = B::hold(gradient);
            let found = operation.backward(&slices, B::read(&gradient), &wanted);
            let nodes = ops.parents.into_iter().zip(shapes);
            let nodes = nodes.filter_map(|(node, shape)| Some((node?, shape)));
            for ((node, shape), values) in nodes.zip(found) {
                let data = TensorData::new(values, shape);
                grads.register::<B>(node.id, B::float_from_data(data, &device));
            }
        }
    }

    let mut tensors = Vec::with_capacity(N);
    let nodes = inputs.map(|input| {
        let (tensor, node) = input.into_parts();
        tensors.push(tensor);
        node
    });
    let output = forward::<B>(tensors.clone(), operation.as_ref());
    match Backward::<B, N>::prepare::<C>(Step, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish((operation, tensors), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    }
}
