//! Trainers, time, crashes and restores in random interleavings, against a model that knows only
//! what was answered: every task is finished once per pass or set aside, nobody waits who could have
//! a task, the pass ends exactly then, and what is replayed is what was.

use super::data::tasks;
use master::dataset::Dataset;
use master::message::{Get, Next};
use master::queue::{Change, Facts, Queue, Rules};
use master::task::Lease;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const TASKS: u64 = 4;
const TRAINERS: usize = 3;
const LEASE: Duration = Duration::from_secs(10);
const FAILURES_MAX: u32 = 2;

static DATASET: LazyLock<Dataset> = LazyLock::new(|| tasks(TASKS));

#[derive(Debug, Clone, Copy)]
enum Event {
    Get(usize),
    /// Asked, and the answer is lost on the way.
    GetInVain(usize),
    /// What is done to one of the leases that were ever given out.
    Finish(usize, usize, Option<u64>),
    Fail(usize, usize),
    GiveBack(usize, usize),
    Renew(usize),
    Leave(usize),
    /// Seconds go by.
    Wait(u64),
    /// The master dies and comes back.
    Crash,
    /// It dies after deciding and before anything is on disk or answered.
    CrashBeforeAnswer(usize),
    Compact,
    Reopen(u64, u64),
}

fn event() -> impl Strategy<Value = Event> {
    let trainer = 0..TRAINERS;
    prop_oneof![
        6 => trainer.clone().prop_map(Event::Get),
        1 => trainer.clone().prop_map(Event::GetInVain),
        6 => (trainer.clone(), 0..8_usize, prop::option::of(1..6_u64))
            .prop_map(|(who, which, cut)| Event::Finish(who, which, cut)),
        2 => (trainer.clone(), 0..8_usize).prop_map(|(who, which)| Event::Fail(who, which)),
        1 => (trainer.clone(), 0..8_usize).prop_map(|(who, which)| Event::GiveBack(who, which)),
        2 => trainer.clone().prop_map(Event::Renew),
        1 => trainer.clone().prop_map(Event::Leave),
        2 => (1..12_u64).prop_map(Event::Wait),
        1 => Just(Event::Crash),
        1 => trainer.prop_map(Event::CrashBeforeAnswer),
        1 => Just(Event::Compact),
        1 => (0..6_u64, 0..3_u64).prop_map(|(cut, restore)| Event::Reopen(cut, restore)),
    ]
}

/// What is so of a task, by what was answered.
#[derive(Debug, Clone, PartialEq)]
enum Fate {
    Todo,
    Leased { trainer: usize, epoch: u64, until: Instant },
    Done { cut: Option<u64> },
    SetAside,
}

#[derive(Debug, Clone, Default)]
struct Trainer {
    pass: Option<u64>,
    /// What it believes to have.
    leases: Vec<Lease>,
}

struct World {
    queue: Queue,
    disk: (Facts, Vec<Change>),
    now: Instant,
    pass: u64,
    fates: Vec<Fate>,
    /// How the passes that are over ended, the first one first.
    before: Vec<Vec<Fate>>,
    failures: [u32; TASKS as usize],
    epochs: [u64; TASKS as usize],
    cut: u64,
    restores: Vec<(u64, u64)>,
    trainers: Vec<Trainer>,
    /// Every lease that was ever given out.
    history: Vec<Lease>,
    /// How often each task was finished, by pass; a restore takes back.
    finished: BTreeMap<(u64, u64), u32>,
}

fn rules() -> Rules {
    Rules { lease: LEASE, failures_max: FAILURES_MAX, shuffle_seed: Some(3), ..Rules::default() }
}

impl World {
    fn new() -> Self {
        let mut queue = Queue::new(rules());
        let now = Instant::now();
        queue.fill(now, DATASET.clone());
        let disk = (Facts::default(), queue.take_changes());
        World {
            queue,
            disk,
            now,
            pass: 0,
            fates: vec![Fate::Todo; TASKS as usize],
            before: Vec::new(),
            failures: [0; TASKS as usize],
            epochs: [0; TASKS as usize],
            cut: 0,
            restores: Vec::new(),
            trainers: vec![Trainer::default(); TRAINERS],
            history: Vec::new(),
            finished: BTreeMap::new(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Get(who) => self.get(who, true),
            Event::GetInVain(who) => self.get(who, false),
            Event::Finish(who, which, cut) => {
                let Some(lease) = self.pick(which) else { return };
                let is_valid = self.is_leased(who, lease);
                let was_pass = self.pass;
                let is_accepted = self.queue.finish(self.now, who as u64, lease, cut);
                if is_valid {
                    let cut = cut.map(|cut| cut.max(self.cut));
                    self.cut = self.cut.max(cut.unwrap_or(0));
                    *self.finished.entry((was_pass, lease.task)).or_default() += 1;
                    self.settle(lease.task, Fate::Done { cut });
                }
                // A repeated one may be accepted, but must not count: the pass would show it.
                assert!(is_accepted || !is_valid, "{lease:?}");
                self.forget(who, lease);
            }
            Event::Fail(who, which) => {
                let Some(lease) = self.pick(which) else { return };
                let is_valid = self.is_leased(who, lease);
                let reason = Some("no");
                assert_eq!(self.queue.fail(self.now, who as u64, lease, reason), is_valid);
                if is_valid {
                    self.blame(lease.task);
                }
                self.forget(who, lease);
            }
            Event::GiveBack(who, which) => {
                let Some(lease) = self.pick(which) else { return };
                let is_valid = self.is_leased(who, lease);
                assert_eq!(self.queue.fail(self.now, who as u64, lease, None), is_valid);
                if is_valid {
                    self.fates[lease.task as usize] = Fate::Todo;
                }
                self.forget(who, lease);
            }
            Event::Renew(who) => {
                let leases = self.trainers[who].leases.clone();
                let lost = self.queue.renew(self.now, who as u64, &leases);
                let (kept, gone): (Vec<_>, Vec<_>) =
                    leases.into_iter().partition(|lease| self.is_leased(who, *lease));
                assert_eq!(lost, gone);
                for lease in &kept {
                    self.lease(who, *lease);
                }
                self.trainers[who].leases = kept;
            }
            Event::Leave(who) => {
                self.queue.leave(self.now, who as u64);
                for fate in &mut self.fates {
                    if matches!(fate, Fate::Leased { trainer, .. } if *trainer == who) {
                        *fate = Fate::Todo;
                    }
                }
                self.trainers[who] = Trainer::default();
            }
            Event::Wait(seconds) => {
                self.now += Duration::from_secs(seconds);
                self.queue.expire(self.now);
                for fate in &mut self.fates {
                    if matches!(fate, Fate::Leased { until, .. } if *until <= self.now) {
                        *fate = Fate::Todo;
                    }
                }
            }
            Event::Crash => self.crash(),
            Event::CrashBeforeAnswer(who) => {
                let _ = self.queue.get(self.now, who as u64, &self.request(who));
                self.queue.take_changes();
                self.crash();
            }
            Event::Compact => self.disk = (self.queue.facts().clone(), Vec::new()),
            Event::Reopen(cut, restore) => self.reopen(cut, restore),
        }
    }

    fn request(&self, who: usize) -> Get {
        let Trainer { pass, leases } = self.trainers[who].clone();
        Get { pass, leases, name: who.to_string(), wait_ms: 0 }
    }

    fn get(&mut self, who: usize, is_delivered: bool) {
        let request = self.request(who);
        let next = self.queue.get(self.now, who as u64, &request);
        let is_behind = request.pass.is_some_and(|pass| pass < self.pass);
        match next {
            Next::Task(task) => {
                assert!(!is_behind && task.pass == self.pass);
                let lease = task.lease();
                let is_repeated = self.is_leased(who, lease) && !request.leases.contains(&lease);
                if !is_repeated {
                    assert_eq!(self.fates[task.id as usize], Fate::Todo);
                    assert_eq!(task.epoch, self.epochs[task.id as usize] + 1);
                    self.epochs[task.id as usize] = task.epoch;
                    self.history.push(lease);
                }
                self.lease(who, lease);
                if is_delivered {
                    self.trainers[who].pass = Some(task.pass);
                    self.trainers[who].leases.push(lease);
                }
            }
            Next::Wait => {
                assert!(!is_behind);
                for (task, fate) in self.fates.iter().enumerate() {
                    let lease = Lease { task: task as u64, epoch: self.epochs[task] };
                    let is_unknown = self.is_leased(who, lease) && !request.leases.contains(&lease);
                    assert!(*fate != Fate::Todo && !is_unknown, "could have had task {task}");
                }
            }
            Next::PassOver(over) => {
                assert!(is_behind && over.pass == self.pass);
                let before = self.before.iter().next_back().into_iter().flatten();
                let done = before.filter(|fate| matches!(fate, Fate::Done { .. }));
                assert_eq!(over.done, done.count() as u64);
                if is_delivered {
                    self.trainers[who].pass = Some(over.pass);
                }
            }
            Next::AllOver => panic!("there is no last pass"),
        }
    }

    fn reopen(&mut self, cut: u64, restore: u64) {
        self.queue.reopen(self.now, cut, restore).unwrap();
        if self.restores.contains(&(cut, restore)) {
            return;
        }
        self.restores.push((cut, restore));
        let is_undone = |fate: &Fate| matches!(fate, Fate::Done { cut: contained } if contained.is_none_or(|it| it > cut));
        if let Some(first) = self.before.iter().position(|fates| fates.iter().any(is_undone)) {
            self.pass = first as u64;
            self.finished.retain(|(pass, _), _| *pass <= self.pass);
            self.failures = [0; TASKS as usize];
            self.fates = self.before.drain(first..).next().unwrap();
        }
        for (task, fate) in self.fates.iter_mut().enumerate() {
            if is_undone(fate) {
                self.finished.remove(&(self.pass, task as u64));
            }
            if is_undone(fate) || matches!(fate, Fate::Leased { .. }) {
                *fate = Fate::Todo;
            }
        }
        self.cut = cut + 1;
    }

    fn crash(&mut self) {
        let (facts, changes) = &self.disk;
        self.queue = Queue::recover(rules(), facts.clone(), changes, self.now).unwrap();
        for fate in &mut self.fates {
            if let Fate::Leased { until, .. } = fate {
                *until = self.now + LEASE;
            }
        }
    }

    fn settle(&mut self, task: u64, fate: Fate) {
        self.fates[task as usize] = fate;
        let is_settled = |fate: &Fate| matches!(fate, Fate::Done { .. } | Fate::SetAside);
        if self.fates.iter().all(is_settled) {
            self.pass += 1;
            self.failures = [0; TASKS as usize];
            self.before.push(std::mem::replace(&mut self.fates, vec![Fate::Todo; TASKS as usize]));
        }
    }

    fn blame(&mut self, task: u64) {
        self.failures[task as usize] += 1;
        if self.failures[task as usize] > FAILURES_MAX {
            self.settle(task, Fate::SetAside);
        } else {
            self.fates[task as usize] = Fate::Todo;
        }
    }

    fn lease(&mut self, trainer: usize, lease: Lease) {
        let until = self.now + LEASE;
        self.fates[lease.task as usize] = Fate::Leased { trainer, epoch: lease.epoch, until };
    }

    fn is_leased(&self, who: usize, lease: Lease) -> bool {
        matches!(
            self.fates[lease.task as usize],
            Fate::Leased { trainer, epoch, .. } if trainer == who && epoch == lease.epoch
        )
    }

    fn pick(&self, which: usize) -> Option<Lease> {
        self.history.iter().rev().nth(which).copied()
    }

    fn forget(&mut self, who: usize, lease: Lease) {
        self.trainers[who].leases.retain(|other| *other != lease);
    }

    /// What must be so after every event.
    fn check(&mut self) {
        self.disk.1.extend(self.queue.take_changes());
        assert_eq!(self.queue.pass(), self.pass);
        let status = self.queue.status();
        let count = |wanted: fn(&Fate) -> bool| {
            self.fates.iter().filter(|fate| wanted(fate)).count() as u64
        };
        assert_eq!(status.todo, count(|fate| *fate == Fate::Todo));
        assert_eq!(status.pending, count(|fate| matches!(fate, Fate::Leased { .. })));
        assert_eq!(status.done, count(|fate| matches!(fate, Fate::Done { .. })));
        assert_eq!(status.set_aside, count(|fate| *fate == Fate::SetAside));
        for pending in &status.pending_tasks {
            assert_eq!(pending.failures, u64::from(self.failures[pending.task as usize]));
        }
        assert!(status.todo + status.pending > 0, "a settled pass must have turned over");
        assert!(self.finished.values().all(|times| *times == 1), "{:?}", self.finished);
        let (facts, changes) = &self.disk;
        let replayed = Queue::recover(rules(), facts.clone(), changes, self.now).unwrap();
        assert_eq!(replayed.facts(), self.queue.facts());
    }

    /// One good trainer comes, time goes by, and the pass ends.
    fn finish_pass(&mut self) {
        let pass = self.pass;
        self.happen(Event::Wait(LEASE.as_secs()));
        self.check();
        self.trainers[0] = Trainer::default();
        while self.pass == pass {
            self.happen(Event::Get(0));
            self.check();
            let lease = self.trainers[0].leases.pop().expect("it waits, and nobody has a task");
            assert!(self.queue.finish(self.now, 0, lease, None));
            self.settle(lease.task, Fate::Done { cut: None });
            self.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_task_is_finished_once_per_pass_or_set_aside_whatever_happens(
        events in prop::collection::vec(event(), 0..120),
    ) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
            world.check();
        }
        world.finish_pass();
    }
}
