//! What a replica is told: one structure, written as environment variables and read back.
//!
//! Several generations of programs look for the same fact under different names, so every fact is
//! set under all of them, and read from the first that has a value. An empty value counts as
//! none, as manifests are full of them. Nothing here touches the process: `cli` and `python` pass
//! in a lookup, and `paddle.init` arguments win over what it finds.
//!
//! Each fact is one row of `FACTS`; what its names mean to people is in [`VARIABLES`].

use std::collections::BTreeMap;

use crate::job::JobSpec;
use crate::mode::Mode;
use crate::port::{Endpoint, Ports};
use crate::role::Role;
use crate::secret::Secret;
use crate::{Error, Result};

mod fact;
mod variable;

use fact::FACTS;
pub use variable::{STAGE, SetBy, VARIABLES, Variable, variable};

/// What one replica knows of its job. The default is what an empty environment says: a trainer
/// that is alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// The job's name.
    pub job: String,
    /// Who runs it.
    pub user: String,
    /// Where it runs.
    pub datacenter: String,
    /// The directory of the program.
    pub package: String,
    /// The shell command of a trainer.
    pub entry: String,
    /// The V1 configuration, instead of an entry.
    pub topology: String,
    /// How often to go through the data; `None` leaves it to the program.
    pub passes: Option<u32>,
    /// How gradients meet.
    pub mode: Mode,
    /// What this replica is.
    pub role: Role,
    /// Its rank in its role, if it is known.
    pub rank: Option<u32>,
    /// How often this rank was restarted.
    pub attempt: u32,
    /// Whether to compute on devices.
    pub use_gpu: bool,
    /// Threads, or devices, inside one trainer: `trainer_count`.
    pub threads: u32,
    /// Its address, as the others see it.
    pub address: String,
    /// Its name on the cluster.
    pub pod_name: String,
    /// The Kubernetes namespace of the job.
    pub namespace: String,
    /// Where it writes its logs.
    pub log_dir: String,
    /// Where trainer 0 saves the model.
    pub output_dir: String,
    /// Where servers keep checkpoints.
    pub checkpoint_dir: String,
    /// Seconds between two checkpoints, if the user said it.
    pub checkpoint_interval_seconds: Option<u64>,
    /// The checkpoint that servers begin with: `latest`, `common` or a number; empty for none.
    pub restore: String,
    /// The number of trainers: `num_gradient_servers`.
    pub trainers: u32,
    /// The number of parameter servers.
    pub pservers: u32,
    /// Where the parameter servers are, by rank; empty while it is not known.
    pub pserver_endpoints: Vec<Endpoint>,
    /// Where the trainers are, by rank; empty while it is not known.
    pub trainer_hosts: Vec<Endpoint>,
    /// Where the master is, if the job has one.
    pub master: Option<Endpoint>,
    /// The ports of a parameter server, where its endpoint does not say.
    pub ports: Ports,
    /// Whether training has no parameter servers.
    pub is_local: bool,
    /// How long to wait for a server's answer, if the user said it.
    pub rpc_deadline_ms: Option<u64>,
    /// The secret by which the replicas of a job know each other.
    pub token: Option<Secret>,
}

impl Default for Environment {
    fn default() -> Self {
        Environment {
            job: String::new(),
            user: String::new(),
            datacenter: String::new(),
            package: String::new(),
            entry: String::new(),
            topology: String::new(),
            passes: None,
            mode: Mode::Sync,
            role: Role::Trainer,
            rank: None,
            attempt: 0,
            use_gpu: false,
            threads: 1,
            address: String::new(),
            pod_name: String::new(),
            namespace: String::new(),
            log_dir: String::new(),
            output_dir: String::new(),
            checkpoint_dir: String::new(),
            checkpoint_interval_seconds: None,
            restore: String::new(),
            trainers: 1,
            pservers: 0,
            pserver_endpoints: Vec::new(),
            trainer_hosts: Vec::new(),
            master: None,
            ports: Ports::default(),
            is_local: true,
            rpc_deadline_ms: None,
            token: None,
        }
    }
}

impl Environment {
    /// What the spec alone says to a replica. The backend adds addresses, directories, the attempt
    /// and the token.
    pub fn of(spec: &JobSpec, role: Role, rank: u32) -> Self {
        Environment {
            job: spec.name.clone(),
            user: spec.user.clone(),
            datacenter: spec.datacenter.clone(),
            package: spec.package.clone(),
            entry: spec.command(),
            topology: spec.topology.clone(),
            passes: spec.passes,
            mode: spec.mode,
            role,
            rank: Some(rank),
            use_gpu: role == Role::Trainer && spec.uses_gpu(),
            threads: if role == Role::Trainer { spec.trainer_count() } else { 1 },
            pod_name: spec.id().replica(role, rank),
            trainers: spec.trainers_max(),
            pservers: spec.pservers,
            is_local: spec.pservers == 0,
            ..Environment::default()
        }
    }

    /// The variables to set, secrets included; a fact without a value has none. A backend that
    /// passes on its own environment removes the rest of [`VARIABLES`] from it first.
    pub fn render(&self) -> BTreeMap<&'static str, String> {
        let values = FACTS.iter().flat_map(|fact| {
            let value = (fact.render)(self);
            fact.names.iter().map(move |name| (*name, value.clone()))
        });
        values.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Reads the variables that `lookup` finds. An error names the variable, its value and what
    /// would be accepted.
    pub fn parse(lookup: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let mut environment = Environment::default();
        let find = |name: &&'static str| {
            lookup(name).filter(|value| !value.is_empty()).map(|value| (*name, value))
        };
        for fact in FACTS {
            if let Some((name, value)) = fact.names.iter().chain(fact.fallbacks).find_map(find) {
                (fact.parse)(&mut environment, &value).map_err(|error| {
                    let shown: String = value.chars().take(SHOWN_CHARACTERS_MAX).collect();
                    error.with("variable", name).with("value", shown)
                })?;
            }
        }
        environment.check()?;
        Ok(environment)
    }

    /// Whether the facts fit together.
    pub fn check(&self) -> Result<()> {
        self.ports.check()?;
        let counts = [
            (self.trainers, "PADDLE_INIT_NUM_GRADIENT_SERVERS"),
            (self.threads, "PADDLE_INIT_TRAINER_COUNT"),
            (self.passes.unwrap_or(1), "PADDLE_INIT_NUM_PASSES"),
        ];
        if let Some((_, variable)) = counts.iter().find(|(count, _)| *count == 0) {
            return Err(Error::invalid(format!("{variable} must be at least 1")).with("value", 0));
        }
        // Only a job with a master may grow beyond the number that it was started with.
        let is_fixed = self.role == Role::Trainer && self.master.is_none();
        match self.rank {
            Some(rank) if is_fixed && rank >= self.trainers => {
                let message = "the rank (PADDLE_INIT_TRAINER_ID) must be below the number of \
                               trainers (PADDLE_INIT_NUM_GRADIENT_SERVERS)";
                Err(Error::invalid(message).with("rank", rank).with("trainers", self.trainers))
            }
            _ => Ok(()),
        }
    }
}

/// A value can be as long as a list of all servers; an error shows its beginning.
const SHOWN_CHARACTERS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;
    use proptest::prelude::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Environment> {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        Environment::parse(|name| find(name).map(|(_, value)| (*value).to_owned()))
    }

    fn error(name: &str, value: &str) -> String {
        parse(&[(name, value)]).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_environment_is_a_trainer_alone() {
        assert_eq!(parse(&[]).unwrap(), Environment::default());
        assert_eq!(
            parse(&[("TOPOLOGY", ""), ("PADDLE_PORT", "")]).unwrap(),
            Environment::default()
        );
    }

    #[test]
    fn a_backend_sets_every_variable_it_promises() {
        let host = |text: &str| text.parse::<Endpoint>().unwrap();
        let environment = Environment {
            job: "ctr".into(),
            user: "wuyi".into(),
            datacenter: "dc1".into(),
            package: "/pfs/dc1/home/wuyi/jobs/ctr".into(),
            entry: "python train.py".into(),
            topology: "conf.py".into(),
            passes: Some(1),
            rank: Some(1),
            threads: 4,
            address: "10.0.0.7".into(),
            pod_name: "ctr-trainer-1".into(),
            namespace: "wuyi".into(),
            log_dir: "log".into(),
            output_dir: "output".into(),
            checkpoint_dir: "checkpoint".into(),
            trainers: 2,
            pservers: 2,
            pserver_endpoints: vec![host("10.0.0.8"), host("[::1]:7170")],
            trainer_hosts: vec![host("10.0.0.6"), host("10.0.0.7")],
            master: Some(host("10.0.0.5:8080")),
            is_local: false,
            token: Some(Secret::new("sesame")),
            ..Environment::default()
        };
        let variables = environment.render();
        insta::assert_json_snapshot!(variables, @r#"
        {
          "ENTRY": "python train.py",
          "NAMESPACE": "wuyi",
          "PADDLE_ATTEMPT": "0",
          "PADDLE_CHECKPOINT_DIR": "checkpoint",
          "PADDLE_CLOUD_CURRENT_DATACENTER": "dc1",
          "PADDLE_CLOUD_USERNAME": "wuyi",
          "PADDLE_CLUSTER_TRAIN": "1",
          "PADDLE_CURRENT_IP": "10.0.0.7",
          "PADDLE_INIT_NUM_GRADIENT_SERVERS": "2",
          "PADDLE_INIT_NUM_PASSES": "1",
          "PADDLE_INIT_PORT": "7164",
          "PADDLE_INIT_PORTS_NUM": "1",
          "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "1",
          "PADDLE_INIT_PSERVERS": "10.0.0.8,[::1]:7170",
          "PADDLE_INIT_TRAINER_COUNT": "4",
          "PADDLE_INIT_TRAINER_ID": "1",
          "PADDLE_INIT_USE_GPU": "0",
          "PADDLE_IS_LOCAL": "0",
          "PADDLE_JOB_NAME": "ctr",
          "PADDLE_JOB_TOKEN": "sesame",
          "PADDLE_LOG_DIR": "log",
          "PADDLE_MASTER_ENDPOINT": "10.0.0.5:8080",
          "PADDLE_MODE": "sync",
          "PADDLE_OUTPUT_DIR": "output",
          "PADDLE_PORT": "7164",
          "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.8:7164,[::1]:7170",
          "PADDLE_PSERVERS_NUM": "2",
          "PADDLE_PSERVER_IPS": "10.0.0.8,[::1]",
          "PADDLE_TRAINERS_NUM": "2",
          "PADDLE_TRAINER_ID": "1",
          "PADDLE_TRAINER_IPS": "10.0.0.6,10.0.0.7",
          "PADDLE_TRAINING_ROLE": "TRAINER",
          "POD_IP": "10.0.0.7",
          "POD_NAME": "ctr-trainer-1",
          "PSERVERS": "2",
          "TOPOLOGY": "conf.py",
          "TRAINERS": "2",
          "TRAINER_PACKAGE": "/pfs/dc1/home/wuyi/jobs/ctr",
          "TRAINING_ROLE": "TRAINER"
        }
        "#);
        let is_promised =
            |known: &&Variable| matches!(known.set_by, SetBy::Backend | SetBy::BackendSecret);
        for promised in VARIABLES.iter().filter(is_promised) {
            assert!(variables.contains_key(promised.name), "{} is not set", promised.name);
        }
        assert!(!format!("{environment:?}").contains("sesame"));
    }

    #[test]
    fn a_hand_written_environment_is_enough() {
        let environment = parse(&[
            ("PADDLE_INIT_USE_GPU", "False"),
            ("PADDLE_INIT_TRAINER_COUNT", "1"),
            ("PADDLE_INIT_PORT", "7164"),
            ("PADDLE_INIT_NUM_GRADIENT_SERVERS", "1"),
            ("PADDLE_INIT_TRAINER_ID", "0"),
            ("PADDLE_INIT_PSERVERS", "127.0.0.1"),
        ])
        .unwrap();
        assert_eq!((environment.pservers, environment.is_local), (1, false));
        assert_eq!(environment.rank, Some(0));
    }

    #[test]
    fn the_first_name_with_a_value_wins() {
        let check = |variables: &[(&str, &str)], rank, trainers| {
            let environment = parse(variables).unwrap();
            assert_eq!((environment.rank, environment.trainers), (Some(rank), trainers));
        };
        let slurm = [("SLURM_PROCID", "4"), ("SLURM_NTASKS", "5")];
        let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4")];
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "3")];
        let fluid = [("PADDLE_TRAINER_ID", "1"), ("PADDLE_TRAINERS_NUM", "2")];
        let init = [("PADDLE_INIT_TRAINER_ID", "0"), ("TRAINERS", "1")];
        check(&slurm, 4, 5);
        check(&[slurm, pmi].concat(), 3, 4);
        check(&[slurm, pmi, open_mpi].concat(), 2, 3);
        check(&[slurm, pmi, open_mpi, fluid].concat(), 1, 2);
        check(&[slurm, pmi, open_mpi, fluid, init].concat(), 0, 1);
    }

    #[test]
    fn booleans_have_many_spellings() {
        for (text, value) in [
            ("1", true),
            ("true", true),
            ("True", true),
            ("t", true),
            ("YES", true),
            ("on", true),
            ("0", false),
            ("false", false),
            ("False", false),
            ("f", false),
            ("no", false),
            ("off", false),
        ] {
            assert_eq!(parse(&[("PADDLE_INIT_USE_GPU", text)]).unwrap().use_gpu, value);
            assert_eq!(parse(&[("PADDLE_IS_LOCAL", text)]).unwrap().is_local, value);
            assert_eq!(parse(&[("PADDLE_CLUSTER_TRAIN", text)]).unwrap().is_local, !value);
        }
    }

    #[test]
    fn a_bad_value_is_refused_with_its_variable_and_the_accepted_forms() {
        insta::assert_snapshot!(error("PADDLE_INIT_USE_GPU", "maybe"), @"expected 1, true, yes or on, or 0, false, no or off (variable: PADDLE_INIT_USE_GPU, value: maybe)");
        insta::assert_snapshot!(error("PADDLE_PORT", "65536"), @"expected a whole number from 0 to 65535 (variable: PADDLE_PORT, value: 65536)");
        insta::assert_snapshot!(error("PADDLE_INIT_TRAINER_ID", "-1"), @"expected a whole number from 0 to 4294967295 (variable: PADDLE_INIT_TRAINER_ID, value: -1)");
        insta::assert_snapshot!(error("OMPI_COMM_WORLD_RANK", "1"), @"the rank (PADDLE_INIT_TRAINER_ID) must be below the number of trainers (PADDLE_INIT_NUM_GRADIENT_SERVERS) (rank: 1, trainers: 1)");
        insta::assert_snapshot!(error("TRAINERS", "0"), @"PADDLE_INIT_NUM_GRADIENT_SERVERS must be at least 1 (value: 0)");
        insta::assert_snapshot!(error("PADDLE_INIT_PORTS_NUM", "65000"), @"the ports end past 65535: lower the port or their number (port: 7164, ports_num: 65000, ports_num_for_sparse: 1)");
        insta::assert_snapshot!(error("PADDLE_MODE", "fast"), @"not a mode: use sync, async, stale:K (K steps) or hybrid (mode: fast, variable: PADDLE_MODE, value: fast)");
        insta::assert_snapshot!(error("TRAINING_ROLE", "BOSS"), @"not a role: unknown variant `boss`, expected one of `pserver`, `trainer`, `master` (variable: TRAINING_ROLE, value: BOSS)");
        insta::assert_snapshot!(error("PADDLE_INIT_PSERVERS", "a,,b"), @"not an endpoint: use host, host:port, or [address]:port for IPv6, with a port from 1 to 65535 (endpoint: , variable: PADDLE_INIT_PSERVERS, value: a,,b)");
    }

    #[test]
    fn only_a_job_with_a_master_may_have_ranks_beyond_its_size() {
        let grown = [("PADDLE_TRAINER_ID", "5"), ("PADDLE_MASTER_ENDPOINT", "10.0.0.5:8080")];
        assert_eq!(parse(&grown).unwrap().rank, Some(5));
        assert!(parse(&grown[..1]).is_err());
    }

    #[test]
    fn a_spec_tells_each_replica_who_it_is() {
        let mut spec =
            JobSpec { name: "CTR".into(), trainers: 4, pservers: 2, ..JobSpec::default() };
        spec.resources.trainer.cpu = Some(Quantity::from_milli(2500));
        let trainer = Environment::of(&spec, Role::Trainer, 3);
        assert_eq!((trainer.threads, trainer.use_gpu, trainer.is_local), (2, false, false));
        assert_eq!(trainer.pod_name, spec.id().replica(Role::Trainer, 3));
        trainer.check().unwrap();
        spec.resources.trainer.gpu = Quantity::whole(8);
        let trainer = Environment::of(&spec, Role::Trainer, 0);
        assert_eq!((trainer.threads, trainer.use_gpu), (8, true));
        spec.resources.pserver.cpu = Some(Quantity::from_milli(100));
        assert_eq!(Environment::of(&spec, Role::Pserver, 1).threads, 1);
    }

    fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
        let endpoint = "[a-z]{1,9}(:[1-9][0-9]{0,3})?|\\[::[1-9]\\](:80)?";
        prop::collection::vec(endpoint.prop_map(|text| text.parse().unwrap()), 0..4)
    }

    prop_compose! {
        fn environments()(
            texts in prop::collection::vec("\\PC{0,9}", 13),
            (passes, threads, trainers) in (prop::option::of(1..u32::MAX), 1..u32::MAX, 1..u32::MAX),
            mode in prop_oneof![Just(Mode::Async), Just(Mode::Hybrid), any::<u32>().prop_map(Mode::Stale)],
            role in prop::sample::select(&Role::ALL[..]),
            (rank, attempt, pservers) in any::<(Option<u32>, u32, u32)>(),
            (use_gpu, is_local, rpc_deadline_ms) in any::<(bool, bool, Option<u64>)>(),
            (pserver_endpoints, trainer_hosts) in (endpoints(), endpoints()),
            token in prop::option::of("\\PC{1,9}"),
            (first, dense, sparse) in (prop_oneof![Just(0), 1..60_000_u16], 1..1000_u16, 0..1000_u16),
        ) -> Environment {
            let [job, user, datacenter, package, entry, topology, address, pod_name, namespace,
                log_dir, output_dir, checkpoint_dir, restore] = texts.try_into().unwrap();
            let master = pserver_endpoints.first().cloned();
            Environment {
                job, user, datacenter, package, entry, topology, passes, mode, role,
                rank: rank.map(|rank| rank % trainers), attempt, use_gpu, threads, address,
                pod_name, namespace, log_dir, output_dir, checkpoint_dir, restore, trainers,
                pservers,
                pserver_endpoints, trainer_hosts, master,
                ports: Ports { first, dense, sparse }, is_local, rpc_deadline_ms,
                checkpoint_interval_seconds: rpc_deadline_ms,
                token: token.map(Secret::new),
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn every_environment_reads_back(environment in environments()) {
            let variables = environment.render();
            let read = Environment::parse(|name| variables.get(name).cloned()).unwrap();
            prop_assert_eq!(read, environment);
        }

        #[test]
        fn no_value_makes_the_parser_panic(value in "\\PC{0,12}|[0-9:,.-]{0,12}") {
            for known in VARIABLES {
                let _ = parse(&[(known.name, &value)]);
            }
        }
    }
}
