//! A job on its way to a place: what was asked for, under whose id, with which secrets, and where.
//!
//! A submission is plain data. It is written to disk before it is acknowledged, and everything that
//! runs the job later is made from it alone, so it holds nothing that only the submitter's process
//! knows.

use crate::ssh::host::Host;
use crate::ssh::package::{Manifest, hexadecimal};
use contract::job::{JobSpec, Priority};
use contract::secret::Secret;
use contract::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The [`Submission::origin`] of the shared service's jobs.
pub const CLOUD: &str = "cloud";

/// A job to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The caller's name for it. Submitting the same job again under the same id starts nothing
    /// new; another job under a known id is a conflict.
    pub id: String,
    /// Whose job it is: [`crate::Backend::list`] shows the jobs of one origin, so that two services
    /// can share a cluster. Trainers' logs of [`CLOUD`] begin with the lines of the original, which
    /// say where the job runs.
    pub origin: String,
    /// What was asked for.
    pub spec: JobSpec,
    /// The secret by which the replicas know each other.
    #[serde(with = "secret")]
    pub token: Secret,
    /// Credentials by name, such as those of an image registry.
    #[serde(with = "secrets", default)]
    pub secrets: BTreeMap<String, Secret>,
    /// The user and group that replicas run as; `None` for those of the submitter.
    #[serde(default)]
    pub run_as: Option<RunAs>,
    /// Directories that replicas see at other paths.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Where it runs.
    pub place: Place,
    /// Where its program comes from.
    pub package: Package,
}

/// The user and group of a process. It has no other groups and no privileges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunAs {
    /// The user's id.
    pub uid: u32,
    /// The group's id.
    pub gid: u32,
}

/// A directory that replicas see at another path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    /// Where it is.
    pub source: PathBuf,
    /// Where replicas see it.
    pub target: PathBuf,
    /// Whether they may not write to it.
    pub is_read_only: bool,
}

/// Where the program of a job comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Package {
    /// It is at this path wherever a replica runs. On ssh hosts `~/` is the home there.
    Present(String),
    /// It is copied to every machine. Its files come with the submission, and are kept by whoever
    /// accepted it.
    Dispatch(Manifest),
}

/// A kind of place that runs jobs, with what has to be known to reach it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The machine of the conductor.
    Local(LocalPlace),
    /// Machines that are reached by ssh.
    Ssh(SshPlace),
    /// Where `mpirun` puts its processes.
    Mpi(MpiPlace),
    /// Nodes that Slurm gives.
    Slurm(SlurmPlace),
    /// Pods of a Kubernetes cluster.
    Kubernetes(KubernetesPlace),
}

/// The machine of the conductor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LocalPlace {
    /// Whether replicas have a PID namespace where that is permitted.
    pub isolates: bool,
    /// The variables that programs inherit, such as `PATH`: those of whoever submitted the job, so
    /// that it does not matter who starts its processes later.
    pub environment: BTreeMap<String, String>,
    /// What keeps replicas away from the machine and from other jobs; `None` for programs of
    /// whoever owns the machine. Needs `run_as`, and implies a PID namespace.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
}

/// The limits of what replicas on this machine can see. Each has a root of its own, which its user
/// may write to and which goes when the replica ends (`docs/isolation.md`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Directories that replicas read at their own paths, also below one that their user may not
    /// enter: the Python installation, the virtual environment, the directory of `paddle`.
    pub exposed: Vec<PathBuf>,
    /// Directories that look empty, whoever may read them outside.
    pub hidden: Vec<PathBuf>,
}

/// Machines that are reached by ssh.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshPlace {
    /// The machines. Replicas are dealt out to them in turn.
    pub hosts: Vec<Host>,
    /// Where job directories are made on each; `~/` is the home there.
    pub root_dir: String,
    /// The interface that servers listen on; empty for all.
    pub nic: String,
    /// `LD_LIBRARY_PATH` of every replica; empty to leave it alone.
    pub ld_library_path: String,
    /// The command `paddle` on the hosts: a name to be found there, or a path.
    pub paddle: String,
    /// The configuration of ssh on the conductor's machine, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Whether each host keeps only its own part of `train.list`.
    pub shard_train_list: bool,
    /// Whether a person at the conductor's terminal can be asked for passwords.
    pub may_ask: bool,
    /// The directory, on the conductor's machine, to which the logs of all hosts and the output of
    /// the first are brought.
    pub results: PathBuf,
}

/// Where `mpirun` puts its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MpiPlace {
    /// How many processes `mpirun` starts. Replicas are dealt out to them in turn.
    pub ranks: u32,
    /// The text of the list of machines; empty to leave it to `mpirun`.
    pub hostfile: String,
    /// More arguments for `mpirun`.
    pub mpirun_arguments: Vec<String>,
    /// The interface that servers listen on; empty for all.
    pub nic: String,
    /// The port on which the conductor waits for the ranks; 0 lets the system choose.
    pub port: u16,
    /// How the ranks come to be.
    pub start: MpiStart,
    /// The variables that `mpirun` and programs on this machine inherit.
    pub environment: BTreeMap<String, String>,
}

/// Nodes that Slurm gives: one allocation for a job. In texts, empty leaves it to Slurm.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlurmPlace {
    /// How many nodes; 0 for one for each trainer and server. Replicas are dealt out in turn.
    pub nodes: u32,
    /// The partition.
    pub partition: String,
    /// The account that pays.
    pub account: String,
    /// The quality of service.
    pub qos: String,
    /// The quality of service of jobs with a priority, instead.
    pub qos_of: BTreeMap<Priority, String>,
    /// Which nodes: features, as `sbatch --constraint` takes them.
    pub constraint: String,
    /// The reservation.
    pub reservation: String,
    /// The kind of GPU, for jobs that use some.
    pub gpu_type: String,
    /// More arguments for `sbatch`.
    pub sbatch_arguments: Vec<String>,
    /// How long the job may wait for its nodes; no limit if absent.
    pub queue_seconds_max: Option<u64>,
    /// Where nodes keep what they need for a job, and copies of a package that is sent; `~/` is the
    /// home there.
    pub root_dir: String,
    /// The interface that servers listen on; empty for all.
    pub nic: String,
    /// The port on which the conductor waits for the nodes; 0 lets the system choose.
    pub port: u16,
    /// The command `paddle` on the nodes; empty for the path of the conductor's own.
    pub paddle: String,
    /// Whether each node keeps only its own part of `train.list`.
    pub shard_train_list: bool,
    /// The variables that Slurm's commands and programs inherit.
    pub environment: BTreeMap<String, String>,
    /// The directory, on the conductor's machine, to which the logs of all nodes and the output of
    /// the first are brought, if a package was sent.
    pub results: PathBuf,
}

/// A namespace of a Kubernetes cluster with Volcano.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubernetesPlace {
    /// The kubeconfig; `None` for that of the user, or the service account of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// A context of the kubeconfig; empty for its current one.
    pub context: String,
    /// The namespace of the job's objects.
    pub namespace: String,
    /// The image of pods, where the job names none.
    pub image: String,
    /// Secrets of the namespace with which images are fetched.
    pub pull_secrets: Vec<String>,
    /// What pods mount.
    pub volumes: Vec<Volume>,
    /// Whose namespace it is, where every user has one: it is made for them.
    #[serde(default)]
    pub tenant: Option<Tenant>,
    /// Whether the job is one of Volcano; `None` where the cluster is asked whether it has that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volcano: Option<bool>,
}

/// The user of a namespace, and what they may do there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Their name, as the cluster knows it.
    pub user: String,
    /// The ClusterRole that they have in it, such as `view`; empty for none.
    pub role: String,
    /// What all pods in it may use together, as a ResourceQuota has it.
    pub quota: BTreeMap<String, String>,
}

/// A volume of every pod of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Where its files are.
    pub source: VolumeSource,
    /// Where pods see them.
    pub path: String,
    /// The directory of the volume that they see; empty for all of it.
    #[serde(default)]
    pub sub_path: String,
    /// Whether they may not write to it.
    pub is_read_only: bool,
    /// Where whoever submits the job sees the same files, if they do.
    #[serde(default)]
    pub here: Option<PathBuf>,
}

/// Where the files of a volume are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeSource {
    /// A directory of the machine that the pod is on.
    HostPath {
        /// Its path.
        path: String,
    },
    /// A PersistentVolumeClaim of the namespace.
    Claim {
        /// Its name.
        claim: String,
    },
    /// An NFS server.
    Nfs {
        /// Its address.
        server: String,
        /// The exported directory.
        path: String,
    },
    /// A CephFS.
    Cephfs {
        /// Its monitors, as `host:port`.
        monitors: Vec<String>,
        /// The directory.
        path: String,
        /// Who reads and writes.
        user: String,
        /// The Secret of the namespace with that user's key.
        secret: String,
    },
}

/// Who starts the ranks of an MPI job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MpiStart {
    /// The conductor runs `mpirun`, and runs it again if it has to.
    Mpirun,
    /// Somebody else ran it; rank 0 submitted the job. The ranks prove to belong to it by a secret
    /// that their launcher gave them.
    Joined {
        /// The secret.
        #[serde(with = "secret")]
        key: Secret,
    },
}

/// The longest id of a job.
pub const ID_BYTES_MAX: usize = 200;

impl Submission {
    /// What tells two jobs apart: everything but the secrets, which a submitter may draw anew.
    pub fn digest(&self) -> Result<String> {
        let mut bare = self.clone();
        bare.token = Secret::new("");
        bare.secrets.clear();
        if let Place::Mpi(MpiPlace { start: MpiStart::Joined { key }, .. }) = &mut bare.place {
            *key = Secret::new("");
        }
        // What a namespace is allowed may change; the jobs in it stay the same.
        if let Place::Kubernetes(KubernetesPlace { tenant, .. }) = &mut bare.place {
            *tenant = None;
        }
        let json = serde_json::to_vec(&bare)
            .map_err(|source| Error::invalid("cannot write a submission").because(source))?;
        Ok(hexadecimal(Sha256::new_with_prefix(json)))
    }
}

impl Place {
    /// Its name, as `--backend` takes it.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Local(_) => "local",
            Place::Ssh(_) => "ssh",
            Place::Mpi(_) => "mpi",
            Place::Slurm(_) => "slurm",
            Place::Kubernetes(_) => "kubernetes",
        }
    }
}

/// Checks that an id can name a directory.
///
/// # Errors
/// It is empty, too long, begins with a dot, or has other characters than letters, digits, `-`,
/// `_` and `.`.
pub fn check_id(id: &str) -> Result<()> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !id.is_empty()
        && id.len() <= ID_BYTES_MAX
        && !id.starts_with('.')
        && id.chars().all(is_plain)
    {
        return Ok(());
    }
    let message = "not the id of a job: use letters, digits, `-`, `_` and `.`, not a dot first";
    Err(Error::new(Kind::Invalid, message).with("id", id.escape_debug()))
}

/// A job on this machine, for tests.
#[cfg(test)]
pub(crate) fn sample(spec: JobSpec) -> Submission {
    Submission {
        id: "job-1".into(),
        origin: "test".into(),
        spec: JobSpec {
            name: "ctr".into(),
            user: "wuyi".into(),
            datacenter: "local".into(),
            program: vec!["python".into(), "train.py".into()],
            ..spec
        },
        token: Secret::new("sesame"),
        secrets: BTreeMap::new(),
        run_as: None,
        mounts: Vec::new(),
        place: Place::Local(LocalPlace {
            isolates: true,
            environment: BTreeMap::new(),
            sandbox: None,
        }),
        package: Package::Present("/home/paddle/JOB".into()),
    }
}

/// A secret has no serialization of its own, so that none is written by accident. A submission is
/// written to one file, which only its owner can read.
mod secret {
    use contract::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        secret: &Secret,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

mod secrets {
    use contract::secret::Secret;
    use serde::{Deserialize, Deserializer, Serializer};
    use std::collections::BTreeMap;

    pub(super) fn serialize<S: Serializer>(
        secrets: &BTreeMap<String, Secret>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(secrets.iter().map(|(name, secret)| (name, secret.expose())))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<String, Secret>, D::Error> {
        let texts = BTreeMap::<String, String>::deserialize(deserializer)?;
        Ok(texts.into_iter().map(|(name, text)| (name, Secret::new(text))).collect())
    }
}
