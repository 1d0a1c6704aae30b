//! Whole numbers as people type them. An error says what a number is, which the standard library's
//! "invalid digit found in string" does not.

/// Reads a whole number of any size that `T` has room for.
pub fn parse<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number: write it in digits, such as 2".to_owned());
    }
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| "this number is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_number_and_everything_else_is_told_so() {
        assert_eq!(parse::<u32>("12"), Ok(12));
        assert_eq!(parse::<u16>("0"), Ok(0));
        for text in ["", "two", "-1", "+1", "1.5", "1e3", " 1", "١"] {
            let words = "not a whole number: write it in digits, such as 2";
            assert_eq!(parse::<u32>(text), Err(words.to_owned()), "{text}");
        }
        for text in ["65536", "99999999999999999999999"] {
            assert_eq!(parse::<u16>(text), Err("this number is too large".to_owned()), "{text}");
        }
    }
}
