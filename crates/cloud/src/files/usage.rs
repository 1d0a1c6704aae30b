//! How much disk a user has, and whether more would be too much.
//!
//! Jobs write into homes without asking, so the truth is on the disk: a walk over the home. It is
//! remembered for a short while, with what was added since, and walked again before anybody is
//! refused. What unfinished uploads will need counts as used, and so does what was promised to files
//! that are being written, so that two that fit one by one cannot exceed the limit together. Requests
//! of one user are decided one after another; what they then do they do at the same time.

use super::place::PermittedPath;
use super::stores::Files;
use crate::Cloud;
use contract::api::file::{DiskUsage, Entry, EntryKind, FILE_BYTES_MAX};
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// What is known of all homes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usages {
    homes: Arc<Mutex<HashMap<Home, Known>>>,
}

/// Datacenter and owner.
type Home = (String, String);

#[derive(Debug, Clone, Default)]
struct Known {
    used: Option<(u64, Instant)>,
    /// All that was ever added: what a walk has missed that went on meanwhile.
    added: u64,
    /// To files that are not published yet.
    promised: u64,
    turn: Arc<Turn<()>>,
}

/// How long a walk is good for.
const FRESH: Duration = Duration::from_secs(30);
/// Directories in directories, which a job could make without end.
const DEPTH_MAX: usize = 512;

/// There is room. While it is held, nothing else is decided about the same home.
pub(crate) struct Decided {
    usages: Usages,
    home: Home,
    bytes: u64,
    room: u64,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Decided {
    /// The largest file that there is room for.
    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    /// Keeps the room for what was asked for, while other requests are decided.
    pub(crate) fn promise(self) -> Promise {
        let Decided { usages, home, bytes, .. } = self;
        usages.change(&home, |known| known.promised += bytes);
        Promise { usages, home, bytes }
    }
}

/// Room that nobody else is given while it is held.
pub(crate) struct Promise {
    usages: Usages,
    home: Home,
    bytes: u64,
}

impl Promise {
    /// So many bytes were published: they are used now, instead of promised.
    pub(crate) fn published(mut self, bytes: u64) {
        let promised = std::mem::take(&mut self.bytes);
        self.usages.change(&self.home, |known| {
            known.promised -= promised;
            known.add(bytes);
        });
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.usages.change(&self.home, |known| known.promised -= self.bytes);
    }
}

impl Known {
    fn add(&mut self, bytes: u64) {
        self.added = self.added.saturating_add(bytes);
        if let Some((used, _)) = &mut self.used {
            *used = used.saturating_add(bytes);
        }
    }
}

impl Usages {
    fn change<T>(&self, home: &Home, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut homes = self.homes.lock().unwrap_or_else(PoisonError::into_inner);
        change(homes.entry(home.clone()).or_default())
    }

    fn known(&self, place: &PermittedPath) -> Known {
        self.change(&home(place), |known| known.clone())
    }

    /// Adds what was published since the last walk.
    pub(crate) fn add(&self, place: &PermittedPath, bytes: u64) {
        self.change(&home(place), |known| known.add(bytes));
    }

    /// Forgets a walk, after something was removed.
    pub(crate) fn forget(&self, place: &PermittedPath) {
        self.change(&home(place), |known| known.used = None);
    }

    /// Bytes of the home that a place is in, as of a short while ago.
    pub(crate) async fn used(&self, place: &PermittedPath) -> Result<u64> {
        match self.known(place).used {
            Some((used, at)) if at.elapsed() < FRESH => Ok(used),
            _ => self.walk(place).await,
        }
    }

    async fn walk(&self, place: &PermittedPath) -> Result<u64> {
        let (at, added) = (Instant::now(), self.known(place).added);
        let top = match place.path.owner() {
            Some(owner) => PfsPath::home(place.path.datacenter(), owner)?,
            None => PfsPath::public(place.path.datacenter())?,
        };
        let used = match measure(&*place.files, top).await {
            Ok(usage) => usage.bytes,
            Err(error) if error.kind() == Kind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(self.change(&home(place), |known| {
            let used = used.saturating_add(known.added - added);
            known.used = Some((used, at));
            used
        }))
    }

    /// Forgets a walk that is older than this, because a decision needs what came after it.
    pub(crate) fn forget_before(&self, place: &PermittedPath, age: Duration) {
        self.change(&home(place), |known| {
            known.used = known.used.filter(|used| used.1.elapsed() < age);
        });
    }

    /// Decides whether there is room for `bytes` more, of which `given_up` replace others.
    ///
    /// # Errors
    /// [`Kind::LimitExceeded`] with the figures.
    pub(crate) async fn decide(
        &self,
        cloud: &Cloud,
        place: &PermittedPath,
        bytes: u64,
        given_up: u64,
    ) -> Result<Decided> {
        let decided = |room, turn: Option<OwnedMutexGuard<()>>| Decided {
            usages: self.clone(),
            home: home(place),
            // Nobody counts where there is no limit.
            bytes: turn.as_ref().map_or(0, |_| bytes),
            room,
            _turn: turn,
        };
        let Some(owner) = place.path.owner() else { return Ok(decided(FILE_BYTES_MAX, None)) };
        let limits = crate::quotas::limits(cloud, place.path.datacenter(), owner).await?;
        let Some(limit) = limits.disk.map(|limit| limit.bytes()) else {
            return Ok(decided(FILE_BYTES_MAX, None));
        };
        let turn = self.known(place).turn.lock_owned().await;
        let staging = place.datacenter.staging.clone();
        let owner = owner.to_owned();
        let reserved = crate::blocking::blocking(move || Ok(staging.reserved(&owner))).await?;
        let reserved = reserved.saturating_add(self.known(place).promised);
        let room =
            |used: u64| limit.checked_sub(used.saturating_sub(given_up).saturating_add(reserved));
        let mut used = self.used(place).await?;
        if room(used).is_none_or(|room| room < bytes) {
            used = self.walk(place).await?;
        }
        if let Some(room) = room(used).filter(|room| *room >= bytes) {
            return Ok(decided(room.min(FILE_BYTES_MAX), Some(turn)));
        }
        let message = "the disk quota would be exceeded: remove files, or ask for more";
        Err(Error::new(Kind::LimitExceeded, message)
            .with("limit_bytes", limit)
            .with("used_bytes", used)
            .with("in_uploads_bytes", reserved)
            .with("needed_bytes", bytes))
    }
}

fn home(place: &PermittedPath) -> Home {
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
        let before = *usage;
        for entry in &entries {
            count(entry, usage);
        }
        super::operation::current().add(usage.files - before.files, usage.bytes - before.bytes);
        for entry in entries {
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
