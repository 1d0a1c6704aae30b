//! The conductor on a real supervisor, with servers that are slow, silent or short-lived: shell
//! scripts in the place of `paddle pserver`.

use contract::env::Environment;
use contract::job::JobSpec;
use contract::role::Role;
use contract::state::{JobState, ReplicaState};
use scheduler::conductor::decide::Decision;
use scheduler::conductor::plan::{HostPlan, JobPlan, PORT, Policy, ReplicaPlan};
use scheduler::conductor::{self, Watch};
use scheduler::{JobRecord, ReplicaId, local};
use std::path::Path;
use tokio::sync::mpsc;

const READY: &str = r#"echo '{"paddle_ready":1,"role":"pserver","addresses":["127.0.0.1"],"port":4321,"ports_num":1,"ports_num_for_sparse":0}'"#;
const STAY: &str = "exec sleep 1000";

/// Remembers what was printed and decided.
#[derive(Default)]
struct Seen {
    lines: Vec<String>,
    reasons: Vec<String>,
}

impl Watch for Seen {
    fn log(&mut self, replica: ReplicaId, text: &str) {
        self.lines.extend(text.lines().map(|line| format!("{replica} {line}")));
    }

    fn decided(&mut self, decision: &Decision, reason: &str) {
        if *decision != Decision::Finish {
            self.reasons.push(reason.to_owned());
        }
    }

    fn changed(&mut self, _: &JobRecord) {}
}

fn replica(folder: &Path, role: Role, script: &str) -> ReplicaPlan {
    let spec = JobSpec { name: "job".to_owned(), pservers: 1, ..JobSpec::default() };
    let id = ReplicaId::new(role, 0);
    let mut environment = Environment::of(&spec, role, 0);
    environment.ports.first = 0;
    ReplicaPlan {
        id,
        host: 0,
        argv: ["sh", "-c", script, "sh", PORT].map(str::to_owned).to_vec(),
        again: vec!["again".to_owned()],
        environment,
        extra: [("FOLDER".to_owned(), folder.to_str().unwrap().to_owned())].into(),
        directory: folder.to_owned(),
        log: format!("{id}.log").into(),
        metrics: None,
    }
}

/// Runs one server and one trainer, both shell scripts.
fn conduct(server: &str, trainer: &str, policy: Policy) -> (JobRecord, Seen) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().to_owned();
    let host = HostPlan {
        name: "localhost".to_owned(),
        address: "127.0.0.1".to_owned(),
        directory: directory.clone(),
    };
    let plan = JobPlan {
        job: "job".to_owned(),
        hosts: vec![host],
        replicas: vec![
            replica(&directory, Role::Pserver, server),
            replica(&directory, Role::Trainer, trainer),
        ],
        policy,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let paddle = Path::new(env!("CARGO_BIN_EXE_paddle"));
        let hosts = vec![local::open(paddle, &directory, true).await.unwrap()];
        let (_sender, stops) = mpsc::channel(1);
        let mut seen = Seen::default();
        let record = conductor::run(&plan, hosts, stops, &mut seen).await.unwrap();
        (record, seen)
    })
}

#[test]
fn trainers_wait_for_a_slow_server_and_learn_its_port() {
    let server = format!("sleep 0.5; touch slow; {READY}; {STAY}");
    let trainer = "[ -e slow ] && echo $PADDLE_INIT_PSERVERS $PADDLE_PORT";
    let (record, seen) = conduct(&server, trainer, Policy::default());
    assert_eq!(record.state, JobState::Succeeded, "{record:?}");
    assert!(seen.lines.contains(&"trainer-0 127.0.0.1:4321 4321".to_owned()), "{:?}", seen.lines);
    assert_eq!(seen.reasons, ["servers first", "all servers are ready", "all trainers finished"]);
}

#[test]
fn a_server_that_does_not_get_ready_ends_the_job() {
    let policy = Policy { ready_ms: 300, ..Policy::default() };
    let (record, _) = conduct(&format!("echo hello; {STAY}"), "true", policy);
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)));
    assert!(record.reason.contains("pserver-0 did not get ready"), "{}", record.reason);
    assert_eq!(record.replicas[1].state, ReplicaState::Pending);
}

#[test]
fn a_server_that_ends_before_it_is_ready_ends_the_job() {
    let (record, _) = conduct("exit 0", "true", Policy::default());
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(1)));
    assert!(record.reason.contains("before it was ready"), "{}", record.reason);
    let (record, _) = conduct("exit 6", "true", Policy::default());
    assert_eq!((record.state, record.exit_code), (JobState::Failed, Some(6)));
}

#[test]
fn a_server_comes_back_at_its_port_and_is_told_to_restore() {
    let first_life = "until [ -e go ]; do sleep 0.01; done; exit 3";
    let server = format!(
        "echo port $1 $2; {READY}; if [ ! \"$2\" ]; then {first_life}; fi; touch back; {STAY}"
    );
    let trainer = "touch go; until [ -e back ]; do sleep 0.01; done";
    let policy = Policy { restarts: 1, ..Policy::default() };
    let (record, seen) = conduct(&server, trainer, policy);
    assert_eq!(record.state, JobState::Succeeded, "{record:?}");
    assert!(seen.lines.contains(&"pserver-0 port 0".to_owned()), "{:?}", seen.lines);
    assert!(seen.lines.contains(&"pserver-0 port 4321 again".to_owned()), "{:?}", seen.lines);
    assert_eq!(record.replicas[0].attempt, 1);
    assert!(seen.reasons.iter().any(|reason| reason.contains("pserver-0 is started again")));
}
