//! What replicas are told.

use crate::launch::job::{Harness, Job, processes_with, signal};
use contract::env::{Environment, SetBy, variable};
use contract::mode::Mode;
use contract::role::Role;
use std::collections::BTreeMap;

/// Everything that the contract promises and nothing else, whatever the launcher itself was told.
pub(crate) fn the_environment_is_that_of_the_contract(harness: &dyn Harness) {
    let job = Job::new(harness, 2);
    let script = "env -0 > environment-$PADDLE_TRAINER_ID";
    let flags = ["--async", "--passes=3", "--env=MY_OWN=a b=c", "--name=my_job"];
    let mut command = job.command(&flags, &["sh", "-c", script]);
    command.env("PADDLE_MASTER_ENDPOINT", "stale:1").env("PADDLE_JOB_TOKEN", "stale");
    command.env("PADDLE_INIT_SEED", "7").env("PADDLE_ATTEMPT", "9");
    let ended = job.finish(crate::launch::job::spawn(command));
    assert_eq!(ended.code, 0, "{ended:?}");
    for rank in 0..2 {
        let told = read(&job.file(rank, &format!("environment-{rank}")));
        assert_eq!(told["MY_OWN"], "a b=c");
        let environment = Environment::parse(|name| told.get(name).cloned()).unwrap();
        assert_eq!(environment.job, "my_job");
        assert_eq!(environment.role, Role::Trainer);
        assert_eq!((environment.rank, environment.trainers), (Some(rank), 2));
        assert_eq!((environment.pservers, environment.is_local), (2, false));
        assert_eq!(environment.pserver_endpoints.len(), 2);
        assert_eq!((environment.mode, environment.passes), (Mode::Async, 3));
        assert_eq!((environment.attempt, &environment.master), (0, &None));
        let token = environment.token.as_ref().unwrap().expose();
        assert!(token.len() == 64 && token.bytes().all(|c| c.is_ascii_hexdigit()), "{token}");
        let is_ours = |name: &str| {
            variable(name)
                .is_some_and(|known| matches!(known.set_by, SetBy::Backend | SetBy::BackendSecret))
        };
        let ours: BTreeMap<&str, String> = told
            .iter()
            .filter(|(name, _)| is_ours(name))
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        assert_eq!(ours, environment.render());
    }
}

fn read(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let entries = text.split('\0').filter_map(|entry| entry.split_once('='));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) fn the_token_is_in_no_argument_list(harness: &dyn Harness) {
    let job = Job::new(harness, 1);
    let script = "echo $PADDLE_JOB_TOKEN > token.new; mv token.new token; exec sleep 1000";
    let launch = job.start(&[], script);
    let token = job.await_file(0, "token").trim().to_owned();
    assert_eq!(token.len(), 64);
    let marker = job.folder().to_str().unwrap();
    assert!(processes_with(marker).len() >= 2, "the job runs");
    let lists = std::fs::read_dir("/proc").unwrap().flatten();
    for list in lists.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok()) {
        let list = String::from_utf8_lossy(&list).into_owned();
        assert!(!list.contains(&token), "{list}");
    }
    signal(launch.id(), "TERM");
    let ended = job.finish(launch);
    assert!(!format!("{ended:?}").contains(&token), "{ended:?}");
}
