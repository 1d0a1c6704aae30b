//! One datacenter at work: its backend, its files, what it has, and who is waiting for news of it.

use crate::config::{BackendKind, Config, DatacenterConfig, Location, Machine};
use crate::files::Store;
use crate::files::staging::Staging;
use crate::files::stores::directory::Directory;
use crate::files::stores::{self, Files};
use crate::logs::news::Board;
use contract::Result;
use contract::api::quota::Limits;
use scheduler::Backend;
use scheduler::jobs::{Jobs, Paddle};
use scheduler::submission::Sandbox;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// What the server knows of the world around it, which only `cli` may ask.
#[derive(Debug, Clone)]
pub struct Outside {
    /// The command `paddle`, which conducts jobs.
    pub paddle: Paddle,
    /// The command `paddlecloud`, which mounts their files.
    pub paddlecloud: PathBuf,
    /// The variables that jobs on this machine inherit, such as `PATH`.
    pub environment: BTreeMap<String, String>,
    /// Directories that programs of jobs need beside the system's own, such as that of Python.
    pub exposed: Vec<PathBuf>,
    /// What tells this machine from all others, also after a restart of it.
    pub machine: String,
    /// Its name, for people.
    pub host: String,
}

/// One datacenter at work.
pub(crate) struct Datacenter {
    pub(crate) name: String,
    pub(crate) config: DatacenterConfig,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) store: Store,
    /// Who keeps its users' files.
    pub(crate) files: Arc<dyn Files>,
    /// Uploads on their way.
    pub(crate) staging: Staging,
    /// What its jobs may use together.
    pub(crate) capacity: Limits,
    /// How jobs on this machine are kept apart.
    pub(crate) sandbox: Option<Sandbox>,
    /// What people should know of it, found out when it was opened.
    pub(crate) remarks: Vec<String>,
    /// The name of the machine that has processes of its jobs, if that is another one, on which no
    /// server lives.
    pub(crate) stranded: Mutex<Option<String>>,
    /// Told when there is something to decide.
    pub(crate) wake: Notify,
    /// For those who follow logs.
    pub(crate) news: Board,
}

impl Datacenter {
    /// Opens a datacenter of the configuration.
    pub(crate) async fn open(
        config: &Config,
        own: &DatacenterConfig,
        outside: &Outside,
        isolation: &Isolated,
    ) -> Result<Self> {
        let data = &config.data_dir;
        let root = data.join("files").join(&own.name);
        let logs = data.join("logs").join(&own.name);
        let directory = match &own.files {
            Some(Location::Directory(path)) => Some(path.clone()),
            _ => None,
        };
        let (store, files): (Store, Arc<dyn Files>) = match own.store_url() {
            Some(url) => {
                let files = stores::open(url, &own.store).await;
                let files = files.map_err(|error| error.with("datacenter", &own.name))?;
                (Store::open_elsewhere(&root, &logs)?, files)
            }
            None => {
                let store = Store::open(directory.as_ref().unwrap_or(&root), &logs)?;
                let files: Arc<dyn Files> = Arc::new(Directory::open(store.root())?);
                (store, files)
            }
        };
        let backend: Arc<dyn Backend> = match &own.kubernetes {
            Some(cluster) => Arc::new(cluster.backend()),
            None => {
                let root = data.join("jobs").join(&own.name);
                Arc::new(Jobs { root, paddle: outside.paddle.clone() })
            }
        };
        let mut remarks = Vec::new();
        let mut sandbox = None;
        if own.backend == BackendKind::Local {
            match isolation {
                Isolated::Yes => {
                    let hidden = service_directories(config);
                    sandbox = Some(Sandbox { exposed: outside.exposed.clone(), hidden });
                }
                Isolated::No(why) => remarks.push(format!("jobs are not kept apart here: {why}")),
            }
        }
        if let Some(url) = own.store_url().filter(|_| !own.is_mounted() || sandbox.is_none()) {
            remarks.push(format!("files are at {url}; jobs cannot run here"));
        }
        Ok(Datacenter {
            name: own.name.clone(),
            config: own.clone(),
            backend,
            files,
            staging: Staging::open(&store.uploads(), config.database.is_some())?,
            store,
            capacity: own.capacity(Machine::here()),
            sandbox,
            remarks,
            stranded: Mutex::default(),
            wake: Notify::new(),
            news: Board::default(),
        })
    }
}

/// The directories that are the service's own, of all datacenters: no job sees them, but for the
/// parts that it is given.
fn service_directories(config: &Config) -> Vec<PathBuf> {
    let files = config.datacenters.iter().filter_map(|own| match &own.files {
        Some(Location::Directory(path)) => Some(path.clone()),
        _ => None,
    });
    std::iter::once(config.data_dir.clone()).chain(files).collect()
}

impl Datacenter {
    /// What people should know of it.
    pub(crate) fn notes(&self) -> Vec<String> {
        let stranded = self.stranded.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stranded = stranded.map(|host| {
            format!(
                "jobs wait: some have processes on {host}, where no server lives now: start one \
                 there, or see docs/cloud.md (Several servers) if that machine is gone"
            )
        });
        self.remarks.iter().cloned().chain(stranded).collect()
    }

    /// Notes where its jobs are, if nobody can look after them. Whether that is news.
    pub(crate) fn set_stranded(&self, host: Option<String>) -> bool {
        let mut known = self.stranded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *known != host;
        *known = host;
        is_news
    }

    /// Whether each user's files and processes have a user id of their own.
    pub(crate) fn has_uids(&self) -> bool {
        // Only root can give files away.
        let is_root = rustix::process::geteuid().is_root();
        self.sandbox.is_some() || (self.config.backend == BackendKind::Kubernetes && is_root)
    }
}

/// Whether this machine can keep jobs apart.
#[derive(Debug, Clone)]
pub(crate) enum Isolated {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn jobs_of_one_datacenter_do_not_see_the_files_of_another() {
        let yaml = "data_dir: /srv/cloud\n\
                    datacenters: [{name: a, files: /mnt/a}, {name: b, files: /mnt/b}, {name: c}]";
        let hidden = service_directories(&Config::from_yaml(yaml).unwrap());
        assert_eq!(hidden, ["/srv/cloud", "/mnt/a", "/mnt/b"].map(Path::new));
    }
}
