//! What replicas are told.

use crate::backend::job::{Harness, Job};
use crate::backend::processes;
use contract::env::{Environment, SetBy, variable};
use contract::mode::Mode;
use contract::role::Role;
use scheduler::Backend;
use std::collections::BTreeMap;

/// Everything that the contract promises and nothing else.
pub(crate) fn the_environment_is_that_of_the_contract(harness: &dyn Harness) {
    let job = Job::new(harness, 2, "env -0 > environment-$PADDLE_TRAINER_ID").with(|spec| {
        spec.mode = Mode::Async;
        spec.passes = Some(3);
        spec.name = "my_job".to_owned();
        spec.threads = Some(5);
        spec.env.insert("MY_OWN".to_owned(), "a b=c".to_owned());
    });
    job.succeed();
    for rank in 0..2 {
        let told = read(&job.file(rank, &format!("environment-{rank}")));
        assert_eq!(told["MY_OWN"], "a b=c");
        let environment = Environment::parse(|name| told.get(name).cloned()).unwrap();
        assert_eq!(environment.job, "my_job");
        assert_eq!(environment.role, Role::Trainer);
        assert_eq!((environment.rank, environment.trainers), (Some(rank), 2));
        assert_eq!((environment.pservers, environment.is_local), (2, false));
        assert_eq!(environment.pserver_endpoints.len(), 2);
        assert_eq!((environment.mode, environment.passes), (Mode::Async, Some(3)));
        assert_eq!((environment.attempt, environment.threads), (0, 5));
        let token = environment.token.as_ref().unwrap().expose();
        assert_eq!(token, job.submission.token.expose());
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
        assert!(!told.contains_key("PADDLE_CONDUCTOR_KEY"), "programs do not see the ranks' key");
    }
}

fn read(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let entries = text.split('\0').filter_map(|entry| entry.split_once('='));
    entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

pub(crate) fn the_token_is_in_no_argument_list(harness: &dyn Harness) {
    let job = Job::new(harness, 1, "touch started; exec sleep 1000");
    job.submit().await_file(0, "started");
    let token = job.submission.token.expose().to_owned();
    assert!(job.processes().len() >= 2, "the job runs");
    for list in processes::all().into_iter().map(processes::arguments) {
        assert!(!list.contains(&token), "{list}");
    }
    job.block(job.jobs.kill(job.id(), true)).unwrap();
    assert!(!format!("{:?}", job.await_end()).contains(&token));
}
