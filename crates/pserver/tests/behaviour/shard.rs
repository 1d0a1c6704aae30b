//! One shard as a state machine: who waits for whom, what is applied once, what a cut holds.

use super::scene::{Body, DENSE, EPOCH, SPARSE, Scene, Source, message, model};
use contract::Kind;
use contract::mode::Mode;
use proptest::prelude::*;
use pserver::message::{
    Epoch, FLAG_DROPPED, FLAG_DUPLICATE, FLAG_LAST, Head, Join, Verb, encode_heads,
};
use pserver::shard::Request;
use std::time::Duration;
use table::model::Shape;
use table::optimizer::Schedule;

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..Default::default() })]

    // Whatever a peer that has passed the handshake sends: an answer or a wait, never a panic.
    #[test]
    fn random_frames_are_refused_and_disturb_nobody(
        frames in prop::collection::vec(
            (1..=12u16, prop::collection::vec(any::<u8>(), 0..300), any::<bool>(), 0..3u32),
            1..20,
        ),
    ) {
        let mut scene = Scene::ready(1, Mode::Sync);
        for (code, mut body, has_head, entries) in frames {
            let verb = Verb::decode(code).unwrap();
            if matches!(verb, Verb::Goodbye | Verb::FinishPass | Verb::Set) {
                continue; // These are understood without any entry, and end or change the scene.
            }
            if has_head {
                // A sound head lets the noise reach the entries.
                let head = Head { sequence: 1, entries, epoch: EPOCH, ..Head::default() };
                body.splice(..0, bytemuck::bytes_of(&head).iter().copied());
            }
            scene.submit(verb, 100, Body::new(&[&body]));
        }
        let pull = scene.pull_dense(0);
        prop_assert_eq!(scene.values(pull).unwrap(), [1.0; 3]);
    }
}

#[test]
fn pull_waits_until_all_trainers_pushed() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(0, [1.0, 0.0, 0.0]);
    let pull = scene.pull_dense(0);
    assert!(scene.values(pull).is_none(), "answered before trainer 1 pushed");
    scene.push_dense(1, [1.0, 2.0, 0.0]);
    // value 1 − 0.5 · sum of gradients, never their mean
    assert_eq!(scene.values(pull).unwrap(), [0.0, 0.0, 1.0]);
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [0.0, 0.0, 1.0]);
}

#[test]
fn the_learning_rate_counts_the_samples_of_the_update_itself() {
    let begun = |mode: Mode| {
        let mut scene = Scene::new(2, mode);
        for rank in 0..2 {
            let mut join = scene.join_message(rank);
            let segments = "2:1,4:0.5,6:0.25".parse().unwrap();
            join.model.optimizer.schedule = Schedule::Manual { segments };
            scene.join_with(&join, 100 + u64::from(rank)).unwrap();
        }
        scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
        scene
    };
    // Every push has one sample. In step, n is 2, 4 and 6; one rank after the other, 1 to 6.
    let mut scene = begun(Mode::Sync);
    for (factor, value) in [(1.0, 0.5), (0.5, 0.25), (0.25, 0.125)] {
        scene.push_dense(0, [1.0, 0.0, 0.0]);
        scene.push_dense(1, [0.0, 2.0, 0.0]);
        let pull = scene.pull_dense(0);
        // The rate is 0.5 times the factor, and the first value begins at 1.
        assert_eq!(scene.values(pull).unwrap()[0], value, "factor {factor}");
    }
    let mut scene = begun(Mode::Async);
    let mut expected = 1.0;
    for factor in [1.0, 1.0, 0.5, 0.5, 0.25, 0.25] {
        scene.push_dense(0, [1.0, 0.0, 0.0]);
        expected -= 0.5 * factor;
        let pull = scene.pull_dense(0);
        assert_eq!(scene.values(pull).unwrap()[0], expected, "factor {factor}");
    }
}

#[test]
fn gradients_are_summed_in_rank_order_whatever_the_order_of_arrival() {
    // Sums of these depend on their order in the last bits.
    let gradients = [[0.1, 1e8, 3.3], [0.7, -1e8, 1e-7], [0.3, 1.0, 2.2]];
    let run = |order: [u32; 3]| {
        let mut scene = Scene::ready(3, Mode::Sync);
        for rank in order {
            let gradient = gradients[rank as usize];
            scene.push(rank, &[(DENSE, &[0], &gradient), (SPARSE, &[7], &gradient[..2])]).unwrap();
        }
        let pull = scene.pull_dense(0);
        let mut values = scene.values(pull).unwrap();
        values.extend(scene.pull_rows(0, &[7]));
        values.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    let expected = run([0, 1, 2]);
    for order in [[2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        assert_eq!(run(order), expected, "{order:?}");
    }
}

#[test]
fn rows_of_several_trainers_are_merged_by_key_and_updated_once() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push(0, &[(SPARSE, &[5, 9], &[1.0, 1.0, 2.0, 2.0])]).unwrap();
    scene.push(1, &[(SPARSE, &[9, 3], &[4.0, 4.0, 6.0, 6.0])]).unwrap();
    assert_eq!(scene.pull_rows(0, &[3, 5, 9, 50]), [-2.0, -2.0, 0.5, 0.5, -2.0, -2.0, 1.0, 1.0]);
}

#[test]
fn a_trainer_with_fewer_batches_is_not_waited_for_and_the_pass_ends_for_all() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(0, [1.0; 3]);
    scene.push_dense(1, [1.0; 3]);
    let first = scene.finish_pass(1, 0);
    for _ in 0..2 {
        scene.push_dense(0, [1.0; 3]);
        let pull = scene.pull_dense(0);
        assert!(scene.values(pull).is_some(), "waits for a trainer that has finished its pass");
    }
    assert!(scene.reply(first).is_none(), "the pass is not over");
    let second = scene.finish_pass(0, 0);
    let version = message(scene.reply(second).unwrap()).unwrap().head;
    assert_eq!((version.version, version.base), (3, 1));
    assert!(scene.reply(first).is_some());
    // Asked again after a broken connection: that pass is over.
    let again = scene.finish_pass(1, 0);
    assert!(scene.reply(again).is_some());
    // In the next pass both are waited for again.
    scene.steps = vec![3, 3];
    scene.push_dense(0, [1.0; 3]);
    let pull = scene.pull_dense(0);
    assert!(scene.values(pull).is_none());
    scene.push_dense(1, [1.0; 3]);
    assert!(scene.values(pull).is_some());
}

#[test]
fn a_trainer_that_pushed_and_finished_its_pass_does_not_stand_in_for_another() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(0, [1.0; 3]);
    scene.finish_pass(0, 0);
    scene.push_dense(1, [2.0; 3]);
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [-0.5; 3], "both gradients, in one update");
}

#[test]
fn a_push_that_is_sent_again_is_applied_once() {
    let mut scene = Scene::ready(1, Mode::Sync);
    let head = Head { sequence: 1, flags: FLAG_LAST, ..Head::default() };
    let gradient: &[(u32, &[u64], &[f32])] = &[(DENSE, &[0], &[1.0, 1.0, 1.0])];
    for expected in [0, FLAG_DUPLICATE, FLAG_DUPLICATE] {
        let reply = scene.ask(Verb::Push, 0, head, gradient).unwrap();
        assert_eq!(reply.head.flags, expected);
        assert_eq!(reply.head.version, 1);
    }
    scene.steps[0] = 1;
    let pull = scene.pull_dense(0);
    assert_eq!(scene.values(pull).unwrap(), [0.5; 3]);
}

#[test]
fn a_trainer_that_runs_ahead_waits_for_the_others() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(0, [1.0; 3]);
    scene.sequences[0] += 1;
    let head = Head { sequence: 2, version: 1, flags: FLAG_LAST, ..Head::default() };
    let ahead = scene.start(Verb::Push, 0, head, &[(DENSE, &[0], &[1.0; 3])]);
    assert!(scene.reply(ahead).is_none());
    scene.push_dense(1, [1.0; 3]);
    assert!(scene.reply(ahead).is_some());
    scene.push_dense(1, [1.0; 3]);
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [-1.0; 3]);
}

#[test]
fn async_gradients_are_applied_at_once_and_old_ones_can_be_thrown_away() {
    let mut scene = Scene::new(2, Mode::Async);
    for rank in 0..2 {
        let join = Join { lag_ratio_max: Some(1.0), ..scene.join_message(rank) };
        scene.join_with(&join, 100 + u64::from(rank)).unwrap();
    }
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    for _ in 0..3 {
        scene.push_dense(0, [1.0; 3]);
    }
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [-0.5; 3]);
    // Trainer 1 computed from version 0; three updates later that is older than 1.0 × 2 trainers.
    let reply = scene.push(1, &[(DENSE, &[0], &[100.0; 3])]).unwrap();
    assert_eq!(reply.head.flags, FLAG_DROPPED);
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [-0.5; 3]);
}

/// Its steps are the same on all shards, whenever it joins which: otherwise it would wait for others
/// on one shard, and they for it on another.
#[test]
fn a_trainer_that_comes_late_is_as_far_behind_as_it_is() {
    let mut scene = Scene::new(2, Mode::Stale(1));
    scene.join(0).unwrap();
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    scene.push_dense(0, [1.0; 3]);
    scene.push_dense(0, [1.0; 3]);
    let ahead = scene.pull_dense(0);
    let joined = scene.join(1).unwrap();
    assert_eq!((joined.version, joined.steps), (2, 0));
    assert!(scene.values(ahead).is_none());
    scene.push_dense(1, [1.0; 3]);
    assert!(scene.values(ahead).is_some());
}

/// Of two that wake at the same time, one shard hears the one first and another shard the other, and
/// pushes in between: neither may wait for the other.
#[test]
fn a_trainer_that_wakes_goes_on_with_the_slowest_and_not_behind_the_pushes_of_all() {
    let wake = |scene: &mut Scene, rank| {
        let woken = scene.ask(Verb::Wake, rank, Head::default(), &[]).unwrap();
        scene.steps[rank as usize] = woken.head.version;
        woken.head.version
    };
    for (first, second) in [(1, 2), (2, 1)] {
        let mut scene = Scene::ready(3, Mode::Stale(1));
        scene.ask(Verb::Rest, 1, Head::default(), &[]).unwrap();
        scene.ask(Verb::Rest, 2, Head::default(), &[]).unwrap();
        (0..4).for_each(|_| scene.push_dense(0, [1.0; 3]));
        assert_eq!(wake(&mut scene, first), 4);
        scene.push_dense(0, [1.0; 3]);
        assert_eq!(wake(&mut scene, second), 4);
        for rank in 0..3 {
            let pull = scene.pull_dense(rank);
            assert!(scene.values(pull).is_some(), "{rank}");
        }
    }
}

#[test]
fn bounded_staleness_lets_the_fastest_run_ahead_only_so_far() {
    let mut scene = Scene::ready(2, Mode::Stale(1));
    scene.push_dense(0, [1.0; 3]);
    let near = scene.pull_dense(0);
    assert_eq!(scene.values(near).unwrap(), [0.5; 3]);
    scene.push_dense(0, [1.0; 3]);
    let far = scene.pull_dense(0);
    assert!(scene.values(far).is_none(), "two steps ahead of trainer 1");
    scene.push_dense(1, [1.0; 3]);
    assert_eq!(scene.values(far).unwrap(), [-0.5; 3]);
}

#[test]
fn others_wait_until_trainer_0_has_begun() {
    let mut scene = Scene::new(2, Mode::Sync);
    assert!(scene.join(1).unwrap().needs_values);
    let pull = scene.pull_dense(1);
    assert!(scene.values(pull).is_none());
    assert!(scene.join(0).unwrap().needs_values);
    scene.ask(Verb::Set, 0, Head::default(), &[(DENSE, &[0], &[7.0, 8.0, 9.0])]).unwrap();
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    assert_eq!(scene.values(pull).unwrap(), [7.0, 8.0, 9.0]);
}

#[test]
fn a_push_that_overtakes_the_first_values_waits_for_them() {
    // A trainer pulls only from the shards that hold what it needs, but pushes to all.
    let mut scene = Scene::new(2, Mode::Sync);
    scene.join(1).unwrap();
    let head = Head { sequence: 1, flags: FLAG_LAST, ..Head::default() };
    let push = scene.start(Verb::Push, 1, head, &[(SPARSE, &[5], &[2.0; 2])]);
    assert!(scene.reply(push).is_none());
    scene.join(0).unwrap();
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    assert!(message(scene.reply(push).unwrap()).is_ok());
    scene.push_dense(0, [0.0; 3]);
    assert_eq!(scene.pull_rows(0, &[5]), [0.0; 2]);
}

#[test]
fn a_trainer_with_another_model_or_mode_is_refused_with_the_difference() {
    let mut scene = Scene::new(2, Mode::Sync);
    scene.join(0).unwrap();
    let check = |scene: &mut Scene, join: &Join, expected: &str| {
        let error = scene.join_with(join, 7).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict);
        assert!(error.message().contains(expected), "{error}");
    };
    let join = Join { model: model(Mode::Async), ..scene.join_message(1) };
    check(
        &mut scene,
        &join,
        "the mode of parameter \"dense\" is \"sync\" in the first and \"async\" in the second",
    );
    let mut join = scene.join_message(1);
    join.model.parameters[0].shape = Shape::Dense { elements: 4 };
    check(&mut scene, &join, "the shape of parameter \"dense\"");
    let mut join = scene.join_message(1);
    join.model.optimizer.learning_rate = 0.25;
    check(&mut scene, &join, "the optimizer");
    let join = Join { trainers: 3, ..scene.join_message(1) };
    check(&mut scene, &join, "--num_gradient_servers=2");
    let epoch = Some(Epoch { number: EPOCH, cut: 0, has_begun: false });
    let join = Join { server: 1, servers: 2, epoch, ..scene.join_message(1) };
    check(&mut scene, &join, "list the same servers and ports in the same order");
}

#[test]
fn requests_that_do_not_fit_the_model_change_nothing() {
    let mut scene = Scene::ready(1, Mode::Sync);
    let mut check = |entries: &[(u32, &[u64], &[f32])], expected: &str| {
        let head = Head { sequence: 1, flags: FLAG_LAST, ..Head::default() };
        let error = scene.ask(Verb::Push, 0, head, entries).unwrap_err();
        assert_eq!(error.message(), expected);
    };
    check(&[(2, &[0], &[1.0])], "the model has no such parameter");
    check(&[(DENSE, &[0], &[1.0])], "values do not fit the keys");
    check(
        &[(DENSE, &[1], &[1.0])],
        "key or block belongs to another shard; use the same placement",
    );
    check(
        &[(DENSE, &[0], &[1.0; 3]), (SPARSE, &[100], &[1.0; 2])],
        "key is not below the number of rows",
    );
    let pull = scene.pull_dense(0);
    assert_eq!(scene.values(pull).unwrap(), [1.0; 3]);
}

#[test]
fn a_trainer_that_vanishes_fails_the_job_with_its_rank() {
    let mut scene = Scene::ready(2, Mode::Sync);
    for _ in 0..18 {
        scene.now += Duration::from_millis(500);
        scene.shard.tick(scene.now);
    }
    scene.push_dense(0, [1.0; 3]);
    let pull = scene.pull_dense(0);
    // Ticks come steadily: a clock that jumps means that the server itself stood still.
    for _ in 0..4 {
        scene.now += Duration::from_millis(500);
        scene.shard.tick(scene.now);
    }
    scene.collect();
    let error = message(scene.reply(pull).unwrap()).unwrap_err();
    assert!(error.message().starts_with("trainer 1 has not been heard of for 10 s"), "{error}");
    assert!(scene.shard.failure().is_some());
}

#[test]
fn a_restarted_trainer_keeps_its_completed_steps_and_loses_its_half_one() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(0, [1.0; 3]);
    // Half of the next step, which waits for trainer 1.
    let head = Head { sequence: 2, version: 1, ..Head::default() };
    let half = scene.start(Verb::Push, 0, head, &[(SPARSE, &[5], &[100.0; 2])]);
    let join = scene.join_message(0);
    let joined = scene.join_with(&join, 999).unwrap();
    assert_eq!((joined.version, joined.steps, joined.batches, joined.sequence), (0, 1, 1, 0));
    let error = message(scene.reply(half).unwrap()).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "who waits is told: {error}");
    let error = scene.ask(Verb::Push, 0, head, &[(DENSE, &[0], &[1.0; 3])]).unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "the dead self still pushes: {error}");
    scene.push_dense(1, [1.0; 3]);
    let pull = scene.pull_dense(1);
    assert_eq!(scene.values(pull).unwrap(), [0.0; 3], "both have delivered the first step");
    assert_eq!(scene.pull_rows(1, &[5]), [1.0; 2], "half a step is not applied");
}

#[test]
fn a_trainer_that_dies_within_a_step_that_is_partly_applied_ends_the_epoch() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.push_dense(1, [1.0; 3]);
    // The block has all gradients and is updated; the rest of the step never comes.
    let head = Head { sequence: 1, ..Head::default() };
    scene.ask(Verb::Push, 0, head, &[(DENSE, &[0], &[1.0; 3])]).unwrap();
    let join = scene.join_message(0);
    let error = scene.join_with(&join, 999).unwrap_err();
    assert!(error.message().contains("partly applied"), "{error}");
    assert!(scene.shard.failure().is_some());
    assert!(!scene.shard.begin_last_cut(), "such a state is no checkpoint");
}

#[test]
fn a_frame_of_another_epoch_or_an_older_connection_is_refused() {
    let mut scene = Scene::ready(1, Mode::Sync);
    let frame = |epoch| encode_heads(Head { epoch, ..Head::default() }, &[]);
    let token = scene.submit(Verb::Heartbeat, 100, Body::new(&[&frame(EPOCH + 1)]));
    let error = message(scene.reply(token).unwrap()).unwrap_err();
    assert!(error.message().contains("another epoch"), "{error}");
    let token = scene.tokens + 1;
    let (incarnation, body) = (100, Body::new(&[&frame(EPOCH)]));
    let request = Request { token, verb: Verb::Heartbeat, incarnation, connection: 0, body };
    scene.shard.handle(scene.now, request, &mut scene.saved);
    scene.collect();
    let error = message(scene.reply(token).unwrap()).unwrap_err();
    assert!(error.message().contains("another connection"), "{error}");
}

#[test]
fn a_shard_joins_an_epoch_that_has_not_begun_and_no_other() {
    let epoch = |number, has_begun| Some(Epoch { number, cut: 0, has_begun });
    let scene = || Scene::new(2, Mode::Sync);
    let join =
        |scene: &Scene, epoch| Join { server: 1, servers: 2, epoch, ..scene.join_message(0) };
    let mut lost = scene();
    let error = lost.join_with(&join(&lost, epoch(7, true)), 100).unwrap_err();
    assert!(error.message().contains("its values are lost"), "{error}");
    let error = lost.join_with(&join(&lost, None), 100).unwrap_err();
    assert!(error.message().contains("join shard 0 first"), "{error}");

    let mut shard = scene();
    assert_eq!(shard.join_with(&join(&shard, epoch(7, false)), 100).unwrap().epoch.number, 7);
    // Shard 0 was started again before anything began.
    assert_eq!(shard.join_with(&join(&shard, epoch(8, false)), 100).unwrap().epoch.number, 8);
    shard.submit(
        Verb::Begin,
        100,
        Body::new(&[&encode_heads(Head { epoch: 8, ..Head::default() }, &[])]),
    );
    let error = shard.join_with(&join(&shard, epoch(9, false)), 100).unwrap_err();
    assert!(error.message().contains("were started again"), "{error}");
    let other = Some(Epoch { number: 8, cut: 3, has_begun: false });
    assert!(shard.join_with(&join(&shard, other), 100).is_err(), "of another cut");
}

#[test]
fn who_does_not_come_or_deliver_is_waited_for_only_so_long() {
    let mut scene = Scene::new(3, Mode::Sync);
    scene.join(0).unwrap();
    let wait = |scene: &mut Scene, seconds: u32| {
        for _ in 0..seconds * 2 {
            scene.now += Duration::from_millis(500);
            for rank in 0..3 {
                scene.start(Verb::Heartbeat, rank, Head::default(), &[]);
            }
            scene.shard.tick(scene.now);
        }
    };
    wait(&mut scene, 101);
    let failure = scene.shard.failure().unwrap();
    assert!(failure.message().starts_with("trainers 1, 2 did not come within 100 s"), "{failure}");

    let mut scene = Scene::ready(3, Mode::Sync);
    scene.push_dense(1, [1.0; 3]);
    scene.pull_dense(1);
    wait(&mut scene, 1001);
    let failure = scene.shard.failure().unwrap();
    assert!(failure.message().contains("waited for trainers 0, 2 for 1000 s"), "{failure}");
}

#[test]
fn the_job_is_over_when_all_trainers_have_left() {
    let mut scene = Scene::ready(2, Mode::Sync);
    let last = Head { flags: FLAG_LAST, ..Head::default() };
    scene.ask(Verb::Goodbye, 1, last, &[]).unwrap();
    assert!(!scene.shard.is_over());
    scene.push_dense(0, [1.0; 3]);
    let pull = scene.pull_dense(0);
    assert!(scene.values(pull).is_some(), "a trainer that has left is not waited for");
    scene.ask(Verb::Goodbye, 0, Head::default(), &[]).unwrap();
    assert!(!scene.shard.is_over(), "other shards may not have heard of it");
    let again = scene.join_message(0);
    assert!(scene.join_with(&again, 999).unwrap().has_left);
    scene.join(0).unwrap();
    scene.ask(Verb::Goodbye, 0, last, &[]).unwrap();
    assert!(scene.shard.is_over());
    let unknown = vec![(0, u32::MAX), (1, u32::MAX)];
    assert_eq!(scene.shard.goodbyes(), unknown, "they did not say which attempts they are");
}

#[test]
fn a_cut_is_taken_at_the_announced_version_and_holds_that_moment() {
    let mut scene = Scene::ready(1, Mode::Sync);
    scene.push(0, &[(DENSE, &[0], &[1.0; 3]), (SPARSE, &[5], &[1.0; 2])]).unwrap();
    scene.ask(Verb::Cut, 0, Head::default(), &[]).unwrap();
    assert_eq!(scene.cut, (1, 3), "announced two updates ahead");
    scene.push_dense(0, [1.0; 3]);
    assert!(!scene.shard.is_cutting());
    scene.push_dense(0, [1.0; 3]);
    assert!(scene.shard.is_cutting());
    // Training goes on before anything is saved.
    scene.push(0, &[(DENSE, &[0], &[1.0; 3]), (SPARSE, &[5, 6], &[1.0; 4])]).unwrap();
    let checkpoint = scene.save();
    let facts = checkpoint.facts.as_ref().unwrap();
    assert_eq!((facts.cut, facts.version, facts.samples), (1, 3, 3));
    assert_eq!(facts.trainers[0].sequence, 3);
    let values: Vec<_> =
        checkpoint.parts.iter().map(|part| (part.0, part.1, &part.2[..])).collect();
    assert_eq!(values, [(0, 0, &[-0.5f32; 3][..]), (1, 5, &[0.5f32; 2][..])]);
}

#[test]
fn a_restored_shard_waits_for_a_beginning_and_says_how_far_everybody_was() {
    let mut scene = Scene::ready(2, Mode::Sync);
    for rank in 0..2 {
        scene.push_dense(rank, [1.0; 3]);
    }
    assert!(scene.shard.begin_last_cut());
    let checkpoint = scene.save();
    assert_eq!(checkpoint.facts.as_ref().unwrap().epoch, EPOCH);
    let mut restored = Scene::new(2, Mode::Sync);
    restored.saved = Source(Some(checkpoint));
    for rank in 0..2 {
        let joined =
            restored.join_with(&restored.join_message(rank), 100 + u64::from(rank)).unwrap();
        assert!(!joined.needs_values && !joined.epoch.has_begun);
        assert_eq!((joined.epoch.cut, joined.steps, joined.batches, joined.sequence), (1, 1, 1, 0));
    }
    restored.steps = vec![1, 1];
    let pull = restored.pull_dense(0);
    assert!(restored.values(pull).is_none(), "trainer 0 has not let it begin");
    restored.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    assert_eq!(restored.values(pull).unwrap(), [0.0; 3]);
}

#[test]
fn a_trainer_that_wakes_is_waited_for_from_the_step_that_it_asked_for() {
    let mut scene = Scene::ready(2, Mode::Sync);
    scene.ask(Verb::Rest, 1, Head::default(), &[]).unwrap();
    scene.push_dense(0, [1.0; 3]);
    let wake = |scene: &mut Scene, version| {
        scene.ask(Verb::Wake, 1, Head { version, ..Head::default() }, &[])
    };
    assert_eq!(wake(&mut scene, 0).unwrap().head.version, 1, "the shard is past the wanted step");
    assert_eq!(wake(&mut scene, 3).unwrap().head.version, 3, "another shard is further");
    scene.push_dense(0, [1.0; 3]);
    scene.push_dense(0, [1.0; 3]);
    let pull = scene.pull_dense(0);
    assert!(scene.values(pull).is_some(), "steps before it do not wait for it");
    scene.push_dense(0, [1.0; 3]);
    let pull = scene.pull_dense(0);
    assert!(scene.values(pull).is_none());
    scene.steps[1] = 3;
    scene.push_dense(1, [1.0; 3]);
    assert!(scene.values(pull).is_some());
    let far = Head { version: u64::MAX, ..Head::default() };
    assert_eq!(scene.ask(Verb::Wake, 1, far, &[]).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn shard_0_counts_steps_even_if_it_holds_nothing() {
    // All parameters are sparse, and have a port of their own.
    let mut scene = Scene::new(2, Mode::Sync);
    for rank in 0..2 {
        let mut join = Join { sparse_ports: 1, ..scene.join_message(rank) };
        join.model.parameters.remove(0);
        assert!(scene.join_with(&join, 100 + u64::from(rank)).unwrap().is_in_step);
    }
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    scene.ask(Verb::Cut, 0, Head::default(), &[]).unwrap();
    assert_eq!(scene.cut, (1, 2), "announced two steps ahead, not two pushes");
    for step in 0..2 {
        for rank in 0..2 {
            assert!(!scene.shard.is_cutting(), "at step {step}");
            scene.push(rank, &[]).unwrap();
        }
    }
    assert!(scene.shard.is_cutting());
}
