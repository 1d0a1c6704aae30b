//! Steps that go on beside the next one: what each is computed from, what others see meanwhile, and
//! how failures are told.

use crate::net::{TABLE, WORDS, batch, descriptions, network, optimizer, parameters};
use crate::servers::Servers;
use contract::Kind;
use contract::mode::Mode;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use table::optimizer::Settings;
use trainer::{Announced, Fed, Own, Parameters, Recipe, RemoteConfig, Trainer, View};

const SAMPLES: usize = 8;
const STEPS: usize = 7;
const RATE: f32 = 0.05;
const PLAIN: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05}"#;

fn recipe(mode: Mode) -> Recipe {
    let own = |is_sparse: bool| match (mode, is_sparse) {
        (Mode::Hybrid, true) => Mode::Async,
        (Mode::Hybrid, false) => Mode::Sync,
        (mode, _) => mode,
    };
    let names = descriptions(Some(WORDS), Settings::default()).into_iter();
    let parameters = names.map(|one| {
        let own = Own { settings: Settings::default(), mode: own(one.is_sparse) };
        (one.name, own)
    });
    Recipe { optimizer: optimizer(PLAIN), parameters: parameters.collect() }
}

fn join(config: RemoteConfig, mode: Mode) -> Trainer {
    let parameters = parameters(Some(WORDS), Settings::default());
    Trainer::remote(network(Some(WORDS)), parameters, recipe(mode), config).unwrap()
}

fn values(parameters: &Parameters) -> Vec<Vec<f32>> {
    let names = parameters.descriptions().iter().map(|description| &description.name);
    names.map(|name| parameters.fetch(name, View::Present).unwrap()).collect()
}

/// Trains with as many batches announced as the trainer wants to know; `after` is called after each
/// step.
fn train_announced(trainer: &mut Trainer, mut after: impl FnMut(&mut Trainer)) {
    let mut announced: VecDeque<Announced> = VecDeque::new();
    let mut read = 0;
    for step in 0..STEPS {
        while read < STEPS && read <= step + trainer.lookahead() {
            announced.push_back(trainer.announce(batch(read, 0, SAMPLES)).unwrap());
            read += 1;
        }
        trainer.forward_backward(announced.pop_front().unwrap()).unwrap();
        trainer.update().unwrap();
        after(trainer);
    }
}

/// What gradient descent comes to if step `n` is computed from the rows after `known(n)` steps, and
/// from the other values after all steps before it.
fn descend(known: impl Fn(usize) -> usize) -> Vec<Vec<f32>> {
    let scratch = parameters(Some(WORDS), Settings::default());
    let (network, values_of) = (network(Some(WORDS)), Arc::clone(&scratch));
    let mut trainer = Trainer::local(network, values_of, optimizer(PLAIN)).unwrap();
    let names: Vec<String> =
        scratch.descriptions().iter().map(|description| description.name.clone()).collect();
    let mut history = vec![values(&scratch)];
    for step in 0..STEPS {
        for (place, name) in names.iter().enumerate() {
            let after = if name == TABLE { known(step) } else { step };
            scratch.store(name, &history[after][place]).unwrap();
        }
        trainer.forward_backward(batch(step, 0, SAMPLES)).unwrap();
        let mut next = history[step].clone();
        for (name, values) in names.iter().zip(&mut next) {
            let gradient = trainer.gradient(name).unwrap();
            let width = gradient.values().len() / gradient.keys().map_or(1, <[u64]>::len);
            let rows = gradient.values().chunks_exact(width).enumerate();
            for (place, row) in rows {
                let key = gradient.keys().map_or(0, |keys| keys[place] as usize);
                let values = values[key * width..][..width].iter_mut();
                values.zip(row).for_each(|(value, gradient)| *value -= RATE * gradient);
            }
        }
        history.push(next);
    }
    history.pop().unwrap()
}

/// The largest difference of two values.
fn distance(one: &[Vec<f32>], other: &[Vec<f32>]) -> f32 {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    pairs.map(|(one, other)| (one - other).abs()).fold(0.0, f32::max)
}

fn assert_near(found: &[Vec<f32>], expected: &[Vec<f32>]) {
    let distance = distance(found, expected);
    assert!(distance < 1e-5, "{distance}: {found:?} for {expected:?}");
}

#[test]
fn a_step_is_computed_from_rows_without_the_one_before_it() {
    for mode in [Mode::Async, Mode::Stale(1), Mode::Stale(5), Mode::Hybrid] {
        let servers = Servers::start(2, 1);
        let mut trainer = join(servers.config(0), mode);
        assert_eq!(trainer.lookahead(), 2);
        train_announced(&mut trainer, |trainer| assert_eq!(trainer.under_way(), 1));
        trainer.finish_pass().unwrap();
        assert_eq!(trainer.under_way(), 0);
        // The first two have nothing to overlap with: the rows of the second come with the first.
        let expected = descend(|step| if step < 2 { step } else { step - 1 });
        assert_near(&values(trainer.parameters()), &expected);
        assert!(distance(&expected, &descend(|step| step)) > 1e-3, "late rows make no difference");
        trainer.goodbye().unwrap();
    }
}

#[test]
fn a_pass_that_is_broken_off_leaves_no_batches_to_the_next() {
    let servers = Servers::start(1, 1);
    let mut trainer = join(servers.config(0), Mode::Async);
    let train = |trainer: &mut Trainer, steps: std::ops::Range<usize>| {
        let mut announced = VecDeque::new();
        for step in steps {
            let given =
                announced.pop_front().map_or(batch(step, 0, SAMPLES).into(), Fed::Announced);
            while announced.len() < trainer.lookahead() && step + announced.len() + 1 < STEPS {
                let next = batch(step + announced.len() + 1, 0, SAMPLES);
                announced.push_back(trainer.announce(next).unwrap());
            }
            trainer.forward_backward(given).unwrap();
            trainer.update().unwrap();
        }
    };
    trainer.start_pass().unwrap();
    train(&mut trainer, 0..3);
    trainer.start_pass().unwrap();
    train(&mut trainer, 3..STEPS);
    trainer.finish_pass().unwrap();
    // The first two of each pass have nothing to overlap with.
    let expected = descend(|step| if matches!(step, 0 | 1 | 3 | 4) { step } else { step - 1 });
    assert_near(&values(trainer.parameters()), &expected);
    trainer.goodbye().unwrap();
}

#[test]
fn without_batches_ahead_a_step_has_the_one_before_it() {
    let expected = descend(|step| step);
    for mode in [Mode::Async, Mode::Stale(1), Mode::Hybrid] {
        let servers = Servers::start(1, 1);
        let mut trainer = join(servers.config(0), mode);
        for step in 0..STEPS {
            trainer.forward_backward(batch(step, 0, SAMPLES)).unwrap();
            trainer.update().unwrap();
        }
        assert_near(&values(trainer.parameters()), &expected);
        trainer.goodbye().unwrap();
    }
}

#[test]
fn what_waits_for_others_does_not_overlap() {
    let expected = descend(|step| step);
    for mode in [Mode::Sync, Mode::Stale(0)] {
        let servers = Servers::start(1, 1);
        let mut trainer = join(servers.config(0), mode);
        assert_eq!(trainer.lookahead(), 1);
        train_announced(&mut trainer, |trainer| assert_eq!(trainer.under_way(), 0));
        assert_near(&values(trainer.parameters()), &expected);
        trainer.goodbye().unwrap();
    }
}

#[test]
fn whoever_reads_values_sees_the_step_that_is_under_way() {
    let servers = Servers::start(1, 1);
    let mut trainer = join(servers.config(0), Mode::Async);
    let parameters = Arc::clone(trainer.parameters());
    let mut before = values(&parameters);
    train_announced(&mut trainer, |trainer| {
        assert_eq!(trainer.under_way(), 1);
        let after = values(&parameters);
        assert_eq!(trainer.under_way(), 0, "reading waits for it");
        assert_ne!(before, after);
        before = after;
    });
    // Every step was waited for, but rows were brought before that.
    trainer.goodbye().unwrap();
}

#[test]
fn rows_that_are_set_while_a_step_is_under_way_are_not_overwritten() {
    let servers = Servers::start(1, 1);
    let mut trainer = join(servers.config(0), Mode::Async);
    let parameters = Arc::clone(trainer.parameters());
    let keys: Vec<u64> = (0..WORDS as u64).collect();
    train_announced(&mut trainer, |_| {
        parameters.store_rows(TABLE, &keys, &vec![0.25; WORDS * 4]).unwrap();
        parameters.store("w2", &[0.5; 5]).unwrap();
        assert_eq!(parameters.fetch(TABLE, View::Present).unwrap(), vec![0.25; WORDS * 4]);
        assert_eq!(parameters.fetch("w2", View::Present).unwrap(), [0.5; 5]);
    });
    trainer.goodbye().unwrap();
}

#[test]
fn a_step_that_fails_is_told_by_the_next_call_and_training_does_not_go_on() {
    let servers = Servers::start(1, 1);
    let mut config = servers.config(0);
    config.client.retry.deadline = Duration::from_millis(200);
    let mut trainer = join(config, Mode::Async);
    trainer.forward_backward(batch(0, 0, SAMPLES)).unwrap();
    drop(servers);
    trainer.update().unwrap();
    let told = trainer.settle().unwrap_err();
    assert_eq!(told.kind(), Kind::Unavailable, "{told}");
    // It was told once; what is gone is not made up for.
    trainer.settle().unwrap();
    assert!(trainer.forward_backward(batch(1, 0, SAMPLES)).is_err());
}
