//! Training in one process and through servers comes to the same values.

use crate::net::{self, TABLE, WORDS, batch, network, optimizer, parameters};
use crate::servers::Servers;
use std::sync::Arc;
use table::optimizer::Settings;
use trainer::{Parameters, Trainer, View};

const SAMPLES: usize = 8;
const PASSES: usize = 2;
const STEPS: usize = 6;

const PLAIN: &str = r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05}"#;
const DECAY: Settings =
    Settings { learning_rate: 1.0, momentum: None, l1: 0.0, l2: 0.1, clip: None };

/// Optimizers, each with what it keeps beside values and when it looks at steps and samples.
fn cases() -> Vec<(&'static str, Settings)> {
    let l1 = Settings { l1: 0.01, clip: Some(0.3), ..Settings::default() };
    vec![
        (PLAIN, Settings::default()),
        (PLAIN, DECAY),
        (PLAIN, l1),
        (r#"{"rule": {"name": "momentum", "momentum": 0.9}, "learning_rate": 0.01}"#, DECAY),
        (r#"{"rule": {"name": "adagrad"}, "learning_rate": 0.1}"#, DECAY),
        (r#"{"rule": {"name": "adam"}, "learning_rate": 0.01}"#, Settings::default()),
        (r#"{"rule": {"name": "rmsprop"}, "learning_rate": 0.01}"#, DECAY),
        (
            r#"{"rule": {"name": "momentum"}, "learning_rate": 0.05,
                "schedule": {"name": "poly", "a": 0.1, "b": 0.5},
                "average": {"window": 0.5, "window_max": 3}}"#,
            DECAY,
        ),
    ]
}

/// Trains on the samples `from..to` of every batch.
fn train(trainer: &mut Trainer, from: usize, to: usize) {
    for pass in 0..PASSES {
        trainer.start_pass().unwrap();
        for step in 0..STEPS {
            trainer.forward_backward(batch(pass * STEPS + step, from, to)).unwrap();
            trainer.update().unwrap();
        }
        trainer.finish_pass().unwrap();
    }
}

fn values(parameters: &Parameters, view: View) -> Vec<Vec<f32>> {
    let names = parameters.descriptions().iter().map(|description| &description.name);
    names.map(|name| parameters.get(name, view).unwrap()).collect()
}

fn train_locally(json: &str, settings: Settings) -> Arc<Parameters> {
    let parameters = parameters(Some(WORDS), settings);
    let network = network(Some(WORDS));
    let mut trainer = Trainer::local(network, Arc::clone(&parameters), optimizer(json)).unwrap();
    train(&mut trainer, 0, SAMPLES);
    parameters
}

#[test]
fn one_trainer_through_a_server_gives_the_bits_of_training_alone() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let servers = Servers::start(1, 1);
        let remote = parameters(Some(WORDS), settings);
        let mut trainer = Trainer::remote(
            network(Some(WORDS)),
            Arc::clone(&remote),
            optimizer(json),
            servers.config(0),
        )
        .unwrap();
        train(&mut trainer, 0, SAMPLES);
        for view in [View::Present, View::Averaged] {
            assert_eq!(values(&local, view), values(&remote, view), "{json} {settings:?} {view:?}");
        }
        trainer.goodbye().unwrap();
    }
}

#[test]
fn averages_differ_from_values_only_where_the_optimizer_averages() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let dense = |view| local.get("w2", view).unwrap();
        assert_eq!(dense(View::Present) == dense(View::Averaged), !json.contains("average"));
    }
}

#[test]
fn two_trainers_on_half_batches_are_one_on_whole_ones() {
    for (json, settings) in cases() {
        let local = train_locally(json, settings);
        let servers = Servers::start(2, 2);
        let train_half = |rank: usize| {
            let half = SAMPLES / 2;
            let remote = parameters(Some(WORDS), settings);
            let mut trainer = Trainer::remote(
                network(Some(WORDS)),
                Arc::clone(&remote),
                optimizer(json),
                servers.config(rank as u32),
            )
            .unwrap();
            train(&mut trainer, rank * half, (rank + 1) * half);
            let found = values(&remote, View::Present);
            trainer.goodbye().unwrap();
            found
        };
        let found = std::thread::scope(|scope| {
            let other = scope.spawn(|| train_half(1));
            [train_half(0), other.join().unwrap()]
        });
        assert_eq!(found[0], found[1], "{json}: trainers see different values");
        for (found, expected) in found[0].iter().zip(&values(&local, View::Present)) {
            for (found, expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-5, "{json}: {found} for {expected}");
            }
        }
    }
}

#[test]
fn trainer_0_brings_what_was_set_and_servers_make_the_rest() {
    let servers = Servers::start(1, 2);
    let set_some = |parameters: &Parameters| {
        parameters.set("w0", &[0.25; 20]).unwrap();
        parameters.set_rows(TABLE, &[3, 49], &[0.5; 8]).unwrap();
    };
    let join = |rank: u32| {
        let parameters = parameters(Some(WORDS), Settings::default());
        if rank == 0 {
            set_some(&parameters);
        }
        let (network, config) = (network(Some(WORDS)), servers.config(rank));
        Trainer::remote(network, parameters, optimizer(PLAIN), config).unwrap()
    };
    let expected = parameters(Some(WORDS), Settings::default());
    set_some(&expected);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| join(1));
        for trainer in [join(0), other.join().unwrap()] {
            let found = values(trainer.parameters(), View::Present);
            assert_eq!(found, values(&expected, View::Present));
        }
    });
}

#[test]
fn values_that_were_trained_alone_are_brought_to_the_servers() {
    let local = train_locally(PLAIN, DECAY);
    let expected = values(&local, View::Present);
    let servers = Servers::start(1, 1);
    let (network, config) = (network(Some(WORDS)), servers.config(0));
    let mut trainer =
        Trainer::remote(network, Arc::clone(&local), optimizer(PLAIN), config).unwrap();
    assert_eq!(values(&local, View::Present), expected);
    trainer.goodbye().unwrap();
    let error = local.get(TABLE, View::Present).unwrap_err();
    assert!(error.message().contains("save the model before"), "{error}");
    assert_eq!(local.get("w0", View::Present).unwrap(), expected[1]);
}

#[test]
fn static_parameters_stay_as_they_are_and_never_go_to_the_servers() {
    let servers = Servers::start(1, 1);
    let static_parameters = || {
        let mut descriptions = net::descriptions(Some(WORDS), Settings::default());
        for name in [TABLE, "w1"] {
            let found = descriptions.iter_mut().find(|one| one.name == name).unwrap();
            found.is_static = true;
        }
        Arc::new(Parameters::new(descriptions, net::SEED).unwrap())
    };
    let (local, remote) = (static_parameters(), static_parameters());
    let first = values(&local, View::Present);
    let network = network(Some(WORDS));
    let mut alone =
        Trainer::local(Arc::clone(&network), Arc::clone(&local), optimizer(PLAIN)).unwrap();
    let config = servers.config(0);
    let mut together =
        Trainer::remote(network, Arc::clone(&remote), optimizer(PLAIN), config).unwrap();
    train(&mut alone, 0, SAMPLES);
    train(&mut together, 0, SAMPLES);
    together.goodbye().unwrap();
    let (found, expected) = (values(&remote, View::Present), values(&local, View::Present));
    assert_eq!(found, expected);
    assert_eq!((&found[0], &found[2]), (&first[0], &first[2]));
    assert_ne!(found[1], first[1]);
}
