//! Every environment variable that the project sets or reads, with its meaning.
//!
//! `docs/environment.md` has a row for each; the tidy test compares the two. How a value is
//! written and read is in [`super`].

/// An environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub meaning: &'static str,
    /// A value that it could have.
    pub example: &'static str,
    /// Who gives it a value.
    pub set_by: SetBy,
}

/// Who gives a variable its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetBy {
    /// The backend, for every replica of a job.
    Backend,
    /// As [`SetBy::Backend`], and its value must not be shown.
    BackendSecret,
    /// The receiver of `paddle cluster_train`, for the trainers of its jobs; it must not be shown.
    ReceiverSecret,
    /// The cluster's own software. We read it where a backend says nothing.
    Cluster,
    /// The user, who may leave it out.
    User,
    /// The user, for the `paddle` command itself: it tells nothing about a job.
    CommandUser,
    /// Whoever keeps the processes of a job on a host, to find them again.
    Supervisor,
}

impl Variable {
    /// Whether its value must not be shown.
    pub fn is_secret(&self) -> bool {
        matches!(self.set_by, SetBy::BackendSecret | SetBy::ReceiverSecret)
    }

    /// Whether a job may bring its own value.
    pub fn may_be_set_by_user(&self) -> bool {
        matches!(self.set_by, SetBy::User | SetBy::CommandUser)
    }
}

/// The variable of this name, if it is one of ours.
pub fn variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// What trainers of staged jobs are told: a [`crate::api::cluster_train::Stage`] as JSON.
pub const STAGE: &str = "PADDLE_STAGE";

/// All of them, in the order of the documentation.
pub const VARIABLES: &[Variable] = &[
    // The job.
    backend("PADDLE_JOB_NAME", "the job's name, as typed", "ctr"),
    backend("PADDLE_CLOUD_USERNAME", "who runs the job", "wuyi@example.com"),
    backend(
        "PADDLE_CLOUD_CURRENT_DATACENTER",
        "where the job runs: the first part of its paths",
        "dc1",
    ),
    backend("TRAINER_PACKAGE", "the directory of the program", "/pfs/dc1/home/wuyi/jobs/ctr"),
    backend("ENTRY", "the shell command of a trainer", "python train.py"),
    backend("TOPOLOGY", "the V1 configuration to train, instead of an entry", "trainer_config.py"),
    backend("PADDLE_INIT_NUM_PASSES", "how often to go through the data", "1"),
    backend("PADDLE_MODE", "how gradients meet: sync, async, stale:K or hybrid", "sync"),
    // The replica.
    backend("TRAINING_ROLE", "what this replica is", "TRAINER"),
    backend("PADDLE_TRAINING_ROLE", "as TRAINING_ROLE", "TRAINER"),
    backend("PADDLE_INIT_TRAINER_ID", "the rank of this replica in its role, from 0", "0"),
    backend("PADDLE_TRAINER_ID", "as PADDLE_INIT_TRAINER_ID", "0"),
    backend("PADDLE_ATTEMPT", "how often this rank was restarted", "0"),
    backend("PADDLE_INIT_USE_GPU", "whether to compute on devices", "0"),
    backend("PADDLE_INIT_TRAINER_COUNT", "threads, or devices, inside one trainer", "4"),
    backend("POD_IP", "the address of this replica", "10.0.0.7"),
    backend("PADDLE_CURRENT_IP", "as POD_IP", "10.0.0.7"),
    backend("POD_NAME", "the name of this replica on its cluster", "ctr-trainer-0"),
    backend("NAMESPACE", "the Kubernetes namespace of the job", "wuyi"),
    backend("PADDLE_LOG_DIR", "where this replica writes its logs", "/srv/ctr/log"),
    backend("PADDLE_OUTPUT_DIR", "where trainer 0 saves the model", "/srv/ctr/output"),
    backend("PADDLE_CHECKPOINT_DIR", "where servers keep checkpoints", "/srv/ctr/checkpoint"),
    // The others.
    backend("PADDLE_INIT_NUM_GRADIENT_SERVERS", "the number of trainers", "2"),
    backend("TRAINERS", "as PADDLE_INIT_NUM_GRADIENT_SERVERS", "2"),
    backend("PADDLE_TRAINERS_NUM", "as PADDLE_INIT_NUM_GRADIENT_SERVERS", "2"),
    backend("PSERVERS", "the number of parameter servers", "2"),
    backend("PADDLE_PSERVERS_NUM", "as PSERVERS", "2"),
    backend(
        "PADDLE_INIT_PSERVERS",
        "the parameter servers, each as host or host:port",
        "10.0.0.8,10.0.0.9:7170",
    ),
    backend(
        "PADDLE_PSERVERS_IP_PORT_LIST",
        "as PADDLE_INIT_PSERVERS, always with ports",
        "10.0.0.8:7164,10.0.0.9:7170",
    ),
    backend("PADDLE_PSERVER_IPS", "as PADDLE_INIT_PSERVERS, without ports", "10.0.0.8,10.0.0.9"),
    backend("PADDLE_TRAINER_IPS", "the hosts of the trainers", "10.0.0.6,10.0.0.7"),
    backend("PADDLE_MASTER_ENDPOINT", "the master of a job that has one", "10.0.0.5:8080"),
    backend("PADDLE_INIT_PORT", "the first port of a parameter server", "7164"),
    backend("PADDLE_PORT", "as PADDLE_INIT_PORT", "7164"),
    backend("PADDLE_INIT_PORTS_NUM", "how many ports serve dense parameters", "1"),
    backend("PADDLE_INIT_PORTS_NUM_FOR_SPARSE", "how many more ports serve sparse parameters", "1"),
    backend("PADDLE_IS_LOCAL", "whether training has no parameter servers", "0"),
    backend("PADDLE_CLUSTER_TRAIN", "the contrary of PADDLE_IS_LOCAL", "1"),
    Variable {
        name: "PADDLE_JOB_TOKEN",
        meaning: "the secret by which the replicas of a job know each other",
        example: "5c1b…",
        set_by: SetBy::BackendSecret,
    },
    Variable {
        name: STAGE,
        meaning: "where a node of `paddle cluster_train` fetches its data and sends its results, and \
                  the secret by which it proves to be one",
        example: "{\"url\": \"http://10.0.0.2:8080\", …}",
        set_by: SetBy::ReceiverSecret,
    },
    // What clusters say.
    cluster("OMPI_COMM_WORLD_RANK", "the rank under Open MPI", "0"),
    cluster("OMPI_COMM_WORLD_SIZE", "the number of trainers under Open MPI", "2"),
    cluster("PMI_RANK", "the rank under MPICH and Intel MPI", "0"),
    cluster("PMI_SIZE", "the number of trainers under MPICH and Intel MPI", "2"),
    cluster("SLURM_PROCID", "the rank under Slurm", "0"),
    cluster("SLURM_NTASKS", "the number of trainers under Slurm", "2"),
    cluster("VC_TASK_INDEX", "the rank under Volcano with its plugin `env`", "0"),
    cluster("VK_TASK_INDEX", "as VC_TASK_INDEX, in older releases", "0"),
    cluster("JOB_COMPLETION_INDEX", "the rank in an Indexed Job of Kubernetes", "0"),
    cluster(
        "VC_PSERVER_HOSTS",
        "the parameter servers under Volcano with its plugin `svc`",
        "ctr-pserver-0.ctr,ctr-pserver-1.ctr",
    ),
    cluster(
        "VC_TRAINER_HOSTS",
        "the trainers under Volcano with its plugin `svc`",
        "ctr-trainer-0.ctr,ctr-trainer-1.ctr",
    ),
    // What users add.
    user("PADDLE_TRAINERS", "the number of trainers, in older manifests", "2"),
    user("PADDLE_PSERVERS", "the number of parameter servers, in older manifests", "2"),
    user("CPU_NUM", "threads inside one trainer, in Fluid manifests", "2"),
    user("FLAGS_rpc_deadline", "milliseconds to wait for a server's answer", "180000"),
    user("PADDLE_CHECKPOINT_INTERVAL", "seconds between two checkpoints", "60"),
    user(
        "PADDLE_RESTORE",
        "the checkpoint that servers begin with: latest, common or a number",
        "common",
    ),
    Variable {
        name: "TRAIN_LIST",
        meaning: "the list of files that `paddle_k8s start_trainer v1` shares out to trainers",
        example: "/pfs/dc1/home/wuyi/train.list",
        set_by: SetBy::CommandUser,
    },
    Variable {
        name: "OUTPUT",
        meaning: "where the trainers of `paddle_k8s start_trainer v1` save the model",
        example: "/pfs/dc1/home/wuyi/output",
        set_by: SetBy::CommandUser,
    },
    Variable {
        name: "PADDLE_JOBS_DIR",
        meaning: "where `paddle` keeps what it knows of jobs on this machine",
        example: "/var/lib/paddle/jobs",
        set_by: SetBy::CommandUser,
    },
    Variable {
        name: "PADDLE_SUPERVISOR_DIR",
        meaning: "the supervisor that this process belongs to; what is left of a job is found by it",
        example: "/var/lib/paddle/jobs/ctr-1/machine",
        set_by: SetBy::Supervisor,
    },
];

const fn backend(name: &'static str, meaning: &'static str, example: &'static str) -> Variable {
    Variable { name, meaning, example, set_by: SetBy::Backend }
}

const fn cluster(name: &'static str, meaning: &'static str, example: &'static str) -> Variable {
    Variable { name, meaning, example, set_by: SetBy::Cluster }
}

const fn user(name: &'static str, meaning: &'static str, example: &'static str) -> Variable {
    Variable { name, meaning, example, set_by: SetBy::User }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_there_once_and_explained() {
        for (index, known) in VARIABLES.iter().enumerate() {
            let first = VARIABLES.iter().position(|other| other.name == known.name);
            assert_eq!(first, Some(index), "{} is there twice", known.name);
            assert!(!known.meaning.is_empty() && !known.example.is_empty(), "{}", known.name);
            assert_eq!(variable(known.name), Some(known));
        }
        assert_eq!(variable("PATH"), None);
    }

    #[test]
    fn only_the_tokens_are_secret() {
        let secrets: Vec<_> = VARIABLES.iter().filter(|known| known.is_secret()).collect();
        let tokens = ["PADDLE_JOB_TOKEN", STAGE];
        assert_eq!(secrets, tokens.map(|name| variable(name).unwrap()));
    }
}
