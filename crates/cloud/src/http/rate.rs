//! How often one caller may ask: a bucket of requests that fills again with time.
//!
//! Strangers are refused when theirs is empty. A caller who is known waits for the next request
//! instead, as long as not too many wait: a program that works on many small files in a mounted
//! directory is slowed down by that, and not told that its disk is broken.

use super::Refusal;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The buckets of all callers.
#[derive(Debug)]
pub(crate) struct Rate {
    per_second: f64,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// The longest that a request waits for its turn.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// More callers than this are not kept: full buckets are dropped first.
const BUCKETS_MAX: usize = 100_000;

impl Rate {
    /// Lets each caller ask so often per second, and twice as often at once.
    pub(crate) fn new(per_second: u32) -> Self {
        Rate { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Counts a request, or refuses it.
    pub(crate) fn admit(&self, caller: &str) -> Result<(), Refusal> {
        self.admit_at(caller, Instant::now(), Duration::ZERO).map(|_| ())
    }

    /// Counts a request, and waits for its turn; refuses it if that were too long.
    pub(crate) async fn queue(&self, caller: &str) -> Result<(), Refusal> {
        let wait = self.admit_at(caller, Instant::now(), WAIT_MAX)?;
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        Ok(())
    }

    /// Takes back that a request was counted.
    pub(crate) fn refund(&self, caller: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(caller) {
            bucket.left = (bucket.left + 1.0).min(self.per_second * 2.0);
        }
    }

    /// How long the request has to wait, if that is no longer than `wait_max`.
    fn admit_at(
        &self,
        caller: &str,
        now: Instant,
        wait_max: Duration,
    ) -> Result<Duration, Refusal> {
        let most = self.per_second * 2.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let filled = |bucket: &Bucket| {
            let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
            (bucket.left + seconds * self.per_second).min(most)
        };
        if buckets.len() >= BUCKETS_MAX && !buckets.contains_key(caller) {
            buckets.retain(|_, bucket| filled(bucket) < most);
        }
        let bucket = buckets.entry(caller.to_owned()).or_insert(Bucket { left: most, at: now });
        (bucket.left, bucket.at) = (filled(bucket), now);
        let left = bucket.left - 1.0;
        let wait = Duration::from_secs_f64((-left).max(0.0) / self.per_second);
        if wait > wait_max {
            return Err(Refusal::too_fast("too many requests: wait a second, then go on"));
        }
        bucket.left = left;
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_let_through_and_then_only_the_rate() {
        let rate = Rate::new(10);
        let begin = Instant::now();
        let admit = |who, at| rate.admit_at(who, at, Duration::ZERO);
        let admitted = |count: usize, at| (0..count).filter(|_| admit("wu", at).is_ok()).count();
        assert_eq!(admitted(100, begin), 20);
        assert_eq!(admitted(100, begin + Duration::from_secs(1)), 10);
        assert!(admit("eve", begin).is_ok());
    }

    #[test]
    fn who_may_wait_gets_a_turn_each_and_a_queue_that_is_too_long_is_refused() {
        let rate = Rate::new(10);
        let begin = Instant::now();
        let waits = |at| -> Vec<u128> {
            let asked = (0..100).filter_map(|_| rate.admit_at("wu", at, WAIT_MAX).ok());
            asked.map(|wait| wait.as_millis()).filter(|wait| *wait > 0).collect()
        };
        assert_eq!(waits(begin), [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
        assert_eq!(waits(begin + Duration::from_millis(500)), [600, 700, 800, 900, 1000]);
    }
}
