//! The queue's rules, one at a time.

use super::data::tasks;
use contract::Kind;
use master::message::{Get, Next, PassOver};
use master::queue::{Queue, Rules};
use master::task::{Lease, Task};
use std::time::{Duration, Instant};

const ANN: u64 = 1;
const BOB: u64 = 2;

struct Scene {
    queue: Queue,
    now: Instant,
}

impl Scene {
    fn new(count: u64, rules: Rules) -> Self {
        let (mut queue, now) = (Queue::new(rules), Instant::now());
        queue.fill(now, tasks(count));
        Scene { queue, now }
    }

    /// Asks as a trainer that has these tasks.
    fn get(&mut self, owner: u64, pass: Option<u64>, has: &[&Task]) -> Next {
        let leases = has.iter().map(|task| task.lease()).collect();
        let name = format!("trainer {owner}");
        self.queue.get(self.now, owner, &Get { pass, leases, name, wait_ms: 0 })
    }

    fn task(&mut self, owner: u64, has: &[&Task]) -> Task {
        match self.get(owner, None, has) {
            Next::Task(task) => task,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, owner: u64, task: &Task, cut: Option<u64>) -> bool {
        self.queue.finish(self.now, owner, task.lease(), cut)
    }

    fn fail(&mut self, owner: u64, task: &Task) -> bool {
        self.queue.fail(self.now, owner, task.lease(), Some("cannot read"))
    }

    fn pass_by(&mut self, time: Duration) {
        self.now += time;
        self.queue.expire(self.now);
    }
}

fn rules() -> Rules {
    Rules { lease: Duration::from_secs(10), failures_max: 1, ..Rules::default() }
}

#[test]
fn a_trainer_waits_for_tasks_that_are_out_and_gets_them_when_their_trainer_dies() {
    let mut scene = Scene::new(1, rules());
    let lost = scene.task(ANN, &[]);
    assert_eq!(scene.get(BOB, None, &[]), Next::Wait);
    scene.pass_by(Duration::from_secs(10));
    let again = scene.task(BOB, &[]);
    assert_eq!((again.id, again.epoch, again.pass), (lost.id, lost.epoch + 1, 0));
}

#[test]
fn a_stale_trainer_cannot_finish_a_task_that_was_given_to_another() {
    let mut scene = Scene::new(1, rules());
    let old = scene.task(ANN, &[]);
    scene.pass_by(Duration::from_secs(10));
    assert!(!scene.finish(ANN, &old, None), "not even before another has it");
    let new = scene.task(BOB, &[]);
    assert!(!scene.finish(ANN, &old, None));
    assert!(!scene.fail(ANN, &old));
    assert!(!scene.queue.finish(scene.now, ANN, new.lease(), None), "a guessed epoch is no lease");
    assert_eq!(scene.queue.pass(), 0);
    assert!(scene.finish(BOB, &new, None));
    assert_eq!(scene.queue.pass(), 1);
}

#[test]
fn a_task_that_is_renewed_is_kept_however_long_it_takes() {
    let mut scene = Scene::new(1, rules());
    let task = scene.task(ANN, &[]);
    for _ in 0..10 {
        scene.pass_by(Duration::from_secs(9));
        assert_eq!(scene.queue.renew(scene.now, ANN, &[task.lease()]), []);
    }
    assert!(scene.finish(ANN, &task, None));
    assert_eq!(scene.queue.renew(scene.now, ANN, &[task.lease()]), [task.lease()]);
}

#[test]
fn a_trainer_that_is_stuck_with_a_task_is_named_and_loses_it_when_others_wait_for_too_long() {
    let mut scene = Scene::new(1, Rules { stall: Duration::from_secs(100), ..rules() });
    let task = scene.task(ANN, &[]);
    let renew = |scene: &mut Scene| scene.queue.renew(scene.now, ANN, &[task.lease()]);
    for _ in 0..19 {
        scene.pass_by(Duration::from_secs(5));
        assert_eq!(renew(&mut scene), []);
        assert_eq!(scene.queue.take_stalled(scene.now), []);
    }
    let stalled = scene.queue.stalled(scene.now, Duration::from_secs(30));
    let named: Vec<_> = stalled.iter().map(|one| (one.task, one.trainer.as_str())).collect();
    assert_eq!(named, [(task.id, "trainer 1")]);
    scene.pass_by(Duration::from_secs(5));
    assert_eq!(scene.queue.take_stalled(scene.now).len(), 1);
    assert_eq!(renew(&mut scene), [task.lease()], "it is told that the task is lost");
    assert_eq!(scene.task(BOB, &[]).id, task.id);
    assert!(!scene.finish(ANN, &task, None));
}

#[test]
fn a_finish_said_twice_is_accepted_twice_and_counts_once() {
    let mut scene = Scene::new(2, rules());
    let first = scene.task(ANN, &[]);
    assert!(scene.finish(ANN, &first, None) && scene.finish(ANN, &first, None));
    assert_eq!((scene.queue.pass(), scene.queue.status().done), (0, 1));
    let second = scene.task(ANN, &[]);
    assert!(scene.finish(ANN, &second, None) && scene.finish(ANN, &second, None));
    assert_eq!((scene.queue.pass(), scene.queue.status().done), (1, 0));
}

#[test]
fn the_pass_turns_over_when_its_last_task_is_set_aside() {
    let mut scene = Scene::new(2, rules());
    let good = scene.task(ANN, &[]);
    assert!(scene.finish(ANN, &good, None));
    for _ in 0..2 {
        let bad = scene.task(ANN, &[]);
        assert!(scene.fail(ANN, &bad));
    }
    let over = PassOver { pass: 1, done: 1, set_aside: 1 };
    assert_eq!(scene.get(ANN, Some(0), &[]), Next::PassOver(over));
    let status = scene.queue.status();
    assert_eq!((status.pass, status.todo, status.set_aside), (1, 2, 0));
    let [report] = &status.set_aside_tasks[..] else { panic!("{status:?}") };
    assert_eq!((report.task, report.pass), (1, 0));
    assert!(report.reason.contains("cannot read"), "{report:?}");
}

/// However many trainers die with a task, its records are trained.
#[test]
fn a_task_is_never_set_aside_because_its_trainers_died() {
    let mut scene = Scene::new(1, rules());
    for _ in 0..20 {
        let lost = scene.task(ANN, &[]);
        scene.now += Duration::from_secs(10);
        assert_eq!(scene.queue.expire(scene.now), [(lost.id, "trainer 1".to_owned())]);
    }
    let last = scene.task(BOB, &[]);
    assert!(scene.finish(BOB, &last, None));
    let over = PassOver { pass: 1, done: 1, set_aside: 0 };
    assert_eq!(scene.get(BOB, Some(0), &[]), Next::PassOver(over));
}

#[test]
fn failed_tasks_go_to_the_end_of_the_line_and_returned_ones_to_its_front() {
    let mut scene = Scene::new(3, rules());
    let first = scene.task(ANN, &[]);
    assert!(scene.fail(ANN, &first));
    let second = scene.task(ANN, &[]);
    assert!(scene.queue.fail(scene.now, ANN, second.lease(), None));
    let mut one = || {
        let task = scene.task(BOB, &[]);
        assert!(scene.finish(BOB, &task, None));
        task.id
    };
    assert_eq!([one(), one(), one()], [1, 2, 0]);
}

#[test]
fn the_tasks_of_a_trainer_that_leaves_are_there_at_once_and_without_blame() {
    let mut scene = Scene::new(2, rules());
    let first = scene.task(ANN, &[]);
    let second = scene.task(ANN, &[&first]);
    scene.queue.leave(scene.now, ANN);
    assert_eq!(scene.queue.open_tasks(), (2, 0));
    assert_eq!(scene.queue.renew(scene.now, ANN, &[first.lease(), second.lease()]).len(), 2);
    assert_eq!(scene.task(BOB, &[]).epoch, 2);
}

#[test]
fn an_answer_that_was_lost_on_the_way_is_given_again() {
    let mut scene = Scene::new(2, rules());
    let lost = scene.task(ANN, &[]);
    assert_eq!(scene.task(ANN, &[]), lost);
    let next = scene.task(ANN, &[&lost]);
    assert_ne!(next.id, lost.id);
    assert_eq!(scene.get(ANN, Some(0), &[&lost, &next]), Next::Wait);
}

#[test]
fn after_the_last_pass_a_trainer_hears_how_it_ended_and_then_that_all_is_over() {
    let mut scene = Scene::new(1, Rules { passes: 2, ..rules() });
    for pass in 0..2 {
        let task = scene.task(ANN, &[]);
        assert_eq!(task.pass, pass);
        assert!(scene.finish(ANN, &task, None));
        let over = PassOver { pass: pass + 1, done: 1, set_aside: 0 };
        assert_eq!(scene.get(ANN, Some(pass), &[]), Next::PassOver(over));
    }
    assert_eq!(scene.get(ANN, Some(2), &[]), Next::AllOver);
    assert_eq!(scene.get(BOB, None, &[]), Next::AllOver);
    assert!(scene.queue.status().is_over);
}

#[test]
fn without_data_everybody_waits() {
    let mut queue = Queue::new(rules());
    assert_eq!(queue.get(Instant::now(), ANN, &Get::default()), Next::Wait);
    assert!(!queue.finish(Instant::now(), ANN, Lease { task: 0, epoch: 0 }, None));
    assert_eq!(queue.reopen(Instant::now(), 1, 1).unwrap().reopened, 0);
}

#[test]
fn a_restore_reopens_what_later_cuts_contained_and_takes_leases_back() {
    let mut scene = Scene::new(4, rules());
    for cut in [1, 2, 3] {
        let task = scene.task(ANN, &[]);
        assert!(scene.finish(ANN, &task, Some(cut)));
    }
    let out = scene.task(BOB, &[]);
    let reopened = scene.queue.reopen(scene.now, 1, 77).unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (0, 3));
    assert_eq!(scene.queue.renew(scene.now, BOB, &[out.lease()]), [out.lease()]);
    assert_eq!(
        scene.queue.reopen(scene.now, 1, 77).unwrap().reopened,
        0,
        "another trainer reports it"
    );
    assert_eq!(scene.queue.open_tasks(), (3, 0));
    assert_eq!(scene.queue.reopen(scene.now, 1, 78).unwrap().reopened, 0, "nothing came after it");
}

#[test]
fn a_restore_goes_back_to_the_pass_before_and_ahead_trainers_follow() {
    let mut scene = Scene::new(2, rules());
    for cut in [1, 2] {
        let task = scene.task(ANN, &[]);
        assert!(scene.finish(ANN, &task, Some(cut)));
    }
    let next = scene.task(ANN, &[]);
    assert!(scene.finish(ANN, &next, Some(2)));
    assert_eq!(scene.queue.pass(), 1);
    let reopened = scene.queue.reopen(scene.now, 1, 5).unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (0, 2));
    let Next::Task(task) = scene.get(ANN, Some(1), &[]) else { panic!("she follows") };
    assert_eq!((task.id, task.pass), (1, 0));
    assert!(scene.finish(ANN, &task, Some(2)));
    assert_eq!((scene.queue.pass(), scene.queue.open_tasks()), (1, (2, 0)));
}

#[test]
fn a_restore_goes_back_over_any_number_of_short_passes() {
    let mut scene = Scene::new(2, rules());
    let work = |scene: &mut Scene, cuts: [u64; 2]| {
        for cut in cuts {
            let task = scene.task(ANN, &[]);
            assert!(scene.finish(ANN, &task, Some(cut)));
        }
    };
    work(&mut scene, [1, 2]);
    for _ in 0..50 {
        work(&mut scene, [2, 2]);
    }
    work(&mut scene, [2, 3]);
    work(&mut scene, [3, 3]);
    assert_eq!(scene.queue.pass(), 53);
    // One task of pass 51 and both of pass 52 are in no checkpoint any more.
    let reopened = scene.queue.reopen(scene.now, 2, 1).unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (51, 3));
    assert_eq!(scene.queue.open_tasks(), (1, 0));
    // Only the first task ever is in checkpoint 1.
    let reopened = scene.queue.reopen(scene.now, 1, 2).unwrap();
    assert_eq!((reopened.pass, reopened.reopened), (0, 102));
    assert_eq!(scene.task(BOB, &[]).id, 1);
}

#[test]
fn a_completion_counts_for_no_earlier_cut_than_those_before_it() {
    let mut scene = Scene::new(3, rules());
    let (ahead, behind) = (scene.task(ANN, &[]), scene.task(BOB, &[]));
    assert!(scene.finish(ANN, &ahead, Some(6)));
    assert!(scene.finish(BOB, &behind, Some(4)), "it has not heard of cut 5 yet");
    assert_eq!(scene.queue.reopen(scene.now, 5, 1).unwrap().reopened, 2);
}

#[test]
fn a_completion_without_a_cut_is_in_none() {
    let mut scene = Scene::new(2, rules());
    let task = scene.task(ANN, &[]);
    assert!(scene.finish(ANN, &task, None));
    assert_eq!(scene.queue.reopen(scene.now, 9, 1).unwrap().reopened, 1);
}

#[test]
fn one_trainer_saves_the_model_and_may_ask_again() {
    let mut queue = Queue::new(rules());
    let now = Instant::now();
    let mut ask = |at_ms, who: &str| queue.request_save(now, at_ms, who, 100);
    assert!(ask(1000, "0").unwrap());
    assert!(!ask(1050, "1").unwrap());
    assert!(ask(1050, "0").unwrap(), "and it is hers for another while");
    assert!(!ask(1149, "1").unwrap());
    assert!(ask(1150, "1").unwrap());
    assert_eq!(ask(1150, "").unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn a_seed_deals_tasks_out_in_another_order_in_every_pass() {
    let deal = |seed| {
        let mut scene = Scene::new(20, Rules { shuffle_seed: seed, ..rules() });
        let mut one = || {
            let task = scene.task(ANN, &[]);
            assert!(scene.finish(ANN, &task, None));
            task.id
        };
        let mut pass = || (0..20).map(|_| one()).collect::<Vec<u64>>();
        (pass(), pass())
    };
    let (first, second) = deal(Some(7));
    assert_eq!((first.clone(), second.clone()), deal(Some(7)));
    assert_ne!(first, second);
    assert_eq!(deal(None).0, (0..20).collect::<Vec<u64>>());
}
