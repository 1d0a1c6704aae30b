//! How long to wait before trying again, when to give up, and which failures to connect are worth
//! it.

use contract::{Error, Kind, Result};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::Instant;

/// Waiting between attempts: twice as long after each, with jitter, until too much time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Before the second attempt. Default 50 ms.
    pub first_delay: Duration,
    /// Never longer than this. Default 2 s.
    pub delay_max: Duration,
    /// From the first failure to giving up; any progress begins it anew. Default 60 s.
    pub deadline: Duration,
    /// Makes the drawn part of delays repeatable. Default `None`: drawn anew in every process.
    pub jitter_seed: Option<u64>,
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            first_delay: Duration::from_millis(50),
            delay_max: Duration::from_secs(2),
            deadline: Duration::from_secs(60),
            jitter_seed: None,
        }
    }
}

impl Retry {
    /// Refuses delays that cannot be.
    pub fn check(&self) -> Result<()> {
        if self.first_delay.is_zero() || self.delay_max < self.first_delay {
            return Err(Error::invalid(
                "retry delays must be above 0, the largest not the smaller",
            )
            .with("first_delay_ms", self.first_delay.as_millis())
            .with("delay_max_ms", self.delay_max.as_millis()));
        }
        Ok(())
    }

    /// No attempt yet.
    pub fn start(self) -> Attempts {
        let jitter = self.jitter_seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        Attempts { policy: self, jitter, failures: 0, since: None }
    }
}

/// Whether a failure to connect may pass by itself, so that dialling again makes sense. A name that
/// cannot be resolved yet may; a token that is refused stays wrong.
pub fn may_pass(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::Unauthenticated
            | Kind::Forbidden
            | Kind::Unsupported
            | Kind::Damaged
            | Kind::Invalid
            | Kind::LimitExceeded
    )
}

/// Attempts at one thing.
#[derive(Debug)]
pub struct Attempts {
    policy: Retry,
    /// What the drawn part of delays follows from.
    jitter: u64,
    failures: u32,
    since: Option<Instant>,
}

impl Attempts {
    /// Something worked: later failures are new ones.
    pub fn progressed(&mut self) {
        (self.failures, self.since) = (0, None);
    }

    /// Waits before the next attempt, or returns the failure when it is time to give up.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        match self.delay(Instant::now()) {
            Some(delay) => {
                tokio::time::sleep(delay).await;
                Ok(())
            }
            None => Err(error.with("attempts", self.failures)),
        }
    }

    fn delay(&mut self, now: Instant) -> Option<Duration> {
        let since = *self.since.get_or_insert(now);
        let doubled = self.policy.first_delay.saturating_mul(1 << self.failures.min(20));
        self.failures += 1;
        // Half is certain, half is drawn, so that clients that lost a server together do not come
        // back together.
        let drawn = mix(self.jitter.wrapping_add(u64::from(self.failures)));
        let drawn = 0.5 + 0.5 * (drawn >> 40) as f64 / (1u64 << 24) as f64;
        let delay = doubled.min(self.policy.delay_max).mul_f64(drawn);
        (now.duration_since(since) + delay <= self.policy.deadline).then_some(delay)
    }
}

/// Spreads the bits of a number over all of it (SplitMix64).
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_limit_and_end_at_the_deadline() {
        let policy = Retry::default();
        let mut attempts = policy.start();
        let begin = Instant::now();
        let (mut now, mut expected) = (begin, policy.first_delay);
        let mut count = 0;
        while let Some(delay) = attempts.delay(now) {
            assert!(delay <= expected && delay >= expected / 2, "{delay:?} of {expected:?}");
            expected = (expected * 2).min(policy.delay_max);
            now += delay;
            count += 1;
        }
        assert!(now - begin <= policy.deadline && now - begin > Duration::from_secs(57));
        assert!((30..70).contains(&count), "{count}");

        attempts.progressed();
        assert!(attempts.delay(now).unwrap() <= policy.first_delay);
    }

    #[test]
    fn delays_that_cannot_be_are_refused() {
        Retry::default().check().unwrap();
        assert!(Retry { first_delay: Duration::ZERO, ..Retry::default() }.check().is_err());
        let longer = Retry { delay_max: Duration::from_millis(1), ..Retry::default() };
        assert!(longer.check().is_err());
    }
}
