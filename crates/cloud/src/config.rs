//! What an administrator can set, with a default for everything: a server without any
//! configuration is a whole cloud on one machine. `docs/cloud.md` has a sample.
//!
//! Plain data, read from YAML. Flags are laid over it by `cli`.

mod kubernetes;
mod outside;
mod proxies;
mod queue;
mod slurm;
mod store;

use contract::api::quota::Limits;
use contract::name::check_datacenter;
use contract::quantity::Quantity;
use contract::{Error, Result};
pub use kubernetes::KubernetesConfig;
pub use outside::{OutsideStore, OutsideUrl};
pub use proxies::Network;
pub(crate) use proxies::origin;
pub use queue::{NodeConfig, QueueConfig};
use scheduler::ssh::host::Host;
use serde::Deserialize;
pub use slurm::SlurmConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
pub use store::{Credential, Location, Scheme, StoreConfig, StoreUrl};

/// All settings of a server.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the database file, packages, logs and, by default, users' files are kept.
    pub data_dir: PathBuf,
    /// The address to serve on.
    pub listen: SocketAddr,
    /// The URL of a Postgres; absent for a SQLite file in the data directory. It may hold a
    /// password.
    pub database: Option<DatabaseUrl>,
    /// Certificate and key; absent to serve without TLS.
    pub tls: Option<Tls>,
    /// The places that run jobs.
    pub datacenters: Vec<DatacenterConfig>,
    /// What every user may use in each datacenter, unless an administrator gave them other limits.
    pub quota: Limits,
    /// How jobs are kept apart.
    pub isolation: Isolation,
    /// Whether configurations of `paddle cluster_train`, which are programs of users, are executed
    /// with the server's own rights where its machine cannot keep programs apart.
    pub trusts_configurations: bool,
    /// The range of user ids that jobs run as.
    pub uids: Uids,
    /// For how long a login is good after its last use.
    pub session_hours: u64,
    /// Limits of the service itself.
    pub limits: ServiceLimits,
    /// How jobs are chosen from the queue.
    pub fairness: Fairness,
    /// The URL by which machines of jobs reach this server; absent for the address it listens on.
    pub address: Option<String>,
    /// File systems that `paddle cluster_train` may use, beside the users' own files.
    pub stores: Vec<OutsideStore>,
    /// Proxies before the server, whose `X-Forwarded-For` is believed.
    pub proxies: Vec<Network>,
}

/// The URL of a database, which is not printed.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub struct DatabaseUrl(pub String);

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Files with what the server proves its identity by.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Its certificates, PEM.
    pub cert: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
}

/// Whether jobs may run where they cannot be kept apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The server does not start where the kernel forbids it.
    Required,
    /// Jobs run all the same, and everybody is told.
    #[default]
    WhenPossible,
}

/// The user ids that jobs run as, one per user.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Uids {
    /// The first.
    pub first: u32,
    /// How many there are.
    pub count: u32,
}

/// Limits of the service itself.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceLimits {
    /// Requests per second of one user, or of one address that is not logged in; twice as many at
    /// once are let through.
    pub requests_per_second: u32,
    /// Connections that are open at the same time.
    pub connections: u32,
    /// The same from one address, behind which a proxy or many people may be.
    pub connections_per_address: u32,
    /// Logs that are followed and lists that are watched at the same time, a quarter of them by one
    /// user.
    pub followers: u32,
    /// Of what each replica prints, about this much is kept, in bytes.
    pub log_bytes: u64,
    /// What the programs of each user's jobs may take together, in bytes.
    pub package_bytes: u64,
    /// Jobs that are started at the same time.
    pub starts: u32,
    /// Events that are kept of each job.
    pub events: u32,
    /// Hours after which an upload that nobody continues is removed.
    pub upload_hours: u64,
    /// Entries that are kept of who did what.
    pub audit_entries: u64,
}

/// How jobs are chosen from the queue.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fairness {
    /// After this time in the queue a job goes before all that came later, whatever their priority
    /// and whoever's they are, and room is kept free for it. Ten times as long for priority low.
    pub patience_seconds: u64,
}

/// A place that runs jobs and keeps files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatacenterConfig {
    /// Its name, as in `/pfs/<datacenter>/…`.
    pub name: String,
    /// What runs its jobs.
    #[serde(default)]
    pub backend: BackendKind,
    /// Where its files are: `home/<user>` and `public` below it. Absent for a directory in the
    /// data directory.
    #[serde(default)]
    pub files: Option<Location>,
    /// How to get in there, where it is no directory.
    #[serde(default)]
    pub store: StoreConfig,
    /// Whether its jobs see the files by `paddlecloud mount`, through this server, instead of a
    /// directory of its machine. Needs `backend: local`, isolation and FUSE. Absent for jobs that
    /// could not see their files otherwise: local ones of a datacenter whose files are in a store.
    #[serde(default)]
    pub mount: Option<bool>,
    /// What its jobs may use together.
    #[serde(default)]
    pub capacity: Option<Limits>,
    /// Named places that a job can be sent to, beside the default one.
    #[serde(default)]
    pub queues: Vec<QueueConfig>,
    /// More variables of its jobs.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// How its machines are reached; with `backend: ssh`.
    #[serde(default)]
    pub ssh: Option<SshConfig>,
    /// How `mpirun` is called; with `backend: mpi`.
    #[serde(default)]
    pub mpi: Option<MpiConfig>,
    /// What is asked of Slurm; with `backend: slurm`.
    #[serde(default)]
    pub slurm: Option<SlurmConfig>,
    /// Which cluster runs its pods; with `backend: kubernetes`.
    #[serde(default)]
    pub kubernetes: Option<KubernetesConfig>,
}

/// What runs jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Processes of the server's machine.
    #[default]
    Local,
    /// Machines that are reached by ssh.
    Ssh,
    /// Where `mpirun` puts its processes.
    Mpi,
    /// Nodes that Slurm gives.
    Slurm,
    /// Pods of a Kubernetes cluster.
    Kubernetes,
}

impl BackendKind {
    /// Whether its jobs belong to the machine of the server that started them, which has processes
    /// of theirs that nobody else can look after.
    pub(crate) fn has_processes_here(self) -> bool {
        match self {
            BackendKind::Local | BackendKind::Ssh | BackendKind::Mpi => true,
            BackendKind::Slurm | BackendKind::Kubernetes => false,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            BackendKind::Local => "local",
            BackendKind::Ssh => "ssh",
            BackendKind::Mpi => "mpi",
            BackendKind::Slurm => "slurm",
            BackendKind::Kubernetes => "kubernetes",
        }
    }
}

/// Machines that are reached by ssh.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshConfig {
    /// The machines, `user@host:port`.
    pub hosts: Vec<Host>,
    /// Where job directories are made on each.
    #[serde(default = "SshConfig::default_root")]
    pub root_dir: String,
    /// The command `paddle` there.
    #[serde(default = "SshConfig::default_paddle")]
    pub paddle: String,
    /// The interface that servers listen on; empty for all.
    #[serde(default)]
    pub nic: String,
    /// The configuration of ssh, instead of the one of the server's user.
    #[serde(default)]
    pub ssh_config: Option<PathBuf>,
}

impl SshConfig {
    fn default_root() -> String {
        "~/paddle_jobs".to_owned()
    }

    fn default_paddle() -> String {
        "paddle".to_owned()
    }
}

/// How `mpirun` is called.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MpiConfig {
    /// How many processes it starts for a job.
    pub ranks: u32,
    /// The list of machines, as text; empty to leave it to `mpirun`.
    #[serde(default)]
    pub hostfile: String,
    /// More arguments.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The interface that servers listen on; empty for all.
    #[serde(default)]
    pub nic: String,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            data_dir: PathBuf::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            database: None,
            tls: None,
            datacenters: vec![DatacenterConfig::local("local")],
            quota: Limits::default(),
            isolation: Isolation::default(),
            trusts_configurations: false,
            uids: Uids::default(),
            session_hours: 7 * 24,
            limits: ServiceLimits::default(),
            fairness: Fairness::default(),
            address: None,
            stores: Vec::new(),
            proxies: Vec::new(),
        }
    }
}

impl Default for Uids {
    fn default() -> Self {
        Uids { first: 200_000, count: 100_000 }
    }
}

impl Default for ServiceLimits {
    fn default() -> Self {
        ServiceLimits {
            requests_per_second: 200,
            connections: 4096,
            connections_per_address: 1024,
            followers: 1000,
            log_bytes: 256 << 20,
            package_bytes: 16 << 30,
            starts: 4,
            events: 1000,
            upload_hours: 24,
            audit_entries: 1_000_000,
        }
    }
}

impl Default for Fairness {
    fn default() -> Self {
        Fairness { patience_seconds: 600 }
    }
}

impl DatacenterConfig {
    /// The machine of the server, with everything at its default.
    pub fn local(name: &str) -> Self {
        DatacenterConfig {
            name: name.to_owned(),
            backend: BackendKind::Local,
            files: None,
            store: StoreConfig::default(),
            mount: None,
            capacity: None,
            queues: Vec::new(),
            environment: BTreeMap::new(),
            ssh: None,
            mpi: None,
            slurm: None,
            kubernetes: None,
        }
    }
}

impl Config {
    /// Reads a configuration file. A key that is not known is refused by its name.
    pub fn from_yaml(text: &str) -> Result<Self> {
        serde_yaml_ng::from_str(text)
            .map_err(|error| Error::invalid(format!("the configuration cannot be read: {error}")))
    }

    /// Reads the secrets that are in environment variables and files.
    ///
    /// # Errors
    /// One that is not there.
    pub fn resolve(&mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<()> {
        for datacenter in &mut self.datacenters {
            let name = &datacenter.name;
            datacenter.store.resolve(variable).map_err(|error| error.with("datacenter", name))?;
        }
        for outside in &mut self.stores {
            let url = outside.url.to_string();
            outside.store.resolve(variable).map_err(|error| error.with("store", url))?;
        }
        Ok(())
    }

    /// The first problem, with its field and what to do.
    pub fn check(&self) -> Result<()> {
        let refuse = |field: &'static str, why: &str| {
            Err(Error::invalid(format!("{field}: {why}")).with("field", field))
        };
        if !self.data_dir.is_absolute() {
            return refuse("data_dir", "use an absolute path");
        }
        if self.datacenters.is_empty() {
            return refuse("datacenters", "a cloud needs at least one");
        }
        if self.session_hours == 0 {
            return refuse("session_hours", "use at least 1");
        }
        if self.uids.first < 1000 || self.uids.first.checked_add(self.uids.count).is_none() {
            return refuse("uids", "begin at 1000 or later, and end below 2^32");
        }
        let ServiceLimits { requests_per_second, connections, followers, starts, .. } = self.limits;
        let per_address = self.limits.connections_per_address;
        if [requests_per_second, connections, per_address, followers, starts].contains(&0) {
            return refuse("limits", "use at least 1 for each");
        }
        if self.limits.log_bytes < 1 << 20 {
            return refuse("limits", "log_bytes is at least 1048576");
        }
        let mut names = BTreeSet::new();
        for datacenter in &self.datacenters {
            check_datacenter(&datacenter.name).map_err(|error| error.with("field", "name"))?;
            if datacenter.name == crate::files::stores::OUTSIDE {
                return refuse("datacenters", "none can be called outside: choose another name");
            }
            if !names.insert(&datacenter.name) {
                return refuse("datacenters", &format!("{} is there twice", datacenter.name));
            }
            datacenter.check()?;
        }
        let is_url = |text: &String| text.starts_with("http://") || text.starts_with("https://");
        if self.address.as_ref().is_some_and(|address| !is_url(address)) {
            return refuse("address", "use a URL, such as http://cloud.example.com:8080");
        }
        self.stores.iter().try_for_each(OutsideStore::check)
    }
}

impl DatacenterConfig {
    /// Its store, if its files are in no directory.
    pub(crate) fn store_url(&self) -> Option<&StoreUrl> {
        match &self.files {
            Some(Location::Store(url)) => Some(url),
            _ => None,
        }
    }

    /// Whether its jobs see their files by a mount.
    pub(crate) fn is_mounted(&self) -> bool {
        let is_needed = self.store_url().is_some() && self.backend == BackendKind::Local;
        self.mount.unwrap_or(is_needed)
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: &str| Err(Error::invalid(why.to_owned()).with("datacenter", &self.name));
        for (index, queue) in self.queues.iter().enumerate() {
            queue.check(self)?;
            if self.queues[..index].iter().any(|other| other.name == queue.name) {
                return refuse(&format!("queues: {} is there twice", queue.name));
            }
        }
        let scheme = self.store_url().map(|url| url.scheme);
        self.store.check(scheme).map_err(|error| error.with("datacenter", &self.name))?;
        if self.capacity.as_ref().is_some_and(|capacity| capacity.jobs.is_some()) {
            return refuse("capacity.jobs: a datacenter is not limited by jobs, use replicas");
        }
        if self.capacity.as_ref().is_some_and(|capacity| capacity.disk.is_some()) {
            return refuse("capacity.disk: a datacenter is as large as its disk, use quota");
        }
        if self.is_mounted() && self.backend != BackendKind::Local {
            return refuse("mount: only jobs of backend local see mounted files");
        }
        let given = [
            (BackendKind::Ssh, self.ssh.is_some()),
            (BackendKind::Mpi, self.mpi.is_some()),
            (BackendKind::Slurm, self.slurm.is_some()),
            (BackendKind::Kubernetes, self.kubernetes.is_some()),
        ];
        if let Some((other, _)) =
            given.iter().find(|(kind, is_given)| *is_given && *kind != self.backend)
        {
            let (other, own) = (other.word(), self.backend.word());
            return refuse(&format!("`{other}:` is for backend {other}, and this one is {own}"));
        }
        match self.backend {
            BackendKind::Local => Ok(()),
            BackendKind::Ssh if self.ssh.as_ref().is_some_and(|ssh| !ssh.hosts.is_empty()) => {
                Ok(())
            }
            BackendKind::Ssh => refuse("backend ssh needs `ssh:` with hosts"),
            BackendKind::Mpi if self.mpi.as_ref().is_some_and(|mpi| mpi.ranks > 0) => Ok(()),
            BackendKind::Mpi => refuse("backend mpi needs `mpi:` with ranks"),
            // Slurm has an answer to everything that is not said.
            BackendKind::Slurm => Ok(()),
            BackendKind::Kubernetes => match &self.kubernetes {
                Some(own) => own.check().map_err(|error| error.with("datacenter", &self.name)),
                None => refuse("backend kubernetes needs `kubernetes:` with a volume"),
            },
        }
    }

    /// Whether packages are sent to the machines that run its jobs.
    pub(crate) fn sends_packages(&self) -> bool {
        match self.backend {
            BackendKind::Local | BackendKind::Mpi | BackendKind::Kubernetes => false,
            BackendKind::Ssh => true,
            BackendKind::Slurm => !self.slurm.as_ref().is_some_and(|slurm| slurm.shares_files),
        }
    }

    /// What its jobs may use together. On the server's own machine processors are shared by far
    /// more replicas than there are, because most of them wait most of the time, and memory by
    /// some, because what is asked for is rarely used.
    pub(crate) fn capacity(&self, machine: Machine) -> Limits {
        let given = self.capacity.clone().unwrap_or_default();
        if self.backend != BackendKind::Local {
            return given;
        }
        let memory = machine.memory_bytes.saturating_mul(MEMORY_OVERCOMMIT);
        Limits {
            cpu: given.cpu.or(Some(Quantity::whole(machine.cores.saturating_mul(CPU_OVERCOMMIT)))),
            memory: given.memory.or(Some(Quantity::from_milli(memory.saturating_mul(1000)))),
            gpu: given.gpu.or(Some(Quantity::whole(machine.gpus))),
            replicas: given.replicas.or(Some(REPLICAS)),
            jobs: None,
            disk: None,
        }
    }
}

/// Cores that are promised for each one there is.
const CPU_OVERCOMMIT: u32 = 16;
/// Bytes that are promised for each one there is.
const MEMORY_OVERCOMMIT: u64 = 4;
/// Replicas on one machine, where nobody says.
const REPLICAS: u32 = 1000;

/// What the server's machine has.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    /// Processors.
    pub cores: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// Devices.
    pub gpus: u32,
}

impl Machine {
    /// This machine.
    pub(crate) fn here() -> Self {
        let system = rustix::system::sysinfo();
        let memory_bytes = system.totalram.saturating_mul(system.mem_unit.into());
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
        let is_gpu = |name: &str| {
            name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok())
        };
        let devices = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        let gpus = devices.filter(|entry| is_gpu(&entry.file_name().to_string_lossy())).count();
        Machine {
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_bytes,
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(yaml: &str) -> String {
        let config = Config::from_yaml(yaml).and_then(|mut config| {
            config.data_dir = PathBuf::from("/data");
            config.check()
        });
        config.unwrap_err().to_string()
    }

    #[test]
    fn nothing_needs_to_be_said() {
        let config = Config { data_dir: "/data".into(), ..Config::from_yaml("{}").unwrap() };
        config.check().unwrap();
        assert_eq!(config.datacenters[0].name, "local");
    }

    #[test]
    fn what_is_wrong_is_named() {
        insta::assert_snapshot!(error("colour: red").lines().next().unwrap(), @"the configuration cannot be read: unknown field `colour`, expected one of `data_dir`, `listen`, `database`, `tls`, `datacenters`, `quota`, `isolation`, `trusts_configurations`, `uids`, `session_hours`, `limits`, `fairness`, `address`, `stores`, `proxies`");
        insta::assert_snapshot!(error("datacenters: [{name: a, backend: ssh}]"), @"backend ssh needs `ssh:` with hosts (datacenter: a)");
        insta::assert_snapshot!(error("datacenters: [{name: a, backend: slurm, mpi: {ranks: 2}}]"), @"`mpi:` is for backend mpi, and this one is slurm (datacenter: a)");
        insta::assert_snapshot!(error("datacenters: [{name: a, backend: slurm, slurm: {queue: b}}]").lines().next().unwrap().split(',').next().unwrap(), @"the configuration cannot be read: datacenters[0].slurm: unknown field `queue`");
        insta::assert_snapshot!(error("datacenters: [{name: a}, {name: a}]"), @"datacenters: a is there twice (field: datacenters)");
        insta::assert_snapshot!(error("quota: {cpu: many}"), @"the configuration cannot be read: quota.cpu: not a quantity: use a number with an optional suffix m, k, M, G, T, P, Ki, Mi, Gi, Ti or Pi, such as 2, 1500m, 0.5, 100M or 512Mi (quantity: many) at line 1 column 14");
        insta::assert_snapshot!(error("uids: {first: 0}"), @"uids: begin at 1000 or later, and end below 2^32 (field: uids)");
    }

    #[test]
    fn jobs_see_a_store_by_a_mount_unless_somebody_says_otherwise() {
        let check = |yaml: &str, expect: bool| {
            let config = Config::from_yaml(&format!("datacenters: [{{name: a{yaml}}}]")).unwrap();
            assert_eq!(config.datacenters[0].is_mounted(), expect, "{yaml}");
        };
        check("", false);
        check(", mount: true", true);
        check(", files: /mnt/ceph", false);
        check(", files: 's3://bucket'", true);
        check(", files: 's3://bucket', mount: false", false);
        check(", files: 's3://bucket', backend: mpi", false);
        insta::assert_snapshot!(error("datacenters: [{name: a, backend: mpi, mount: true}]"), @"mount: only jobs of backend local see mounted files (datacenter: a)");
    }

    #[test]
    fn ten_trainers_and_three_servers_fit_on_two_cores() {
        let machine = Machine { cores: 2, memory_bytes: 4 << 30, gpus: 0 };
        let capacity = DatacenterConfig::local("dc").capacity(machine);
        assert!(capacity.cpu.unwrap() >= Quantity::whole(13));
        assert!(capacity.memory.unwrap().bytes() >= 13 << 30);
    }
}
