//! How often one caller may ask: a bucket of requests that fills again with time.

use super::Refusal;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

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

/// More callers than this are not kept: full buckets are dropped first.
const BUCKETS_MAX: usize = 100_000;

impl Rate {
    /// Lets each caller ask so often per second, and twice as often at once.
    pub(crate) fn new(per_second: u32) -> Self {
        Rate { per_second: per_second.into(), buckets: Mutex::default() }
    }

    /// Counts a request, or refuses it.
    pub(crate) fn admit(&self, caller: &str) -> Result<(), Refusal> {
        self.admit_at(caller, Instant::now())
    }

    /// Takes back that a request was counted.
    pub(crate) fn refund(&self, caller: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(caller) {
            bucket.left = (bucket.left + 1.0).min(self.per_second * 2.0);
        }
    }

    fn admit_at(&self, caller: &str, now: Instant) -> Result<(), Refusal> {
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
        if bucket.left < 1.0 {
            return Err(Refusal::too_fast("too many requests: wait a second, then go on"));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_burst_is_let_through_and_then_only_the_rate() {
        let rate = Rate::new(10);
        let begin = Instant::now();
        let admitted =
            |count: usize, at| (0..count).filter(|_| rate.admit_at("wu", at).is_ok()).count();
        assert_eq!(admitted(100, begin), 20);
        assert_eq!(admitted(100, begin + Duration::from_secs(1)), 10);
        assert!(rate.admit_at("eve", begin).is_ok());
    }
}
