//! Model averaging: the mean of a value over its recent updates, kept beside it.
//!
//! After every update the value is added to a sum. When the window is long enough, the sum becomes
//! the previous one and a new one begins; the average is over both, so that it never rests on a
//! handful of values. The sum is compensated (Kahan): its error does not grow with the window.
//!
//! Counted are the updates of the row or block, so a sparse row is averaged over its touches.

use super::check::Accepted;
use contract::{Error, Result};
use serde::{Deserialize, Serialize};

/// A window shorter than this (or than its maximum) is never closed.
const WINDOW_MIN: u32 = 10_000;

/// How to average.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Average {
    /// The length of the window as a share of all updates, more than 0.
    pub window: f64,
    /// The longest window, in updates, at least 1.
    #[serde(default = "window_max")]
    pub window_max: u32,
}

fn window_max() -> u32 {
    u32::MAX
}

/// The columns of an average: the sum of the window, its rounding error, the sum before it.
pub(super) const COLUMNS: [&str; 3] = ["average_sum", "average_error", "average_previous_sum"];

/// Its counters, beside the touches: the values in each sum.
pub(super) const COUNTERS: [&str; 2] = ["average_count", "average_previous_count"];

impl Average {
    pub(super) fn check(&self) -> Result<()> {
        Accepted::Positive.check("average.window", self.window)?;
        if self.window_max == 0 {
            return Err(Error::invalid("average.window_max must be at least 1")
                .with("value", self.window_max));
        }
        Ok(())
    }

    /// Takes in the value after its update number `touches`.
    pub(super) fn add(&self, touches: u32, value: &[f32], state: &mut [f32], counts: &mut [u32]) {
        let [sum, error, previous] = columns(state.split_at_mut(value.len()));
        for ((w, sum), error) in value.iter().zip(&mut *sum).zip(&mut *error) {
            let term = *w - *error;
            let total = *sum + term;
            *error = (total - *sum) - term;
            *sum = total;
        }
        if let [count, previous_count] = counts {
            *count = count.saturating_add(1);
            if self.is_full(*count, touches) {
                previous.copy_from_slice(sum);
                sum.fill(0.0);
                error.fill(0.0);
                *previous_count = std::mem::take(count);
            }
        }
    }

    fn is_full(&self, count: u32, touches: u32) -> bool {
        let share = self.window * f64::from(touches);
        count >= WINDOW_MIN.min(self.window_max)
            && f64::from(count) >= share.min(f64::from(self.window_max))
    }
}

/// Writes the average into `average`; false, and nothing, if there is none yet.
pub(super) fn read(state: &[f32], counts: &[u32], average: &mut Vec<f32>) -> bool {
    let count: f64 = counts.iter().copied().map(f64::from).sum();
    if count == 0.0 {
        return false;
    }
    let width = state.len() / COLUMNS.len();
    let (sum, rest) = state.split_at(width);
    let (error, previous) = rest.split_at(width);
    average.clear();
    average.extend(sum.iter().zip(error).zip(previous).map(|((sum, error), previous)| {
        let total = f64::from(*sum) - f64::from(*error) + f64::from(*previous);
        (total / count) as f32
    }));
    true
}

fn columns<'a>((sum, rest): (&'a mut [f32], &'a mut [f32])) -> [&'a mut [f32]; 3] {
    let (error, previous) = rest.split_at_mut(sum.len());
    [sum, error, previous]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The average over `values`, and the two counts.
    fn average(config: Average, values: impl Iterator<Item = f32>) -> (f32, [u32; 2]) {
        let (mut state, mut counts, mut found) = ([0.0; 3], [0; 2], Vec::new());
        for (before, value) in values.enumerate() {
            config.add(before as u32 + 1, &[value], &mut state, &mut counts);
        }
        assert!(read(&state, &counts, &mut found));
        (found[0], counts)
    }

    #[test]
    fn a_window_closes_at_its_maximum_and_the_one_before_still_counts() {
        let config = Average { window: 1.0, window_max: 4 };
        let (found, counts) = average(config, (1..=10).map(|value| value as f32));
        assert_eq!(counts, [2, 4]);
        assert_eq!(found, (5..=10).sum::<i32>() as f32 / 6.0);
    }

    #[test]
    fn a_window_closes_when_it_is_its_share_of_all_updates() {
        let config = Average { window: 0.5, window_max: u32::MAX };
        // Closed at 10 000, the least, when that is half of all or more; then at 20 000 again.
        assert_eq!(average(config, (0..10_001).map(|_| 1.0)).1, [1, 10_000]);
        assert_eq!(average(config, (0..20_001).map(|_| 1.0)).1, [1, 10_000]);
        assert_eq!(average(config, (0..39_999).map(|_| 1.0)).1, [19_999, 10_000]);
        assert_eq!(average(config, (0..40_000).map(|_| 1.0)).1, [0, 20_000]);
    }

    #[test]
    fn a_long_sum_keeps_its_last_digits() {
        let config = Average { window: 1.0, window_max: u32::MAX };
        let values = (0..1_000_000).map(|index| 1.0 + (index % 3) as f32 * 1e-6);
        let mean = values.clone().map(f64::from).sum::<f64>() / 1e6;
        assert!((f64::from(average(config, values).0) - mean).abs() < 1e-7);
    }

    #[test]
    fn there_is_no_average_before_the_first_update() {
        assert!(!read(&[0.0; 3], &[0, 0], &mut Vec::new()));
    }
}
