//! How often a password may be guessed: after a few failures the next attempts for that user, and
//! from that address, are refused for a while, which doubles with each further failure. An attempt
//! counts from before its password is looked at, so that many at once are not more than one by one.
//!
//! Of an address one failure per minute is forgotten: it may be that of an office, where somebody
//! mistypes a password now and then.
//!
//! In memory: a server that is started again forgets. The state is a pure function of what it was
//! told, with the time given.

use crate::clock::now_ms;
use crate::http::connection::network;
use contract::name::check_user;
use contract::{Error, Kind, Result};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Failures that cost nothing.
const FREE: u32 = 5;
/// The same for one address, behind which many people may be.
const FREE_ADDRESS: u32 = 50;
const PAUSE_MS: u64 = 1000;
const PAUSE_MS_MAX: u64 = 5 * 60 * 1000;
/// After this time without a failure everything is forgotten.
const FORGET_MS: u64 = 15 * 60 * 1000;
/// How often a failure of an address is forgotten.
const LEAK_MS: u64 = 60 * 1000;
const ENTRIES_MAX: usize = 100_000;
/// How long an attempt waits for others that are under way.
const WAIT: Duration = Duration::from_secs(10);

/// The failures of the last while, and the attempts that are under way.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    map: Mutex<HashMap<Key, Failures>>,
    ended: Notify,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    User(String),
    Address(IpAddr),
}

#[derive(Debug, Clone, Copy, Default)]
struct Failures {
    count: u32,
    /// Attempts that are under way: each may become a failure.
    pending: u32,
    last_ms: u64,
    /// Up to when failures were forgotten one by one.
    leaked_ms: u64,
}

impl Failures {
    /// Forgets what is old enough.
    fn age(&mut self, key: &Key, now_ms: u64) {
        if self.is_old(now_ms) {
            self.count = 0;
        }
        let minutes = now_ms.saturating_sub(self.leaked_ms) / LEAK_MS;
        self.leaked_ms = match self.count {
            0 => now_ms,
            _ => self.leaked_ms + minutes * LEAK_MS,
        };
        if matches!(key, Key::Address(_)) {
            self.count = self.count.saturating_sub(u32::try_from(minutes).unwrap_or(u32::MAX));
        }
    }

    /// Makes nobody wait for the old time of a clock that was put back.
    fn put_back(&mut self, now_ms: u64) {
        self.last_ms = self.last_ms.min(now_ms);
        self.leaked_ms = self.leaked_ms.min(now_ms);
    }

    fn pause_ms(self, free: u32) -> u64 {
        match self.count.checked_sub(free) {
            None => 0,
            Some(more) => PAUSE_MS.saturating_mul(1 << more.min(20)).min(PAUSE_MS_MAX),
        }
    }

    /// Whether attempts under way may use up the failures that cost nothing.
    fn is_full(self, free: u32) -> bool {
        self.pending > 0 && self.count.saturating_add(self.pending) >= free
    }

    fn is_old(self, now_ms: u64) -> bool {
        self.last_ms.saturating_add(FORGET_MS) < now_ms
    }
}

impl Throttle {
    /// Begins an attempt, or refuses one that comes too early. If attempts under way may use up the
    /// failures that cost nothing it waits for them, so that somebody who is right many times at
    /// once is served.
    pub(crate) async fn begin(&self, username: &str, address: IpAddr) -> Result<Attempt<'_>> {
        let turn = async {
            loop {
                let mut ended = std::pin::pin!(self.ended.notified());
                ended.as_mut().enable();
                if let Some(attempt) = self.try_begin(username, address, now_ms())? {
                    return Ok(attempt);
                }
                ended.await;
            }
        };
        tokio::time::timeout(WAIT, turn).await.unwrap_or_else(|_| {
            let message = "too many logins at once: wait before the next attempt";
            Err(Error::new(Kind::Unavailable, message))
        })
    }

    /// `None` if others have to end first.
    fn try_begin(
        &self,
        username: &str,
        address: IpAddr,
        now_ms: u64,
    ) -> Result<Option<Attempt<'_>>> {
        let mut map = self.lock();
        let keys = keys(username, address);
        let mut is_full = false;
        for (key, free) in &keys {
            let mut failures = map.get_mut(key).map_or_else(Failures::default, |failures| {
                failures.put_back(now_ms);
                *failures
            });
            failures.age(key, now_ms);
            let until_ms = failures.last_ms.saturating_add(failures.pause_ms(*free));
            if until_ms > now_ms {
                let seconds = (until_ms - now_ms).div_ceil(1000);
                let message = "too many failed logins: wait before the next attempt";
                return Err(Error::new(Kind::Unavailable, message).with("seconds", seconds));
            }
            is_full |= failures.is_full(*free);
        }
        if is_full {
            return Ok(None);
        }
        if map.len() >= ENTRIES_MAX {
            map.retain(|_, failures| failures.pending > 0 || !failures.is_old(now_ms));
        }
        let keys = keys.map(|(key, _)| key);
        for key in &keys {
            map.entry(key.clone()).or_default().pending += 1;
        }
        Ok(Some(Attempt { throttle: self, keys, outcome: Outcome::Failed }))
    }

    fn end(&self, keys: &[Key], outcome: Outcome, now_ms: u64) {
        let mut map = self.lock();
        for key in keys {
            let Some(failures) = map.get_mut(key) else { continue };
            failures.pending = failures.pending.saturating_sub(1);
            match outcome {
                Outcome::Failed => {
                    failures.age(key, now_ms);
                    failures.count = failures.count.saturating_add(1);
                    failures.last_ms = now_ms;
                }
                Outcome::Succeeded if matches!(key, Key::User(_)) => failures.count = 0,
                Outcome::Succeeded | Outcome::Undecided => {}
            }
            if failures.pending == 0 && failures.count == 0 {
                map.remove(key);
            }
        }
        drop(map);
        self.ended.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failures>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy)]
enum Outcome {
    Failed,
    Succeeded,
    Undecided,
}

/// An attempt under way. One that ends without a word, as when the caller hangs up, has failed.
#[derive(Debug)]
pub(crate) struct Attempt<'a> {
    throttle: &'a Throttle,
    keys: [Key; 2],
    outcome: Outcome,
}

impl Attempt<'_> {
    /// The password was right: this user's failures are forgotten, not the address's, from which
    /// somebody may be guessing at others.
    pub(crate) fn succeed(mut self) {
        self.outcome = Outcome::Succeeded;
    }

    /// Nobody knows whether it was right, or nobody may use it: nothing is counted or forgotten.
    pub(crate) fn leave(mut self) {
        self.outcome = Outcome::Undecided;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.throttle.end(&self.keys, self.outcome, now_ms());
    }
}

/// What nobody can be called counts as one name: it may be long.
fn keys(username: &str, address: IpAddr) -> [(Key, u32); 2] {
    let username = if check_user(username).is_ok() { username } else { "" };
    [(Key::User(username.to_owned()), FREE), (Key::Address(network(address)), FREE_ADDRESS)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    impl Throttle {
        fn check(&self, username: &str, address: IpAddr, now_ms: u64) -> Result<()> {
            self.try_begin(username, address, now_ms)?.unwrap().leave();
            Ok(())
        }

        fn fail(&self, username: &str, address: IpAddr, now_ms: u64) {
            let keys = keys(username, address).map(|(key, _)| key);
            for key in &keys {
                self.lock().entry(key.clone()).or_default().pending += 1;
            }
            self.end(&keys, Outcome::Failed, now_ms);
        }
    }

    #[test]
    fn a_clock_that_was_put_back_locks_nobody_out() {
        let (throttle, later) = (Throttle::default(), 24 * 3600 * 1000);
        (0..=FREE).for_each(|_| throttle.fail("wu", HERE, later));
        assert!(throttle.check("wu", HERE, 0).is_err());
        throttle.check("wu", HERE, PAUSE_MS_MAX).unwrap();
    }

    #[test]
    fn guessing_becomes_slow_and_a_success_forgets() {
        let throttle = Throttle::default();
        for _ in 0..5 {
            throttle.check("wu", HERE, 0).unwrap();
            throttle.fail("wu", HERE, 0);
        }
        let error = throttle.check("wu", HERE, 500).unwrap_err();
        insta::assert_snapshot!(error, @"too many failed logins: wait before the next attempt (seconds: 1)");
        throttle.check("eve", HERE, 500).unwrap();
        throttle.check("wu", HERE, 1000).unwrap();
        throttle.fail("wu", HERE, 1000);
        assert!(throttle.check("wu", HERE, 2999).is_err());
        throttle.try_begin("wu", HERE, 3000).unwrap().unwrap().succeed();
        throttle.check("wu", HERE, 1001).unwrap();
    }

    #[test]
    fn trying_many_names_from_one_address_is_throttled_too() {
        let throttle = Throttle::default();
        for number in 0..50 {
            throttle.fail(&format!("user{number}"), HERE, 0);
        }
        assert!(throttle.check("another", HERE, 0).is_err());
        throttle.check("another", IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 0).unwrap();
    }

    #[test]
    fn an_office_in_which_somebody_mistypes_now_and_then_is_not_locked_out() {
        let throttle = Throttle::default();
        for number in 0..500 {
            let (user, now_ms) = (format!("user{}", number % 100), number * 70_000);
            throttle.check(&user, HERE, now_ms).unwrap();
            throttle.fail(&user, HERE, now_ms);
        }
        // Nor does it forget all of a fast one.
        let throttle = Throttle::default();
        for number in 0..60 {
            throttle.fail(&format!("user{number}"), HERE, number * 1000);
        }
        assert!(throttle.check("another", HERE, 61_000).is_err());
    }

    #[test]
    fn the_pause_has_an_end() {
        let throttle = Throttle::default();
        for _ in 0..100 {
            throttle.fail("wu", HERE, 0);
        }
        assert!(throttle.check("wu", HERE, PAUSE_MS_MAX - 1).is_err());
        throttle.check("wu", HERE, PAUSE_MS_MAX).unwrap();
    }

    #[test]
    fn attempts_under_way_count_until_they_end() {
        let throttle = Throttle::default();
        let begin = || throttle.try_begin("wu", HERE, 0).unwrap();
        let mut under_way: Vec<Attempt<'_>> = (0..5).map(|_| begin().unwrap()).collect();
        assert!(begin().is_none());
        under_way.pop().unwrap().succeed();
        under_way.push(begin().unwrap());
        // Who hangs up has failed.
        drop(under_way);
        assert!(throttle.try_begin("wu", HERE, now_ms()).is_err());
    }
}
