//! Moments and spans as people read them.

use std::time::Duration;

/// A moment as the original prints it: `2017-05-24T07:52:45Z`.
pub fn moment(ms: u64) -> String {
    let timestamp =
        i64::try_from(ms / 1000).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    timestamp.map_or_else(|| "-".to_owned(), |timestamp| timestamp.to_string())
}

/// As [`moment`]; `-` for what has not happened.
pub fn perhaps(ms: Option<u64>) -> String {
    ms.map_or_else(|| "-".to_owned(), moment)
}

/// A span in at most two units: `1h 5m`.
pub fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_spans_are_short() {
        assert_eq!(moment(1_495_612_365_678), "2017-05-24T07:52:45Z");
        assert_eq!(perhaps(None), "-");
        assert_eq!(moment(u64::MAX), "-");
        let check = |seconds, expect: &str| assert_eq!(span(Duration::from_secs(seconds)), expect);
        check(0, "0s");
        check(61, "1m 1s");
        check(3900, "1h 5m");
        check(90_000, "1d 1h");
    }
}
