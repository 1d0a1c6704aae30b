//! Durations as people type them: `60`, `20m`, `1h30m`, `1.5s`.

use std::time::Duration;

const UNITS: [(&str, f64); 5] =
    [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

/// Reads a duration: a number of seconds, or numbers with units, the original's spelling.
pub fn parse(text: &str) -> Result<Duration, String> {
    seconds(text)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "not a duration: write seconds (60) or units (20m, 1h30m, 500ms)".to_owned())
}

/// As [`parse`], for what is counted in whole seconds.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    let duration = parse(text)?;
    match duration.subsec_nanos() {
        0 => Ok(duration.as_secs()),
        _ => Err("not whole seconds: write seconds (60) or units (20m, 1h30m)".to_owned()),
    }
}

fn seconds(text: &str) -> Option<f64> {
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.') {
        return None;
    }
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let unit_at = rest.find(|letter: char| letter.is_ascii_alphabetic())?;
        let (number, tail) = rest.split_at(unit_at);
        let unit_end =
            tail.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, behind) = tail.split_at(unit_end);
        let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum += number.parse::<f64>().ok()? * seconds;
        rest = behind;
    }
    (!text.is_empty()).then_some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_units_are_read() {
        let check = |text: &str, expect: f64| {
            assert_eq!(parse(text), Ok(Duration::from_secs_f64(expect)), "{text}");
        };
        check("60", 60.0);
        check("1.5", 1.5);
        check("20m", 1200.0);
        check("1h30m", 5400.0);
        check("500ms", 0.5);
        check("0", 0.0);
    }

    #[test]
    fn whole_seconds_are_whole() {
        assert_eq!(parse_seconds("1m30s"), Ok(90));
        for text in ["500ms", "1.5", "soon"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in ["", "m", "20x", "-1", "-1s", "1h-30m", "inf", "nan", "1e400", "20 m 3", "5mm"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
