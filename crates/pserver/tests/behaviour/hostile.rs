//! Peers that have passed the handshake and mean ill, or have gone mad: they are refused by name, and
//! the shard serves the others.

use super::scene::{DENSE, SPARSE, Scene};
use contract::mode::Mode;
use contract::{Error, Kind};
use pserver::message::{Head, Verb};
use std::time::Duration;
use table::model::Shape;

#[track_caller]
fn check(error: &Error, kind: Kind, context: &[(&str, &str)]) {
    assert_eq!(error.kind(), kind, "{error}");
    for pair in context {
        assert!(error.context().any(|found| found == *pair), "{pair:?} is not in: {error}");
    }
}

/// The shard still answers.
#[track_caller]
fn serves(scene: &mut Scene) {
    let head = Head { version: 0, ..Head::default() };
    let reply = scene.ask(Verb::Pull, 0, head, &[(DENSE, &[0], &[])]).unwrap();
    assert_eq!(reply.values, [1.0; 3]);
    scene.shard.tick(std::time::Instant::now() + Duration::from_millis(1));
    assert!(scene.shard.failure().is_none());
}

#[test]
fn a_model_that_no_memory_holds_is_refused_before_any_is_asked_for() {
    let mut scene = Scene::new(1, Mode::Sync);
    let mut join = scene.join_message(0);
    join.model.parameters[0].shape = Shape::Dense { elements: 1 << 40 };
    let error = scene.join_with(&join, 100).unwrap_err();
    check(&error, Kind::LimitExceeded, &[("parameter", "dense")]);
    scene.join(0).unwrap();
}

/// Each of them fits: only together they are too many.
#[test]
fn many_parameters_that_fit_alone_are_refused_before_any_memory_is_used() {
    let mut scene = Scene::new(1, Mode::Sync);
    let mut join = scene.join_message(0);
    let wide = |number: usize| {
        let mut parameter = join.model.parameters[0].clone();
        parameter.name = format!("dense-{number}");
        parameter.shape = Shape::Dense { elements: 1 << 34 };
        parameter
    };
    join.model.parameters = (0..65_536).map(wide).collect();
    let error = scene.join_with(&join, 100).unwrap_err();
    check(&error, Kind::LimitExceeded, &[("limit", "1099511627776")]);
    // The last one does not fit. Pages of the others must not have been touched for that.
    let limit: u64 = 1 << 30;
    let elements = limit / 4 * 3 / 10;
    for parameter in &mut join.model.parameters {
        parameter.shape = Shape::Dense { elements };
    }
    join.model.parameters.truncate(4);
    let before = resident_bytes();
    let error = scene.join_with(&join, 100).unwrap_err();
    check(&error, Kind::LimitExceeded, &[("parameter", "dense-3")]);
    assert!(resident_bytes().saturating_sub(before) < limit / 8);
    scene.join(0).unwrap();
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_join_with_settings_that_make_no_sense_is_refused() {
    let mut scene = Scene::new(2, Mode::Async);
    let mut join = scene.join_message(0);
    join.lag_ratio_max = Some(-1.0);
    check(&scene.join_with(&join, 100).unwrap_err(), Kind::Invalid, &[("value", "-1")]);
    let mut join = scene.join_message(0);
    (join.dense_ports, join.sparse_ports) = (0, 1);
    check(&scene.join_with(&join, 100).unwrap_err(), Kind::Invalid, &[("rank", "0")]);
    scene.join(0).unwrap();
}

#[test]
fn a_pass_that_has_not_begun_cannot_be_finished() {
    let mut scene = Scene::ready(1, Mode::Sync);
    let head = Head { version: 7, ..Head::default() };
    let error = scene.ask(Verb::FinishPass, 0, head, &[]).unwrap_err();
    check(&error, Kind::Conflict, &[("rank", "0"), ("pass", "7"), ("begun", "0")]);
    serves(&mut scene);
}

#[test]
fn only_the_first_shard_announces_a_checkpoint() {
    let mut scene = Scene::ready(1, Mode::Sync);
    scene.cut = (9, 1 << 40);
    let error = scene.ask(Verb::Heartbeat, 0, Head::default(), &[]).unwrap_err();
    check(&error, Kind::Invalid, &[("rank", "0"), ("cut", "9"), ("announced", "0")]);
    scene.cut = (0, 0);
    serves(&mut scene);
}

#[test]
fn a_pull_of_more_than_a_reply_holds_is_refused_before_it_is_made() {
    let mut scene = Scene::new(1, Mode::Sync);
    let mut join = scene.join_message(0);
    join.model.parameters[0].shape = Shape::Dense { elements: 16_384 };
    join.model.parameters[1].shape = Shape::Sparse { width: 65_536, rows: None };
    scene.join_with(&join, 100).unwrap();
    scene.ask(Verb::Begin, 0, Head::default(), &[]).unwrap();
    let keys: Vec<u64> = (0..40_000).collect();
    let error = scene.ask(Verb::Pull, 0, Head::default(), &[(SPARSE, &keys, &[])]).unwrap_err();
    check(&error, Kind::LimitExceeded, &[("parameter", "sparse"), ("rank", "0")]);
    let blocks = vec![0; 200_000];
    let error = scene.ask(Verb::Pull, 0, Head::default(), &[(DENSE, &blocks, &[])]).unwrap_err();
    check(&error, Kind::LimitExceeded, &[("parameter", "dense"), ("rank", "0")]);
}

#[test]
fn numbers_that_no_job_reaches_are_refused() {
    for verb in [Verb::Push, Verb::Pull, Verb::FinishPass, Verb::Synchronize, Verb::Wake] {
        let mut scene = Scene::ready(1, Mode::Sync);
        let heads = [
            ("sequence", Head { sequence: u64::MAX, ..Head::default() }),
            ("version", Head { version: u64::MAX, ..Head::default() }),
            ("base", Head { base: 1 << 60, ..Head::default() }),
        ];
        for (field, head) in heads {
            let error = scene.ask(verb, 0, head, &[]).unwrap_err();
            check(&error, Kind::Invalid, &[("field", field), ("rank", "0")]);
        }
        serves(&mut scene);
    }
    let mut scene = Scene::ready(1, Mode::Sync);
    let head = Head { sequence: 1, samples: u64::MAX, flags: 1, ..Head::default() };
    let error = scene.ask(Verb::Push, 0, head, &[]).unwrap_err();
    check(&error, Kind::Invalid, &[("field", "samples"), ("rank", "0")]);
    scene.cut = (u64::MAX, 0);
    let error = scene.ask(Verb::Heartbeat, 0, Head::default(), &[]).unwrap_err();
    check(&error, Kind::Invalid, &[("field", "cut"), ("rank", "0")]);
    scene.cut = (0, 0);
    serves(&mut scene);
}

#[test]
fn gradients_that_are_no_numbers_are_refused_by_parameter_and_rank() {
    for mode in [Mode::Sync, Mode::Async] {
        let mut scene = Scene::ready(2, mode);
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let head = Head { sequence: 1, flags: 1, samples: 1, ..Head::default() };
            let dense = [(DENSE, &[0][..], &[0.0, bad, 0.0][..])];
            let error = scene.ask(Verb::Push, 1, head, &dense).unwrap_err();
            check(&error, Kind::Invalid, &[("parameter", "dense"), ("rank", "1"), ("place", "1")]);
            let sparse = [(SPARSE, &[7, 8][..], &[0.0, 0.0, 0.0, bad][..])];
            let error = scene.ask(Verb::Push, 1, head, &sparse).unwrap_err();
            check(&error, Kind::Invalid, &[("parameter", "sparse"), ("rank", "1"), ("place", "3")]);
        }
        serves(&mut scene);
    }
}

#[test]
fn a_block_that_comes_twice_in_a_step_is_refused() {
    let mut scene = Scene::ready(2, Mode::Sync);
    let head = Head { sequence: 1, ..Head::default() };
    let twice = [(DENSE, &[0, 0][..], &[1.0; 6][..])];
    let error = scene.ask(Verb::Push, 1, head, &twice).unwrap_err();
    check(&error, Kind::Invalid, &[("parameter", "dense"), ("block", "0"), ("rank", "1")]);
    let once = [(DENSE, &[0][..], &[1.0; 3][..])];
    let error = scene.ask(Verb::Push, 1, head, &[once[0], once[0]]).unwrap_err();
    check(&error, Kind::Invalid, &[("parameter", "dense"), ("rank", "1")]);
    scene.ask(Verb::Push, 1, head, &once).unwrap();
    // In another frame of the same step: it would stand in for the other trainer's.
    let error = scene.ask(Verb::Push, 1, Head { sequence: 2, ..head }, &once).unwrap_err();
    check(&error, Kind::Invalid, &[("parameter", "dense"), ("block", "0"), ("rank", "1")]);
    serves(&mut scene);
}

/// Its model must not become the job's.
#[test]
fn a_first_join_of_a_rank_that_does_not_exist_is_forgotten() {
    let mut scene = Scene::new(2, Mode::Sync);
    let mut join = scene.join_message(9);
    join.model.seed = 77;
    let error = scene.join_with(&join, 100).unwrap_err();
    check(&error, Kind::Invalid, &[("rank", "9"), ("trainers", "2")]);
    scene.join(0).unwrap();
    scene.join(1).unwrap();
}

#[test]
fn requests_that_never_get_an_answer_do_not_fill_the_memory() {
    let far = Head { version: 1 << 40, ..Head::default() };
    let blocks = [0; 1000];
    for keys in [&blocks[..1], &blocks] {
        let wish = &[(DENSE, keys, &[][..])];
        let mut scene = Scene::ready(2, Mode::Sync);
        let refused = (0..1000).find_map(|_| {
            let token = scene.start(Verb::Pull, 1, far, wish);
            scene.reply(token)
        });
        let Some(pserver::shard::Reply::Error(error)) = refused else { panic!("{refused:?}") };
        check(&error, Kind::LimitExceeded, &[("rank", "1")]);
        serves(&mut scene);
        // Others may wait all the same, and what waited is forgotten with its connection.
        assert!(scene.pull_dense(0) > 0);
        scene.shard.forget(|_| true);
        let token = scene.start(Verb::Pull, 1, far, wish);
        assert!(scene.reply(token).is_none());
    }
}
