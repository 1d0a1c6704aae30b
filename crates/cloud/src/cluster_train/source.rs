//! The file system of a training: its user's own files, or a store of the configuration. The same
//! keepers do the work ([`crate::files::stores`]); here it is decided what may be named.

use crate::Cloud;
use crate::blocking::blocking;
use crate::config::{OutsideStore, OutsideUrl, StoreConfig};
use crate::datacenters::Datacenter;
use crate::files::Owner;
use crate::files::place::PermittedPath;
use crate::files::stores::directory::Directory;
use crate::files::stores::{self, Condition, Files, OUTSIDE, Opened, Publication};
use crate::files::usage::Decided;
use crate::files::{make_private, unusable};
use crate::users;
use contract::api::file::{Entry, FILE_BYTES_MAX};
use contract::path::{Access, PfsPath};
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Which file system, as it is kept with the job. Nothing in it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceName {
    /// As `fs_name` says it; empty for the users' own files.
    pub(crate) fs_name: String,
    /// Who asks an HDFS.
    pub(crate) user: Option<String>,
    /// Whose training it is.
    pub(crate) username: String,
}

/// Stores that were opened.
#[derive(Debug, Default)]
pub(crate) struct OpenedStores(Mutex<HashMap<StoreKey, Arc<dyn Files>>>);

/// The URL of a store, and who asks.
type StoreKey = (String, Option<String>);

/// The most stores that are kept open: users of HDFS are names that anybody can think up.
const OPENED_MAX: usize = 1000;
/// In a directory of the server's machine, where files are before they have names.
const UNNAMED: &str = ".paddle-uploads";

/// In the data directory, for the same, and for evaluations.
pub(super) const SCRATCH: &str = "cluster_train";

/// A path in a file system, ready to be used.
pub(crate) struct Located {
    files: Arc<dyn Files>,
    path: PfsPath,
    /// As people know it.
    shown: String,
    owner: Owner,
    /// Where a file is written before it is published.
    scratch: PathBuf,
    /// Whose quota counts what is written there, and in which datacenter.
    counted: Option<(Arc<Datacenter>, String)>,
}

/// Finds a path, if the training's user may use it so.
///
/// # Errors
/// The path is not theirs, or in no store of the configuration.
pub(crate) async fn locate(
    cloud: &Cloud,
    name: &SourceName,
    path: &str,
    access: Access,
) -> Result<Located> {
    match name.fs_name.is_empty() {
        true => at_home(cloud, name, path, access).await,
        false => outside(cloud, name, path),
    }
}

async fn at_home(cloud: &Cloud, name: &SourceName, text: &str, access: Access) -> Result<Located> {
    if !text.starts_with("/pfs/") {
        let message = "without fs_name, data is in the users' own files: use a path below /pfs/, or \
                       give fs_name";
        return Err(Error::invalid(message).with("path", text));
    }
    let path = crate::files::place::parse(cloud, text)?;
    path.check_access(&name.username, access)?;
    let datacenter = cloud.datacenter(path.datacenter())?;
    let user = users::store::user(&cloud.database, &name.username).await?;
    let user = user.ok_or_else(|| Error::new(Kind::NotFound, "the job's user is gone"))?;
    Ok(Located {
        files: Arc::clone(&datacenter.files),
        shown: path.to_string(),
        owner: crate::jobs::owner(datacenter, user.posix_uid),
        scratch: datacenter.store.uploads(),
        counted: Some((Arc::clone(datacenter), name.username.clone())),
        path,
    })
}

fn outside(cloud: &Cloud, name: &SourceName, text: &str) -> Result<Located> {
    let all = &cloud.config.stores;
    let is_of = |store: &&OutsideStore| {
        let top = store.url.top();
        let rest = text.strip_prefix(top.as_str());
        store.url.file_system() == name.fs_name
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let Some(store) = all.iter().find(is_of) else {
        let known: Vec<String> = all.iter().map(|store| store.url.to_string()).collect();
        let message = "this cloud may not use that: ask its administrator to name it in `stores:` \
                       of the server's configuration, or keep the data below /pfs/";
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Error::new(Kind::Forbidden, message)
            .with("fs_name", &name.fs_name)
            .with("path", text)
            .with("stores", known));
    };
    let top = store.url.top();
    let below = text.strip_prefix(top.as_str()).unwrap_or_default();
    let path = PfsPath::public(OUTSIDE)?.join(below.trim_start_matches('/'))?;
    let scratch = match &store.url {
        OutsideUrl::Directory(directory) => directory.join(UNNAMED),
        OutsideUrl::Store(_) => cloud.config.data_dir.join(SCRATCH),
    };
    Ok(Located {
        files: cloud.opened.open(store, name.user.as_deref())?,
        path,
        shown: format!("{}{text}", name.fs_name),
        owner: Owner::Server,
        scratch,
        counted: None,
    })
}

/// Removes what a killed server left of files and evaluations on their way, if it is so old.
pub(crate) fn sweep(cloud: &Cloud, age: Duration) {
    let stores = cloud.config.stores.iter().filter_map(|store| match &store.url {
        OutsideUrl::Directory(path) => Some(path.join(UNNAMED)),
        OutsideUrl::Store(_) => None,
    });
    for folder in stores.chain([cloud.config.data_dir.join(SCRATCH)]) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let changed = entry.metadata().and_then(|found| found.modified());
            if changed.is_ok_and(|at| at.elapsed().is_ok_and(|old| old >= age)) {
                // Another time, if not now.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl OpenedStores {
    fn open(&self, store: &OutsideStore, user: Option<&str>) -> Result<Arc<dyn Files>> {
        let key = (store.url.to_string(), user.map(str::to_owned));
        let mut opened = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(files) = opened.get(&key) {
            return Ok(Arc::clone(files));
        }
        let files: Arc<dyn Files> = match &store.url {
            OutsideUrl::Directory(path) => Arc::new(Directory::open(path)?),
            OutsideUrl::Store(url) => {
                let mut config: StoreConfig = store.store.clone();
                if let Some(user) = user {
                    config.user = Some(user.to_owned());
                }
                stores::open_outside(url, &config)?
            }
        };
        if opened.len() >= OPENED_MAX {
            opened.clear();
        }
        opened.insert(key, Arc::clone(&files));
        Ok(files)
    }
}

impl Located {
    /// As people know it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Something below it.
    pub(crate) fn join(&self, below: &str) -> Result<Located> {
        Ok(Located {
            files: Arc::clone(&self.files),
            path: self.path.join(below)?,
            shown: format!("{}/{below}", self.shown),
            owner: self.owner,
            scratch: self.scratch.clone(),
            counted: self.counted.clone(),
        })
    }

    /// What is there, if there is anything.
    pub(crate) async fn stat(&self) -> Result<Option<Entry>> {
        match self.files.stat(self.path.clone()).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.kind() == Kind::NotFound => Ok(None),
            Err(error) => Err(self.told(error)),
        }
    }

    /// What is in a directory, by name.
    pub(crate) async fn list(&self) -> Result<Vec<Entry>> {
        self.files.list(self.path.clone()).await.map_err(|error| self.told(error))
    }

    /// Makes a directory, and those above it.
    pub(crate) async fn make(&self) -> Result<()> {
        let made = self.files.make_directory(self.path.clone(), self.owner).await;
        made.map(|_| ()).map_err(|error| self.told(error))
    }

    /// Removes a directory, if nothing is in it.
    pub(crate) async fn remove_empty(&self) -> Result<()> {
        self.files.remove(self.path.clone(), false).await.map_err(|error| self.told(error))
    }

    /// Opens a file.
    pub(crate) async fn open(&self) -> Result<Opened> {
        self.files.open(self.path.clone()).await.map_err(|error| self.told(error))
    }

    /// A directory for a file that is to be published.
    pub(crate) async fn scratch(&self) -> Result<tempfile::TempDir> {
        let scratch = self.scratch.clone();
        blocking(move || {
            make_private(&scratch)?;
            tempfile::tempdir_in(&scratch).map_err(unusable(&scratch))
        })
        .await
    }

    /// Gives a whole file of `bytes` its name there, if the quota of its owner permits it.
    pub(crate) async fn publish(&self, cloud: &Cloud, staged: PathBuf, bytes: u64) -> Result<()> {
        let promise = self.decide(cloud, bytes).await?.map(Decided::promise);
        let publication = Publication {
            path: self.path.clone(),
            staged,
            mode: 0o644,
            modified_ms: None,
            owner: self.owner,
            condition: Condition::default(),
        };
        let lost = || Err(Error::new(Kind::Io, "the store did not say what became of the file"));
        let published = self.files.publish(vec![publication]).await.pop().unwrap_or_else(lost);
        published.map_err(|error| self.told(error))?;
        if let Some(promise) = promise {
            promise.published(bytes);
        }
        Ok(())
    }

    /// The largest file that there is room for, if there is for one of the length that is known.
    pub(crate) async fn room(&self, cloud: &Cloud, length: Option<u64>) -> Result<u64> {
        let decided = self.decide(cloud, length.unwrap_or(0)).await?;
        Ok(decided.map_or(FILE_BYTES_MAX, |decided| decided.room()))
    }

    /// Whether the owner's quota has room for a file, where one counts.
    async fn decide(&self, cloud: &Cloud, bytes: u64) -> Result<Option<Decided>> {
        let Some((datacenter, username)) = &self.counted else { return Ok(None) };
        let home = PermittedPath {
            path: self.path.clone(),
            datacenter: Arc::clone(datacenter),
            files: Arc::clone(&self.files),
            owner: self.owner,
            username: username.clone(),
        };
        let given_up = self.stat().await?.map_or(0, |entry| entry.bytes);
        cloud.usages.decide(cloud, &home, bytes, given_up).await.map(Some)
    }

    /// An error with the path as people know it.
    fn told(&self, error: Error) -> Error {
        Error::new(error.kind(), format!("{}: {}", self.shown, error.message())).because(error)
    }
}
