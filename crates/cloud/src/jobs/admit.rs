//! Which waiting jobs may start. Pure: the same queue, the same use and the same time give the same
//! answer, with a reason for every job that has to wait.
//!
//! A job starts with all its replicas or not at all. Which goes first:
//!
//! 1. jobs that have waited longer than their patience, in the order in which they came;
//! 2. then by priority;
//! 3. then those of users who use the smallest part of the datacenter (of the resource of which
//!    they use most);
//! 4. then in the order in which they came.
//!
//! Whoever is behind a job that does not fit may start if there is room for it, or small jobs would
//! wait for nothing. But that alone lets small jobs keep a large one out for ever, each taking the
//! room that another has left. So once a job's patience is over, nothing behind it starts
//! before it does: what runs comes to an end, and then there is room. The same holds for a user's
//! own jobs and their quota. A job that could not start in an empty datacenter, because limits were
//! lowered after it was submitted, holds up nobody.

use super::need::Need;
use contract::api::quota::Limits;
use contract::job::Priority;
use std::collections::{BTreeMap, VecDeque};

/// A job that waits.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) uid: String,
    pub(crate) username: String,
    pub(crate) priority: Priority,
    pub(crate) submitted_ms: u64,
    pub(crate) need: Need,
}

/// What is known when it is decided.
#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// The queue.
    pub(crate) waiting: Vec<Waiting>,
    /// What the running jobs of each user have.
    pub(crate) running: BTreeMap<String, Need>,
    /// The quotas of users who have other ones than the default.
    pub(crate) limits: BTreeMap<String, Limits>,
}

/// What it is decided by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// What the datacenter has.
    pub(crate) capacity: Limits,
    /// The quota of a user, where there is no other.
    pub(crate) quota: Limits,
    /// When room is kept free for a job.
    pub(crate) patience_ms: u64,
}

/// What becomes of a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It starts.
    Start,
    /// It waits, and this is for what.
    Wait(String),
}

/// How much longer a job of low priority is patient.
const LOW_PATIENCE: u64 = 10;

/// Decides about every waiting job.
pub(crate) fn decide(now_ms: u64, state: &State, rules: &Rules) -> Vec<(String, Decision)> {
    let mut desk = Desk::new(state);
    let mut queues = Queues::new(now_ms, state, rules);
    let mut decisions = Vec::with_capacity(state.waiting.len());
    while let Some((job, is_overdue)) = queues.next(&desk.running, rules) {
        decisions.push((job.uid.clone(), desk.decide(job, is_overdue, state, rules)));
    }
    decisions
}

/// Which job is looked at next. Each user's jobs are in order; whose turn it is depends on what
/// their users have, which changes with every start.
struct Queues<'a>(Vec<(&'a str, VecDeque<(&'a Waiting, bool)>)>);

impl<'a> Queues<'a> {
    fn new(now_ms: u64, state: &'a State, rules: &Rules) -> Self {
        let mut users: BTreeMap<&str, Vec<(&Waiting, bool)>> = BTreeMap::new();
        for job in &state.waiting {
            let own = users.entry(&job.username).or_default();
            own.push((job, is_overdue(now_ms, job, rules)));
        }
        let sorted = |(user, mut own): (&'a str, Vec<(&'a Waiting, bool)>)| {
            own.sort_by_key(|(job, is_overdue)| key(job, *is_overdue, 0));
            (user, own.into())
        };
        Queues(users.into_iter().map(sorted).collect())
    }

    fn next(
        &mut self,
        running: &BTreeMap<&str, Need>,
        rules: &Rules,
    ) -> Option<(&'a Waiting, bool)> {
        let heads = self.0.iter().enumerate().filter_map(|(index, (user, own))| {
            let (job, is_overdue) = own.front()?;
            let used = running.get(user).copied().unwrap_or_default();
            Some((key(job, *is_overdue, used.share(&rules.capacity)), index))
        });
        let (_, index) = heads.min()?;
        self.0[index].1.pop_front()
    }
}

/// The order of two jobs: the smaller goes first.
fn key(job: &Waiting, is_overdue: bool, share: u64) -> impl Ord + use<'_> {
    let (priority, share) = match is_overdue {
        true => (Priority::High, 0),
        false => (job.priority, share),
    };
    (!is_overdue, std::cmp::Reverse(priority), share, job.submitted_ms, job.uid.as_str())
}

/// What was decided so far.
struct Desk<'a> {
    running: BTreeMap<&'a str, Need>,
    total: Need,
    /// The job that room is kept for.
    held: Option<&'a Waiting>,
    /// Those that a quota is kept for, by user.
    held_users: BTreeMap<&'a str, &'a Waiting>,
    /// How many have to wait.
    waiting: usize,
}

impl<'a> Desk<'a> {
    fn new(state: &'a State) -> Self {
        let running: BTreeMap<&str, Need> =
            state.running.iter().map(|(user, need)| (user.as_str(), *need)).collect();
        let total = running.values().fold(Need::default(), |sum, need| sum.plus(*need));
        Desk { running, total, held: None, held_users: BTreeMap::new(), waiting: 0 }
    }

    fn decide(
        &mut self,
        job: &'a Waiting,
        is_overdue: bool,
        state: &'a State,
        rules: &Rules,
    ) -> Decision {
        let user = job.username.as_str();
        let quota = state.limits.get(user).unwrap_or(&rules.quota);
        let used = self.running.get(user).copied().unwrap_or_default();
        let reason = if !job.need.fits(&rules.capacity) {
            let why = job.need.shortage(Need::default(), &rules.capacity).unwrap_or_default();
            format!("the datacenter is too small for it: {why}")
        } else if !job.need.fits(quota) {
            let why = job.need.shortage(Need::default(), quota).unwrap_or_default();
            format!("it exceeds the quota of {user}: {why}")
        } else if let Some(why) = job.need.shortage(used, quota) {
            if is_overdue {
                self.held_users.entry(user).or_insert(job);
            }
            format!("the quota of {user} is used up: {why}")
        } else if let Some(first) = self.held_users.get(user) {
            format!("{} waits for the quota since longer", first.uid)
        } else if let Some(first) = self.held {
            format!("room is kept for {}, which waits since longer", first.uid)
        } else if let Some(why) = job.need.shortage(self.total, &rules.capacity) {
            if is_overdue {
                self.held = Some(job);
            }
            let before = match self.waiting {
                0 => "it is next".to_owned(),
                1 => "1 job is before it".to_owned(),
                count => format!("{count} jobs are before it"),
            };
            format!("the datacenter is full: {why}; {before}")
        } else {
            self.running.insert(user, used.plus(job.need));
            self.total = self.total.plus(job.need);
            return Decision::Start;
        };
        self.waiting += 1;
        Decision::Wait(reason)
    }
}

fn is_overdue(now_ms: u64, job: &Waiting, rules: &Rules) -> bool {
    let patience_ms = match job.priority {
        Priority::Low => rules.patience_ms.saturating_mul(LOW_PATIENCE),
        _ => rules.patience_ms,
    };
    now_ms.saturating_sub(job.submitted_ms) >= patience_ms
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::quantity::Quantity;
    use proptest::prelude::*;

    fn job(uid: &str, username: &str, submitted_ms: u64, cores: u64) -> Waiting {
        Waiting {
            uid: uid.to_owned(),
            username: username.to_owned(),
            priority: Priority::Normal,
            submitted_ms,
            need: Need { cpu_milli: cores * 1000, replicas: cores, ..Need::default() },
        }
    }

    fn cores(count: u32) -> Limits {
        Limits { cpu: Some(Quantity::whole(count)), ..Limits::default() }
    }

    fn rules(capacity: u32) -> Rules {
        Rules { capacity: cores(capacity), quota: Limits::default(), patience_ms: 1000 }
    }

    fn started(decisions: &[(String, Decision)]) -> Vec<&str> {
        let starts = decisions.iter().filter(|(_, decision)| *decision == Decision::Start);
        starts.map(|(uid, _)| uid.as_str()).collect()
    }

    fn reason<'a>(decisions: &'a [(String, Decision)], uid: &str) -> &'a str {
        match decisions.iter().find(|(own, _)| own == uid) {
            Some((_, Decision::Wait(reason))) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_starts_with_all_its_replicas_or_waits() {
        let state = State {
            waiting: vec![job("large", "wu", 0, 5), job("small", "wu", 1, 2)],
            running: BTreeMap::from([("eve".into(), job("", "", 0, 6).need)]),
            ..State::default()
        };
        let decisions = decide(10, &state, &rules(10));
        assert_eq!(started(&decisions), ["small"]);
        insta::assert_snapshot!(reason(&decisions, "large"), @"the datacenter is full: it needs 5 cpu, 6 of 10 are in use; it is next");
    }

    #[test]
    fn users_take_turns_and_priority_goes_first() {
        let mut urgent = job("urgent", "wu", 9, 1);
        urgent.priority = Priority::High;
        let mut idle = job("idle", "eve", 0, 1);
        idle.priority = Priority::Low;
        let state = State {
            waiting: vec![
                job("wu1", "wu", 1, 2),
                job("wu2", "wu", 2, 2),
                job("eve1", "eve", 3, 2),
                urgent,
                idle,
            ],
            ..State::default()
        };
        assert_eq!(
            started(&decide(10, &state, &rules(100))),
            ["urgent", "eve1", "wu1", "wu2", "idle"]
        );
    }

    #[test]
    fn a_quota_holds_up_its_user_alone() {
        let state = State {
            waiting: vec![job("wu1", "wu", 0, 3), job("wu2", "wu", 1, 2), job("eve1", "eve", 2, 3)],
            limits: BTreeMap::from([("wu".into(), cores(4))]),
            ..State::default()
        };
        let decisions = decide(10, &state, &rules(100));
        assert_eq!(started(&decisions), ["wu1", "eve1"]);
        insta::assert_snapshot!(reason(&decisions, "wu2"), @"the quota of wu is used up: it needs 2 cpu, 3 of 4 are in use");
    }

    #[test]
    fn room_is_kept_for_a_job_that_has_waited_long_enough() {
        let state = State {
            waiting: vec![job("large", "wu", 0, 8), job("small", "eve", 900, 1)],
            running: BTreeMap::from([("bo".into(), job("", "", 0, 4).need)]),
            ..State::default()
        };
        assert_eq!(started(&decide(999, &state, &rules(10))), ["small"]);
        let decisions = decide(1000, &state, &rules(10));
        assert!(started(&decisions).is_empty());
        insta::assert_snapshot!(reason(&decisions, "small"), @"room is kept for large, which waits since longer");
    }

    #[test]
    fn a_job_that_can_never_run_holds_up_nobody() {
        let state = State {
            waiting: vec![job("huge", "wu", 0, 50), job("small", "wu", 900, 1)],
            ..State::default()
        };
        let decisions = decide(5000, &state, &rules(10));
        assert_eq!(started(&decisions), ["small"]);
        insta::assert_snapshot!(reason(&decisions, "huge"), @"the datacenter is too small for it: it needs 50 cpu, 0 of 10 are in use");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        /// Limits are never exceeded, every job is decided about once, and nothing waits in an
        /// empty datacenter.
        #[test]
        fn limits_hold_and_somebody_always_starts(
            jobs in prop::collection::vec((0..4_usize, 1..12_u64, 0..3_usize, 0..5000_u64), 1..30),
            quota in 1..12_u32,
            now_ms in 0..6000_u64,
        ) {
            let waiting: Vec<Waiting> = jobs.iter().enumerate().map(|(index, (user, need, priority, at))| {
                let mut job = job(&format!("job{index}"), &format!("user{user}"), *at, *need);
                job.priority = [Priority::Low, Priority::Normal, Priority::High][*priority];
                job
            }).collect();
            let rules = Rules { quota: cores(quota), ..rules(10) };
            let state = State { waiting: waiting.clone(), ..State::default() };
            let decisions = decide(now_ms, &state, &rules);
            prop_assert_eq!(decisions.len(), waiting.len());
            let mut used: BTreeMap<&str, u64> = BTreeMap::new();
            for uid in started(&decisions) {
                let job = waiting.iter().find(|job| job.uid == uid).unwrap();
                *used.entry(&job.username).or_default() += job.need.cpu_milli;
            }
            prop_assert!(used.values().sum::<u64>() <= 10_000);
            prop_assert!(used.values().all(|sum| *sum <= u64::from(quota) * 1000));
            let can_run = waiting.iter().any(|job| job.need.cpu_milli <= u64::from(quota.min(10)) * 1000);
            prop_assert_eq!(can_run, !used.is_empty());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..Default::default() })]

        /// Whatever others submit, a job that can run at all does run: each job runs for a while,
        /// and new ones keep coming, small and urgent ones among them.
        #[test]
        fn nobody_starves(
            seed in prop::collection::vec((0..4_usize, 1..10_u64, 0..3_usize, 1..20_u64), 40),
            victim_need in 1..=10_u64,
            victim_priority in 0..3_usize,
        ) {
            let rules = Rules { patience_ms: 50, ..rules(10) };
            let mut victim = job("victim", "victim", 0, victim_need);
            victim.priority = [Priority::Low, Priority::Normal, Priority::High][victim_priority];
            let mut waiting = vec![victim];
            let mut running: Vec<(Waiting, u64)> = Vec::new();
            let mut has_started = false;
            for now_ms in 1..3000_u64 {
                running.retain(|(_, until)| *until > now_ms);
                let (user, need, priority, runs) = seed[now_ms as usize % seed.len()];
                let mut new = job(&format!("job{now_ms}"), &format!("user{user}"), now_ms, need);
                new.priority = [Priority::Low, Priority::Normal, Priority::High][priority];
                waiting.push(new);
                // A queue has a limit, too: those behind everybody give up.
                if waiting.len() > 40 {
                    waiting.remove(20);
                }
                let mut used: BTreeMap<String, Need> = BTreeMap::new();
                for (job, _) in &running {
                    let sum = used.entry(job.username.clone()).or_default();
                    *sum = sum.plus(job.need);
                }
                let state = State { waiting: waiting.clone(), running: used, ..State::default() };
                for (uid, decision) in decide(now_ms, &state, &rules) {
                    if decision == Decision::Start {
                        let index = waiting.iter().position(|job| job.uid == uid).unwrap();
                        has_started |= uid == "victim";
                        running.push((waiting.remove(index), now_ms + runs));
                    }
                }
                if has_started {
                    return Ok(());
                }
            }
            prop_assert!(has_started);
        }
    }
}
