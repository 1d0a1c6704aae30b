//! Operations written by hand: matrices as slices in, one as a slice out, and a way back of their
//! own. Burn sees each as one operation, whatever happens inside.
//!
//! On the CPU they read tensors where they lie. On another device inputs and outputs go over the
//! host, so an operation that matters there has a form composed of Burn's operations beside it.

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

/// An operation and everything it knows before it runs.
pub(crate) trait Operation: Debug + Send + Sync + 'static {
    /// What the way back needs beside the inputs.
    type Saved: Debug + Send + Sync;

    /// The output.
    fn forward(&self, inputs: &[&[f32]]) -> (Vec<f32>, Self::Saved);

    /// The gradient of every input, from that of the output.
    fn backward(&self, inputs: &[&[f32]], saved: &Self::Saved, gradient: &[f32]) -> Vec<Vec<f32>>;
}

/// Runs an operation of one to three inputs whose output has such rows and columns.
pub(crate) fn apply(
    operation: impl Operation,
    inputs: Vec<Tensor<2>>,
    dims: [usize; 2],
) -> Tensor<2> {
    let call = Arc::new(Called { operation, dims, saved: OnceLock::new() });
    let mut inputs = inputs.into_iter().map(Tensor::into_dispatch);
    let inputs = match (inputs.next(), inputs.next(), inputs.next(), inputs.next()) {
        (Some(a), None, ..) => Inputs::One(a),
        (Some(a), Some(b), None, _) => Inputs::Two(a, b),
        (Some(a), Some(b), Some(c), None) => Inputs::Three(a, b, c),
        _ => unreachable!("an operation has one to three inputs"),
    };
    Tensor::from_dispatch(Dispatch::by_hand(inputs, call))
}

/// Whether operations read the tensors of a device where they lie.
pub(crate) fn is_at_home_on(device: &Device) -> bool {
    *device == Device::flex()
}

/// One use of an operation.
pub(crate) trait Call: Debug + Send + Sync {
    fn dims(&self) -> [usize; 2];
    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32>;
    fn backward(&self, inputs: &[&[f32]], gradient: &[f32]) -> Vec<Vec<f32>>;
}

#[derive(Debug)]
struct Called<O: Operation> {
    operation: O,
    dims: [usize; 2],
    saved: OnceLock<O::Saved>,
}

impl<O: Operation> Call for Called<O> {
    fn dims(&self) -> [usize; 2] {
        self.dims
    }

    fn forward(&self, inputs: &[&[f32]]) -> Vec<f32> {
        let (output, saved) = self.operation.forward(inputs);
        assert!(self.saved.set(saved).is_ok(), "an operation runs once");
        output
    }

    fn backward(&self, inputs: &[&[f32]], gradient: &[f32]) -> Vec<Vec<f32>> {
        let Some(saved) = self.saved.get() else { unreachable!("the output comes first") };
        self.operation.backward(inputs, saved, gradient)
    }
}

/// The inputs of an operation, as Burn hands them from device to device.
#[derive(ExtensionType)]
pub(crate) enum Inputs<B: Backend> {
    One(FloatTensor<B>),
    Two(FloatTensor<B>, FloatTensor<B>),
    Three(FloatTensor<B>, FloatTensor<B>, FloatTensor<B>),
}

#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
pub(crate) trait ByHand: Backend {
    /// The output.
    fn by_hand(#[extension_type] inputs: Inputs<Self>, call: Arc<dyn Call>) -> FloatTensor<Self>;
}

/// Where an operation computes: tensors become slices, and slices tensors.
trait Host: Backend {
    fn forward(inputs: Vec<FloatTensor<Self>>, call: &dyn Call) -> FloatTensor<Self>;

    fn backward(
        inputs: Vec<FloatTensor<Self>>,
        gradient: FloatTensor<Self>,
        call: &dyn Call,
    ) -> Vec<FloatTensor<Self>>;
}

impl Host for Flex {
    fn forward(inputs: Vec<FlexTensor>, call: &dyn Call) -> FlexTensor {
        let inputs: Vec<_> = inputs.iter().map(FlexTensor::to_contiguous).collect();
        let output = call.forward(&inputs.iter().map(contiguous).collect::<Vec<_>>());
        FlexTensor::from_data(TensorData::new(output, call.dims()))
    }

    fn backward(inputs: Vec<FlexTensor>, gradient: FlexTensor, call: &dyn Call) -> Vec<FlexTensor> {
        let gradient = gradient.to_contiguous();
        let inputs: Vec<_> = inputs.iter().map(FlexTensor::to_contiguous).collect();
        let slices: Vec<_> = inputs.iter().map(contiguous).collect();
        let gradients = call.backward(&slices, contiguous(&gradient)).into_iter().zip(&inputs);
        let tensor = |(values, input): (Vec<f32>, &FlexTensor)| {
            FlexTensor::from_data(TensorData::new(values, input.shape().dims::<2>()))
        };
        gradients.map(tensor).collect()
    }
}

impl ByHand for Flex {
    fn by_hand(inputs: Inputs<Self>, call: Arc<dyn Call>) -> FlexTensor {
        <Self as Host>::forward(inputs.into(), &*call)
    }
}

/// The numbers of a tensor whose rows follow one another.
pub(crate) fn contiguous(tensor: &FlexTensor) -> &[f32] {
    debug_assert_eq!(tensor.dtype(), DType::F32);
    let start = tensor.layout().start_offset();
    &tensor.storage::<f32>()[start..start + tensor.layout().num_elements()]
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

impl<B: Host, C: CheckpointStrategy> ByHand for Autodiff<B, C> {
    fn by_hand(inputs: Inputs<Self>, call: Arc<dyn Call>) -> FloatTensor<Self> {
        match inputs {
            Inputs::One(a) => track::<B, C, 1>([a], call),
            Inputs::Two(a, b) => track::<B, C, 2>([a, b], call),
            Inputs::Three(a, b, c) => track::<B, C, 3>([a, b, c], call),
        }
    }
}

fn track<B: Host, C: CheckpointStrategy, const N: usize>(
    inputs: [FloatTensor<Autodiff<B, C>>; N],
    call: Arc<dyn Call>,
) -> FloatTensor<Autodiff<B, C>> {
    #[derive(Debug)]
    struct Step;

    impl<B: Host, const N: usize> Backward<B, N> for Step {
        type State = (Vec<FloatTensor<B>>, Arc<dyn Call>);

        fn backward(
            self,
            ops: Ops<Self::State, N>,
            grads: &mut Gradients,
            _checkpointer: &mut Checkpointer,
        ) {
            let (inputs, call) = ops.state;
            let gradient = grads.consume::<B>(&ops.node);
            let gradients = B::backward(inputs, gradient, &*call);
            for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
                if let Some(parent) = parent {
                    grads.register::<B>(parent.id, gradient);
                }
            }
        }
    }

    let mut tensors = Vec::new();
    let nodes = inputs.map(|input| {
        let (tensor, node) = input.into_parts();
        tensors.push(tensor);
        node
    });
    match Backward::<B, N>::prepare::<C>(Step, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let output = B::forward(tensors.clone(), &*call);
            prep.finish((tensors, call), output)
        }
        OpsKind::UnTracked(prep) => prep.finish(B::forward(tensors, &*call)),
    }
}

#[cfg(feature = "gpu")]
mod elsewhere {
    //! Over the host.

    use super::{ByHand, Call, Host, Inputs};
    use burn::backend::tensor::FloatTensor;
    use burn::backend::{Backend, Cube, TensorMetadata};
    use burn::tensor::{TensorData, read_sync};
    use std::sync::Arc;

    type Float = FloatTensor<Cube>;

    fn numbers(tensor: Float) -> Vec<f32> {
        let data =
            read_sync(<Cube as burn::backend::ops::FloatTensorOps<Cube>>::float_into_data(tensor));
        let data = data.unwrap_or_else(|error| panic!("the device gives tensors out: {error:?}"));
        data.try_into_vec().unwrap_or_else(|error| panic!("tensors hold f32: {error:?}"))
    }

    impl Host for Cube {
        fn forward(inputs: Vec<Float>, call: &dyn Call) -> Float {
            let device = inputs[0].device();
            let inputs: Vec<_> = inputs.into_iter().map(numbers).collect();
            let output = call.forward(&inputs.iter().map(Vec::as_slice).collect::<Vec<_>>());
            Cube::float_from_data(TensorData::new(output, call.dims()), &device)
        }

        fn backward(inputs: Vec<Float>, gradient: Float, call: &dyn Call) -> Vec<Float> {
            let device = gradient.device();
            let shapes: Vec<_> = inputs.iter().map(TensorMetadata::shape).collect();
            let inputs: Vec<_> = inputs.into_iter().map(numbers).collect();
            let inputs: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
            let gradients = call.backward(&inputs, &numbers(gradient)).into_iter().zip(shapes);
            let tensor = |(values, shape): (Vec<f32>, burn::tensor::Shape)| {
                Cube::float_from_data(TensorData::new(values, shape.dims::<2>()), &device)
            };
            gradients.map(tensor).collect()
        }
    }

    impl ByHand for Cube {
        fn by_hand(inputs: Inputs<Self>, call: Arc<dyn Call>) -> Float {
            <Self as Host>::forward(inputs.into(), &*call)
        }
    }
}
