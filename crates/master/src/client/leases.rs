//! The leases that a client has. Talks to nobody.

use crate::task::Lease;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Renewals in the time that a lease holds: two may get lost.
const RENEWALS: u32 = 3;
/// However short a lease, renewals are not more frequent.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<Held>,
    has_more: Notify,
}

#[derive(Default)]
struct Held {
    /// With whether the client is about to give it up.
    leases: BTreeMap<Lease, bool>,
    interval: Duration,
}

impl Leases {
    pub(super) fn add(&self, lease: Lease, time: Duration) {
        let mut held = self.held();
        held.leases.insert(lease, false);
        held.interval = (time / RENEWALS).max(INTERVAL_MIN);
        self.has_more.notify_one();
    }

    /// Marks a lease whose end is on its way to the master: should the master not know it any more,
    /// that is no news.
    pub(super) fn begin_end(&self, lease: Lease) {
        if let Some(is_ending) = self.held().leases.get_mut(&lease) {
            *is_ending = true;
        }
    }

    pub(super) fn remove(&self, leases: &[Lease]) {
        self.held().leases.retain(|lease, _| !leases.contains(lease));
    }

    /// Removes what the master has taken away, and returns what is news of it.
    pub(super) fn remove_lost(&self, lost: &[Lease]) -> Vec<Lease> {
        let mut held = self.held();
        let is_news = |lease: &Lease| held.leases.get(lease) == Some(&false);
        let news: Vec<Lease> = lost.iter().copied().filter(is_news).collect();
        held.leases.retain(|lease, _| !news.contains(lease));
        news
    }

    pub(super) fn clear(&self) {
        self.held().leases.clear();
    }

    pub(super) fn all(&self) -> Vec<Lease> {
        self.held().leases.keys().copied().collect()
    }

    pub(super) fn has(&self, lease: Lease) -> bool {
        self.held().leases.contains_key(&lease)
    }

    /// How long to wait before renewing; itself waits until there is something to renew.
    pub(super) async fn interval(&self) -> Duration {
        loop {
            {
                let held = self.held();
                if !held.leases.is_empty() {
                    return held.interval;
                }
            }
            self.has_more.notified().await;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing panics while it is locked.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_is_being_ended_is_known_but_its_loss_is_no_news() {
        let (mine, ending) = (Lease { task: 1, epoch: 1 }, Lease { task: 2, epoch: 7 });
        let leases = Leases::default();
        leases.add(mine, Duration::from_secs(60));
        leases.add(ending, Duration::from_secs(60));
        leases.begin_end(ending);
        assert_eq!(leases.all(), [mine, ending]);
        assert_eq!(leases.remove_lost(&[mine, ending]), [mine]);
        assert_eq!(leases.all(), [ending]);
        leases.remove(&[ending]);
        assert!(leases.all().is_empty());
    }
}
