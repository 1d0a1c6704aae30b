//! How much disk a user has, and whether more would be too much.
//!
//! Jobs write into homes without asking, so the truth is on the disk: a walk over the home. It is
//! remembered for a short while, with what was added since, and walked again before anybody is
//! refused. What unfinished uploads will need counts as used, so that two that fit one by one
//! cannot exceed the limit together; requests of one user are decided one after another.

use super::place::PermittedPath;
use super::stores::Files;
use crate::Cloud;
use contract::api::file::{DiskUsage, Entry, EntryKind};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// What is known of all homes.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    homes: Mutex<HashMap<(String, String), Known>>,
}

#[derive(Debug, Clone, Default)]
struct Known {
    used: Option<(u64, Instant)>,
    turn: Arc<Turn<()>>,
}

/// How long a walk is good for.
const FRESH: Duration = Duration::from_secs(30);
/// Directories in directories, which a job could make without end.
const DEPTH_MAX: usize = 512;

/// While it is held, nobody else is promised room in the same home.
pub(crate) struct Promise {
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Usages {
    fn known(&self, place: &PermittedPath) -> Known {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        homes.entry(key(place)).or_default().clone()
    }

    fn remember(&self, place: &PermittedPath, used: Option<(u64, Instant)>) {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        homes.entry(key(place)).or_default().used = used;
    }

    /// Adds what was published since the last walk.
    pub(crate) fn add(&self, place: &PermittedPath, bytes: u64) {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, _)) = &mut homes.entry(key(place)).or_default().used {
            *used = used.saturating_add(bytes);
        }
    }

    /// Forgets a walk, after something was removed.
    pub(crate) fn forget(&self, place: &PermittedPath) {
        self.remember(place, None);
    }

    /// Bytes of the home that a place is in, as of a short while ago.
    pub(crate) async fn used(&self, place: &PermittedPath) -> Result<u64> {
        match self.known(place).used {
            Some((used, at)) if at.elapsed() < FRESH => Ok(used),
            _ => self.walk(place).await,
        }
    }

    async fn walk(&self, place: &PermittedPath) -> Result<u64> {
        let at = Instant::now();
        let top = match place.path.owner() {
            Some(owner) => PfsPath::home(place.path.datacenter(), owner)?,
            None => PfsPath::public(place.path.datacenter())?,
        };
        let used = match measure(&*place.files, top).await {
            Ok(usage) => usage.bytes,
            Err(error) if error.kind() == Kind::NotFound => 0,
            Err(error) => return Err(error),
        };
        self.remember(place, Some((used, at)));
        Ok(used)
    }

    /// Promises room for `bytes` more, of which `given_up` replace others.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] with the figures.
    pub(crate) async fn promise(
        &self,
        cloud: &Cloud,
        place: &PermittedPath,
        bytes: u64,
        given_up: u64,
    ) -> Result<Promise> {
        let Some(owner) = place.path.owner() else { return Ok(Promise { _turn: None }) };
        let limits = crate::quotas::limits(cloud, place.path.datacenter(), owner).await?;
        let Some(limit) = limits.disk.map(|limit| limit.bytes()) else {
            return Ok(Promise { _turn: None });
        };
        let turn = self.known(place).turn.lock_owned().await;
        let staging = place.datacenter.staging.clone();
        let owner = owner.to_owned();
        let reserved = crate::blocking::blocking(move || Ok(staging.reserved(&owner))).await?;
        let needed = bytes.saturating_add(reserved);
        let fits = |used: u64| used.saturating_sub(given_up).saturating_add(needed) <= limit;
        let mut used = self.used(place).await?;
        if !fits(used) {
            used = self.walk(place).await?;
        }
        if fits(used) {
            return Ok(Promise { _turn: Some(turn) });
        }
        let message = "the disk quota would be exceeded: remove files, or ask for more";
        Err(Error::new(Kind::LimitExceeded, message)
            .with("limit_bytes", limit)
            .with("used_bytes", used)
            .with("in_uploads_bytes", reserved)
            .with("needed_bytes", bytes))
    }
}

fn key(place: &PermittedPath) -> (String, String) {
    let owner = place.path.owner().unwrap_or_default();
    (place.path.datacenter().to_owned(), owner.to_owned())
}

/// What is below a path.
pub(crate) async fn measure(files: &dyn Files, path: PfsPath) -> Result<DiskUsage> {
    if let Some(known) = files.total(path.clone()).await? {
        return Ok(known);
    }
    let entry = files.stat(path.clone()).await?;
    let mut usage = DiskUsage::default();
    match entry.kind {
        EntryKind::Directory => add(files, path, &mut usage, 0).await?,
        _ => count(&entry, &mut usage),
    }
    Ok(usage)
}

fn count(entry: &Entry, usage: &mut DiskUsage) {
    match entry.kind {
        EntryKind::Directory => usage.directories += 1,
        _ => {
            usage.files += 1;
            usage.bytes = usage.bytes.saturating_add(entry.bytes);
        }
    }
}

fn add<'a>(
    files: &'a dyn Files,
    path: PfsPath,
    usage: &'a mut DiskUsage,
    depth: usize,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        let entries = match files.list(path.clone()).await {
            Err(error) if error.kind() == Kind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            count(&entry, usage);
            // A name that no path can have is counted, and not entered.
            if entry.is_directory()
                && depth < DEPTH_MAX
                && let Ok(below) = path.join(entry.name())
            {
                add(files, below, usage, depth + 1).await?;
            }
        }
        Ok(())
    })
}
