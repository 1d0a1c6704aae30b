//! How the learning rate changes with the samples of all trainers, or with the pass.

use super::check::Accepted;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A learning-rate schedule: names and formulas are the original's. n is the number of samples
/// that all trainers have processed, those of the update itself included, rate the optimizer's learning rate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// rate
    #[default]
    Constant,
    /// rate · (1 + a·n)^(−b)
    Poly {
        /// a, 0 or more.
        a: f64,
        /// b.
        b: f64,
    },
    /// rate · (1 − n/a)^b up to n = a, then 0
    CaffePoly {
        /// a, in samples, more than 0.
        a: f64,
        /// b, 0 or more.
        b: f64,
    },
    /// rate · a^(n/b)
    Exp {
        /// a, more than 0.
        a: f64,
        /// b, in samples, more than 0.
        b: f64,
    },
    /// rate · a^⌊n/b⌋
    #[serde(rename = "discexp")]
    DiscExp {
        /// a, more than 0.
        a: f64,
        /// b, in samples, more than 0.
        b: f64,
    },
    /// max(rate − a·n, b)
    Linear {
        /// a, per sample, 0 or more.
        a: f64,
        /// b, the least rate, 0 or more.
        b: f64,
    },
    /// rate · the factor of the segment that n is in
    Manual {
        /// `samples:factor,…`
        segments: Segments,
    },
    /// rate · the factor of the segment that the pass, from 0, is in
    PassManual {
        /// `pass:factor,…`
        segments: Segments,
    },
}

impl Schedule {
    pub(super) fn check(&self) -> Result<()> {
        let check = |a: Accepted, b: Accepted, values: (f64, f64)| {
            a.check("schedule.a", values.0)?;
            b.check("schedule.b", values.1)
        };
        match *self {
            Schedule::Constant | Schedule::Manual { .. } | Schedule::PassManual { .. } => Ok(()),
            Schedule::Poly { a, b } => check(Accepted::NotNegative, Accepted::Finite, (a, b)),
            Schedule::CaffePoly { a, b } => {
                check(Accepted::Positive, Accepted::NotNegative, (a, b))
            }
            Schedule::Exp { a, b } | Schedule::DiscExp { a, b } => {
                check(Accepted::Positive, Accepted::Positive, (a, b))
            }
            Schedule::Linear { a, b } => {
                check(Accepted::NotNegative, Accepted::NotNegative, (a, b))
            }
        }
    }

    pub(super) fn rate(&self, rate: f64, samples: u64, pass: u64) -> f64 {
        let n = samples as f64;
        match self {
            Schedule::Constant => rate,
            Schedule::Poly { a, b } => rate * (1.0 + a * n).powf(-b),
            Schedule::CaffePoly { a, b } => rate * (1.0 - n / a).max(0.0).powf(*b) * below(n, *a),
            Schedule::Exp { a, b } => rate * a.powf(n / b),
            Schedule::DiscExp { a, b } => rate * a.powf((n / b).floor()),
            Schedule::Linear { a, b } => (rate - a * n).max(*b),
            Schedule::Manual { segments } => rate * segments.factor(samples),
            Schedule::PassManual { segments } => rate * segments.factor(pass),
        }
    }
}

/// 0 once `n` is past `end`: a base of 0 alone would not end a schedule with exponent 0.
fn below(n: f64, end: f64) -> f64 {
    if n > end { 0.0 } else { 1.0 }
}

/// Factors by range, written as the original's `learning_rate_args`: `1000:1,2000:0.5,3000:0.1` is
/// 1 up to and including 1000, 0.5 up to and including 2000, and 0.1 from there on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Segments(Vec<(u64, f64)>);

/// The most segments.
const SEGMENTS_MAX: usize = 10_000;

impl Segments {
    fn factor(&self, position: u64) -> f64 {
        let found = self.0.iter().find(|(end, _)| position <= *end);
        found.or(self.0.last()).map_or(1.0, |(_, factor)| *factor)
    }
}

impl FromStr for Segments {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut segments: Vec<(u64, f64)> = Vec::new();
        for part in text.split(',') {
            let parsed = part.split_once(':').and_then(|(end, factor)| {
                Some((end.trim().parse().ok()?, factor.trim().parse().ok()?))
            });
            let (end, factor): (u64, f64) = parsed.ok_or_else(|| {
                Error::invalid("a segment of a schedule is written end:factor, as in 1000:0.5")
                    .with("segment", part)
            })?;
            Accepted::NotNegative.check("the factor of a segment", factor)?;
            if segments.last().is_some_and(|(before, _)| *before >= end) {
                return Err(Error::invalid("segments of a schedule must have increasing ends")
                    .with("segment", part));
            }
            if segments.len() == SEGMENTS_MAX {
                return Err(Error::new(
                    contract::Kind::LimitExceeded,
                    "a schedule has too many segments",
                )
                .with("limit", SEGMENTS_MAX));
            }
            segments.push((end, factor));
        }
        Ok(Segments(segments))
    }
}

impl fmt::Display for Segments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (end, factor) in &self.0 {
            write!(f, "{separator}{end}:{factor}")?;
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for Segments {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Segments> for String {
    fn from(segments: Segments) -> Self {
        segments.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expect: &[(u64, f64)]) {
        let schedule: Schedule = serde_json::from_str(json).unwrap();
        schedule.check().unwrap();
        for (samples, expected) in expect {
            let found = schedule.rate(2.0, *samples, 0);
            assert!((found - expected).abs() <= 1e-12, "{json} at {samples} is {found}");
        }
        let text = serde_json::to_string(&schedule).unwrap();
        assert_eq!(serde_json::from_str::<Schedule>(&text).unwrap(), schedule);
    }

    #[test]
    fn schedules_follow_the_formulas_of_the_original() {
        check(r#"{"name": "constant"}"#, &[(0, 2.0), (u64::MAX, 2.0)]);
        check(r#"{"name": "poly", "a": 0.5, "b": 2}"#, &[(0, 2.0), (2, 0.5), (6, 0.125)]);
        check(r#"{"name": "poly", "a": 0, "b": 0}"#, &[(7, 2.0)]);
        check(r#"{"name": "caffe_poly", "a": 4, "b": 2}"#, &[(0, 2.0), (2, 0.5), (5, 0.0)]);
        check(r#"{"name": "caffe_poly", "a": 4, "b": 0}"#, &[(4, 2.0), (5, 0.0)]);
        check(r#"{"name": "exp", "a": 0.25, "b": 4}"#, &[(0, 2.0), (2, 1.0), (8, 0.125)]);
        check(r#"{"name": "discexp", "a": 0.25, "b": 4}"#, &[(3, 2.0), (4, 0.5), (8, 0.125)]);
        check(r#"{"name": "linear", "a": 0.25, "b": 0.5}"#, &[(0, 2.0), (4, 1.0), (100, 0.5)]);
        let manual = r#"{"name": "manual", "segments": "10:1,20:0.5,30:0.25"}"#;
        check(manual, &[(0, 2.0), (10, 2.0), (11, 1.0), (30, 0.5), (31, 0.5)]);
    }

    #[test]
    fn pass_manual_looks_at_the_pass_alone() {
        let schedule = Schedule::PassManual { segments: "0:1,2:0.5".parse().unwrap() };
        assert_eq!([0, 1, 2, 9].map(|pass| schedule.rate(2.0, 99, pass)), [2.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn segments_that_cannot_be_are_refused() {
        let error = |text: &str| text.parse::<Segments>().unwrap_err().to_string();
        let texts = ["", "5", "5:x", "-1:1", "5:nan", "5:-1", "5:1,5:2", "5:1,"];
        insta::assert_snapshot!(texts.map(error).join("\n"), @r"
        a segment of a schedule is written end:factor, as in 1000:0.5 (segment: )
        a segment of a schedule is written end:factor, as in 1000:0.5 (segment: 5)
        a segment of a schedule is written end:factor, as in 1000:0.5 (segment: 5:x)
        a segment of a schedule is written end:factor, as in 1000:0.5 (segment: -1:1)
        the factor of a segment must be a finite number, 0 or more (value: NaN)
        the factor of a segment must be a finite number, 0 or more (value: -1)
        segments of a schedule must have increasing ends (segment: 5:2)
        a segment of a schedule is written end:factor, as in 1000:0.5 (segment: )
        ");
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let error = |schedule: Schedule| schedule.check().unwrap_err().to_string();
        let errors = [
            Schedule::Poly { a: -1.0, b: 1.0 },
            Schedule::CaffePoly { a: 0.0, b: 1.0 },
            Schedule::Exp { a: 0.0, b: 1.0 },
            Schedule::DiscExp { a: 0.5, b: f64::NAN },
            Schedule::Linear { a: 0.1, b: -1.0 },
        ]
        .map(error);
        insta::assert_snapshot!(errors.join("\n"), @r"
        schedule.a must be a finite number, 0 or more (value: -1)
        schedule.a must be a finite number, more than 0 (value: 0)
        schedule.a must be a finite number, more than 0 (value: 0)
        schedule.b must be a finite number, more than 0 (value: NaN)
        schedule.b must be a finite number, 0 or more (value: -1)
        ");
    }
}
