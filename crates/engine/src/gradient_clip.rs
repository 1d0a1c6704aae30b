//! The identity whose gradient is cut off: `error_clipping_threshold`.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, backend_extension};
use burn::tensor::Tensor;

/// `x` itself; no element of its gradient is above `clip` or below `-clip`.
pub(crate) fn clip_gradient(x: Tensor<2>, clip: f32) -> Tensor<2> {
    Tensor::from_dispatch(Dispatch::clip_gradient(x.into_dispatch(), clip))
}

#[cfg_attr(feature = "gpu", backend_extension(Flex, Cube, Autodiff))]
#[cfg_attr(not(feature = "gpu"), backend_extension(Flex, Autodiff))]
pub(crate) trait GradientClip: Backend {
    /// The identity.
    fn clip_gradient(x: FloatTensor<Self>, _clip: f32) -> FloatTensor<Self> {
        x
    }
}

impl GradientClip for Flex {}

#[cfg(feature = "gpu")]
impl GradientClip for burn::backend::Cube {}

impl<B: Backend, C: CheckpointStrategy> GradientClip for Autodiff<B, C> {
    fn clip_gradient(x: FloatTensor<Self>, clip: f32) -> FloatTensor<Self> {
        #[derive(Debug)]
        struct Step;

        impl<B: Backend> Backward<B, 1> for Step {
            type State = f32;

            fn backward(
                self,
                ops: Ops<f32, 1>,
                grads: &mut Gradients,
                _checkpointer: &mut Checkpointer,
            ) {
                let clip = ops.state;
                unary::<B, _>(ops.parents, ops.node, grads, |gradient| {
                    B::float_clamp(gradient, (-clip).into(), clip.into())
                });
            }
        }

        let (x, node) = x.into_parts();
        match Step.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => prep.finish(clip, x),
            OpsKind::UnTracked(prep) => prep.finish(x),
        }
    }
}
