//! The cloud as the file system asks it. What directories have in them is remembered for a moment,
//! so that a program that lists a directory and then looks at every file asks once.

use client::{Client, Item, Options, Outcome, Watcher};
use contract::api::file::{Attributes, Entry, ListQuery, Relocate, RemoveQuery};
use contract::api::quota::Quota;
use contract::path::PfsPath;
use contract::{Error, Kind, Result};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What is in a directory, by name.
pub(crate) type Listing = Arc<BTreeMap<String, Entry>>;

/// How long a list is believed, here and by the kernel.
pub(crate) const FRESH: Duration = Duration::from_secs(1);

/// The files of one user. A server that is away is waited for, whatever is asked.
pub(crate) struct Remote {
    pub(crate) client: Client,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    listings: HashMap<PfsPath, (Instant, Listing)>,
    /// Counts changes: a list that was asked for before one is not remembered after it.
    changes: u64,
}

impl Remote {
    pub(crate) fn new(client: Client) -> Remote {
        Remote { client, known: Mutex::default() }
    }

    /// What is at a path, as of now or of a moment ago.
    pub(crate) fn look(&self, path: &PfsPath) -> Result<Entry> {
        let above = path.parent();
        let listing = above.and_then(|above| self.fresh(&above));
        match (listing, path.file_name()) {
            (Some(listing), Some(name)) => listing.get(name).cloned().ok_or_else(missing),
            _ => self.stat(path),
        }
    }

    /// What is at a path now.
    pub(crate) fn stat(&self, path: &PfsPath) -> Result<Entry> {
        self.client.patiently(|| self.client.stat(path))
    }

    /// What the user has, and may have.
    pub(crate) fn quota(&self) -> Result<Quota> {
        self.client.patiently(|| self.client.quota(None))
    }

    /// What is in a directory now.
    pub(crate) fn list(&self, path: &PfsPath) -> Result<Listing> {
        let query = ListQuery {
            path: path.to_string(),
            is_recursive: false,
            is_pattern: false,
            is_itself: false,
        };
        let (asked, before) = (Instant::now(), self.lock().changes);
        let listed = self.client.patiently(|| {
            let mut entries = BTreeMap::new();
            self.client.list(&query, |entry| {
                entries.insert(entry.name().to_owned(), entry);
                Ok(())
            })?;
            Ok(entries)
        });
        let listing: Listing = Arc::new(match listed {
            // A home that nobody has written to yet.
            Err(error) if error.kind() == Kind::NotFound && path.file_name().is_none() => {
                BTreeMap::new()
            }
            listed => listed?,
        });
        let mut known = self.lock();
        known.listings.retain(|_, (at, _)| at.elapsed() < FRESH);
        if known.changes == before {
            known.listings.insert(path.clone(), (asked, Arc::clone(&listing)));
        }
        Ok(listing)
    }

    pub(crate) fn make_directory(&self, path: &PfsPath) -> Result<Entry> {
        let made = self.client.patiently(|| self.client.make_directory(path));
        self.changed();
        made
    }

    pub(crate) fn remove(&self, path: &PfsPath) -> Result<()> {
        let removed =
            self.client.remove(&RemoveQuery { path: path.to_string(), is_recursive: false });
        self.changed();
        removed
    }

    pub(crate) fn rename(&self, from: &PfsPath, to: &PfsPath, if_absent: bool) -> Result<()> {
        let asked = Relocate { from: from.to_string(), to: to.to_string(), if_absent };
        let renamed = self.client.rename(&asked);
        self.changed();
        renamed.map(|_| ())
    }

    /// Changes permissions and time of a file or directory.
    pub(crate) fn dress(
        &self,
        path: &PfsPath,
        mode: Option<u32>,
        modified_ms: Option<u64>,
    ) -> Result<Entry> {
        let asked = Attributes { path: path.to_string(), mode, modified_ms };
        let dressed = self.client.patiently(|| self.client.set_attributes(&asked));
        self.changed();
        dressed
    }

    /// A part of a content that was opened.
    pub(crate) fn read(
        &self,
        path: &PfsPath,
        etag: &str,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        self.client.patiently(|| self.client.read_range(path, etag, offset, length))
    }

    /// Sends a whole file, which replaces what is there.
    pub(crate) fn send(&self, item: Item) -> Result<()> {
        let told = Told(Mutex::new(None));
        self.client.send_files(vec![item], &Options::default(), &told);
        self.changed();
        let told = told.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        told.unwrap_or_else(|| Err(Error::new(Kind::Io, "the upload was not tried")))
    }

    /// Something was changed: what is remembered may be wrong.
    fn changed(&self) {
        let mut known = self.lock();
        known.changes += 1;
        known.listings.clear();
    }

    fn fresh(&self, path: &PfsPath) -> Option<Listing> {
        let known = self.lock();
        let (at, listing) = known.listings.get(path)?;
        (at.elapsed() < FRESH).then(|| Arc::clone(listing))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of the one file.
struct Told(Mutex<Option<Result<()>>>);

impl Watcher for Told {
    fn moved(&self, _: u64) {}

    fn left_out(&self, _: &str, _: Error) {}

    fn ended(&self, _: &Item, outcome: &Outcome) {
        let result = match &outcome.error {
            None => Ok(()),
            Some(error) => Err(Error::new(error.kind(), error.chain())),
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
    }
}

fn missing() -> Error {
    Error::new(Kind::NotFound, "no such file or directory")
}
