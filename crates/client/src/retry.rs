//! When a call is made again.
//!
//! A call that failed before anything was sent may always be repeated. One that was sent may have
//! been carried out; it is repeated only if twice is the same as once.

use contract::{Kind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether a call may reach the server twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Twice is the same as once.
    Safe,
    /// It would be done twice.
    Unsafe,
}

/// The most attempts of one call.
pub(crate) const ATTEMPTS_MAX: u32 = 4;
/// After so long no other attempt is made: a server that hangs would take a minute for each.
pub(crate) const ELAPSED_MAX: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest that a server may ask us to wait between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// How an attempt failed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Failure {
    /// The kind of the error.
    pub(crate) kind: Kind,
    /// Whether the server may have seen the request.
    pub(crate) may_have_been_seen: bool,
    /// What the server asks for, in `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
}

/// How long to wait before the next attempt; `None` to give up. `attempt` counts from 1, `elapsed`
/// is since the first began, `chance` is below 1 and keeps clients from coming back all at once.
pub(crate) fn decide(
    attempt: u32,
    elapsed: Duration,
    failure: Failure,
    repeat: Repeat,
    chance: f64,
) -> Option<Duration> {
    let may_repeat = repeat == Repeat::Safe || !failure.may_have_been_seen;
    let is_enough = attempt >= ATTEMPTS_MAX || elapsed >= ELAPSED_MAX;
    if !may_repeat || !failure.kind.is_retryable() || is_enough {
        return None;
    }
    let pause = FIRST_PAUSE * 2_u32.pow(attempt - 1);
    let spread = pause.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
    match failure.retry_after {
        Some(asked) if asked > PAUSE_MAX => None,
        Some(asked) => Some(asked.max(spread)),
        None => Some(spread),
    }
}

/// How long a server may be away, to be started again for example.
pub(crate) const OUTAGE_MAX: Duration = Duration::from_secs(300);
/// Pauses while it is.
pub(crate) const POLL_FIRST: Duration = Duration::from_millis(200);
pub(crate) const POLL_MAX: Duration = Duration::from_secs(2);

/// Asks again while the server is away, for as long as `patience`; `notice` is told once.
pub(crate) fn patiently<T>(
    patience: Duration,
    notice: impl Fn(&str),
    ask: impl FnMut() -> Result<T>,
) -> Result<T> {
    Outage::default().patiently(patience, notice, ask)
}

/// Since when nobody of those who share it has got an answer: they lose their patience together,
/// not one after the other.
#[derive(Debug, Default)]
pub(crate) struct Outage(Mutex<Option<Instant>>);

impl Outage {
    /// Asks again while the server is away, for as long as `patience`; `notice` is told once.
    pub(crate) fn patiently<T>(
        &self,
        patience: Duration,
        notice: impl Fn(&str),
        mut ask: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut lost: Option<Instant> = None;
        let mut pause = POLL_FIRST;
        loop {
            match ask() {
                Err(error) if error.kind().is_retryable() => {
                    let own = *lost.get_or_insert_with(Instant::now);
                    let since = *self.since().get_or_insert_with(|| {
                        notice(&format!("{}; trying again", error.chain()));
                        own
                    });
                    if own.min(since).elapsed() >= patience {
                        return Err(error);
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(POLL_MAX);
                }
                answer => {
                    *self.since() = None;
                    return answer;
                }
            }
        }
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Error;

    const LOST: Failure =
        Failure { kind: Kind::Unavailable, may_have_been_seen: true, retry_after: None };

    #[test]
    fn what_may_have_been_done_is_not_done_again_unless_that_is_the_same() {
        assert!(decide(1, Duration::ZERO, LOST, Repeat::Safe, 0.0).is_some());
        assert!(decide(1, Duration::ZERO, LOST, Repeat::Unsafe, 0.0).is_none());
        let unsent = Failure { may_have_been_seen: false, ..LOST };
        assert!(decide(1, Duration::ZERO, unsent, Repeat::Unsafe, 0.0).is_some());
    }

    #[test]
    fn pauses_grow_and_end() {
        let pauses: Vec<_> = (1..=5)
            .map(|attempt| decide(attempt, Duration::ZERO, LOST, Repeat::Safe, 1.0))
            .collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(pauses, [ms(250), ms(500), ms(1000), None, None]);
        assert_eq!(decide(1, ELAPSED_MAX, LOST, Repeat::Safe, 1.0), None);
    }

    #[test]
    fn a_refusal_is_final_and_a_server_may_ask_for_patience() {
        let refused = Failure { kind: Kind::Forbidden, ..LOST };
        assert_eq!(decide(1, Duration::ZERO, refused, Repeat::Safe, 0.0), None);
        let busy = |seconds| Failure { retry_after: Some(Duration::from_secs(seconds)), ..LOST };
        assert_eq!(
            decide(1, Duration::ZERO, busy(3), Repeat::Safe, 0.0),
            Some(Duration::from_secs(3))
        );
        assert_eq!(decide(1, Duration::ZERO, busy(3600), Repeat::Safe, 0.0), None);
    }

    #[test]
    fn those_who_share_an_outage_lose_their_patience_together() {
        let outage = Outage::default();
        let patience = Duration::from_secs(300);
        let asked = std::cell::Cell::new(0);
        let lost = || {
            asked.set(asked.get() + 1);
            Err::<(), _>(Error::new(Kind::Unavailable, "nothing listens"))
        };
        // Another has waited for so long already.
        *outage.since() = Instant::now().checked_sub(patience);
        outage.patiently(patience, |_| (), lost).unwrap_err();
        assert_eq!(asked.get(), 1);
        // An answer, of whatever kind, ends it for all.
        let refused = || Err::<(), _>(Error::new(Kind::Forbidden, "no"));
        outage.patiently(patience, |_| (), refused).unwrap_err();
        assert_eq!(*outage.since(), None);
    }
}
