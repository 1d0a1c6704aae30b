//! The gradient of a parameter, as the engine's results go to an optimizer, here or on servers.

use crate::model::ModelIndex;

/// The gradient of one parameter: a sum over the samples of a batch, never a mean.
///
/// `Index` says in which list the parameter is counted: a trainer's descriptions and the servers'
/// model are different lists.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Gradient<'a, Index = ModelIndex> {
    /// Of all elements.
    Dense {
        /// The parameter.
        parameter: Index,
        /// As many as the parameter has elements.
        values: &'a [f32],
    },
    /// Of some rows.
    Sparse {
        /// The parameter.
        parameter: Index,
        /// The rows.
        keys: &'a [u64],
        /// A row for each key.
        values: &'a [f32],
    },
}

/// Whether all numbers are finite.
pub fn are_finite(numbers: &[f32]) -> bool {
    const MAGNITUDE: u32 = !(1 << 31);
    const LOWEST_OF_EXPONENT: u32 = 1 << 23;
    // One more in the exponent of an infinity or NaN reaches the sign's bit. Without an exit, and
    // of these operations alone, the loop is vector instructions on every processor.
    let reached = numbers.iter().fold(0, |reached: u32, number| {
        reached | (number.to_bits() & MAGNITUDE).wrapping_add(LOWEST_OF_EXPONENT)
    });
    reached & !MAGNITUDE == 0
}

impl<'a, Index> Gradient<'a, Index> {
    /// A gradient of the rows of `keys`, or, without any, of all elements.
    pub fn new(parameter: Index, keys: Option<&'a [u64]>, values: &'a [f32]) -> Self {
        match keys {
            Some(keys) => Gradient::Sparse { parameter, keys, values },
            None => Gradient::Dense { parameter, values },
        }
    }

    /// The parameter.
    pub fn parameter(&self) -> &Index {
        match self {
            Gradient::Dense { parameter, .. } | Gradient::Sparse { parameter, .. } => parameter,
        }
    }

    /// The rows; `None` for all elements.
    pub fn keys(&self) -> Option<&'a [u64]> {
        match self {
            Gradient::Dense { .. } => None,
            Gradient::Sparse { keys, .. } => Some(keys),
        }
    }

    /// A number for each element, or a row for each key.
    pub fn values(&self) -> &'a [f32] {
        match self {
            Gradient::Dense { values, .. } | Gradient::Sparse { values, .. } => values,
        }
    }

    /// The same gradient of the parameter as another list counts it.
    pub fn with_parameter<Other>(self, parameter: Other) -> Gradient<'a, Other> {
        Gradient::new(parameter, self.keys(), self.values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_found_wherever_it_stands() {
        let finite = [0.0, -0.0, 1.0, f32::MIN_POSITIVE / 2.0, f32::MAX, f32::MIN, -3.5];
        assert!(are_finite(&finite.repeat(9)) && are_finite(&[]));
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
            for place in 0..40 {
                let mut numbers = finite.repeat(6);
                numbers[place] = bad;
                assert!(!are_finite(&numbers), "{bad} at {place}");
            }
        }
    }
}
