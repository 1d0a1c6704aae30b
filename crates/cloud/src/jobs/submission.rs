//! A job of the cloud as one that a backend takes. Pure: what it depends on is in [`Surroundings`].

use super::row::JobRow;
use crate::config::{BackendKind, DatacenterConfig, SlurmConfig};
use contract::api::quota::Limits;
use contract::job::{JobSpec, Priority};
use contract::path::PfsPath;
use contract::port::Ports;
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use scheduler::Submission;
use scheduler::ssh::package::Manifest;
use scheduler::submission::{
    CLOUD, LocalPlace, Mount, MpiPlace, MpiStart, Package, Place, RunAs, Sandbox, SlurmPlace,
    SshPlace,
};
use std::collections::BTreeMap;
use std::path::Path;

/// What is around a job.
pub(crate) struct Surroundings<'a> {
    /// Its datacenter.
    pub(crate) config: &'a DatacenterConfig,
    /// Its user's home, on the server's disk.
    pub(crate) home: &'a Path,
    /// The public area, on the server's disk.
    pub(crate) public: &'a Path,
    /// Its package, on the server's disk.
    pub(crate) workspace: &'a Path,
    /// The files of the package, where it has to be sent to other machines.
    pub(crate) manifest: Option<Manifest>,
    /// How it is kept apart; `None` where that is not possible.
    pub(crate) sandbox: Option<&'a Sandbox>,
    /// The user id that it runs as where it is kept apart.
    pub(crate) uid: u32,
    /// What its user may use.
    pub(crate) limits: Limits,
    /// The variables that it inherits.
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Credentials by name, such as those of an image registry.
    pub(crate) secrets: BTreeMap<String, Secret>,
    /// A fresh secret for its replicas.
    pub(crate) token: Secret,
}

/// What a backend is asked to run.
///
/// # Errors
/// The package is not in the file system.
pub(crate) fn submission(row: &JobRow, around: &Surroundings<'_>) -> Result<Submission> {
    let config = around.config;
    let path = PfsPath::parse(&row.spec.package, &row.datacenter)?;
    let is_apart = around.sandbox.is_some();
    let text = |path: &Path| {
        path.to_str().map(str::to_owned).ok_or_else(|| {
            Error::new(Kind::Invalid, "the package's path is not UTF-8")
                .with("path", path.display())
        })
    };
    let (place, package) = match config.backend {
        BackendKind::Local => {
            let package = match is_apart {
                true => path.to_string(),
                false => text(around.workspace)?,
            };
            (Place::Local(local(row, around)), Package::Present(package))
        }
        BackendKind::Ssh => {
            let manifest = around.manifest.clone().unwrap_or_default();
            (Place::Ssh(ssh(row, config, around)?), Package::Dispatch(manifest))
        }
        BackendKind::Mpi => {
            let package = Package::Present(text(around.workspace)?);
            (Place::Mpi(mpi(row, config, around)?), package)
        }
        BackendKind::Slurm => {
            let package = match &around.manifest {
                Some(manifest) => Package::Dispatch(manifest.clone()),
                None => Package::Present(text(around.workspace)?),
            };
            (Place::Slurm(slurm(row, config, around)), package)
        }
        BackendKind::Kubernetes => {
            let cluster = config.kubernetes.as_ref();
            let cluster = cluster.ok_or_else(|| Error::invalid("the datacenter has no cluster"))?;
            let whose = (row.datacenter.as_str(), row.username.as_str());
            let place = cluster.place(whose, around.home, &around.limits);
            (Place::Kubernetes(place), Package::Present(path.to_string()))
        }
    };
    let has_own_user = is_apart || config.backend == BackendKind::Kubernetes;
    let mounts = if is_apart { mounts(row, around) } else { Vec::new() };
    Ok(Submission {
        id: row.uid.clone(),
        origin: CLOUD.to_owned(),
        spec: spec(row, config),
        token: around.token.clone(),
        secrets: around.secrets.clone(),
        run_as: has_own_user.then_some(RunAs { uid: around.uid, gid: around.uid }),
        mounts,
        place,
        package,
    })
}

/// The queue and the priority were honoured by the cloud: to the backend it is a job like others.
fn spec(row: &JobRow, config: &DatacenterConfig) -> JobSpec {
    let mut spec = row.spec.clone();
    spec.queue = String::new();
    // Slurm has a queue too, where a priority that it knows counts once more: a low one is known
    // everywhere, as `nice`.
    let counts = |slurm: &SlurmConfig| {
        spec.priority == Priority::Low || slurm.priorities.contains_key(&spec.priority)
    };
    if !config.slurm.as_ref().is_some_and(counts) {
        spec.priority = Priority::Normal;
    }
    // Jobs share a machine, so the documented port is only where a job has machines of its own.
    let has_machines = matches!(config.backend, BackendKind::Ssh | BackendKind::Kubernetes);
    if !has_machines && spec.ports.first == Ports::default().first {
        spec.ports.first = 0;
    }
    if let Some(cluster) = &config.kubernetes {
        spec.queue.clone_from(&cluster.queue);
        // The image does not know the user.
        let home = format!("/pfs/{}/home/{}", row.datacenter, row.username);
        // Pods keep nothing: a master that is started again has to find what it knew.
        if spec.master && spec.restarts > 0 && spec.checkpoint.dir.is_empty() {
            let is_own = Path::new(&spec.package).starts_with(&home);
            let folder = if is_own { &spec.package } else { &home };
            spec.checkpoint.dir = format!("{folder}/checkpoint");
        }
        for (name, value) in [("HOME", home), ("USER", row.username.clone())] {
            spec.env.entry(name.to_owned()).or_insert(value);
        }
    }
    // Jobs that share a directory do not share their logs.
    if row.package.is_none() && spec.log_dir == JobSpec::default().log_dir {
        spec.log_dir = format!("{}/{}", spec.log_dir, row.name);
    }
    for (name, value) in &config.environment {
        spec.env.entry(name.clone()).or_insert_with(|| value.clone());
    }
    spec
}

fn environment(row: &JobRow, around: &Surroundings<'_>) -> BTreeMap<String, String> {
    let mut environment = around.environment.clone();
    let home = match around.sandbox {
        Some(_) => format!("/pfs/{}/home/{}", row.datacenter, row.username),
        None => around.home.to_string_lossy().into_owned(),
    };
    environment.insert("HOME".to_owned(), home);
    environment.insert("USER".to_owned(), row.username.clone());
    environment
}

fn local(row: &JobRow, around: &Surroundings<'_>) -> LocalPlace {
    LocalPlace {
        isolates: true,
        environment: environment(row, around),
        sandbox: around.sandbox.cloned(),
    }
}

fn mounts(row: &JobRow, around: &Surroundings<'_>) -> Vec<Mount> {
    let dc = &row.datacenter;
    let mount = |source: &Path, target: String, is_read_only| Mount {
        source: source.to_owned(),
        target: target.into(),
        is_read_only,
    };
    vec![
        mount(around.home, format!("/pfs/{dc}/home/{}", row.username), false),
        mount(around.public, format!("/pfs/{dc}/public"), true),
        mount(around.public, "/pfs/public".to_owned(), true),
    ]
}

fn ssh(row: &JobRow, config: &DatacenterConfig, around: &Surroundings<'_>) -> Result<SshPlace> {
    let ssh = config.ssh.as_ref().ok_or_else(|| Error::invalid("the datacenter has no hosts"))?;
    let of_queue = config.queue(&row.spec.queue).filter(|queue| !queue.hosts.is_empty());
    Ok(SshPlace {
        hosts: of_queue.map_or(&ssh.hosts, |queue| &queue.hosts).clone(),
        root_dir: ssh.root_dir.clone(),
        nic: ssh.nic.clone(),
        ld_library_path: String::new(),
        paddle: ssh.paddle.clone(),
        ssh_config: ssh.ssh_config.clone(),
        shard_train_list: false,
        may_ask: false,
        results: around.workspace.to_owned(),
    })
}

fn mpi(row: &JobRow, config: &DatacenterConfig, around: &Surroundings<'_>) -> Result<MpiPlace> {
    let mpi = config.mpi.as_ref().ok_or_else(|| Error::invalid("the datacenter has no ranks"))?;
    let queue = config.queue(&row.spec.queue);
    let of_queue = queue.map(|queue| &queue.hostfile).filter(|text| !text.is_empty());
    Ok(MpiPlace {
        ranks: queue.and_then(|queue| queue.ranks).unwrap_or(mpi.ranks),
        hostfile: of_queue.unwrap_or(&mpi.hostfile).clone(),
        mpirun_arguments: mpi.arguments.clone(),
        nic: mpi.nic.clone(),
        port: 0,
        start: MpiStart::Mpirun,
        environment: environment(row, around),
    })
}

fn slurm(row: &JobRow, config: &DatacenterConfig, around: &Surroundings<'_>) -> SlurmPlace {
    let slurm = config.slurm.clone().unwrap_or_default();
    let mut environment = environment(row, around);
    if let (false, Some(home)) = (slurm.shares_files, around.environment.get("HOME")) {
        // The user's home is not on the nodes.
        environment.insert("HOME".to_owned(), home.clone());
    }
    if let Some(conf) = slurm.conf {
        environment.insert("SLURM_CONF".to_owned(), conf.to_string_lossy().into_owned());
    }
    let queue = config.queue(&row.spec.queue).map(|queue| queue.partition.clone());
    let partition = queue.filter(|partition| !partition.is_empty());
    SlurmPlace {
        nodes: slurm.nodes,
        partition: partition.unwrap_or(slurm.partition),
        account: slurm.account,
        qos: slurm.qos,
        qos_of: slurm.priorities,
        constraint: slurm.constraint,
        reservation: slurm.reservation,
        gpu_type: slurm.gpu_type,
        sbatch_arguments: slurm.arguments,
        queue_seconds_max: slurm.queue_seconds_max,
        root_dir: slurm.root_dir,
        nic: slurm.nic,
        port: 0,
        paddle: slurm.paddle,
        shard_train_list: false,
        environment,
        results: around.workspace.to_owned(),
    }
}
