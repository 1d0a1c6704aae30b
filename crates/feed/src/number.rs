//! Numbers in a line, parsed many times faster than by way of a string.

/// 10^0 to 10^22: the powers of ten that an f64 holds exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
/// Integers below are exact in an f64.
const EXACT_MAX: u64 = 1 << 53;

/// A whole number without a sign; `None` if it is anything else or does not fit.
pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    // 19 digits always fit.
    let (first, rest) = text.split_at(text.len().min(19));
    let mut value = 0u64;
    for byte in first {
        value = value * 10 + u64::from(digit(*byte)?);
    }
    for byte in rest {
        value = value.checked_mul(10)?.checked_add(u64::from(digit(*byte)?))?;
    }
    Some(value)
}

/// A finite number, rounded as Python's `float` does.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    let value = match decimal(text) {
        Some(value) => value,
        None => std::str::from_utf8(text).ok()?.parse().ok()?,
    };
    value.is_finite().then_some(value)
}

/// The same, then rounded to an f32, in which it must be finite too.
pub(crate) fn parse_f32(text: &[u8]) -> Option<f32> {
    parse_f64(text).map(|value| value as f32).filter(|value| value.is_finite())
}

/// `-12.345` with few enough digits that one division gives the nearest f64.
fn decimal(text: &[u8]) -> Option<f64> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let (mut value, mut fraction, mut has_point) = (0u64, 0usize, false);
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    for byte in digits {
        if *byte == b'.' && !has_point {
            has_point = true;
            continue;
        }
        value = value * 10 + u64::from(digit(*byte)?);
        fraction += usize::from(has_point);
    }
    // A point alone is no number.
    if digits.len() == usize::from(has_point) || value > EXACT_MAX {
        return None;
    }
    let value = value as f64 / POWERS[fraction];
    Some(if is_negative { -value } else { value })
}

#[inline]
fn digit(byte: u8) -> Option<u8> {
    let digit = byte.wrapping_sub(b'0');
    (digit < 10).then_some(digit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn whole_numbers_are_read_up_to_the_largest() {
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "-1", "+1", "1.", "1e3", " 1", "0x1"] {
            assert_eq!(parse_u64(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn what_is_no_finite_number_is_refused() {
        for wrong in ["", "-", ".", "-.", "nan", "inf", "-inf", "1e39", "1..2", "1,5", "a", "1 "] {
            assert_eq!(parse_f32(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(parse_f32(b"-0.5"), Some(-0.5));
        assert_eq!(parse_f32(b".5"), Some(0.5));
        assert_eq!(parse_f32(b"5."), Some(5.0));
        assert_eq!(parse_f32(b"1e-3"), Some(0.001));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn numbers_have_the_bits_that_the_standard_library_gives(
            whole in 0..1_000_000_000u64, digits in 0..12usize, fraction in 0..1_000_000_000_000u64,
            is_negative: bool,
        ) {
            let sign = if is_negative { "-" } else { "" };
            let fraction = format!("{fraction:012}");
            let text = format!("{sign}{whole}.{}", &fraction[..digits]);
            let expected = text.parse::<f64>().unwrap() as f32;
            prop_assert_eq!(parse_f32(text.as_bytes()).map(f32::to_bits), Some(expected.to_bits()));
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..24)) {
            let expected = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse::<u64>().ok());
            let is_plain = bytes.first() != Some(&b'+');
            prop_assert_eq!(parse_u64(&bytes), expected.filter(|_| is_plain));
            parse_f32(&bytes);
        }
    }
}
