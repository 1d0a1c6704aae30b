//! Values of parameters as tensors. Those that are shared are read where they lie, so that a step
//! copies no parameter: Burn copies such memory only before it would change it, which no layer does
//! to a parameter.

use burn::tensor::{AllocationProperty, Bytes, DType, Device, Tensor, TensorData};
use std::sync::Arc;

/// Values that were given for a step.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lent<'a> {
    /// To be copied: they may change as soon as the step has ended.
    Slice(&'a [f32]),
    /// To be read where they lie. Nobody changes them while they are shared.
    Shared(&'a Arc<Vec<f32>>),
}

impl<'a> Lent<'a> {
    pub(crate) fn values(&self) -> &'a [f32] {
        match *self {
            Lent::Slice(values) => values,
            Lent::Shared(values) => values,
        }
    }

    /// The values as a tensor of these dimensions.
    pub(crate) fn tensor(&self, dims: [usize; 2], device: &Device) -> Tensor<2> {
        let bytes = match *self {
            Lent::Slice(values) => Bytes::from_elems(values.to_vec()),
            Lent::Shared(values) => {
                let owner = bytes::Bytes::from_owner(Owner(Arc::clone(values)));
                Bytes::from_shared(owner, AllocationProperty::Native)
            }
        };
        Tensor::from_data(TensorData::from_bytes(bytes, dims, DType::F32), device)
    }
}

/// Keeps shared values alive as long as a tensor has them.
struct Owner(Arc<Vec<f32>>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument::numbers;

    #[test]
    fn shared_values_are_read_where_they_lie_and_given_back() {
        let mut values = Arc::new(vec![1.0, 2.0, 3.0, 4.0]);
        let tensor = Lent::Shared(&values).tensor([2, 2], &Device::flex());
        assert_eq!(Arc::strong_count(&values), 2);
        assert_eq!(numbers(tensor.clone() + 1.0), [2.0, 3.0, 4.0, 5.0]);
        drop(tensor);
        let place = values.as_ptr();
        Arc::make_mut(&mut values)[0] = 7.0;
        assert_eq!((values.as_ptr(), values[0]), (place, 7.0));
    }

    #[test]
    fn a_tensor_that_is_changed_leaves_shared_values_alone() {
        let values = Arc::new(vec![1.0, 2.0]);
        // Nobody else has this tensor, so that Burn may write the sum where it lies.
        let sum = Lent::Shared(&values).tensor([1, 2], &Device::flex()) + 1.0;
        assert_eq!(numbers(sum), [2.0, 3.0]);
        assert_eq!(*values, [1.0, 2.0]);
    }
}
