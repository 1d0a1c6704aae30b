//! What a number of a description may be. An error names the field, the value and what is accepted.

use contract::{Error, Result};

/// The numbers that a field takes. All must be finite as f32, in which updates are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    /// Any number.
    Finite,
    /// 0 or more.
    NotNegative,
    /// More than 0, as f32 too.
    Positive,
    /// At least 0 and below 1.
    Fraction,
}

impl Accepted {
    /// Whether `value` is one of them.
    pub(crate) fn check(self, field: &str, value: f64) -> Result<()> {
        let rounded = value as f32;
        let (is_accepted, accepted) = match self {
            Accepted::Finite => (true, "a finite number"),
            Accepted::NotNegative => (value >= 0.0, "a finite number, 0 or more"),
            Accepted::Positive => (rounded > 0.0, "a finite number, more than 0"),
            Accepted::Fraction => ((0.0..1.0).contains(&value), "at least 0 and below 1"),
        };
        if is_accepted && rounded.is_finite() {
            return Ok(());
        }
        Err(Error::invalid(format!("{field} must be {accepted}")).with("value", value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accepted: Accepted, good: &[f64], bad: &[f64]) {
        for value in good {
            accepted.check("field", *value).unwrap();
        }
        for value in bad.iter().chain(&[f64::NAN, f64::INFINITY, -f64::INFINITY, 1e39]) {
            assert!(accepted.check("field", *value).is_err(), "{accepted:?} takes {value}");
        }
    }

    #[test]
    fn only_accepted_numbers_pass() {
        check(Accepted::Finite, &[-1.0, 0.0, 3e38], &[]);
        check(Accepted::NotNegative, &[0.0, 7.0], &[-1e-9]);
        check(Accepted::Positive, &[1e-30, 7.0], &[0.0, -1.0, 1e-60]);
        check(Accepted::Fraction, &[0.0, 0.999_999_999], &[-0.1, 1.0]);
    }

    #[test]
    fn an_error_names_field_value_and_what_is_accepted() {
        insta::assert_snapshot!(
            Accepted::Fraction.check("rule.rho", 1.5).unwrap_err(),
            @"rule.rho must be at least 0 and below 1 (value: 1.5)"
        );
    }
}
