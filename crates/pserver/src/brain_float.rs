//! f32 ↔ bf16, the upper half of an f32: as many exponents, 8 bits of precision. Loops that the
//! compiler turns into vector instructions.

/// Appends the nearest bf16 of each value, in little-endian order; of two that are as near, the even
/// one. Infinities and NaN stay what they are.
pub(crate) fn narrow(values: &[f32], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + values.len() * 2, 0);
    for (value, out) in values.iter().zip(out[start..].chunks_exact_mut(2)) {
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
        // Rounding could carry a NaN over into something else.
        let bits = if value.is_nan() { (bits >> 16) | 0x40 } else { rounded };
        out.copy_from_slice(&(bits as u16).to_le_bytes());
    }
}

/// Appends the value of each bf16. Bytes of half a one at the end are left out.
pub(crate) fn widen(bytes: &[u8], out: &mut Vec<f32>) {
    let pairs = bytes.chunks_exact(2);
    out.extend(pairs.map(|pair| {
        let bits = u16::from_le_bytes([pair[0], pair[1]]);
        f32::from_bits(u32::from(bits) << 16)
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn there_and_back(values: &[f32]) -> Vec<f32> {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        narrow(values, &mut bytes);
        assert_eq!(bytes.len(), values.len() * 2);
        widen(&bytes, &mut out);
        out
    }

    #[test]
    fn what_fits_comes_back_as_it_was_and_the_rest_is_rounded_to_even() {
        let exact = [0.0, -0.0, 1.0, -2.5, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(there_and_back(&exact), exact);
        // 8 bits of precision: between 1 and 1 + 2^-7 lies 1 + 2^-8.
        let half = 1.0 + f32::powi(2.0, -8);
        assert_eq!(there_and_back(&[half, -half]), [1.0, -1.0]);
        let above_odd = 1.0 + 3.0 * f32::powi(2.0, -8);
        assert_eq!(there_and_back(&[above_odd]), [1.0 + f32::powi(2.0, -6)]);
        assert!(
            there_and_back(&[f32::NAN, f32::from_bits(0x7f80_0001)]).iter().all(|one| one.is_nan())
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn a_value_changes_by_less_than_its_256th_part(value in -1.0e30..1.0e30f32) {
            let found = there_and_back(&[value])[0];
            prop_assert!((found - value).abs() <= value.abs() / 256.0, "{value} became {found}");
        }
    }
}
